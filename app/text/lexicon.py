"""Known words, word beginnings, phrases and characters, each with the features it counts for."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from itertools import chain
from sys import intern
from typing import TypeVar

from .tokens import grams, is_spaceless

__all__ = ["BEGIN", "Lexicon"]

Features = tuple[int, ...]
Key = TypeVar("Key", bound=Hashable)
_THREES = 80
"""Words among which phrases of three are looked for."""
_STEM = 3
"""Letters by which beginnings are told apart; none is shorter, Hangul excepted."""
_SHORT_STEM = 2
BEGIN = 5
"""Letters of a ``begin+``."""


class Lexicon:
    """Finds what is known in a text.

    An entry is a word, ``begin*`` for all words that begin so, ``begin+`` for longer words that begin with these five
    letters, two or three words, or up to three characters of a script without spaces. Of the entries with ``*`` the
    longest that fits counts; one with ``+`` counts beside all others.

    Args:
        entries: of each feature, by its number.
    """

    def __init__(self, entries: Mapping[int, Iterable[str]]) -> None:
        self._words: dict[str, Features] = {}
        self._phrases: dict[tuple[str, ...], Features] = {}
        self._grams: dict[str, Features] = {}
        self._begins: dict[str, Features] = {}
        stems: dict[str, Features] = {}
        for feature, patterns in entries.items():
            for pattern in patterns:
                if pattern.endswith("*"):
                    _add(stems, pattern[:-1], feature)
                elif pattern.endswith("+"):
                    _add(self._begins, pattern[:-1], feature)
                elif is_spaceless(pattern):
                    _add(self._grams, pattern, feature)
                elif " " in pattern:
                    _add(self._phrases, tuple(map(intern, pattern.split(" "))), feature)
                else:
                    _add(self._words, pattern, feature)
        self._stems = _by_head(stems)
        for word, found in self._words.items():
            self._words[word] = _merged(found, self._beginning(word))

    def _beginning(self, word: str) -> Features:
        stem = self._stem(word)
        if len(word) > BEGIN and (begun := self._begins.get(word[:BEGIN])):
            return _merged(stem, begun)
        return stem

    def _stem(self, word: str) -> Features:
        heads = self._stems
        for stem, found in heads.get(word[:_STEM], ()) or heads.get(word[:_SHORT_STEM], ()):
            if word.startswith(stem):
                return found
        return ()

    def known(self, distinct: Iterable[str]) -> dict[str, Features]:
        """Give the features of those of some words that are known."""
        known, beginning = self._words.get, self._beginning
        return {word: found for word in distinct if (found := known(word) or beginning(word))}

    def phrases(self, tokens: list[str]) -> dict[tuple[str, ...], Features]:
        """Give the features of known pairs of neighbouring words, and of three among the first and last."""
        table = self._phrases
        ends = tokens if len(tokens) <= _THREES else tokens[: _THREES - 16] + tokens[-16:]
        met = chain(zip(tokens, tokens[1:], strict=False), zip(ends, ends[1:], ends[2:], strict=False))
        return {phrase: table[phrase] for phrase in filter(table.__contains__, met)}

    def grams(self, text: str) -> dict[str, Features]:
        """Give the features of known characters in scripts without spaces."""
        if text.isascii():
            return {}
        table = self._grams
        return {gram: table[gram] for gram in grams(text) if gram in table}


def _add(table: dict[Key, Features], key: Key, feature: int) -> None:
    table[key] = _merged(table.get(key, ()), (feature,))


def _by_head(stems: Mapping[str, Features]) -> dict[str, list[tuple[str, Features]]]:
    """Group beginnings by their first letters, the longest first."""
    found: dict[str, list[tuple[str, Features]]] = {}
    for stem in sorted(stems, key=lambda stem: (-len(stem), stem)):
        found.setdefault(stem[:_STEM], []).append((stem, stems[stem]))
    return found


def _merged(one: Features, other: Features) -> Features:
    return one + tuple(feature for feature in other if feature not in one)
