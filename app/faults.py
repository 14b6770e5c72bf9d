"""An unexpected exception as the log may show it: what kind, and where; never its words.

The words of an exception can hold what it was about: a prompt, an answer, a key.
"""

from __future__ import annotations

import os
from traceback import extract_tb
from types import TracebackType

__all__ = ["forget_frames", "place_of", "told"]

_FRAMES = 6
_CAUSES = 3


def told(error: BaseException) -> str:
    """Name *error*, its place and its cause: ``ValueError at stm.py:12 in feed < pipeline.py:90 in run``."""
    words, seen = [], 0
    found: BaseException | None = error
    while found is not None and seen < _CAUSES:
        words.append(f"{type(found).__name__}{place_of(found.__traceback__)}")
        found, seen = found.__cause__ or (None if found.__suppress_context__ else found.__context__), seen + 1
    return ", from ".join(words)


def place_of(traceback: TracebackType | None) -> str:
    """Give the innermost frames of *traceback*, the innermost first; nothing where there are none."""
    frames = extract_tb(traceback)[-_FRAMES:][::-1]
    if not frames:
        return ""
    return " at " + " < ".join(f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}" for frame in frames)


def forget_frames(error: BaseException) -> None:
    """Drop the tracebacks of *error* and its causes: who keeps it would keep all that their frames know, in a cycle."""
    left, seen = [error], set()
    while left:
        found = left.pop()
        found.__traceback__ = None
        seen.add(id(found))
        left += [one for one in (found.__cause__, found.__context__) if one is not None and id(one) not in seen]
