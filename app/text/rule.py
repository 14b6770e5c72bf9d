"""What the transducer asks of a module's rule, and what it gets."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from .place import Place
from .window import Window

__all__ = ["AFTER_SENTENCE", "NOT_LAST", "Edit", "Rule", "Trigger"]

AFTER_SENTENCE = r"(?:(?<=[.!?,] .)|(?<=[.!?]  .))"
"""Pattern of a character that may begin a sentence, looking back from behind it."""
NOT_LAST = r"(?![ \t]*+\r?\n)"
"""Pattern of the end of a phrase that is not the last of its line."""


Edit = tuple[int, str, bool]
"""What is to be changed at a place: index up to which text goes, what takes its place, and whether that *opens*.

One that opens took an opener's comma away: a sentence still goes on behind it as if it stood there.
"""


class Trigger(NamedTuple):
    """Where a rule wants to see a place.

    Attributes:
        anchor: pattern of exactly one character before the place, or at it.
        patterns: alternatives for what follows on the anchor.
        is_before: the place begins behind the anchor, not with it.
        holds: what is found at the end of the text may be the beginning of something, and waits for more unasked.
    """

    anchor: str
    patterns: tuple[str, ...]
    is_before: bool = True
    holds: bool = False


class Rule(Protocol):
    """One module's view of a place.

    Attributes:
        triggers: the places in mid-line that ``decide`` wants to see.
        heads: patterns of what it has a view of, for a place where a line's prose or a held candidate begins.
    """

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """See the class."""
        ...

    @property
    def heads(self) -> tuple[str, ...]:
        """See the class."""
        ...

    def decide(self, place: Place, view: Window) -> Edit | None:
        """Give the change to make at *place*, or None; ``view.reach`` tells what the refusal looked at.

        Raises:
            More: the text so far does not tell.
            Undecided: no text that may be looked at tells.
        """
        ...
