"""Whether this worker is shutting down, and until when its streams may go on.

Only gunicorn's hooks know (``flask_sluice.gunicorn``); everywhere else nothing drains.
"""

from __future__ import annotations

import time
from typing import Any

__all__ = ["MARGIN", "Drain", "drain"]

MARGIN = 2.5
"""Seconds before gunicorn's graceful_timeout at which open streams are ended, so that each still gets its ending."""


class Drain:
    """The drain of one process."""

    def __init__(self) -> None:
        self._worker: Any = None
        self._since: float | None = None
        self.graceful_timeout = 30.0

    @property
    def is_watched(self) -> bool:
        """Whether a server's worker tells us of its shutdown."""
        return self._worker is not None

    def watch(self, worker: Any, graceful_timeout: float) -> None:
        """Follow *worker*: anything whose ``alive`` turns false at shutdown."""
        self._worker, self.graceful_timeout, self._since = worker, graceful_timeout, None

    @property
    def has_begun(self) -> bool:
        """Whether the worker is shutting down."""
        return self._worker is not None and not self._worker.alive

    def is_over(self) -> bool:
        """Whether open streams have to end now."""
        if not self.has_begun:
            return False
        now = time.monotonic()
        if self._since is None:
            self._since = now
        return now - self._since >= max(self.graceful_timeout - MARGIN, 0.0)


drain = Drain()
"""This process' drain. It is set after a worker has forked, never before."""
