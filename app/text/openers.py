"""direct_mode: takes polite openers off the start of the answer."""

from __future__ import annotations

import re

from .atomic import repeated
from .english import LOWER_NAMES, folded
from .phrases import prefix_regex
from .place import Place
from .rule import Edit
from .window import More, Undecided, Window

__all__ = ["PHRASES", "Openers"]

PHRASES = (
    "sure", "of course", "certainly", "absolutely", "great question", "that's a great question",
    "i'd be happy to help", "i'd be happy to help you", "i'd be happy to help with that",
    "i'd be happy to help you with that", "let me help you with that", "i understand", "thanks for asking",
)  # fmt: skip

_OPENER = prefix_regex(PHRASES)
_PHRASE = "|".join(PHRASES).replace("'", "['’]")
_NEXT = repeated(rf"(?: |\r?\n)(?:{_PHRASE})(?:[,.:!](?=[ \r\n])|(?=\r?\n))")
_LOWER_RUN = re.compile(_NEXT)
_RUN = re.compile(_NEXT, re.IGNORECASE | re.ASCII)
_EXCEPTIONS = frozenset({"but", "if", "unless", "though", "although", "only", "except"})
_WORD = re.compile(r"([a-z]+(?:['’-][a-z]+)*)[,;:!?…]*\.?")
_SHORT = 32
"""Characters of the next word that are looked at."""
_STRUCTURE = re.compile(r"[-*+•]$|\d{1,9}[.)]$|#{1,6}$|[>|]|<[A-Za-z/!]|```|~~~|\$\$|\\[(\[b]")


class Openers:
    """The rule of direct_mode."""

    def may_begin(self, text: str, at: int) -> bool:
        """Tell whether an opener, or the beginning of one that is cut off, stands at *at*."""
        return _OPENER.match(text, at) is not None

    def decide(self, place: Place, view: Window) -> Edit | None:
        """Give the change to make at *place*, the start of the answer's prose, or None.

        *view* goes over line ends.
        """
        text, at = place.text, place.at
        match = _OPENER.match(text, at, view.end)
        if match is None:
            return None
        if folded(match.group()) not in PHRASES:
            view.need()
            return None
        end = _after_mark(view, match.end())
        return None if end is None else _run_removal(view, at, end) or _removal(view, at, end)


def _after_mark(view: Window, end: int) -> int | None:
    """Give the index after the punctuation that sets the opener off, None if there is none."""
    mark = view.char(end)
    if mark == "—":
        return end + 1
    if mark == " " and view.char(end + 1) == "—":
        return end + 2
    if mark and mark in ",.:!":
        end += 1
        while mark == "!" and view.char(end) == "!":
            end += 1
        return end if view.char(end).isspace() else None
    if mark == "\r" and view.char(end + 1) == "\n":
        return end
    return end if mark == "\n" else None


def _run_removal(view: Window, at: int, end: int) -> Edit | None:
    """Take out at once what would go one by one: the opener up to *end* and simple ones behind it; None if unsure."""
    match = (_RUN if view.text[at].isupper() else _LOWER_RUN).match(view.text, end, view.end - 2 * _SHORT)
    if match is None or match.end() == end:
        return None
    try:
        return _removal(view, at, match.end())
    except (More, Undecided):
        return None


def _removal(view: Window, at: int, end: int) -> Edit | None:
    """Take out what stands from *at* to *end* and the white space behind, if something good remains."""
    text, line = view.text, -1
    while (char := view.char(end)).isspace():
        end += 1
        if char == "\n":
            line = end
    if not char:
        return None
    token = view.token(end, _SHORT)
    match = _WORD.fullmatch(token)
    word = folded(re.split(r"[^\w'’-]", token, maxsplit=1)[0])
    if word in _EXCEPTIONS:
        return None
    if line >= 0:
        indent = end - line
        if "\t" in text[line:end] or indent > 3 or (indent and not char.isalpha()):
            return line, "", False
    elif _STRUCTURE.match(token):
        return None
    if match and text[at].isupper() and _takes_capital(match.group(1)):
        return end + 1, char.upper(), False
    return end, "", False


def _takes_capital(word: str) -> bool:
    """Tell whether *word* is written with a capital at the start of a sentence; a lone letter is a variable's name."""
    return word not in LOWER_NAMES and (len(word) > 1 or word in "ai")
