"""What ratings teach AutoTune: two moving averages per context, and the adjustment between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["ALPHA", "MIN_SAMPLES", "NEUTRAL", "adjustment", "average", "weight"]

ALPHA = 0.3
MIN_SAMPLES = 3
NEUTRAL = {
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 50.0,
    "frequency_penalty": 0.2,
    "presence_penalty": 0.2,
    "repetition_penalty": 1.1,
}
"""Where both averages start."""

_FULL_SAMPLES = 20
_MAX_WEIGHT = 0.5
_SMALLEST = 0.01


def average(ratings: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Take the exponential moving average of the parameters that were rated alike, oldest first."""
    found = dict(NEUTRAL)
    for params in ratings:
        for name, value in params.items():
            found[name] += ALPHA * (value - found[name])
    return found


def adjustment(liked: list[Mapping[str, float]], disliked: list[Mapping[str, float]]) -> dict[str, float]:
    """Give what to add to each parameter at full weight: half the way from what was disliked to what was liked.

    Likes alone tell from the third on, dislikes alone nothing; what is no larger than 0.01 is left out.
    """
    if not liked or (not disliked and len(liked) < MIN_SAMPLES):
        return {}
    towards = average(liked)
    away = average(disliked)
    found = {name: ((towards[name] - base) - (away[name] - base)) * 0.5 for name, base in NEUTRAL.items()}
    return {name: value for name, value in found.items() if abs(value) > _SMALLEST}


def weight(samples: int) -> float:
    """Give how much of an adjustment *samples* ratings of a context justify, 0 to 0.5."""
    return min(samples / _FULL_SAMPLES * 0.5, _MAX_WEIGHT) if samples >= MIN_SAMPLES else 0.0
