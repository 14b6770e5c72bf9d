"""A route: what a view module gives for each of its paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from flask import Response

__all__ = ["Route", "View"]

View = Callable[..., Response]


class Route(NamedTuple):
    """One method of one path; the path is below ``/v1``."""

    method: str
    path: str
    view: View
