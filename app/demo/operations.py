"""What a script comes down to: the few things the upstream does on a connection, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "Body",
    "Close",
    "End",
    "Ending",
    "Head",
    "Hold",
    "Limit",
    "Operation",
    "Raw",
    "RawHead",
    "Shape",
    "Silence",
    "Wait",
]

Ending = Literal["clean", "fin", "rst"]
Framing = Literal["chunked", "close", "length"]


@dataclass(frozen=True, slots=True)
class Head:
    """The response's head. `length` without a value collects the body until its end."""

    status: int = 200
    reason: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    framing: Framing = "chunked"
    length: int | None = None
    gzip: bool = False
    keep_alive: bool = True


@dataclass(frozen=True, slots=True)
class RawHead:
    """A head spelled out byte by byte; what follows is sent unframed."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes of the body; one operation is one event where events are written."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes for the socket as they are, past framing and compression."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Shape:
    """How the following bytes are grouped; 0 holds everything until the next flush, None leaves the grouping alone.

    events: events per HTTP chunk. bytes: body bytes per HTTP chunk. chunks: HTTP chunks per packet.
    packet: wire bytes per packet. delay: seconds between packets.
    """

    events: int | None = None
    bytes: int | None = None
    chunks: int | None = None
    packet: int | None = None
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Limit:
    """Cut the answer after so many bytes, counted from here on: of the body, or of the wire with head and framing."""

    count: int
    how: Ending = "fin"
    of: Literal["body", "wire"] = "body"


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause in seconds; held bytes go out before it."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    """A pause until the upstream is told to go on; held bytes go out before it."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing more, ever, until the peer leaves."""


@dataclass(frozen=True, slots=True)
class End:
    """The proper end of the body."""


@dataclass(frozen=True, slots=True)
class Close:
    """The connection's end, proper or not, whatever was sent."""

    how: Ending = field(default="fin")


Operation = Head | RawHead | Body | Raw | Shape | Limit | Wait | Hold | Silence | End | Close
