"""A route: what a view module gives for each of its paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from flask import Response

__all__ = ["Route", "View"]

View = Callable[..., Response]


class Route(NamedTuple):
    """One method of one path, which lies below ``/v1`` unless *below* says otherwise."""

    method: str
    path: str
    view: View
    below: str = "/v1"

    @property
    def rule(self) -> str:
        """The path below the blueprint's prefix, as Flask writes it."""
        return self.below + self.path
