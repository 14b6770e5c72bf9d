"""Times in buckets whose bounds grow by 9 % each: a percentile is at most 5 % off, and told to a tenth."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["bucket_of", "middle_of", "percentile"]

_GROWTH = math.log(1.09)
_SMALLEST = 0.1
"""Milliseconds; what records round to."""


def bucket_of(ms: float) -> int:
    """Give the bucket of a time of *ms* milliseconds."""
    return math.floor(math.log(max(ms, _SMALLEST)) / _GROWTH)


def middle_of(bucket: int) -> float:
    """Give the milliseconds that stand for a bucket: as far from its lower bound as from its upper one, as ratios."""
    return math.exp((bucket + 0.5) * _GROWTH)


def percentile(buckets: Sequence[tuple[int, int]], share: float) -> float | None:
    """Give the time, in milliseconds, that *share* (0 to 1) of the times do not exceed; None if there are none.

    *buckets* are pairs of a bucket and how many times it holds, in order.
    """
    rank = math.ceil(share * sum(amount for _, amount in buckets))
    for bucket, amount in buckets:
        rank -= amount
        if rank <= 0:
            return round(middle_of(bucket), 1)
    return None
