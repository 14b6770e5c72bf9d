"""Time as this machine grants it, so that what is promised within a second can be checked on a busy machine too."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import deque

__all__ = ["PATIENCE", "Clock", "granted", "let_pass"]

PATIENCE = 60.0
"""Seconds that a wait may last, at most; each ends as soon as what it waits for happens."""

_PERIOD = 0.01
_ticks: deque[float] = deque(maxlen=60_000)


class Clock:
    """Stands for ``time`` in a module: time that moves when told."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def granted(since: float, until: float | None) -> float:
    """Give the seconds between two moments of ``time.monotonic()``, as far as a thread that only waits was let run.

    Where nothing else runs that is all of them. Where such a thread comes to run every fifty milliseconds instead of
    every ten, a fifth of them: what is late then by as much is late by the machine.
    """
    assert until is not None
    ticks = list(_ticks)
    return (bisect_left(ticks, until) - bisect_left(ticks, since)) * _PERIOD


def let_pass(seconds: float) -> None:
    """Wait until so much time was granted, for what gives no sign when it is done."""
    since = time.monotonic()
    while granted(since, time.monotonic()) < seconds:
        time.sleep(_PERIOD)


def _tick() -> None:
    while True:
        _ticks.append(time.monotonic())
        time.sleep(_PERIOD)


threading.Thread(target=_tick, name="granted time", daemon=True).start()
