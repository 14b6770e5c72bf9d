"""What kind of conversation a message belongs to: a linear model over words, where they stand, and signs.

The model is data, fitted offline by ``scripts/fit_context.py``; each decision can be explained by the pieces that
spoke for it. The work is bounded: of a long message only both ends are looked at, of a long history its last messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
    for text, share in earlier_shares(message, history, model.earlier) if history else ():
        texts.append((model.extractor.extract(text, head=EARLIER_HEAD, tail=EARLIER_TAIL), share))
    scores = model.scores(texts)
    shares = _shares(scores, model.temperature)
    best = scores.index(max(scores))
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


def _shares(scores: list[float], temperature: float) -> list[float]:
    highest = max(scores)
    powers = [math.exp((score - highest) / temperature) for score in scores]
    whole = sum(powers)
    return [power / whole for power in powers]


def _strongest(model: Weights, texts: list[tuple[Found, float]], best: int) -> tuple[Evidence, ...]:
    """Give the patterns that spoke for a context most; a pattern that showed several features counts by their sum."""
    found = [
        (margin, pattern, source)
        for source, part in (("current", texts[:1]), ("history", texts[1:]))
        for pattern, margin in model.margins(part, best).items()
    ]
    found.sort(key=itemgetter(0), reverse=True)
    return tuple([Evidence(_named(pattern), source) for _, pattern, source in found[:_MAX_EVIDENCE]])


def _named(pattern: Pattern) -> str:
    name = pattern if isinstance(pattern, str) else " ".join(pattern)
    return name if len(name) <= _MAX_PATTERN else f"{name[: _MAX_PATTERN - 1]}…"
