"""A place in the answer where something may be changed, as its left side tells it."""

from __future__ import annotations

import re
from enum import IntEnum

from .english import folded
from .prose import Prose

__all__ = ["LOOK_BACK", "OPENERS", "Place", "Start"]

LOOK_BACK = 200
"""Characters of its line that a decision may look back at."""

_WORD_LIMIT = 40
_WORDS_KEPT = 4
_OPENER_LIMIT = 5
"""Openers in a row that are looked at."""

OPENERS = (
    "sure", "of course", "certainly", "absolutely", "great question", "well", "so", "but", "however", "therefore",
    "furthermore", "also", "plus", "still", "additionally", "moreover", "nevertheless", "consequently",
)  # fmt: skip
"""Words that leave the start of a sentence behind them when their comma follows."""

_OPENER = re.compile(rf"(?:^|(?<=[^\w'’-]))(?:{'|'.join(OPENERS)})\Z", re.IGNORECASE)
_BARE_OPENER = re.compile(r"(?:^|(?<=[^\w'’-]))(?:but|so)\Z", re.IGNORECASE)
_BARE_ENDS = frozenset("tToO")
"""How a bare opener ends: most words before a place do not."""
_ABBREVIATED = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|cf|vs|mrs?|ms|dr|prof|approx|fig|eg|ie|resp|incl)\.\Z", re.IGNORECASE
)
_WORDS = re.compile(r"(?:^|(?<=[\s(*]))(?:[^\W\d_][\w'’-]* ){0,3}[^\W\d_][\w'’-]*\Z")


class Start(IntEnum):
    """How a sentence may begin at a place."""

    NONE = 0
    """Not at all."""
    SENTENCE = 1
    """Here."""
    OPENED = 2
    """With an opener and its comma, after which it goes on here."""
    SHADOW = 3
    """As OPENED, but the opener has no comma (any more): nothing may go here, see ``hedges``."""


class Place:
    """One place in the buffer; it is moved from one to the next, as there are many.

    Args:
        prose: knows the line around it.

    Attributes:
        text: the buffer: up to *at* as it goes out, from there on raw.
        at: index of the place.
        floor: index from which on a decision may look back.
    """

    __slots__ = ("_known", "_opened", "_prose", "_word", "_words", "at", "floor", "text")

    def __init__(self, prose: Prose) -> None:
        self._prose = prose
        self.move("", 0, -1)

    def move(self, text: str, at: int, opened: int) -> None:
        """Go to index *at* of *text*; behind *opened* a sentence goes on after an opener that was changed."""
        self.text, self.at, self._opened = text, at, opened
        line, floor = self._prose.line, at - LOOK_BACK if at > LOOK_BACK else 0
        self.floor = line if line > floor else floor
        self._known: Start | None = None
        self._word: str | None = None
        self._words: tuple[str, ...] | None = None

    @property
    def start(self) -> Start:
        """How a sentence may begin here."""
        if self._known is None:
            self._known = Start.OPENED if self.at == self._opened else self._start(self.at, _OPENER_LIMIT)
        return self._known

    @property
    def words(self) -> tuple[str, ...]:
        """The words directly before, up to four, with one space between and behind."""
        if self._words is None:
            self._words = self.words_up_to(self.at - 1) if self.text[self.at - 1 : self.at] == " " else ()
        return self._words

    @property
    def word(self) -> str:
        """The word directly before and its space, empty if there is none."""
        if self._word is None:
            self._word = self.word_up_to(self.at - 1) if self.text[self.at - 1 : self.at] == " " else ""
        return self._word

    @property
    def sentence(self) -> int:
        """Index at which the sentence around this place begins, as far as can be seen."""
        find, floor, at = self.text.rfind, self.floor, self.at
        end = max(find(". ", floor, at), find("! ", floor, at), find("? ", floor, at))
        return floor if end < 0 else end + 2

    def word_up_to(self, end: int) -> str:
        """Give the word that ends at *end*, opening punctuation before it left off."""
        floor = max(self.floor, end - _WORD_LIMIT)
        start = self.text.rfind(" ", floor, end) + 1
        if not start:
            if floor != self.floor:
                return ""
            start = floor
        return folded(self.text[start:end].lstrip("(*"))

    def words_up_to(self, end: int) -> tuple[str, ...]:
        """Give the words, up to four, that end at *end*."""
        text, floor = self.text, max(self.floor, end - _WORD_LIMIT)
        start = end
        for _ in range(_WORDS_KEPT):
            start = text.rfind(" ", floor, start)
            if start < 0:
                break
        match = _WORDS.search(text, max(floor, start + 1), end)
        return tuple(folded(match.group()).split()) if match else ()

    def is_opener(self, end: int) -> bool:
        """Tell whether the words up to *end* are an opener that begins a sentence."""
        return self._opener(_OPENER, end, _OPENER_LIMIT) is not Start.NONE

    def _opener(self, pattern: re.Pattern[str], end: int, limit: int) -> Start:
        """Tell how the opener that ends at *end* begins; NONE if there is none."""
        match = pattern.search(self.text, max(self.floor, end - 16), end)
        return Start.NONE if match is None or not limit else self._start(match.start(), limit - 1)

    def _start(self, at: int, limit: int) -> Start:
        prose = self._prose
        if at <= prose.head:
            return Start.SENTENCE if at == prose.head and prose.head_starts else Start.NONE
        text, before = self.text, at - 1
        if before < self.floor or text[before] != " ":
            return Start.NONE
        if text[before - 1] == " ":
            before -= 1
        if before <= self.floor:
            return Start.NONE
        sign = text[before - 1]
        if sign in ".!?":
            return Start.NONE if _ABBREVIATED.search(text, max(self.floor, before - 8), before) else Start.SENTENCE
        if before != at - 1:
            return Start.NONE
        if sign != ",":
            is_bare = sign in _BARE_ENDS and self._opener(_BARE_OPENER, before, limit)
            return Start.SHADOW if is_bare else Start.NONE
        opener = self._opener(_OPENER, before - 1, limit)
        return Start.OPENED if opener is Start.SENTENCE else opener
