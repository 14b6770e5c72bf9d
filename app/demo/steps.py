"""Steps below the chunks: head and connection, time, lines, bytes, and how all of it is written.

README.md in this folder is the reference of all steps.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Any

from . import (
    content,  # noqa: F401  registers its steps
    endings,
)
from .operations import Body, End, Ending, Head, Hold, Operation, Raw, RawHead, Shape, Silence, Wait
from .registry import STEPS, ScriptError, step, whole
from .stream import Stream, Style

__all__ = ["STEPS", "ScriptError", "implicit_head"]


Pairs = dict[str, Any] | list[list[str]] | None
Bytes = str | bytes | dict[str, Any]


def _pairs(headers: Pairs) -> tuple[tuple[str, str], ...]:
    if isinstance(headers, dict):
        many = [(name, value if isinstance(value, list) else [value]) for name, value in headers.items()]
        return tuple((name, str(value)) for name, values in many for value in values)
    return tuple((str(name), str(value)) for name, value in headers or ())


def implicit_head(stream: Stream) -> Head:
    """The head of a good stream."""
    return Head(headers=(("Content-Type", "text/event-stream"), ("X-Generation-Id", stream.id)))


@step
def head(
    stream: Stream,
    status: int = 200,
    *,
    reason: str | None = None,
    headers: Pairs = None,
    type: str | None = "text/event-stream",
    framing: Any = "chunked",
    length: int | None = None,
    encoding: str | None = None,
    keep_alive: bool = True,
) -> Iterator[Operation]:
    if framing not in ("chunked", "close", "length") or encoding not in (None, "gzip", "identity"):
        raise ScriptError("step 'head': framing is chunked, close or length, encoding is gzip or identity")
    own = (("Content-Type", type),) if type is not None else ()
    pairs = (*own, ("X-Generation-Id", stream.id), *_pairs(headers))
    yield Head(int(status), reason, pairs, framing, length, encoding == "gzip", keep_alive)


@step
def raw_head(stream: Stream, data: Bytes) -> Iterator[Operation]:
    yield RawHead(_bytes(data))


@step
def answer(
    stream: Stream,
    status: int = 200,
    *,
    headers: Pairs = None,
    json: Any = ...,
    html: str | None = None,
    text: str | None = None,
    body: Bytes = b"",
    type: str | None = None,
    leading: str = "",
    framing: Any = "length",
    keep_alive: bool = True,
) -> Iterator[Operation]:
    if json is not ...:
        type, body = type or "application/json", stream.dumps(json)
    elif html is not None or text is not None:
        type, body = type or f"text/{'plain' if html is None else 'html'}; charset=utf-8", html or text or ""
    data = leading.encode() + _bytes(body)
    length = len(data) if framing == "length" else None
    yield from head(stream, status, headers=headers, type=type, framing=framing, length=length, keep_alive=keep_alive)
    yield Body(data)
    yield End()


@step
def hangup(stream: Stream, how: Ending = "fin") -> Iterator[Operation]:
    yield endings.close(how)


@step
def refuse(stream: Stream, how: Ending = "rst") -> Iterator[Operation]:
    yield endings.close(how)


@step
def wait(stream: Stream, seconds: float) -> Iterator[Operation]:
    yield Wait(float(seconds))


@step
def hold(stream: Stream, _: bool = True) -> Iterator[Operation]:
    yield Hold()


@step
def silence(stream: Stream, _: bool = True) -> Iterator[Operation]:
    yield Silence()


@step
def comment(stream: Stream, text: str | bool | None = None, *, blank: bool = True) -> Iterator[Operation]:
    words = text if isinstance(text, str) else "OPENROUTER PROCESSING"
    line = f": {words}" if words else ":"
    yield stream.lines([line, ""] if blank else [line])


@step
def data(
    stream: Stream, text: str = "", *, space: str | None = None, blank: bool = True, event: str | None = None
) -> Iterator[Operation]:
    yield stream.event(text, space=space, blank=blank, event=event)


@step
def lines(stream: Stream, lines: str | list[str]) -> Iterator[Operation]:
    yield stream.lines([lines] if isinstance(lines, str) else lines)


def _bytes(value: Bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if set(value) == {"hex"}:
        return bytes.fromhex(str(value["hex"]))
    if set(value) == {"base64"}:
        return base64.b64decode(value["base64"])
    if set(value) == {"fill"}:
        return b"x" * int(value["fill"])
    raise ScriptError('bytes are a string, {"hex": ...}, {"base64": ...} or {"fill": count}')


@whole
def bytes_(stream: Stream, data: Bytes) -> Iterator[Operation]:
    yield Body(_bytes(data))


@whole
def wire(stream: Stream, data: Bytes) -> Iterator[Operation]:
    yield Raw(_bytes(data))


@step
def garbage(stream: Stream, size: int = 64, *, seed: int = 1) -> Iterator[Operation]:
    yield Body(random.Random(seed).randbytes(size))


@step
def bom(stream: Stream, _: bool = True) -> Iterator[Operation]:
    yield Body(b"\xef\xbb\xbf")


@step
def style(
    stream: Stream,
    *,
    line_ending: str | None = None,
    space: str | None = None,
    json: str | None = None,
    ascii: bool | None = None,
    role: str | None = None,
) -> Iterator[Operation]:
    asked = {"line_ending": line_ending, "space": space, "json": json, "ascii": ascii, "role": role}
    kept = {name: getattr(stream.style, name) for name in asked}
    stream.style = Style(**(kept | {name: value for name, value in asked.items() if value is not None}))
    return
    yield


@step
def write(
    stream: Stream,
    *,
    events: int | None = None,
    bytes: int | None = None,
    chunks: int | None = None,
    packet: int | None = None,
    delay: float = 0.0,
) -> Iterator[Operation]:
    yield Shape(events, bytes, chunks, packet, delay)
