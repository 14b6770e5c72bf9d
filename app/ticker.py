"""One thread per process that looks at every open stream a few times a second.

A timed wait per stream would do the same for many times the cost when many streams are quiet.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Protocol

from .faults import told

__all__ = ["Ticker", "Watched"]

log = logging.getLogger("sluice")

_LINGER = 25
"""Ticks without a stream after which the thread ends; the next stream starts it anew."""


class Watched(Protocol):
    """What a ticker looks at."""

    def check(self, now: float) -> None:
        """Do what is due at monotonic time *now*; called from the ticker's thread, must not block."""


class Ticker:
    """Calls ``check`` of everything added, once a period.

    Args:
        period: seconds between two looks.
    """

    def __init__(self, period: float) -> None:
        self.period = period
        self._watched: set[Watched] = set()
        self._lock = threading.Lock()
        self._running_in: int | None = None

    def __len__(self) -> int:
        return len(self._watched)

    def add(self, item: Watched) -> None:
        """Watch *item* until it is removed."""
        self._watched.add(item)
        # A forked child inherits the notes of a thread that it does not have.
        if self._running_in != os.getpid():
            self._start()

    def remove(self, item: Watched) -> None:
        """Stop watching *item*; harmless when it is not watched."""
        self._watched.discard(item)

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
            now = time.monotonic()
            for item in list(self._watched):
                try:
                    item.check(now)
                except Exception as error:
                    log.error("a look at a stream failed: %s", told(error))
            idle = 0 if self._watched else idle + 1
            if idle > _LINGER and self._may_end():
                return

    def _may_end(self) -> bool:
        with self._lock:
            # Cleared before the look: a stream added after it starts a thread of its own.
            self._running_in = None
            if not self._watched:
                return True
            self._running_in = os.getpid()
            return False
