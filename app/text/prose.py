"""Which parts of an answer are prose: everything but code, quotations, formulas, tables and markup.

Whether a place is protected depends on the text to its left only, so an answer can be read as it comes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from .atomic import repeated
from .english import DANGLING
from .lines import LEAD, LETTER, LIST_MARKER

__all__ = ["Prose"]

_RUN_LIMIT = 32
"""Back-ticks or tildes counted; a longer run protects the rest of its line."""
_INDENT_LIMIT = 64
"""White space looked at on a line's start; a line with more is protected."""
_MARKER_LIMIT = 4
"""List markers looked at on a line's start."""
_TAIL = 24
"""Characters looked at for a line's last word."""
_WRAPPED = 60
"""Length from which a line without an end sign goes on in the next."""

_MORE = -1
_BLANK_LINES = re.compile(repeated(r"[ \t]{0,64}\r?\n"))
_BLANK_LINE = re.compile(r"\n(?=[ \t]{0,64}\r?\n)")
_BLANK_TAIL = re.compile(r"\n[ \t]{0,64}\r?\Z")
_HEADING = re.compile(f"{LEAD}#")
_PLAIN_LEAD = re.compile(f"{LEAD}(?={LETTER})")
_INDENT = re.compile(r"[ \t]*")
_FENCE = re.compile(r"`{3,}|~{3,}")
_MARKER = re.compile(rf"{LIST_MARKER}(?=[ \t]|\Z)|\d{{1,9}}\Z")
_CHECKBOX = re.compile(r"\[[ xX]\] |\[(?:[ xX](?:\]?\Z)|\Z)")
_TAG = re.compile(r"<(?:[A-Za-z/!]|\Z)")
_MATH = re.compile(
    r"\\(?:[(\[]|begin(?:\{[^}\s]{0,32}\}|(?=[^{]))|(?:b(?:e(?:g(?:i(?:n(?:\{[^}\s]{0,32})?)?)?)?)?)?\Z)"
)
_LAST_WORD = re.compile(r"([^\W\d_]+(?:['’][^\W\d_]+)?)[ \t]*\r?\Z")
_MATES = {"“": "”", "«": "»", "‘": "’", "'": "'", '"': '"', "$": "$"}
_SPANS = {mate: re.compile(rf"\n|{re.escape(mate)}") for mate in '”»"$'}
_SPANS |= {mate: re.compile(rf"\n|{mate}(?!{LETTER})") for mate in "’'"}


