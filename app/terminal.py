"""What may be written on a terminal: foreign text without anything that could act on it, colours only where wanted."""

from __future__ import annotations

import os
import re
from typing import Any, TextIO

import click

__all__ = ["clean", "has_colours", "is_terminal", "styled"]

# Controls (C0 but for tab and line feed, DEL, C1), what sets or overrides a text's direction, line and paragraph
# separators, tag characters, and halves of surrogate pairs, which no terminal's encoding has.
_ACTS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


def clean(text: str) -> str:
    """Take out every character that could act on a terminal instead of being shown; what an escape led stays as text.

    It looks at single characters, so it does not matter how a text is cut.
    """
    return _ACTS.sub("", text)


def is_terminal(stream: TextIO) -> bool:
    """Tell whether *stream* is a terminal."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def has_colours(stream: TextIO) -> bool:
    """Tell whether *stream* is a terminal that takes colours (https://no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, stream: TextIO, **style: Any) -> str:
    """Give *text* in a style of ``click.style`` where *stream* takes colours, else as it is."""
    return click.style(text, **style) if has_colours(stream) else text
