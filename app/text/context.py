"""What kind of conversation a message belongs to: a linear model over words, where they stand, and signs.

The model is data, fitted offline by ``scripts/fit_context.py``; each decision can be explained by the pieces that
spoke for it. The work is bounded: of a long message only both ends are looked at, of a long history its last messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from heapq import nlargest
from operator import itemgetter
from typing import NamedTuple

from .features import Found, Pattern
from .weights import Weights, shipped

__all__ = ["CONTEXTS", "Detection", "Evidence", "detect", "earlier_shares"]

CONTEXTS = ("code", "creative", "analytical", "conversational", "chaotic")
EARLIER_HEAD, EARLIER_TAIL = 180, 60
"""Characters of an earlier message that are looked at."""
_EARLIER = 4
"""Earlier messages that are looked at."""
_FADING = 0.6
"""What each earlier message counts compared with the one after it."""
_SHORT = 8
"""Words up to which a message leans on what came before it."""
_MAX_EVIDENCE = 10
_MAX_PATTERN = 40


class Evidence(NamedTuple):
    """One thing that spoke for the context: a word, phrase or sign, and where: ``current`` or ``history``."""

    pattern: str
    source: str


class Detection(NamedTuple):
    """A decision: the context, how sure it is (0 to 1), and what spoke for it, best first.

    Attributes:
        scores: (context, score, share 0 to 1) of all contexts.
    """

    context: str
    confidence: float
    evidence: tuple[Evidence, ...]
    scores: tuple[tuple[str, float, float], ...]

    def ranked(self) -> list[tuple[str, float, float]]:
        """Give (context, score, share 0 to 1), best first."""
        return sorted(self.scores, key=lambda entry: -entry[2])


def detect(message: str, history: Sequence[str] = ()) -> Detection:
    """Decide on the context of *message* after *history* (oldest first)."""
    model = shipped()
    texts = [(model.extractor.extract(message), 1.0)]
    for text, share in earlier_shares(message, history, model.earlier):
        texts.append((model.extractor.extract(text, head=EARLIER_HEAD, tail=EARLIER_TAIL), share))
    scores = [*model.bias]
    for found, share in texts:
        for column, score in enumerate(model.scores(found)):
            scores[column] += share * score
    shares = _shares([score / model.temperature for score in scores])
    best = max(range(len(scores)), key=scores.__getitem__)
    return Detection(
        CONTEXTS[best],
        round(shares[best], 4),
        _strongest(model, texts, best),
        tuple(zip(CONTEXTS, scores, shares, strict=True)),
    )


def earlier_shares(message: str, history: Sequence[str], weights: tuple[float, float]) -> Iterator[tuple[str, float]]:
    """Give the earlier messages that count, each with how much it does, the latest first."""
    short, long = weights
    share = short if message.count(" ", 0, 400) < _SHORT else long
    texts = [text for text in history[-_EARLIER:] if text][::-1]
    whole = sum(_FADING**age for age in range(len(texts)))
    for age, text in enumerate(texts):
        yield text, share * _FADING**age / whole


def _shares(scores: list[float]) -> list[float]:
    highest = max(scores)
    powers = [math.exp(score - highest) for score in scores]
    whole = sum(powers)
    return [power / whole for power in powers]


def _strongest(model: Weights, texts: list[tuple[Found, float]], best: int) -> tuple[Evidence, ...]:
    """Give the patterns that spoke for a context most; a pattern that showed several features counts by their sum."""
    found: list[tuple[float, Pattern, str]] = []
    for source, part in (("current", texts[:1]), ("history", texts[1:])):
        pieces: dict[Pattern, float] = {}
        for shown, share in part:
            for margin, pattern in model.margins(shown, best):
                pieces[pattern] = pieces.get(pattern, 0.0) + share * margin
        found += [(margin, pattern, source) for pattern, margin in pieces.items()]
    strong = nlargest(_MAX_EVIDENCE, found, key=itemgetter(0))
    return tuple(Evidence(_named(pattern), source) for _, pattern, source in strong)


def _named(pattern: Pattern) -> str:
    name = pattern if isinstance(pattern, str) else " ".join(pattern)
    return name if len(name) <= _MAX_PATTERN else f"{name[: _MAX_PATTERN - 1]}…"
