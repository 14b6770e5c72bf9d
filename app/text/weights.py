"""The fitted linear model: how much each feature of a message speaks for each context.

``context.json`` holds it in hundredths: ``groups`` of hand-written words, ``words`` that were learned on their own,
and ``signs``, which are all other features; each with its weights in the order of ``contexts``. ``tones`` are what
common English words say by what they mean, learned or not; a text's tone is their sum over the root of their number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from math import sqrt
from typing import Any

from .features import Extractor, Found, Numbers, Pattern

__all__ = ["Weights", "shipped", "tone_share"]

_UNIT = 0.01
_LEAST = 0.05
"""Margin up to which a pattern is no evidence."""


class Weights:
    """Weights by feature number, and what finds the features.

    Attributes:
        contexts: what the columns of the weights are for.
        extractor: finds the features.
        bias: each context's score without any evidence.
        temperature: what scores are divided by before they become shares.
        earlier: how much an earlier message counts when the current one is short, and when it is long.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.contexts: tuple[str, ...] = tuple(data["contexts"])
        self.bias: list[float] = data["bias"]
        self.temperature: float = data["temperature"]
        self.earlier: tuple[float, float] = tuple(data["earlier"])
        entries: dict[str, list[str]] = {}
        rows: dict[str, list[int]] = dict(data["signs"])
        for name, (row, patterns) in data["groups"].items():
            rows[name] = row
            entries[name] = patterns.split(",")
        for word, row in data["words"].items():
            rows[f"word {word}"] = row
            entries[f"word {word}"] = [word]
        self._tones: dict[str, tuple[float, ...]] = {
            word: tuple(map(_weight, row)) for word, row in data["tones"].items()
        }
        self.extractor = Extractor(entries, {name: number for number, name in enumerate(rows)}, self._tones)
        self._rows = [tuple(map(_weight, row)) for row in rows.values()]
        self._margins = [_Margins(self._rows, column) for column in range(len(self.contexts))]

    def scores(self, found: Found) -> list[float]:
        """Add up what the features of one text say for each context."""
        table = self._rows
        rows = [table[number] for number in found.present]
        for number, strength in found.strengths.items():
            rows.append(tuple([strength * weight for weight in table[number]]))
        if found.tones:
            tones, part = self._tones, tone_share(len(found.tones))
            columns = zip(*[tones[word] for word in found.tones], strict=True)
            rows.append(tuple([part * sum(column) for column in columns]))
        return [sum(column) for column in zip(*rows, strict=True)] if rows else [0.0] * len(self.contexts)

    def margins(self, found: Found, column: int) -> list[tuple[float, Pattern]]:
        """Give the patterns that say more for one context than for the average one, with how much."""
        known = self._margins[column]
        said = [(margin, pattern) for pattern, numbers in found.patterns if (margin := known[numbers]) > _LEAST]
        part = tone_share(len(found.tones))
        for word in found.tones:
            row = self._tones[word]
            if (margin := part * (row[column] - sum(row) / len(row))) > _LEAST:
                said.append((margin, word))
        return said


@cache
def _weight(hundredths: int) -> float:
    """Give a weight; those that are alike are one number, of which there would be a third of a million."""
    return hundredths * _UNIT


def tone_share(count: int) -> float:
    """Tell how much each of *count* toned words says: many say less each."""
    return 1.0 / sqrt(count + 1)


class _Margins(dict[Numbers, float]):
    """How much more features say for one context than for the average one; there are as many as the lexicon's."""

    def __init__(self, rows: list[tuple[float, ...]], column: int) -> None:
        self._rows, self._column = rows, column

    def __missing__(self, numbers: Numbers) -> float:
        rows = [self._rows[number] for number in numbers]
        margin = self[numbers] = sum(row[self._column] - sum(row) / len(row) for row in rows)
        return margin


@cache
def shipped() -> Weights:
    """Load the model, once."""
    return Weights(json.loads((files(__package__) / "context.json").read_text(encoding="utf-8")))
