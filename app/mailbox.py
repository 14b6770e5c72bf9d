"""A bounded queue between the one reader of a stream and its one consumer, made of two locks and a deque.

The reader waits while the consumer is behind (back-pressure), the consumer takes everything at once (coalescing),
and others may slip items in past the bound (heartbeats, endings). It costs less per item than ``queue.Queue`` under
gevent and under threads.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

__all__ = ["Mailbox"]


class Mailbox:
    """See the module.

    Args:
        limit: size of the items not yet taken at which ``put`` waits; one item may be larger.
    """

    def __init__(self, limit: int) -> None:
        self._limit: float = limit
        self._items: deque[Any] = deque()
        # Each counter has one writer and so needs no lock: the reader counts what it put, the consumer what it took.
        self._put = 0
        self._taken = 0
        self._reader_waits = False
        self._is_handed_over = False
        self._ready = threading.Lock()
        self._space = threading.Lock()
        self._ready.acquire()
        self._space.acquire()

    @property
    def is_full(self) -> bool:
        """Whether the reader would have to wait."""
        return self._put - self._taken >= self._limit

    def put(self, item: Any, size: int) -> None:
        """Add an item, the reader's way: waits while the mailbox is full."""
        while self._put - self._taken >= self._limit:
            self._reader_waits = True
            if self._put - self._taken >= self._limit:
                self._space.acquire()
        self._put += size
        self.slip(item)

    def slip(self, item: Any) -> None:
        """Add an item that does not count and never waits; from any thread."""
        self._items.append(item)
        # Appended before the look: a consumer that has been woken but has not yet taken will find it.
        if self._ready.locked():
            _release(self._ready)

    def take(self) -> list[Any]:
        """Wait for items and give all there are; perhaps none once it has been handed over."""
        items: list[Any] = []
        while not items and not self._is_handed_over:
            self._ready.acquire()
            items = self.take_now()
        return items

    def take_now(self) -> list[Any]:
        """Give all items there are, perhaps none."""
        items: list[Any] = []
        pop = self._items.popleft
        try:
            while True:
                items.append(pop())
        except IndexError:
            return items

    def taken(self, size: int) -> None:
        """Count what the consumer has taken; wakes a waiting reader."""
        self._taken += size
        if self._reader_waits:
            self._reader_waits = False
            _release(self._space)

    def hand_over(self) -> None:
        """Leave reading to the consumer: ``take`` comes back at once, and nothing is bound that it puts in itself."""
        self._is_handed_over = True
        self.lift()
        if self._ready.locked():
            _release(self._ready)

    def take_back(self) -> None:
        """Undo ``hand_over`` while nobody takes: from now on ``take`` waits again."""
        self._is_handed_over = False

    def lift(self) -> None:
        """Lift the bound for good: a waiting reader goes on, nothing waits any more."""
        self._limit = float("inf")
        self._reader_waits = False
        _release(self._space)


def _release(lock: threading.Lock) -> None:
    try:
        lock.release()
    except RuntimeError:
        pass  # someone else has just released it
