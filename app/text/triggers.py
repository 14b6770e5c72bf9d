"""Finding trigger words in a text: whole words, any case, any normalisation form, in time linear in the text.

Text is cut into tokens: a word is a maximal run of letters, marks, digits and connectors, every other grapheme
cluster is a sign. A match has no word character beside it, so it always covers whole tokens, and two spellings are the
same trigger when their tokens fold to the same text. So offsets stay those of the original, whatever folding does to
lengths (``ß``, ``İ``), and no grapheme cluster is ever cut.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice
from typing import Any, NamedTuple
from unicodedata import normalize

import regex

from ..turns import Pause

__all__ = ["Match", "TriggerSet", "clusters_of", "fold"]

_CLUSTER = regex.compile(r"\X", regex.DOTALL)

# Tokens end where clusters end (UAX #29): what a cluster takes from its right (Extend, ZWJ; SpacingMark is letters and
# marks) belongs to the word before it. Only Prepend joins from the left; texts with one, as good as none, are cut by a
# pattern of their own, which takes twice the time.
_LETTER = r"\p{L}\p{M}\p{N}\p{Pc}"
_EXTENDED = rf"{_LETTER}\p{{GCB=Extend}}\p{{GCB=ZWJ}}"
_PREPEND = regex.compile(r"\p{GCB=Prepend}")
_WORD = regex.compile(rf"{_PREPEND.pattern}*[{_LETTER}]")
_PREPENDED = rf"(?<={_PREPEND.pattern})(?![\p{{GCB=Control}}\r\n])\X"
# In ASCII only CR LF is a cluster of two; texts that hold one take the other pattern.
_ASCII_TOKEN = re.compile(r"\w+|.", re.ASCII | re.DOTALL)
_TOKEN = regex.compile(rf"[{_LETTER}][{_EXTENDED}]*+|\X", regex.DOTALL)
_PREPENDING_TOKEN = regex.compile(rf"(?:{_WORD.pattern}[{_EXTENDED}]*+(?:{_PREPENDED})?+)++|\X", regex.DOTALL)

_BORDER = re.compile(r"[a-z](?= )", re.IGNORECASE)
_PART = 10_000
"""Characters or tokens that are worked on before others have their turn."""
_MATCHES = 1000
"""Matches, likewise."""
_new = tuple.__new__  # a named tuple made by its own name takes three times as long

# Appended to a sign that has a word directly behind it. No sign is spelled so: none ends in a bare letter.
_BEFORE_WORD = "w"


class Match(NamedTuple):
    """One occurrence: offsets into the text as it was, and the trigger as it was given."""

    start: int
    end: int
    trigger: str


def clusters_of(text: str) -> list[str]:
    """Cut *text* into its grapheme clusters."""
    if text.isascii() and "\r" not in text:
        return list(text)
    return _CLUSTER.findall(text)


def fold(text: str) -> str:
    """Give the form in which two spellings are compared: canonical caseless, composed (Unicode, definition D145)."""
    if text.isascii():
        return text.lower()
    return normalize("NFC", normalize("NFD", text).casefold())


class _Folds(dict[str, str]):
    """The folded form of each token of one text; words repeat, so each is folded once."""

    def __missing__(self, token: str) -> str:
        folded = self[token] = fold(token)
        return folded


class _Kinds(dict[str, bool]):
    """Whether each token of one text is a word."""

    def __missing__(self, token: str) -> bool:
        found = self[token] = _WORD.match(token) is not None
        return found


class TriggerSet:
    """A set of triggers, compiled once; then every text is searched in one pass.

    It is an Aho-Corasick automaton over tokens that is fed the text backwards: its state at a token then tells the
    longest trigger that starts there, however the triggers overlap.

    Attributes:
        size: how many different triggers there are.
    """

    def __init__(self, triggers: Iterable[str]) -> None:
        self.size = 0
        self._edges: list[dict[str, int]] = [{}]
        self._ends: list[tuple[int, str] | None] = [None]
        self._known: dict[str, bool] = {}
        for trigger in triggers:
            self._add(trigger)
        self._fall = self._link()

    def find(self, text: str, pause: Pause | None = None) -> Iterator[Match]:
        """Find the matches from left to right, the longest first where several start, none overlapping.

        They come one by one: a long text may have a hundred thousand, which are a burden when kept.
        *pause* is called after each part of the work, a few milliseconds of it.
        """
        tokens, symbols = _tokens_of(text, pause)
        starts = self._starts(symbols, pause)
        offsets = _offsets(tokens, pause) if starts else []
        free = 0
        for number, index in enumerate(reversed(starts), 1):
            if index >= free:
                count, trigger = starts[index]
                free = index + count
                yield _new(Match, (offsets[index], offsets[free], trigger))
            if number % _MATCHES == 0 and pause is not None:
                pause()

    def _add(self, trigger: str) -> None:
        symbols = _tokens_of(trigger.strip(), None)[1]
        is_word = _Kinds()
        node, before_word = 0, False
        for symbol in reversed(symbols):
            here_word = self._known[symbol] = is_word[symbol]
            mark = _BEFORE_WORD if before_word and not here_word else ""
            before_word = here_word
            node = self._edges[node].setdefault(symbol + mark, len(self._edges))
            if node == len(self._edges):
                self._edges.append({})
                self._ends.append(None)
        if node and self._ends[node] is None:
            self._ends[node] = (len(symbols), trigger)
            self.size += 1

    def _link(self) -> list[int]:
        """Give for each node the longest other node that it ends with; take over that one's end."""
        fall = [0] * len(self._edges)
        queue = deque(self._edges[0].values())
        while queue:
            node = queue.popleft()
            for symbol, child in self._edges[node].items():
                queue.append(child)
                other = fall[node]
                while other and symbol not in self._edges[other]:
                    other = fall[other]
                fall[child] = self._edges[other].get(symbol, 0)
                if self._ends[child] is None:
                    self._ends[child] = self._ends[fall[child]]
        return fall

    def _starts(self, symbols: list[str], pause: Pause | None) -> dict[int, tuple[int, str]]:
        """Give, last first, the tokens at which a trigger starts, with the longest one's token count and name."""
        edges, ends, fall, known, is_word = self._edges, self._ends, self._fall, self._known, _Kinds()
        starts: dict[int, tuple[int, str]] = {}
        node, behind, last = 0, len(symbols), len(symbols) - 1
        for stop in range(len(symbols), 0, -_PART):
            start = max(stop - _PART, 0)
            part = [index for index, symbol in enumerate(symbols[start:stop], start) if symbol in known]
            for index in reversed(part):
                symbol = symbols[index]
                here_word = known[symbol]
                if index + 1 != behind:
                    node = 0
                if not here_word and index < last and is_word[symbols[index + 1]]:
                    symbol += _BEFORE_WORD
                child = edges[node].get(symbol)
                while child is None and node:
                    node = fall[node]
                    child = edges[node].get(symbol)
                node, behind = child or 0, index
                end = ends[node]
                if end is not None and (here_word or not index or not is_word[symbols[index - 1]]):
                    starts[index] = end
            if pause is not None:
                pause()
        return starts


