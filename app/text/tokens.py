"""How a message is cut into words, and what is written without spaces into runs of characters."""

from __future__ import annotations

import re

__all__ = ["grams", "is_spaceless", "words"]

_ASCII = bytes(code if chr(code).isalnum() else ord(" ") for code in range(128)).ljust(256)
_WORD = re.compile(r"[\w\u0900-\u0dff]+")
"""Python's word characters lack the vowel signs of Indic scripts."""
_SPACELESS = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_RUN = re.compile(f"[{_SPACELESS}]+")
_LOANWORD = re.compile(r"[\u30a1-\u30ff]{2,}")
_MAX_RUN = 160
"""Characters without spaces that are looked at: each says about three times as much as others."""


def words(lower: str) -> list[str]:
    """Cut a case-folded text into its words, in order; apostrophes and underscores part them too."""
    if lower.isascii():
        return lower.encode().translate(_ASCII).decode().split()
    return _WORD.findall(lower.replace("_", " "))


def grams(text: str) -> set[str]:
    """Give the runs of one to three characters in scripts without spaces, and whole katakana words."""
    runs = _RUN.findall(text)
    if not runs:
        return set()
    joined = " ".join(runs)[:_MAX_RUN]
    found = set(joined)
    found.update(map("".join, zip(joined, joined[1:], strict=False)))
    found.update(map("".join, zip(joined, joined[1:], joined[2:], strict=False)))
    found.update(_LOANWORD.findall(joined))
    return found


def is_spaceless(pattern: str) -> bool:
    """Tell whether a pattern is of a script without spaces."""
    return _RUN.match(pattern) is not None
