"""Server-Sent Events without IO: bytes to lines, lines to events, events to bytes.

The rules are those of the HTML standard, section 9.2 "Server-sent events":
https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "PAUSE",
    "Comment",
    "EventDecoder",
    "EventTooLong",
    "LineBuffer",
    "ServerSentEvent",
    "encode_comment",
    "encode_data",
]

_BOM = b"\xef\xbb\xbf"


class EventTooLong(ValueError):
    """One line, or one event's data, is over the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"over {limit} bytes")


class ServerSentEvent(NamedTuple):
    """One dispatched event; ``data`` is UTF-8, its lines joined by LF."""

    data: bytes
    event: bytes = b"message"
    id: bytes = b""
    retry: int | None = None


class Comment(bytes):
    """The text of a line that starts with a colon."""

    __slots__ = ()


class _Pause(bytes):
    """Stands among the lines where all that has come was given; passes through ``iter_lines`` as it is."""

    def splitlines(self, keepends: bool = False) -> list[bytes]:
        return [self]


PAUSE = _Pause()
"""Among a response's lines: the next one is to be waited for, or the wait was broken off."""


class LineBuffer:
    """Cuts a byte stream into whole lines, which LF, CRLF or CR end.

    Args:
        limit: longest line in bytes that may wait for its end.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._after_cr = False

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; give the whole lines they complete, each ended by LF, perhaps none.

        Raises:
            EventTooLong: a line that did not come in one piece is over the limit.
        """
        if self._after_cr and data:
            # A CR ended its line at once; the LF of a CRLF cut in two belongs to that same line end.
            self._after_cr = False
            if data[0] == 10:
                data = data[1:]
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        end = data.rfind(b"\n") + 1
        if not end:
            self._rest += data
            if len(self._rest) > self._limit:
                raise EventTooLong(self._limit)
            return b""
        if not self._rest:
            if end == len(data):
                return data
            self._rest += data[end:]
            return data[:end]
        if len(self._rest) + data.find(b"\n") > self._limit:
            raise EventTooLong(self._limit)
        self._rest += data[:end]
        block = bytes(self._rest)
        self._rest = bytearray(data[end:])
        return block

    @property
    def is_partial(self) -> bool:
        """Whether a line has begun and not ended."""
        return bool(self._rest)

    def flush(self) -> bytes:
        """Give the unfinished last line at the end of the stream."""
        rest, self._rest = bytes(self._rest), bytearray()
        return rest


class EventDecoder:
    """Makes events of lines.

    An event without its blank line is not dispatched by the standard; ``flush`` offers it for those who are lenient.

    Args:
        limit: most bytes of data in one event.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data: list[bytes] = []
        self._size = 0
        self._event = b""
        self._id = b""
        self._retry: int | None = None
        self._first = True
        self.stray = b""
        """The first line that was no field of the standard, clipped: how a body that is no event stream begins."""

    def feed(self, line: bytes) -> ServerSentEvent | Comment | None:
        """Take one line without its end; give the event that a blank line dispatches, or a comment.

        Raises:
            EventTooLong: the data of this event is over the limit.
        """
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if line.startswith(b"data:"):
            self._append(line[6:] if line.startswith(b"data: ") else line[5:])
            return None
        if not line:
            return self._dispatch()
        if line.startswith(b":"):
            return Comment(_repaired(line[1:]))
        self._field(line)
        return None

    def flush(self) -> ServerSentEvent | None:
        """Give the event that was still waiting for its blank line."""
        return self._dispatch()

    @property
    def is_pending(self) -> bool:
        """Whether an event has begun."""
        return bool(self._data)

    @property
    def is_idle(self) -> bool:
        """Whether no field of an event has come since the last one was dispatched."""
        return not (self._data or self._event)

    def _append(self, value: bytes) -> None:
        self._size += len(value) + bool(self._data)  # an LF joins it to the line before
        if self._size > self._limit:
            raise EventTooLong(self._limit)
        self._data.append(value)

    def _dispatch(self) -> ServerSentEvent | None:
        event, self._event = self._event, b""
        if not self._data:
            return None
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data = []
        self._size = 0
        return ServerSentEvent(_repaired(data), event or b"message", self._id, self._retry)

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._event = value
        elif name == b"data":
            self._append(value)
        elif name == b"id":
            if b"\0" not in value:
                self._id = value
        elif name == b"retry":
            if value.isdigit():
                self._retry = int(value[:12])
        elif not self.stray:
            self.stray = line[:65536]


def _repaired(data: bytes) -> bytes:
    """Put U+FFFD for what is no UTF-8, as the standard decodes."""
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            return data.decode(errors="replace").encode()
    return data


def encode_data(data: bytes) -> bytes:
    """Write one event with *data*, which must hold no line end (JSON by ``wire.dumps`` holds none)."""
    return b"data: %b\n\n" % data


def encode_comment(text: bytes) -> bytes:
    """Write one comment, as a block of its own so that it never joins an event."""
    return b":%b\n\n" % text
