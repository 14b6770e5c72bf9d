"""Patterns over lines: what in them is protected, and what no rule can want to see and is passed over at once.

Each pattern says here in one piece what ``prose`` tells step by step: that is for what a pattern cannot see whole, a
span cut off by the end of the text so far, a fence, a formula of several lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .atomic import repeated

__all__ = ["LEAD", "LETTER", "LIST_MARKER", "Lines"]

LETTER = r"[^\W\d_]"
LIST_MARKER = r"(?:[-*+•]|\d{1,9}[.)])"

_APOSTROPHE = r"'(?<![^\s(\[{—–-]')"
_FORMULA = r"[(\[]|b(?:\Z|e(?:\Z|g(?:\Z|i(?:\Z|n))))"
"""What begins a formula behind a backslash, or may."""
_OPENING = rf"\"|“|«|‘|`|\\(?=\Z|{_FORMULA})|\$(?=[^\s\d]|\Z)|{_APOSTROPHE}(?={LETTER}|\Z)"
_MATE = rf"(?!{LETTER}|\Z)"
"""Behind a single quotation mark that closes: a letter makes it an apostrophe, and at the end it is open which."""
_NO_BLANK_LINE = r"\n(?![ \t]{0,64}+\r?\n)"
_FORMULAS = (
    r"\$\$" + repeated(rf"[^$\n]++|\$(?!\$)|{_NO_BLANK_LINE}"),
    r"\\\(" + repeated(rf"[^\\\n]++|\\(?!\))|{_NO_BLANK_LINE}"),
    r"\\\[" + repeated(rf"[^\\\n]++|\\(?!\])|{_NO_BLANK_LINE}"),
)
_QUOTED = "‘" + repeated(rf"[^’\n]++|’(?={LETTER})")
_STRAIGHT = rf"{_APOSTROPHE}(?={LETTER})" + repeated(rf"[^'\n]++|'(?={LETTER})")
_SPANS = (
    r"\"[^\"\n]*+\"",
    r"“[^”\n]*+”",
    r"«[^»\n]*+»",
    rf"{_QUOTED}’{_MATE}",
    rf"{_STRAIGHT}'{_MATE}",
    r"`[^`\n]++`(?=[^`])",
    r"\$(?![\s\d$])[^$\n]*+\$",
    *(begin + end for begin, end in zip(_FORMULAS, (r"\$\$", r"\\\)", r"\\\]"), strict=True)),
)
_UNCLOSED = (
    r"\"[^\"\n]*+",
    r"“[^”\n]*+",
    r"«[^»\n]*+",
    _QUOTED,
    _STRAIGHT,
    r"`++[^`\n]*+",
    r"\$(?![\s\d$])[^$\n]*+",
    *_FORMULAS,
)
_ANCHORS = r" \t(*,"
LEAD = rf"(?>[ ]{{0,3}}(?:{LIST_MARKER}[ ](?:\[[ xX]\] )?[ ]{{0,3}}){{0,4}})"
"""What may stand before a line's prose; with more list markers, or a tab, it takes a closer look."""
_FENCE = r"(?:```|~~~)"


class Lines(NamedTuple):
    """The patterns for some rules.

    Attributes:
        events: what ends a stretch of prose: a candidate, a line end or a protected place. An empty group ends each
            candidate; a protected place that is whole brings along what can be passed over behind it.
        heads: a candidate that begins where a line's prose does; an empty group for each rule ends what is its own.
        dull: whole lines without a candidate; the group ``open`` ends a line of prose that may go on in the next.
    """

    events: re.Pattern[str]
    heads: re.Pattern[str]
    dull: re.Pattern[str]

    @classmethod
    def without(cls, branches: Sequence[str], candidates: Sequence[str], heads: Sequence[str]) -> Lines:
        """Compile the patterns.

        Args:
            branches: of ``events``, with their groups.
            candidates: the same without groups.
            heads: for each rule the pattern of what may begin a line.
        """
        any_head = "|".join(heads) or r"(?!)"
        passed = rf"(?!{'|'.join(candidates)})[{_ANCHORS}]" if candidates else f"[{_ANCHORS}]"
        spans = "|".join(_SPANS)
        body = repeated(rf"[^\n\"“«‘`\\$'{_ANCHORS}]++|{passed}|(?!{_OPENING})[\\$']|{spans}")
        closed = rf"(?:[ \t](?![ \t]*+{_FENCE})|[>|]|<[A-Za-z/!])[^\n]*+"
        end = rf"(?:(?:{'|'.join(_UNCLOSED)})(?=\n)|(?P<open>))"
        prose = rf"(?!{any_head}|[ \t]|{_FENCE}|{LIST_MARKER}[ \t]){body}{end}"
        return cls(
            re.compile("|".join([*branches, r"\n", *(span + body for span in _SPANS), _OPENING])),
            re.compile("|".join(f"(?:{head})()" for head in heads) or any_head),
            re.compile(repeated(rf"{LEAD}(?:{closed}|{prose})\n")),
        )
