"""The body of a streaming response: an iterator whose ``close`` keeps the books.

A generator's ``finally`` is not run in every case (never started, HEAD, some servers' errors), an iterator's own
``close`` is called in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from .errors import GatewayError
from .relay import HEARTBEAT, Stream
from .sinks import Last

__all__ = ["EventBody", "LastBlock"]

_WRITE = 65536
"""Most bytes a server is given at once, so that a slow client is seen to make progress."""


class LastBlock(bytes):
    """A block that nothing follows, which a server may send together with its framing's end."""


class EventBody(Iterator[bytes]):
    """Gives a stream's events as blocks of bytes.

    The first block is a comment, which the server writes with the headers before upstream is contacted at all.

    Args:
        stream: is started by the second ``next`` unless it has been started, and closed by ``close``.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._greeted = False
        self._ended = False
        self._written = 0
        self._rest = memoryview(b"")

    def __iter__(self) -> EventBody:
        return self

    def __next__(self) -> bytes:
        if self._rest:
            return self._slice()
        if not self._greeted:
            self._greeted = True
            return HEARTBEAT
        if self._ended:
            raise StopIteration
        stream = self._stream
        stream.start()
        stream.mailbox.taken(self._written)
        items = stream.take()
        block = items[0] if len(items) == 1 else b"".join(items)
        self._ended = type(items[-1]) is Last
        self._written = len(block)
        if self._written > _WRITE:
            self._rest = memoryview(block)
            return self._slice()
        if not block:
            raise StopIteration
        return LastBlock(block) if self._ended else block

    def fail(self, error: GatewayError) -> None:
        """End the stream with *error* before anything of it is sent."""
        self._stream.fail(error)
        self._stream.close()

    def close(self) -> None:
        """End and account for the stream; idempotent."""
        self._stream.close()

    def __del__(self) -> None:
        # A middleware that wraps the body may forget to close it.
        self._stream.close()

    def _slice(self) -> bytes:
        block, self._rest = self._rest[:_WRITE], self._rest[_WRITE:]
        self._stream.wrote()
        return bytes(block)