class Prose:
    """Follows an answer through its protected places.

    Args:
        dull: pattern of lines to pass over, see ``lines``.
        is_start: the answer begins; otherwise it goes on in prose.

    Attributes:
        is_inside: the place reached is prose.
        line: index at which the current line begins.
        head: index at which the current line's prose begins.
        head_starts: a sentence may begin there.
        is_fresh: nothing but white space has gone before the current line's prose.
    """

    def __init__(self, dull: re.Pattern[str], *, is_start: bool = True) -> None:
        self._dull = dull
        self.is_inside = not is_start
        self.line = self.head = 0
        self.head_starts = is_start
        self.is_fresh = is_start
        self._mode: Callable[[str, int, bool], int] = self._line_start
        self._mate = ""
        self._span = _SPANS["$"]
        self._goes_on = False
        self._is_heading = False

    def shift(self, count: int) -> None:
        """Follow the buffer losing its first *count* characters."""
        self.line -= count
        self.head -= count

    def leave(self) -> None:
        """Read the current line's start anew: what stood there has gone."""
        self.is_inside = False
        self._mode = self._line_start

    def advance(self, text: str, at: int, is_final: bool) -> int:
        """Go from *at* through what is protected; give the index reached.

        Ends inside prose, or where more text must come first.
        """
        while not self.is_inside:
            found = self._mode(text, at, is_final)
            if found == _MORE:
                return at
            if found >= len(text) and not self.is_inside:
                return found
            at = found
        return at

    def cross(self, text: str, start: int, end: int) -> None:
        """Follow over protected places that are whole, from *start* to *end*; a formula may have had several lines."""
        line = text.rfind("\n", start, end) + 1
        if line:
            self.line = self.head = line
            self._is_heading = _HEADING.match(text, line) is not None

    def open(self, text: str, at: int, is_final: bool) -> int:
        """Enter what opens at *at*, or the next line; give the index behind its opening, -1 for more text."""
        sign = text[at]
        if sign == "\n":
            return self._end_line(text, at)
        if sign == "`":
            return self._open_code(text, at, is_final)
        if sign == "\\":
            return self._open_formula(text, at, is_final)
        following = text[at + 1 : at + 2]
        if sign in "$'" and not following and not is_final:
            return _MORE
        if sign == "$":
            if following == "$":
                return self._open_block("$$", at + 2)
            if not following:
                return at + 1
        elif sign == "'" and not following:
            return at + 1
        return self._open_span(_SPANS[_MATES[sign]], at + 1)

    def _end_line(self, text: str, at: int) -> int:
        """Enter the next line; a long one that stops in mid-sentence, or on a word that ends none, goes on there."""
        self._goes_on = _goes_on_behind(text, self.line, at, self._is_heading)
        return self._new_line(at + 1)

    def _new_line(self, at: int) -> int:
        self.is_inside = False
        self.line = at
        self._mode = self._line_start
        return at

    def _line_start(self, text: str, at: int, is_final: bool) -> int:
        """Pass over lines in which nothing can change."""
        match = (_BLANK_LINES if self.is_fresh else self._dull).match(text, at)
        end = match.end() if match else at
        if match is not None and end > at:
            self._goes_on = False
            if not self.is_fresh and match.end("open") == end - 1:
                line = text.rfind("\n", at, end - 1) + 1 or at
                self._goes_on = _goes_on_behind(text, line, end - 1, _HEADING.match(text, line) is not None)
            self.line = end
        if end < len(text):
            self._mode = self._line_head
        return end

    def _line_head(self, text: str, at: int, is_final: bool) -> int:
        """Find out what a line begins with."""
        plain = _PLAIN_LEAD.match(text, at)
        if plain is not None:
            return self._begin(text, plain.end(), has_marker=bool(plain.group().strip()))
        match = _BLANK_LINES.match(text, at)
        if match is not None and match.end() > at:
            self._goes_on = False
            return self._new_line(match.end())
        for markers in range(_MARKER_LIMIT + 1):
            end = self._indent_end(text, at)
            if end - at > _INDENT_LIMIT:
                return self._protect_line(at)
            if end == len(text) or (text[end] == "\r" and end + 1 == len(text)):
                return len(text) if is_final else _MORE
            fence = self._fence(text, end, is_final)
            if fence is not None:
                return fence
            if self._is_indented(text, at, end) or text[end] in ">|":
                return self._protect_line(end)
            tag = _TAG.match(text, end)
            if tag is not None:
                whole = tag.end() - end > 1
                if whole:
                    return self._protect_line(end)
                return self._begin(text, end, has_marker=markers > 0) if is_final else _MORE
            after = self._marker_end(text, end)
            if after == _MORE and not is_final:
                return _MORE
            if after <= end:
                break
            at = after
        return self._begin(text, end, has_marker=markers > 0)

    @staticmethod
    def _indent_end(text: str, at: int) -> int:
        match = _INDENT.match(text, at, at + _INDENT_LIMIT + 1)
        return match.end() if match else at

    @staticmethod
    def _is_indented(text: str, at: int, end: int) -> bool:
        return end - at > 3 or "\t" in text[at:end]

    @staticmethod
    def _marker_end(text: str, at: int) -> int:
        """Give the index behind a list marker at *at*, *at* if there is none, -1 if more text must tell."""
        match = _MARKER.match(text, at)
        if match is None:
            return at
        end = match.end()
        if end >= len(text):
            return _MORE
        box = _CHECKBOX.match(text, end + 1)
        if box is None:
            return end + 1
        return box.end() if box.group().endswith(" ") and len(box.group()) == 4 else _MORE

    def _begin(self, text: str, at: int, *, has_marker: bool) -> int:
        """Enter the prose of a line."""
        self.is_inside = True
        self.head = at
        self.head_starts = has_marker or not self._goes_on
        self._is_heading = text.startswith("#", at)
        if has_marker:
            self.is_fresh = False
        return at

    def _protect_line(self, at: int) -> int:
        self.is_fresh = False
        self._goes_on = False
        self._mode = self._to_line_end
        return at

    def _to_line_end(self, text: str, at: int, is_final: bool) -> int:
        found = text.find("\n", at)
        return len(text) if found < 0 else self._new_line(found + 1)

    def _fence(self, text: str, at: int, is_final: bool) -> int | None:
        """Enter a fence whose first line begins at *at*; None if there is none."""
        match = _FENCE.match(text, at, at + _RUN_LIMIT + 1)
        if match is None:
            is_cut = text[at:] in ("`", "``", "~", "~~") and not is_final
            return _MORE if is_cut else None
        end, run = match.end(), match.end() - match.start()
        if run > _RUN_LIMIT:
            return self._protect_line(end)
        if end == len(text) and not is_final:
            return _MORE
        self.is_fresh = False
        self._goes_on = False
        self.head = self.line
        self._mate = match.group()
        self._mode = self._fence_info
        return end

    def _fence_info(self, text: str, at: int, is_final: bool) -> int:
        """Go through the rest of a fence's first line; a back-tick there makes it inline code."""
        end = text.find("\n", at)
        tick = text.find("`", at, end if end >= 0 else len(text)) if self._mate[0] == "`" else -1
        if tick >= 0:
            self._mode = self._code
            return at
        if end < 0:
            return len(text)
        self._mode = self._fenced
        return end + 1

    def _fenced(self, text: str, at: int, is_final: bool) -> int:
        """Go from a line's start inside a fence out behind the closing one, or as far as it is sure that none comes."""
        closing, undecided = _fences(self._mate)
        match = closing.search(text, at)
        if match is not None:
            self._mode = self._to_line_end
            return match.end()
        line = max(at, text.rfind("\n", at) + 1)
        if is_final or undecided.match(text, line) is None:
            self._mode = self._fenced_rest
            return len(text)
        return line if line > at else _MORE

    def _fenced_rest(self, text: str, at: int, is_final: bool) -> int:
        found = text.find("\n", at)
        if found < 0:
            return len(text)
        self._mode = self._fenced
        return found + 1

    def _open_span(self, mate: re.Pattern[str], at: int) -> int:
        self.is_inside = False
        self._span = mate
        self._mode = self._spanned
        return at

    def _spanned(self, text: str, at: int, is_final: bool) -> int:
        match = self._span.search(text, at)
        if match is None:
            return len(text)
        if match.group() == "\n":
            self._goes_on = False
            return self._new_line(match.end())
        if match.end() == len(text) and match.group() in "'’" and not is_final:
            return _MORE if match.start() == at else match.start()
        self.is_inside = True
        return match.end()

    def _open_code(self, text: str, at: int, is_final: bool) -> int:
        end = self._run_end(text, at)
        if end == len(text) and not is_final and end - at <= _RUN_LIMIT:
            return _MORE
        self.is_inside = False
        self._mate = text[at:end]
        self._mode = self._code
        return end if end - at <= _RUN_LIMIT else self._protect_line(end)

    @staticmethod
    def _run_end(text: str, at: int) -> int:
        end, stop = at, min(len(text), at + _RUN_LIMIT + 1)
        while end < stop and text[end] == "`":
            end += 1
        return end

    def _code(self, text: str, at: int, is_final: bool) -> int:
        """Go to a run of back-ticks equal to the opening one, or to the line's end."""
        line = text.find("\n", at)
        limit = len(text) if line < 0 else line
        while (tick := text.find("`", at, limit)) >= 0:
            end = self._run_end(text, tick)
            if end - tick > _RUN_LIMIT:
                return self._protect_line(end)
            if end == len(text) and not is_final:
                return _MORE if tick == at else tick
            if end - tick == len(self._mate):
                self.is_inside = True
                return end
            at = end
        if line < 0:
            return len(text)
        self._goes_on = False
        return self._new_line(line + 1)

    def _open_formula(self, text: str, at: int, is_final: bool) -> int:
        match = _MATH.match(text, at)
        if match is None:
            return at + 1
        found = match.group()
        if found in ("\\(", "\\["):
            return self._open_block("\\)" if found == "\\(" else "\\]", match.end())
        if found.endswith("}") or (found == "\\begin" and match.end() < len(text)):
            return self._open_block("\\end" + found[len("\\begin") :], match.end())
        return at + 1 if is_final else _MORE

    def _open_block(self, mate: str, at: int) -> int:
        self.is_inside = False
        self._mate = mate
        self._mode = self._block
        return at

    def _block(self, text: str, at: int, is_final: bool) -> int:
        """Go to the formula's end, or to a blank line, which ends it too."""
        found = text.find(self._mate, at)
        blank = _BLANK_LINE.search(text, at, len(text) if found < 0 else found)
        if blank is not None:
            self._goes_on = False
            return self._new_line(blank.start() + 1)
        end = found
        if found < 0:
            tail = _BLANK_TAIL.search(text, at)
            end = len(text) if is_final else tail.start() if tail else max(at, len(text) - len(self._mate) + 1)
        self.cross(text, at, end)
        if found < 0:
            return end if end > at else _MORE
        self.is_inside = True
        return found + len(self._mate)


def _goes_on_behind(text: str, line: int, end: int, is_heading: bool) -> bool:
    """Tell whether the line from *line* to *end* is long and stops in mid-sentence, or on a word that ends none."""
    is_long = end - line >= _WRAPPED and not is_heading
    last = text[end - 1]
    if not last.isalnum() and last not in " \t\r":
        return is_long and last == ","
    floor = max(line, end - _TAIL, 0)
    word_end = floor + len(text[floor:end].rstrip(" \t\r"))
    match = _LAST_WORD.search(text, max(text.rfind(" ", floor, word_end) + 1, floor), end)
    return match is not None and (is_long or match.group(1).lower() in DANGLING)


@cache
def _fences(mate: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Give the pattern of the line that closes the fence *mate*, and of one cut off that may."""
    run, blank = rf"{mate[0]}{{{len(mate)},{2 * _RUN_LIMIT - 1}}}+", rf"[ \t]{{0,{_INDENT_LIMIT}}}+"
    return (
        re.compile(rf"^{blank}{run}{blank}(?=[\r\n])", re.MULTILINE),
        re.compile(rf"{blank}{mate[0]}{{0,{2 * _RUN_LIMIT - 1}}}+{blank}\r?\Z"),
    )
