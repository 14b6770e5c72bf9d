"""The text a decision may look at, and what happens where it is too short."""

from __future__ import annotations

import re

__all__ = ["LOOK_AHEAD", "WORD", "More", "Undecided", "Window"]

LOOK_AHEAD = 160
"""Characters, counted from its own start, that a decision may look at."""

_LETTER = r"[^\W\d_]"
WORD = rf"{_LETTER}+(?:['’-]{_LETTER}+)*"
_WORD = re.compile(WORD)
_TOKEN = re.compile(r"\S*")
_PLAIN = re.compile(rf"({WORD})([.,;:!?…)\]*\"”’]*)(?=\s|\Z)")
_SENTENCE_END = re.compile(r"[.!?…]+[)\]*\"”’]*(?=\s|\Z)")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|cf|vs|mrs?|ms|dr|prof|approx|eg|ie|resp|incl|al)\.\Z", re.IGNORECASE)
_SENTENCE_SIGN = re.compile(r"[.!?…\n]")


class More(Exception):
    """The text at hand ends before the decision.

    Attributes:
        wake: what new text must hold to be worth another look; None: anything.
    """

    def __init__(self, wake: re.Pattern[str] | None = None) -> None:
        super().__init__()
        self.wake = wake


class Undecided(Exception):
    """The decision would have to look further than it may."""


class Window:
    """The rest of a line from a place where something may be changed, as far as a decision may look.

    It is moved from place to place: there are many.

    Every reading that comes to the window's end raises ``More`` when more text may come, and ``Undecided`` when it may
    look no further; at the end of the line it is answered with nothing. So a decision is the same however the text
    was cut.

    Attributes:
        text: the whole buffer.
        end: index after the last character that may be looked at.
        reach: index after the last character that was looked at.
    """

    __slots__ = ("_is_last", "_is_open", "end", "reach", "text")

    def __init__(self) -> None:
        self.text = ""
        self.reach = self.end = 0
        self._is_open = self._is_last = False

    def move(self, text: str, start: int, is_final: bool, over_lines: bool = False) -> None:
        """Look at *text* from *start* on."""
        self.text, self.reach = text, start
        end = start + LOOK_AHEAD
        stop = -1 if over_lines else text.find("\n", start, end)
        if stop >= 0:
            self.end, self._is_open, self._is_last = stop, False, True
        elif len(text) < end:
            self.end, self._is_open, self._is_last = len(text), not is_final, is_final
        else:
            self.end, self._is_open, self._is_last = end, False, False

    def char(self, index: int) -> str:
        """Give the character at *index*, empty at the end."""
        if index < self.end:
            if index >= self.reach:
                self.reach = index + 1
            return self.text[index]
        self._end()
        return ""

    def word(self, index: int) -> str:
        """Give the word that begins at *index*, empty if there is none."""
        match = _WORD.match(self.text, index, self.end)
        stop = match.end() if match else index
        if stop < self.end and self.text[stop] in "'’-":
            stop += 1
        if stop >= self.end:
            self._end()
        self._reach(stop + 1)
        return match.group() if match else ""

    def token(self, index: int, limit: int = LOOK_AHEAD) -> str:
        """Give what stands at *index* up to the next white space, cut at *limit* characters."""
        match = _TOKEN.match(self.text, index, min(self.end, index + limit))
        stop = match.end() if match else index
        if stop >= self.end and stop < index + limit:
            self._end()
        self._reach(min(stop + 1, index + limit))
        return self.text[index:stop]

    def plain(self, index: int) -> tuple[str, str, int]:
        """Give the word at *index*, the punctuation behind it, and the index after both.

        The word is empty if what stands there is no plain word.
        """
        match = _PLAIN.match(self.text, index, self.end)
        if match is None:
            return "", "", index + len(self.token(index))
        stop = match.end()
        if stop >= self.end:
            self._end()
        elif stop >= self.reach:
            self.reach = stop + 1
        return match.group(1), match.group(2), stop

    def has(self, pattern: re.Pattern[str], index: int) -> bool:
        """Tell whether *pattern*, which must be sure of what it matches, matches at *index* in the text so far."""
        match = pattern.match(self.text, index, self.end)
        if match is None:
            return False
        self._reach(match.end())
        return True

    def continues(self, index: int, words: str) -> bool:
        """Tell whether *words* stand at *index*, in any case, and end there."""
        there = self.text[index : min(index + len(words), self.end)].lower().replace("’", "'")
        for place, (char, wanted) in enumerate(zip(there, words, strict=False), index + 1):
            if char != wanted:
                self._reach(place)
                return False
        if len(there) < len(words):
            self._end()
            return False
        return not self.is_letter(index + len(words))

    def is_letter(self, index: int) -> bool:
        """Tell whether a word goes on at *index*."""
        char = self.char(index)
        return char.isalnum() or char == "_" or (char in "'’-" and char != "" and self.char(index + 1).isalnum())

    def find(self, what: str, index: int) -> int:
        """Find *what* (one character) from *index* on; -1 if the line has none."""
        found = self.text.find(what, index, self.end)
        if found < 0:
            self._end()
        self._reach(found + 1 if found >= 0 else self.end)
        return found

    def sentence_end(self, index: int, limit: int = LOOK_AHEAD) -> tuple[int, bool]:
        """Find the punctuation that ends the sentence, or the line's end; tell whether it is a question.

        After *limit* characters that is all, and no question.
        """
        text, end = self.text, min(self.end, index + limit)
        for match in _SENTENCE_END.finditer(text, index, end):
            if match.end() >= end:
                if end == self.end:
                    self._end()
                else:
                    break
            if not _ABBREVIATION.search(text, max(index, match.start() - 8), match.start() + 1):
                self._reach(match.end() + 1)
                return match.start(), "?" in match.group()
        self._reach(end)
        if end == self.end:
            self._end(_SENTENCE_SIGN)
        return end, False

    def is_question(self, index: int) -> bool:
        """Tell whether the sentence ends in a question mark; one that goes on too far is none."""
        if self._is_open or self._is_last or _SENTENCE_SIGN.search(self.text, index, self.end):
            try:
                return self.sentence_end(index)[1]
            except Undecided:
                pass
        self.reach = self.end
        return False

    def forget(self, index: int) -> None:
        """Unlook: what stands at *index* is nothing that a rule is about."""
        self.reach = index

    def need(self) -> None:
        """Read past the end: what stands there is cut off."""
        self._end()

    def _reach(self, index: int) -> None:
        if index > self.reach:
            self.reach = min(index, self.end)

    def _end(self, wake: re.Pattern[str] | None = None) -> None:
        if self._is_open:
            raise More(wake)
        if not self._is_last:
            raise Undecided
