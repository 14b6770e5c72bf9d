"""What kind of conversation a message belongs to: a linear model over words, where they stand, and signs.

The model is data, fitted offline by ``scripts/fit_context.py``; each decision can be explained by the pieces that
spoke for it. The work is bounded: of long messages only both ends are looked at.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from .features import Extractor, Found

__all__ = ["CONTEXTS", "Detection", "Evidence", "detect"]

CONTEXTS = ("code", "creative", "analytical", "conversational", "chaotic")
_EARLIER = 4
"""Messages before the current one that are looked at, each with a lower weight."""
_EARLIER_HEAD = 500
_MAX_EVIDENCE = 10
_MAX_PATTERN = 40


class Evidence(NamedTuple):
    """One thing that spoke for the context: a word or sign, and where it was found."""

    pattern: str
    source: str


class Detection(NamedTuple):
    """A decision: the context, how sure it is (0 to 1), what spoke for it, and each context's score and share."""

    context: str
    confidence: float
    evidence: tuple[Evidence, ...]
    scores: tuple[tuple[str, float, float], ...]

    def ranked(self) -> list[tuple[str, float, float]]:
        """Give (context, score, share 0 to 1), best first."""
        return sorted(self.scores, key=lambda entry: -entry[1])


class _Model:
    """The fitted weights."""

    def __init__(self, data: dict[str, Any]) -> None:
        numbers = {name: number for number, name in enumerate(data["names"])}
        self.extractor = Extractor(data["entries"], numbers)
        self.weights: list[tuple[float, ...]] = [tuple(row) for row in data["weights"]]
        self.bias: list[float] = data["bias"]
        self.temperature: float = data["temperature"]
        self.history: float = data["history"]

    def scores(self, found: Found) -> list[float]:
        """Give each context's score of one text."""
        a = b = c = d = e = 0.0
        weights = self.weights
        for number, value in found.values.items():
            v, w, x, y, z = weights[number]
            a += value * v
            b += value * w
            c += value * x
            d += value * y
            e += value * z
        return [a, b, c, d, e]


@cache
def _model() -> _Model:
    return _Model(json.loads((files(__package__) / "context.json").read_text(encoding="utf-8")))


def detect(message: str, history: Sequence[str] = ()) -> Detection:
    """Decide on the context of *message* after *history* (oldest first)."""
    model = _model()
    current = model.extractor.extract(message)
    scores = [one + bias for one, bias in zip(model.scores(current), model.bias, strict=True)]
    earlier = [model.extractor.extract(text, head=_EARLIER_HEAD, tail=0) for text in history[-_EARLIER:]]
    for found in earlier:
        share = model.history / len(earlier)
        scores = [one + share * other for one, other in zip(scores, model.scores(found), strict=True)]
    shares = _shares([score / model.temperature for score in scores])
    best = max(range(len(CONTEXTS)), key=scores.__getitem__)
    evidence = [*_evidence(model, current, best, "current")]
    for found in earlier:
        evidence += [(weight * model.history, piece) for weight, piece in _evidence(model, found, best, "history")]
    return Detection(
        CONTEXTS[best],
        round(shares[best], 4),
        _strongest(evidence),
        tuple(zip(CONTEXTS, scores, shares, strict=True)),
    )


def _shares(scores: list[float]) -> list[float]:
    highest = max(scores)
    powers = [math.exp(score - highest) for score in scores]
    whole = sum(powers)
    return [power / whole for power in powers]


def _evidence(model: _Model, found: Found, best: int, source: str) -> list[tuple[float, Evidence]]:
    """Give what spoke for a context more than for the others, with how much."""
    pieces: dict[str, float] = {}
    for pattern, numbers in found.patterns:
        for number in numbers:
            row = model.weights[number]
            pieces[pattern] = pieces.get(pattern, 0.0) + row[best] - sum(row) / len(row)
    return [(weight, Evidence(pattern, source)) for pattern, weight in pieces.items() if weight > 0.05]


def _strongest(evidence: list[tuple[float, Evidence]]) -> tuple[Evidence, ...]:
    short = [pair for pair in evidence if len(pair[1].pattern) <= _MAX_PATTERN]
    short.sort(key=lambda pair: (-pair[0], pair[1]))
    return tuple(dict.fromkeys(piece for _, piece in short[:_MAX_EVIDENCE]))
