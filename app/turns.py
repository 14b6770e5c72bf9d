"""Long work in turns: whatever else the worker has to do goes on between its parts."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["EVENT_WORK", "TURN_WORK", "Pause", "give_way"]

Pause = Callable[[], object]
"""Called between the parts of long work."""
TURN_WORK = 1024
"""Characters that one stream works on before others have their turn: a millisecond or two of the worst text."""
EVENT_WORK = 50
"""What an event costs beside its text, in characters."""
_SHORTEST = 1e-9


def give_way() -> None:
    """Let other greenlets and the event loop run, where gevent has replaced ``sleep``; threads need no leave.

    gevent looks for what has come in, and for timers, only once per fifty greenlets that sleep for no time at all; it
    does each time where one sleeps at least so long that a timer is set.
    """
    if time.sleep.__module__ != "time":
        time.sleep(_SHORTEST)
