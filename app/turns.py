"""Long work on text in turns: whatever else the worker has to do goes on between its parts."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Pause", "give_way"]

Pause = Callable[[], object]
"""Called between the parts of long work."""


def give_way() -> None:
    """Let other threads run; under gevent, whose patching replaces ``sleep``, other greenlets and the event loop."""
    time.sleep(0)
