"""The fitted linear model: how much each feature of a message speaks for each context.

``context.json`` holds it in hundredths: ``groups`` of hand-written words, ``words`` that were learned on their own,
and ``signs``, which are all other features; each with its weights in the order of ``contexts``. ``tones`` are what
common English words say by what they mean, learned or not; a text's tone is their sum over the root of their number.

In memory a feature's weights stand beside each other in one whole number, so that a text's are added up by ``sum``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from math import sqrt
from typing import Any

from .features import Extractor, Found, Numbers, Pattern
from .lanes import Lanes

__all__ = ["Weights", "shipped", "tone_share"]

_UNIT = 0.01
_LEAST = 0.05
"""Margin up to which a pattern is no evidence."""
_ONE = 1 << 32
"""What counts once; a lane has room for the sum of millions of such."""


class Weights:
    """Weights by feature number, and what finds the features.

    Attributes:
        contexts: what the columns of the weights are for.
        extractor: finds the features.
        temperature: what scores are divided by before they become shares.
        earlier: how much an earlier message counts when the current one is short, and when it is long.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.contexts: tuple[str, ...] = tuple(data["contexts"])
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
        self._lanes = Lanes(len(self.contexts))
        pack = self._lanes.pack
        self._bias = pack([round(bias / _UNIT) * _ONE for bias in data["bias"]])
        self._rows = [pack(row) for row in rows.values()]
        self._tones = {word: pack(row) for word, row in data["tones"].items()}
        self.extractor = Extractor(entries, {name: number for number, name in enumerate(rows)}, self._tones)
        self._margins = [_Margins(self._lanes, self._rows, self._tones, column) for column in range(len(self.contexts))]

    def scores(self, texts: Iterable[tuple[Found, float]]) -> list[float]:
        """Add up what the features of texts say for each context, each text counted by its share."""
        total = self._bias
        for found, share in texts:
            total += round(share * _ONE) * sum(map(self._rows.__getitem__, found.present))
            for number, strength in found.strengths.items():
                total += round(share * strength * _ONE) * self._rows[number]
            if found.tones:
                part = share * tone_share(len(found.tones))
                total += round(part * _ONE) * sum(map(self._tones.__getitem__, found.tones))
        return [lane * (_UNIT / _ONE) for lane in self._lanes.unpack(total)]

    def margins(self, texts: Iterable[tuple[Found, float]], column: int) -> dict[Pattern, float]:
        """Give the patterns that say more for one context than for the average one, with how much."""
        known = self._margins[column]
        said: dict[Pattern, float] = {}
        for found, share in texts:
            for pattern, numbers in found.patterns:
                if (margin := known[numbers]) > _LEAST:
                    said[pattern] = said.get(pattern, 0.0) + share * margin
            part = tone_share(len(found.tones))
            for word in found.tones:
                if (margin := part * known[word]) > _LEAST:
                    said[word] = said.get(word, 0.0) + share * margin
        return said


def tone_share(count: int) -> float:
    """Tell how much each of *count* toned words says: many say less each."""
    return 1.0 / sqrt(count + 1)


class _Margins(dict[str | Numbers, float]):
    """How much more features, or a toned word, say for one context than for the average one; filled as they show."""

    def __init__(self, lanes: Lanes, rows: Sequence[int], tones: Mapping[str, int], column: int) -> None:
        self._lanes, self._rows, self._tones, self._column = lanes, rows, tones, column

    def __missing__(self, shown: str | Numbers) -> float:
        packed = self._tones[shown] if isinstance(shown, str) else sum(self._rows[number] for number in shown)
        row = self._lanes.unpack(packed)
        margin = self[shown] = _UNIT * (row[self._column] - sum(row) / len(row))
        return margin


@cache
def shipped() -> Weights:
    """Load the model, once."""
    return Weights(json.loads((files(__package__) / "context.json").read_text(encoding="utf-8")))
