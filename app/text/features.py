"""What a message shows: known words, where they stand, and signs, as numbered features."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from math import log2
from typing import NamedTuple

from .lexicon import Lexicon
from .signs import signs
from .tokens import words

__all__ = ["ASKS", "OBJECTS", "Extractor", "Found"]

OBJECTS = ("code", "creative", "analytical", "chaotic", "trap")
"""Kinds of things that can be asked for; a trap is one that has everyday meanings too."""
ASKS = ("lead.make", "lead.ask", "lead.follow", "analytical.explain", "analytical.evaluate", "creative.make")
"""Groups of words that ask for something when they come early."""
_HEAD, _TAIL = 400, 150
"""Characters at both ends of a message whose words are looked at."""
_SIGN_HEAD, _SIGN_TAIL = 300, 100
"""Characters at both ends that are searched for signs."""
_EARLY = 5
"""Words that count as the beginning."""
_OPENING = 40
"""Words among which what is asked for is looked for."""
_MORE = (0.0, 0.0, *(log2(count) for count in range(2, 33)))
"""What further words of a group add: the n-th says less than the one before."""

Numbers = tuple[int, ...]
Pattern = str | tuple[str, ...]


class Found(NamedTuple):
    """What a text shows.

    Attributes:
        present: features by number that are simply there.
        strengths: of those that are there more or less.
        patterns: that showed them.
        tones: words that have a tone.
    """

    present: set[int]
    strengths: dict[int, float]
    patterns: list[tuple[Pattern, Numbers]]
    tones: list[str]


class Extractor:
    """Turns a text into features.

    Args:
        entries: of the lexicon, by feature name.
        numbers: of all features, by name. What is not in it is not extracted.
        tones: words that have a tone.
    """

    def __init__(
        self, entries: Mapping[str, Iterable[str]], numbers: Mapping[str, int], tones: Collection[str] = ()
    ) -> None:
        # The words' own names are needed to make the lexicon, and never after.
        self._numbers = {name: number for name, number in numbers.items() if not name.startswith("word ")}
        self._tones = frozenset(tones)
        self._lexicon = Lexicon({numbers[name]: patterns for name, patterns in entries.items()})
        self._more = [
            (number, numbers[f"more {name}"]) for name, number in numbers.items() if f"more {name}" in numbers
        ]
        self._early = {
            number: numbers[f"early {name}"] for name, number in numbers.items() if f"early {name}" in numbers
        }
        self._objects = {numbers[f"object {kind}"]: kind for kind in OBJECTS if f"object {kind}" in numbers}
        self._asks = {numbers[name]: name for name in ASKS if name in numbers}
        self._about = numbers.get("topic.about")

    def extract(self, text: str, *, head: int = _HEAD, tail: int = _TAIL) -> Found:
        """Find the features of *text*, of which the first *head* and last *tail* characters are looked at."""
        text = clipped(text, head, tail)
        lower = unicodedata.normalize("NFC", text).casefold()
        tokens = words(lower)
        distinct = set(tokens)
        known = self._lexicon.known(distinct)
        patterns: list[tuple[Pattern, Numbers]] = [*known.items()]
        patterns += self._lexicon.phrases(tokens).items()
        patterns += self._lexicon.grams(lower).items()
        counts = Counter(chain.from_iterable([numbers for _, numbers in patterns]))
        toned = distinct & self._tones
        found = Found(set(counts), self._repeated(counts), patterns, sorted(toned))
        self._add_opening(tokens[:_OPENING], known, found)
        ends = clipped(text, _SIGN_HEAD, _SIGN_TAIL)
        for name, strength in signs(ends, tokens, distinct, distinct.difference(known, toned)):
            if (number := self._numbers.get(name)) is not None:
                if strength == 1.0:
                    found.present.add(number)
                else:
                    found.strengths[number] = strength
                patterns.append((name, (number,)))
        return found

    def _repeated(self, counts: Mapping[int, int]) -> dict[int, float]:
        return {more: _MORE[min(count, 32)] for number, more in self._more if (count := counts.get(number, 0)) > 1}

    def _add_opening(self, tokens: list[str], known: Mapping[str, Numbers], found: Found) -> None:
        """Add what the opening asks for, and what that is to be about."""
        for name, word in self._opening(tokens, known).items():
            if (number := self._numbers.get(name)) is not None and number not in found.present:
                found.present.add(number)
                found.patterns.append((word, (number,)))

    def _opening(self, tokens: list[str], known: Mapping[str, Numbers]) -> dict[str, str]:
        """Name what is asked for, each with the word that says so.

        In "Write a poem generator about love" the ask is a making, its head is code (the last of the nouns that
        follow each other), and its topic is not what is made.
        """
        ask = ask_word = head = head_word = ""
        head_place = -1
        is_topic = False
        named: dict[str, str] = {}
        for place, word in enumerate(tokens):
            for number in known.get(word, ()):
                if not ask and place < _EARLY and number in self._asks:
                    ask, ask_word = self._asks[number], word
                elif number == self._about and place > 1:
                    is_topic = True
                elif (kind := self._objects.get(number)) is None:
                    continue
                elif is_topic:
                    named.setdefault(f"topic {kind}", word)
                elif not head or place - head_place == 1:
                    head, head_place, head_word = kind, place, word
        if tokens:
            named[f"first {tokens[0]}"] = tokens[0]
            named[f"first {' '.join(tokens[:2])}"] = " ".join(tokens[:2])
        if ask:
            named[f"ask {ask}"] = ask_word
            named[f"{ask} {head or 'nothing known'}"] = head_word or ask_word
        if head:
            named[f"head {head}"] = head_word
        return named


def clipped(text: str, head: int, tail: int) -> str:
    """Give both ends of a long text."""
    return text if len(text) <= head + tail else f"{text[:head]}\n{text[len(text) - tail :]}"
