"""How long at a time a worker worked on one thing while others waited."""

from __future__ import annotations

import threading
import time

__all__ = ["Meter"]


class Meter:
    """Wants a turn every *period* seconds, in a thread, which is a greenlet where gevent has patched.

    Attributes:
        wall: the longest it waited for its turn beyond that, in seconds.
        cpu: the most CPU time that went by between two turns, in seconds.
    """

    def __init__(self, period: float) -> None:
        self.wall = self.cpu = 0.0
        self._period = period
        self._is_running = False

    def start(self) -> None:
        """Begin, in the worker; the second time nothing."""
        if not self._is_running:
            self._is_running = True
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            cpu, due = time.thread_time(), time.monotonic() + self._period
            time.sleep(self._period)
            self.cpu = max(self.cpu, time.thread_time() - cpu)
            self.wall = max(self.wall, time.monotonic() - due)
