"""Which of many connections the other end has closed, found by one question to the kernel.

To ask each socket costs more when a thousand streams are quiet than all else that is looked at: what a stream consists
of has long left the processor's cache.
"""

from __future__ import annotations

import contextlib
import logging
import select
import sys
from typing import Any

__all__ = ["Hangups"]

log = logging.getLogger("sluice")

_CLOSED: int | None = getattr(select, "POLLRDHUP", None)  # Linux: the other end sends no more, whatever is still unread


class Hangups:
    """Watched descriptors, each with the item that it belongs to.

    What it finds is a hint to look closely: a descriptor that was closed before it was forgotten may be another's.
    """

    def __init__(self) -> None:
        self._items: dict[int, Any] = {}
        self._poll: Any = _native_poll() if _CLOSED is not None else None

    def watch(self, descriptor: int, item: Any) -> bool:
        """Watch *descriptor*, -1 for none, and say whether its closing will be found."""
        if self._poll is None or descriptor < 0:
            return False
        self._items[descriptor] = item
        self._poll.register(descriptor, _CLOSED)
        return True

    def forget(self, descriptor: int, item: Any) -> None:
        """Stop watching *descriptor*, unless it is another item's by now."""
        if self._items.get(descriptor) is item:
            self._items.pop(descriptor, None)
            with contextlib.suppress(KeyError):
                self._poll.unregister(descriptor)

    def found(self) -> set[Any]:
        """Give the items whose other end has closed; never waits."""
        if not self._items:
            return set()
        try:
            return {self._items.get(descriptor) for descriptor, _ in self._poll.poll(0)}
        except OSError as error:
            log.error("connections cannot be asked together: %s", type(error).__name__)
            return set(self._items.values())


def _native_poll() -> Any:
    """Give the kernel's ``poll``, also where gevent put its own there, which makes a watcher for each descriptor."""
    monkey: Any = sys.modules.get("gevent.monkey")
    return monkey.get_original("select", "poll")() if monkey is not None else select.poll()
