"""Repeats that keep what they found, in every Python.

The possessive repeat of a group, ``(?:...)*+``, is wrong before 3.11.5: a last try that fails leaves the match's end as
far as that try had come. An atomic group around a plain repeat says the same and is right in all of them. A possessive
repeat of one character or set is right everywhere and the fastest, and stays.
"""

from __future__ import annotations

__all__ = ["repeated"]


def repeated(pattern: str) -> str:
    """Give the pattern of *pattern* any number of times, none too, without going back into what it found."""
    return f"(?>(?:{pattern})*)"
