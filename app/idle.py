"""Connections to upstream that wait for a next request, and for how long they may."""

from __future__ import annotations

import queue
import time
from collections import deque
from typing import Any

from .ticker import Ticker

__all__ = ["IdleConnections"]

KEPT = 60.0
"""Seconds for which a connection is kept that nobody uses."""
_LOOK = 1.0
"""Seconds between two looks."""


class IdleConnections:
    """A pool's connections, those used last on top; closes what nobody has used for ``KEPT`` seconds.

    So a busy hour leaves no descriptors behind: upstream closes idle connections as well, but that alone does not give
    ours back. Stands in for urllib3's queue, without its locks: what is done to a deque is done at once.

    Args:
        ticker: lets it look at them.
        size: most connections that are kept.
    """

    def __init__(self, ticker: Ticker, size: int) -> None:
        self._ticker, self._size = ticker, size
        self._idle: deque[tuple[float, Any]] = deque()
        self._next_look = 0.0

    def qsize(self) -> int:
        """Tell how many are kept."""
        return len(self._idle)

    def put(self, connection: Any, block: bool = False) -> None:
        """Keep *connection*; None, which urllib3 puts for each that there might be, is not kept.

        Raises:
            queue.Full: there are too many.
        """
        if connection is None:
            return
        if len(self._idle) >= self._size:
            raise queue.Full
        self._idle.append((time.monotonic(), connection))
        self._ticker.add(self)

    def get(self, block: bool = False, timeout: float | None = None) -> Any:
        """Give the connection that was used last.

        Raises:
            queue.Empty: none is idle; a new one can be made at any time.
        """
        try:
            return self._idle.pop()[1]
        except IndexError:
            raise queue.Empty from None

    def check(self, now: float) -> None:
        """Close what has been idle for too long."""
        if now < self._next_look:
            return
        self._next_look = now + _LOOK
        self._ticker.remove(self)  # first: what comes back meanwhile adds this again
        self._close_before(now - KEPT)
        if self._idle:
            self._ticker.add(self)

    def _close_before(self, since: float) -> None:
        while True:
            try:
                entry = self._idle.popleft()
            except IndexError:
                return
            if entry[0] >= since:
                self._idle.appendleft(entry)
                return
            entry[1].close()
