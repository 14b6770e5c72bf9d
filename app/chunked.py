"""HTTP's chunked framing (RFC 9112, section 7.1), taken off a block at a time.

http.client takes it off a line and a piece at a time, which for a stream of small chunks costs more than everything
that is then done with them.
"""

from __future__ import annotations

import re

__all__ = ["ChunkedDecoder"]

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;.*)?\r?")
_LINE_LIMIT = 65_536
"""Longest size line, with its extensions, and most bytes of trailers."""


class ChunkedDecoder:
    """Turns the bytes of a chunked body, however cut, into the body.

    Attributes:
        is_done: the last chunk and its trailers have come; what follows them is dropped.
        sound: the body that came in one block with what is none, before it.
    """

    def __init__(self) -> None:
        self.is_done = False
        self.sound = b""
        self._rest = b""  # the beginning of what is no chunk's data: a size line, a line end, trailers
        self._left = 0  # bytes still to come of a chunk's data
        self._is_after_data = False
        self._is_in_trailers = False
        self._trailers = 0

    def feed(self, data: bytes) -> bytes:
        """Give what *data* holds of the body.

        Raises:
            ValueError: this is no chunked framing.
        """
        parts: list[bytes] = []
        try:
            self._take(data, parts)
        except ValueError:
            self.sound = b"".join(parts)
            raise
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _take(self, data: bytes, parts: list[bytes]) -> None:
        if self._rest:
            data, self._rest = self._rest + data, b""
        at = 0
        while at < len(data) and not self.is_done:
            if self._left:
                part = data[at : at + self._left]
                parts.append(part)
                at += len(part)
                self._left -= len(part)
                self._is_after_data = not self._left
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self._keep(data[at:])
                break
            self._line(data[at:end])
            at = end + 1

    def _line(self, line: bytes) -> None:
        """Take a line that is no chunk's data, without its LF."""
        if self._is_in_trailers:
            self.is_done = line in (b"", b"\r")
            self._trailers += len(line)
            if self._trailers > _LINE_LIMIT:
                raise ValueError("the trailers behind the last chunk are too long")
        elif self._is_after_data:
            if line not in (b"", b"\r"):
                raise ValueError("a chunk's data is not followed by a line end")
            self._is_after_data = False
        elif found := _SIZE.fullmatch(line):
            self._left = int(found[1], 16)
            self._is_in_trailers = not self._left
        else:
            raise ValueError("expected the size of a chunk")

    def _keep(self, rest: bytes) -> None:
        if len(rest) > _LINE_LIMIT:
            raise ValueError("a line of the chunked framing is too long")
        self._rest = rest
