"""The time between the chunks of one stream, counted in the buckets of its histogram.

A stream has thousands of chunks, so each costs one search in a short tuple here; the histogram itself, with its locks,
is fed with the sums now and then.
"""

from __future__ import annotations

from bisect import bisect_left

__all__ = ["GAP_BOUNDS", "Gaps"]

GAP_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets in seconds; one more bucket takes what is longer."""


class Gaps:
    """One stream's gaps. One thread notes them; another may take what has come since it last did."""

    __slots__ = ("_counts", "_last", "_seconds", "_taken", "_taken_seconds")

    def __init__(self) -> None:
        # NOTE: only ever counted up, by the one thread that notes, so that taking needs no lock and loses nothing.
        self._counts = [0] * (len(GAP_BOUNDS) + 1)
        self._seconds = 0.0
        self._last: float | None = None
        self._taken = list(self._counts)
        self._taken_seconds = 0.0

    def note(self, at: float) -> None:
        """Note that a chunk came at monotonic time *at*."""
        last, self._last = self._last, at
        if last is not None:
            gap = at - last
            self._seconds += gap
            self._counts[bisect_left(GAP_BOUNDS, gap)] += 1

    def take(self) -> tuple[list[int], float]:
        """Give what came since the last call: gaps by bucket, and their sum in seconds. For one thread at a time."""
        counts, seconds = list(self._counts), self._seconds
        new = [now - before for now, before in zip(counts, self._taken, strict=True)]
        new_seconds = seconds - self._taken_seconds
        self._taken, self._taken_seconds = counts, seconds
        return new, new_seconds
