"""Perturbing chosen words of a text, each by a technique and with a seed's use of chance."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from random import Random
from typing import NamedTuple

from ..turns import Pause
from .techniques import DRAWN, INTENSITIES, TECHNIQUES, Recipe, pick, recipe
from .triggers import Match

__all__ = ["INTENSITIES", "TECHNIQUES", "Perturbation", "perturb", "perturb_matches"]

_new = tuple.__new__  # a named tuple made by its own name takes three times as long
_PART = 500
"""Matches that are worked on before others have their turn."""


class Perturbation(NamedTuple):
    """One match that was changed, and by which technique."""

    original: str
    transformed: str
    technique: str


def perturb(word: str, technique: str, intensity: str, rng: Random) -> Perturbation:
    """Perturb one *word*; ``random`` draws the technique, and the result names the one drawn."""
    return _Recipes(technique, intensity, rng).use(word)


def perturb_matches(
    text: str,
    matches: Iterable[Match],
    technique: str,
    intensity: str,
    rng: Random,
    note: Callable[[Perturbation], object],
    pause: Pause | None = None,
) -> str:
    """Perturb the *matches* of a *text*; give the new text.

    Args:
        note: is told each match that did change.
        pause: is called after each part of the work, about a millisecond of it.
    """
    use = _Recipes(technique, intensity, rng).use
    parts: list[str] = []
    done = 0
    rest = iter(matches)
    while part := list(islice(rest, _PART)):
        pieces: list[str] = []
        for start, end, _ in part:
            change = use(text[start:end])
            pieces += (text[done:start], change[1])
            done = end
            if change[1] != change[0]:
                note(change)
        parts.append("".join(pieces))
        if pause is not None:
            pause()
    return "".join((*parts, text[done:]))


class _Recipes:
    """The recipes for the words of one text, made as they come."""

    def __init__(self, technique: str, intensity: str, rng: Random) -> None:
        self._technique, self._intensity, self._rng = technique, intensity, rng
        self._known: dict[str, dict[str, Recipe]] = {name: {} for name in TECHNIQUES}

    def use(self, word: str) -> Perturbation:
        """Give the change of one *word*."""
        technique = self._technique
        if technique == "random":
            technique = pick(DRAWN, self._rng)
        known = self._known[technique]
        found = known.get(word)
        if found is None:
            found = known[word] = recipe(word, technique, self._intensity)
        return _new(Perturbation, (word, found(self._rng), technique))
