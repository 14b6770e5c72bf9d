"""What a message shows: known words, where they stand, and signs, as numbered features."""

from __future__ import annotations

import unicodedata
from collections.abc import Container, Iterable, Mapping
from itertools import chain
from math import log2
from operator import itemgetter
from typing import NamedTuple

from .lexicon import Lexicon
from .signs import SIGNS, signs
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
        tones: words that have a tone, in order.
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
        self, entries: Mapping[str, Iterable[str]], numbers: Mapping[str, int], tones: Container[str] = ()
    ) -> None:
        # The words' own names are needed to make the lexicon, and never after.
        self._numbers = {name: number for name, number in numbers.items() if not name.startswith("word ")}
        self._signs: dict[str, tuple[Pattern, Numbers]] = {
            name: (name, (number,)) for name in SIGNS if (number := numbers.get(name)) is not None
        }
        self._tones = tones
        self._lexicon = Lexicon({numbers[name]: patterns for name, patterns in entries.items()})
        self._more = {number: numbers[f"more {name}"] for name, number in numbers.items() if f"more {name}" in numbers}
        self._objects = {numbers[f"object {kind}"]: kind for kind in OBJECTS if f"object {kind}" in numbers}
        self._asks = {numbers[name]: name for name in ASKS if name in numbers}
        self._about = numbers.get("topic.about")
        self._opens = frozenset([*self._objects, *self._asks, self._about])

    def extract(self, text: str, *, head: int = _HEAD, tail: int = _TAIL) -> Found:
        """Find the features of *text*, of which the first *head* and last *tail* characters are looked at."""
        text = clipped(text, head, tail)
        lower = text.lower() if text.isascii() else unicodedata.normalize("NFC", text).casefold()
        tokens = words(lower)
        distinct = dict.fromkeys(tokens)
        known = self._lexicon.known(distinct)
        patterns: list[tuple[Pattern, Numbers]] = [*known.items()]
        patterns += self._lexicon.phrases(tokens).items()
        patterns += self._lexicon.grams(lower).items()
        shown = [*chain.from_iterable(map(itemgetter(1), patterns))]
        toned = [*filter(self._tones.__contains__, distinct)]
        found = Found(set(shown), self._repeated(shown), patterns, toned)
        self._add_opening(tokens[:_OPENING], known, found)
        unknown = [word for word in distinct if word not in known and word not in self._tones]
        for name, strength in signs(clipped(text, _SIGN_HEAD, _SIGN_TAIL), tokens, distinct, unknown):
            if name in self._signs:
                patterns.append(self._signs[name])
                if strength == 1.0:
                    found.present.update(patterns[-1][1])
                else:
                    found.strengths[patterns[-1][1][0]] = strength
        return found

    def _repeated(self, shown: Iterable[int]) -> dict[int, float]:
        counts: dict[int, int] = {}
        for number in filter(self._more.__contains__, shown):
            counts[number] = counts.get(number, 0) + 1
        return {self._more[number]: _MORE[min(count, 32)] for number, count in counts.items() if count > 1}

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
        opens = self._opens
        for place, word in enumerate(tokens):
            if word not in known or opens.isdisjoint(known[word]):
                continue
            for number in known[word]:
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
