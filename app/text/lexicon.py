"""Known words, word beginnings, pairs of words and characters, each with the features it counts for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .tokens import grams, words

__all__ = ["Lexicon"]

Features = tuple[int, ...]
_THREES = 80
"""Words among which phrases of three are looked for."""
_SPACELESS = ("\u0e00", "\u0e7f"), ("\u3040", "\u30ff"), ("\u3400", "\u9fff")


class Lexicon:
    """Finds what is known in a text.

    An entry is a word, ``begin*`` for all words that begin so, two or three words, or up to three characters of a
    script without spaces.

    Args:
        entries: of each feature, by its number.
    """

    def __init__(self, entries: Mapping[int, Iterable[str]]) -> None:
        self.words: dict[str, Features] = {}
        self.phrases: dict[tuple[str, ...], Features] = {}
        self.grams: dict[str, Features] = {}
        stems: dict[int, dict[str, Features]] = {}
        for feature, patterns in entries.items():
            for pattern in patterns:
                self._add(pattern, feature, stems)
        self.stems = sorted(stems.items(), reverse=True)
        for word, found in self.words.items():
            self.words[word] = _merged(found, self._stem(word))

    def _add(self, pattern: str, feature: int, stems: dict[int, dict[str, Features]]) -> None:
        if pattern.endswith("*"):
            table = stems.setdefault(len(pattern) - 1, {})
            pattern = pattern[:-1]
            table[pattern] = _merged(table.get(pattern, ()), (feature,))
        elif is_spaceless(pattern):
            self.grams[pattern] = _merged(self.grams.get(pattern, ()), (feature,))
        elif " " in pattern:
            key = tuple(pattern.split(" "))
            self.phrases[key] = _merged(self.phrases.get(key, ()), (feature,))
        else:
            self.words[pattern] = _merged(self.words.get(pattern, ()), (feature,))

    def _stem(self, word: str) -> Features:
        for length, table in self.stems:
            if (found := table.get(word[:length])) is not None:
                return found
        return ()

    def cut(self, lower: str) -> list[str]:
        """Give the words of a case-folded text, in order."""
        return words(lower)

    def known(self, distinct: set[str]) -> dict[str, Features]:
        """Give the features of those of some words that are known."""
        table = self.words
        found = {word: table[word] for word in distinct & table.keys()}
        for word in distinct - table.keys():
            for length, stems in self.stems:
                if word[:length] in stems:
                    found[word] = stems[word[:length]]
                    break
        return found

    def known_phrases(self, tokens: list[str]) -> dict[tuple[str, ...], Features]:
        """Give the features of known pairs of neighbouring words, and of three among the first and last."""
        table = self.phrases
        found: set[tuple[str, ...]] = set(zip(tokens, tokens[1:], strict=False))
        if len(tokens) > _THREES:
            tokens = tokens[: _THREES - 16] + tokens[-16:]
        found.update(zip(tokens, tokens[1:], tokens[2:], strict=False))
        return {phrase: table[phrase] for phrase in found & table.keys()}

    def known_grams(self, text: str) -> dict[str, Features]:
        """Give the features of known characters in scripts without spaces."""
        table = self.grams
        return {gram: table[gram] for gram in table.keys() & grams(text)}


def is_spaceless(pattern: str) -> bool:
    """Tell whether a pattern is of a script without spaces."""
    return bool(pattern) and any(low <= pattern[0] <= high for low, high in _SPACELESS)


def _merged(one: Features, other: Features) -> Features:
    return one + tuple(feature for feature in other if feature not in one)
