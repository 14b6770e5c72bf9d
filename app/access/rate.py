"""Requests per time: ``60 per minute; 1000 per day``, in the syntax of the `limits` library, over moving windows."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from typing import Any, NamedTuple

from limits import RateLimitItem, parse_many
from limits.storage import MemoryStorage, RedisStorage
from limits.strategies import MovingWindowRateLimiter

from ..errors import ConfigurationError, RateLimited
from .shared import Shared

__all__ = ["Rates", "Standing", "read_rates"]

_PATIENCE = 60
"""Longest Retry-After in seconds that client libraries wait for; they would try again at once after a longer one."""
_PURGE_EACH = 16
_OURS = "sluice"
"""Begins our names in a Redis that others may use as well."""
_STEP = 1.0
"""Seconds by which a clock is put back, and does not merely drift."""


class Standing(NamedTuple):
    """How a caller stands with the rate that is nearest to its end: numbers of requests, seconds until one is free."""

    limit: int
    remaining: int
    reset: float

    def to_headers(self) -> dict[str, str]:
        """Give the headers that OpenAI's clients know, and those without a prefix that others do."""
        reset = max(math.ceil(self.reset), 0)
        return {
            "x-ratelimit-limit-requests": str(self.limit),
            "x-ratelimit-remaining-requests": str(self.remaining),
            "x-ratelimit-reset-requests": f"{reset}s",
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(reset),
        }


class Rates:
    """Counts the requests of each caller.

    Args:
        shared: Redis, or None to count in this process.
    """

    def __init__(self, shared: Shared | None = None) -> None:
        self._shared = shared
        self._lock = threading.RLock()
        self._made: MovingWindowRateLimiter | None = None
        self._offset = -math.inf  # of the clock to the monotonic one, when last looked at
        self._seen: OrderedDict[str, tuple[float, tuple[RateLimitItem, ...]]] = OrderedDict()

    @property
    def _limiter(self) -> MovingWindowRateLimiter:
        # Made when it is first used: in memory it starts a thread, which a fork would not take along.
        if self._made is None:
            with self._lock:
                self._made = self._made or MovingWindowRateLimiter(self._storage())
        return self._made

    def _storage(self) -> Any:
        if self._shared is None:
            return MemoryStorage()
        # The address is only looked at for its scheme: the pool has its own.
        pool = self._shared.client.connection_pool
        return RedisStorage("redis://", connection_pool=pool)

    def count(self, subject: str, rates: tuple[RateLimitItem, ...]) -> Standing | None:
        """Count a request of *subject*; None without *rates*.

        Raises:
            RateLimited: it is one too many; says when the next may come.
            SharedAway: Redis cannot be asked.
        """
        if not rates:
            return None
        if self._shared is not None:
            return self._shared.call(self._count, subject, rates)
        self._forget(subject, rates)
        return self._count(subject, rates)

    def _count(self, subject: str, rates: tuple[RateLimitItem, ...]) -> Standing:
        # The shortest window first: a request that it refuses must not use up a day's.
        refused = next((rate for rate in rates if not self._limiter.hit(rate, _OURS, subject)), None)
        if refused is not None:
            raise _refusal(refused, self._standing(refused, subject))
        return min((self._standing(rate, subject) for rate in rates), key=lambda found: found.remaining)

    def _standing(self, rate: RateLimitItem, subject: str) -> Standing:
        reset, remaining = self._limiter.get_window_stats(rate, _OURS, subject)
        return Standing(rate.amount, max(int(remaining), 0), reset - time.time())

    def _forget(self, subject: str, rates: tuple[RateLimitItem, ...]) -> None:
        """Let go of callers whose windows are over, a few at a time: the library keeps their names."""
        now, offset = time.monotonic(), time.time() - time.monotonic()
        with self._lock:
            if offset < self._offset - _STEP:
                # The clock was put back: windows would last longer by that, and lock callers out.
                self._limiter.storage.reset()
            self._offset = offset
            self._seen[subject] = (now + rates[-1].get_expiry(), rates)
            self._seen.move_to_end(subject)
            for _ in range(_PURGE_EACH):
                oldest, (until, known) = next(iter(self._seen.items()))
                if until > now:
                    return
                del self._seen[oldest]
                for rate in known:
                    self._limiter.clear(rate, _OURS, oldest)


def _refusal(rate: RateLimitItem, standing: Standing) -> RateLimited:
    wait = max(math.ceil(standing.reset), 1)
    headers = {**standing.to_headers(), "x-ratelimit-remaining-requests": "0", "RateLimit-Remaining": "0"}
    if wait > _PATIENCE:
        headers["x-should-retry"] = "false"
    return RateLimited(
        f"more than {rate} requests: the next one may come in {wait} s", retry_after=str(wait), headers=headers
    )


def read_rates(text: Any, where: str) -> tuple[RateLimitItem, ...]:
    """Read rates, several separated by ``;``; the shortest window comes first.

    Raises:
        ConfigurationError: says *where*.
    """
    try:
        found = parse_many(text) if isinstance(text, str) else []
    except ValueError:
        found = []
    if not found or any(item.amount < 1 or item.get_expiry() < 1 for item in found):
        raise ConfigurationError(f"{where}: expected rates like `60 per minute; 1000 per day`, got {str(text)[:60]!r}")
    return tuple(sorted(found, key=lambda item: item.get_expiry()))