def _offsets(tokens: list[str], pause: Pause | None) -> list[int]:
    """Give where each token begins, and where the last one ends."""
    found = [0]
    for start in range(0, len(tokens), _PART):
        found += accumulate(map(len, tokens[start : start + _PART]), initial=found.pop())
        if pause is not None:
            pause()
    return found


def _tokens_of(text: str, pause: Pause | None) -> tuple[list[str], list[str]]:
    """Cut *text* into tokens; give them as they are (or with the same lengths) and folded."""
    if text.isascii() and "\r\n" not in text:
        tokens = _found(_ASCII_TOKEN, text.lower(), pause)
        return tokens, tokens
    pattern = _PREPENDING_TOKEN if _PREPEND.search(text) else _TOKEN
    tokens = _found(pattern, text, pause)
    folded: list[str] = []
    fold_of = _Folds().__getitem__
    for start in range(0, len(tokens), _PART):
        folded += map(fold_of, tokens[start : start + _PART])
        if pause is not None:
            pause()
    return tokens, folded


def _found(pattern: Any, text: str, pause: Pause | None) -> list[str]:
    """Find the tokens of *text* part by part; a part ends at a space behind a letter, where tokens end in any case."""
    tokens: list[str] = []
    start, size = 0, len(text)
    while start < size:
        border = _BORDER.search(text, start + _PART, start + 2 * _PART)
        if border is not None or size - start <= 2 * _PART:
            end = border.end() if border is not None else size
            tokens += pattern.findall(text, start, end)
        else:  # no such space: one token after the other, which takes twice the time
            found = [match.group() for match in islice(pattern.finditer(text, start), _PART)]
            tokens += found
            end = start + sum(map(len, found))
        start = end
        if pause is not None:
            pause()
    return tokens
