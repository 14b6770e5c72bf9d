"""What a message shows: known words, where they stand, and signs, as numbered features."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from math import log2
from typing import NamedTuple

from .lexicon import Lexicon
from .signs import signs

__all__ = ["Extractor", "Found"]

_HEAD, _TAIL = 4_000, 1_000
"""Characters at both ends of a message whose words are looked at."""
_SIGN_HEAD, _SIGN_TAIL = 800, 200
"""Characters at both ends that are searched for signs."""
_EARLY = 5
"""Words that count as the beginning."""
_OPENING = 40
"""Words among which what is asked for is looked for."""
_OBJECTS = ("code", "creative", "analytical", "chaotic", "trap")
_ASKS = ("lead.make", "lead.ask", "lead.follow", "analytical.explain", "analytical.evaluate", "creative.make")
_GAIN = (0.0, *(log2(count) for count in range(1, 64)))
"""What further words of a group add: the n-th says less than the one before."""


class Found(NamedTuple):
    """Features by number with their strength, and the patterns that showed them."""

    values: dict[int, float]
    patterns: list[tuple[str, tuple[int, ...]]]


class Extractor:
    """Turns a text into features.

    Args:
        entries: of the lexicon, by feature name.
        numbers: of all features, by name. What is not in it is not extracted.
    """

    def __init__(self, entries: Mapping[str, Iterable[str]], numbers: Mapping[str, int]) -> None:
        self._numbers = numbers
        self._lexicon = Lexicon({numbers[name]: patterns for name, patterns in entries.items()})
        names = {number: name for name, number in numbers.items()}
        self._objects = {numbers[f"object {kind}"]: kind for kind in _OBJECTS if f"object {kind}" in numbers}
        self._more = {number: numbers.get(f"more {name}") for number, name in names.items()}
        self._asks = {number: name for number, name in names.items() if name in _ASKS}
        self._early = {number: numbers.get(f"early {name}") for number, name in names.items()}
        self._about = numbers.get("topic.about")

    def extract(self, text: str, *, head: int = _HEAD, tail: int = _TAIL) -> Found:
        """Find the features of *text*, of which the first *head* and last *tail* characters are looked at."""
        text = clipped(text, head, tail)
        lower = unicodedata.normalize("NFC", text).casefold()
        tokens = self._lexicon.cut(lower)
        known = self._lexicon.known(set(tokens))
        patterns: list[tuple[str, tuple[int, ...]]] = [*known.items()]
        patterns += [(" ".join(phrase), found) for phrase, found in self._lexicon.known_phrases(tokens).items()]
        patterns += self._lexicon.known_grams(lower).items()
        values = self._counted(patterns)
        self._place(tokens[:_OPENING], known, values, patterns)
        short = clipped(text, _SIGN_HEAD, _SIGN_TAIL)
        for name, value in signs(short, clipped(lower, _SIGN_HEAD, _SIGN_TAIL), tokens):
            number = self._numbers.get(name)
            if number is not None:
                values[number] = value
                patterns.append((name, (number,)))
        return Found(values, patterns)

    def _counted(self, patterns: list[tuple[str, tuple[int, ...]]]) -> dict[int, float]:
        """Give what is there the value 1, and how much more of its kind there is."""
        counts: dict[int, int] = {}
        for _, numbers in patterns:
            for number in numbers:
                counts[number] = counts.get(number, 0) + 1
        values = dict.fromkeys(counts, 1.0)
        for number, count in counts.items():
            if count > 1 and (more := self._more[number]) is not None:
                values[more] = _GAIN[min(count, 63)]
        return values

    def _place(
        self,
        tokens: list[str],
        known: Mapping[str, tuple[int, ...]],
        values: dict[int, float],
        patterns: list[tuple[str, tuple[int, ...]]],
    ) -> None:
        """Add what the opening asks for, and what that is to be about."""
        shown: dict[str, str] = {}
        ask, head, head_place, is_topic = "", "", -2, False
        for place, token in enumerate(tokens):
            for number in known.get(token, ()):
                if place < _EARLY:
                    early = self._early[number]
                    if early is not None and early not in values:
                        values[early] = 1.0
                        patterns.append((token, (early,)))
                if number in self._asks and not ask and place < _EARLY:
                    ask = self._asks[number]
                    shown[f"ask {ask}"] = token
                elif number == self._about and place > 1:
                    is_topic = True
                kind = self._objects.get(number)
                if kind is None:
                    continue
                if is_topic:
                    shown.setdefault(f"topic {kind}", token)
                elif not head or place - head_place == 1:
                    head, head_place, head_word = kind, place, token
        if head:
            shown[f"head {head}"] = head_word
            if ask:
                shown[f"{ask} {head}"] = head_word
        elif ask:
            shown[f"{ask} nothing known"] = shown[f"ask {ask}"]
        if tokens:
            shown[f"first {tokens[0]}"] = tokens[0]
        for name, token in shown.items():
            found = self._numbers.get(name)
            if found is not None:
                values[found] = 1.0
                patterns.append((token, (found,)))


def clipped(text: str, head: int, tail: int) -> str:
    """Give both ends of a long text."""
    return text if len(text) <= head + tail else f"{text[:head]}\n{text[-tail:]}"
