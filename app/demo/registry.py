"""Where the script language's steps are registered, and how a step's value becomes a function's arguments.

A step's function takes the stream, then the step's value: as keyword arguments if it is an object, else as the first
argument. Functions registered by ``whole`` take an object as their first argument too. Each yields operations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .operations import Operation

__all__ = ["STEPS", "Registered", "ScriptError", "step", "whole"]

Play = Callable[..., Iterator[Operation]]


class ScriptError(ValueError):
    """A script that cannot be played; the message names the step."""


class Registered(NamedTuple):
    """A step's function, and whether an object is one argument to it."""

    play: Play
    whole: bool

    def check(self, name: str, value: Any) -> None:
        """Raise ScriptError if a step's value does not fit its function."""
        try:
            signature = inspect.signature(self.play)
            signature.bind(None, **value) if self._spreads(value) else signature.bind(None, value)
        except TypeError as exc:
            raise ScriptError(f"step {name!r}: {exc}") from exc

    def run(self, stream: Any, value: Any) -> Iterator[Operation]:
        """Play a step with its value."""
        return self.play(stream, **value) if self._spreads(value) else self.play(stream, value)

    def _spreads(self, value: Any) -> bool:
        return isinstance(value, dict) and not self.whole


STEPS: dict[str, Registered] = {}


def step(function: Play) -> Play:
    """Register the step that is named like the function, a trailing underscore left out."""
    STEPS[function.__name__.rstrip("_")] = Registered(function, whole=False)
    return function


def whole(function: Play) -> Play:
    """Register a step whose value is one argument, whatever it is."""
    STEPS[function.__name__.rstrip("_")] = Registered(function, whole=True)
    return function
