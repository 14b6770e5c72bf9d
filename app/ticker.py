"""One thread per process that looks, a few times a second, at the open streams that something is due for.

A timed wait per stream would do the same for many times the cost when many streams are quiet.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Protocol

from .drain import drain
from .faults import told
from .hangups import Hangups

__all__ = ["Ticker", "Watched"]

log = logging.getLogger("sluice")

_LINGER = 25
"""Ticks without a stream after which the thread ends; the next stream starts it anew."""


class Watched(Protocol):
    """What a ticker looks at."""

    def check(self, now: float) -> float | None:
        """Do what is due at monotonic time *now*; called from the ticker's thread, must not block.

        Gives the monotonic time before which nothing can be due, or None to be looked at again at the next tick. A look
        comes before it all the same when the connection was closed at the other end, and when a drain is over.
        """


class Ticker:
    """Calls ``check`` of everything added, at most once a period.

    Args:
        period: seconds between two looks.
    """

    def __init__(self, period: float) -> None:
        self.period = period
        self._watched: dict[Watched, int] = {}
        """Each with its connection's descriptor, or -1."""
        self._due: dict[Watched, float] = {}
        self._hangups = Hangups()
        self._lock = threading.Lock()
        self._running_in: int | None = None

    def __len__(self) -> int:
        return len(self._watched)

    def add(self, item: Watched, descriptor: int = -1) -> bool:
        """Watch *item* until it is removed.

        Args:
            descriptor: of the connection that the item serves.

        Returns:
            Whether there will be a look as soon as that connection is closed at its other end.
        """
        is_told = self._hangups.watch(descriptor, item)
        self._watched[item] = descriptor
        # A forked child inherits the notes of a thread that it does not have.
        if self._running_in != os.getpid():
            self._start()
        return is_told

    def remove(self, item: Watched) -> None:
        """Stop watching *item*; harmless when it is not watched."""
        descriptor = self._watched.pop(item, -1)
        if descriptor >= 0:
            self._hangups.forget(descriptor, item)

    def _start(self) -> None:
        with self._lock:
            if self._running_in == os.getpid():
                return
            try:
                threading.Thread(target=self._run, name="sluice-ticker", daemon=True).start()
            except RuntimeError:
                log.error("no thread can be started to watch the streams; the next stream tries again")
            else:
                self._running_in = os.getpid()

    def _run(self) -> None:
        idle = 0
        while True:
            time.sleep(self.period)
            self._look(time.monotonic())
            idle = 0 if self._watched else idle + 1
            if idle > _LINGER and self._may_end():
                return

    def _look(self, now: float) -> None:
        gone, is_over, before, due = self._hangups.found(), drain.is_over(), self._due, {}
        for item in list(self._watched):
            at = before.get(item, now)
            if at <= now or is_over or item in gone:
                at = self._checked(item, now)
            due[item] = at
        self._due = due  # made anew, so that what was removed meanwhile is not kept

    def _checked(self, item: Watched, now: float) -> float:
        try:
            at = item.check(now)
        except Exception as error:
            log.error("a look at a stream failed: %s", told(error))
            return now
        return now if at is None else at

    def _may_end(self) -> bool:
        with self._lock:
            # Cleared before the look: a stream added after it starts a thread of its own.
            self._running_in = None
            if not self._watched:
                return True
            self._running_in = os.getpid()
            return False
