"""From operations to packets: head, transfer framing, compression and the shape of writes. No sockets here."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from http import HTTPStatus

from .operations import Ending, Head, Limit, Shape

__all__ = ["Framer"]


class Framer:
    """One response's way to the wire; every method yields the packets that are to be written now."""

    def __init__(self, *, http10: bool = False, persistent: bool = True) -> None:
        self.shape = Shape()
        self.keep_alive = persistent
        self.spent: Ending | None = None
        """How to end, once a limit has been reached; what comes after it is dropped."""
        self._http10 = http10
        self._framing = "close"
        self._collected: bytearray | None = None
        self._pending_head: Head | None = None
        self._gzip: zlib._Compress | None = None
        self._limit: Limit | None = None
        self._left = 0
        self._events: list[bytes] = []
        self._chunks: list[bytes] = []

    def head(self, head: Head) -> Iterator[bytes]:
        """Send the head, or keep it until the length of the body is known."""
        self._framing = "close" if self._http10 and head.framing == "chunked" else head.framing
        self.keep_alive = self.keep_alive and head.keep_alive and self._framing != "close"
        if head.gzip:
            self._gzip = zlib.compressobj(wbits=31)
        if self._framing == "length" and head.length is None:
            self._collected, self._pending_head = bytearray(), head
            return
        yield from self._packets(self._head_bytes(head, head.length))

    def raw_head(self, data: bytes) -> Iterator[bytes]:
        """Send a head as it is; only the end of the connection ends its body."""
        self._framing, self.keep_alive = "close", False
        yield from self._packets(data)

    def body(self, data: bytes) -> Iterator[bytes]:
        """Send one event, or gather it with others as the shape asks."""
        data = self._clip(data, "body")
        if not data:
            return
        self._events.append(data)
        if self.shape.events != 0 and len(self._events) >= (self.shape.events or 1):
            yield from self._release_events()

    def raw(self, data: bytes) -> Iterator[bytes]:
        """Send bytes past framing and compression."""
        yield from self.flush()
        yield from self._packets(data)

    def reshape(self, shape: Shape) -> Iterator[bytes]:
        """Let out what the old shape held, then follow the new one."""
        yield from self.flush()
        self.shape = shape

    def limit(self, limit: Limit) -> Iterator[bytes]:
        """Start counting towards a cut."""
        yield from self.flush()
        self._limit, self._left = limit, limit.count
        if limit.count <= 0:
            self.spent = limit.how

    def flush(self) -> Iterator[bytes]:
        """Let out whatever a shape holds back."""
        yield from self._release_events()
        yield from self._release_chunks()

    def end(self) -> Iterator[bytes]:
        """End the body as its framing demands."""
        yield from self._release_events()
        if self._gzip is not None:
            yield from self._chunk(self._gzip.flush())
        if self._framing == "chunked":
            self._chunks.append(b"0\r\n\r\n")
        yield from self._release_chunks()
        if self._pending_head is not None and self._collected is not None:
            head = self._head_bytes(self._pending_head, len(self._collected))
            yield from self._packets(head + bytes(self._collected))

    def _release_events(self) -> Iterator[bytes]:
        joined, self._events = b"".join(self._events), []
        size = self.shape.bytes or len(joined) or 1
        for start in range(0, len(joined), size):
            piece = joined[start : start + size]
            if self._gzip is not None:
                piece = self._gzip.compress(piece) + self._gzip.flush(zlib.Z_SYNC_FLUSH)
            yield from self._chunk(piece)

    def _chunk(self, piece: bytes) -> Iterator[bytes]:
        if self._collected is not None:
            self._collected += piece
            return
        if self._framing == "chunked":
            piece = b"%x\r\n%b\r\n" % (len(piece), piece)
        self._chunks.append(piece)
        if self.shape.chunks != 0 and len(self._chunks) >= (self.shape.chunks or 1):
            yield from self._release_chunks()

    def _release_chunks(self) -> Iterator[bytes]:
        joined, self._chunks = b"".join(self._chunks), []
        yield from self._packets(joined)

    def _packets(self, data: bytes) -> Iterator[bytes]:
        data = self._clip(data, "wire")
        size = self.shape.packet or len(data) or 1
        for start in range(0, len(data), size):
            yield data[start : start + size]

    def _clip(self, data: bytes, of: str) -> bytes:
        if self._limit is None or self._limit.of != of:
            return data
        data = data[: self._left]
        self._left -= len(data)
        if self._left == 0:
            self.spent = self._limit.how
        return data

    def _head_bytes(self, head: Head, length: int | None) -> bytes:
        try:
            reason = head.reason if head.reason is not None else HTTPStatus(head.status).phrase
        except ValueError:
            reason = "Unknown"
        lines = [f"HTTP/1.1 {head.status} {reason}"]
        lines += [f"{name}: {value}" for name, value in head.headers]
        if self._gzip is not None:
            lines.append("Content-Encoding: gzip")
        if self._framing == "chunked":
            lines.append("Transfer-Encoding: chunked")
        elif length is not None:
            lines.append(f"Content-Length: {length}")
        lines.append(f"Connection: {'keep-alive' if self.keep_alive else 'close'}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8")
