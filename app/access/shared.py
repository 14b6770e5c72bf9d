"""Redis, shared by all workers and machines: used with short waits, and left alone for a while once it fails."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ..errors import ConfigurationError

__all__ = ["Shared", "SharedAway", "open_shared"]

log = logging.getLogger("sluice")

P = ParamSpec("P")
T = TypeVar("T")

_TIMEOUT = 0.5
"""Seconds a connect, an answer, or a wait for a free connection may take."""
_PAUSE = 1.0
"""Seconds between two tries while Redis is away; meanwhile nobody waits for it."""
_CONNECTIONS = 64
_SCHEMES = ("redis://", "rediss://", "unix://")


class SharedAway(Exception):
    """Redis cannot be asked now."""


class Shared:
    """One process' connections to Redis.

    Args:
        client: a ``redis.Redis`` that does not retry.
        failures: what it raises when Redis cannot be asked.
    """

    def __init__(self, client: Any, failures: tuple[type[Exception], ...]) -> None:
        self.client = client
        self._failures = failures
        self._lock = threading.Lock()
        self._next_try = 0.0
        self.is_away = False
        """Whether the last try failed."""

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call *function*, which asks Redis.

        Raises:
            SharedAway: it failed, or the last try has and it is too early for the next.
        """
        self._check()
        try:
            result = function(*args, **kwargs)
        except self._failures as error:
            self._failed(error)
            raise SharedAway from error
        except Exception:
            self._answered()  # what it made of the answer is the caller's business
            raise
        self._answered()
        return result

    def _answered(self) -> None:
        if self.is_away:
            self.is_away = False
            log.warning("Redis (SLUICE_LIMIT_STORAGE) is back: limits are shared again")

    def _check(self) -> None:
        """Let one caller at a time through while Redis is away.

        Raises:
            SharedAway: this one is not it.
        """
        if not self.is_away:
            return
        with self._lock:
            if time.monotonic() < self._next_try:
                raise SharedAway
            self._next_try = time.monotonic() + _PAUSE

    def _failed(self, error: Exception) -> None:
        with self._lock:
            is_news, self.is_away = not self.is_away, True
            self._next_try = time.monotonic() + _PAUSE
        if is_news:
            # NOTE: its class only: the driver's own words may hold the address, and with it a password.
            kind = type(error).__name__
            log.error("Redis (SLUICE_LIMIT_STORAGE) cannot be asked (%s): SLUICE_LIMIT_ON_FAILURE decides", kind)


def open_shared(url: str) -> Shared | None:
    """Open what SLUICE_LIMIT_STORAGE names: None for ``memory``. Nothing is connected yet.

    Raises:
        ConfigurationError: it is neither ``memory`` nor an address of Redis, or the driver is missing.
    """
    if url in ("memory", "memory://"):
        return None
    if not url.startswith(_SCHEMES):
        raise ConfigurationError(f"SLUICE_LIMIT_STORAGE: expected memory or one of {', '.join(_SCHEMES)}...")
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError:
        raise ConfigurationError("SLUICE_LIMIT_STORAGE: Redis needs `pip install flask-sluice[redis]`") from None
    try:
        pool = redis.BlockingConnectionPool.from_url(
            url,
            max_connections=_CONNECTIONS,
            timeout=_TIMEOUT,
            socket_timeout=_TIMEOUT,
            socket_connect_timeout=_TIMEOUT,
            protocol=2,  # nothing beyond it is needed, and older servers know no other
            # A request that was sent may have been counted, so it is not sent again.
            retry=Retry(NoBackoff(), 0),
        )
        pool.connection_class(**pool.connection_kwargs)  # connects nothing; an unknown option would fail each request
    except (ValueError, TypeError):
        raise ConfigurationError("SLUICE_LIMIT_STORAGE: not an address of Redis, like redis://host:6379/0") from None
    return Shared(redis.Redis(connection_pool=pool), (redis.RedisError, OSError))
