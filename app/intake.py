"""What comes in: one upstream response as JSON values and comments, in the order they came."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Protocol

from . import wire
from .chunks import chunk_of_completion
from .errors import GatewayError, UpstreamEmpty, UpstreamProtocolError
from .sse import PAUSE, Comment, EventDecoder, ServerSentEvent
from .template import Templates
from .turns import give_way

__all__ = ["Intake", "Response"]

_TAIL_LINES = 64
_IDLE_LINES = 512
"""Lines that make no event and are read before others have their turn: about half a millisecond's work."""


class Response(Protocol):
    """What is needed of an upstream response."""

    headers: Any
    last_read_at: float
    read_until: float
    is_partial: bool
    pauses: bool
    can_pause: bool
    is_over: bool

    def iter_lines(self) -> Iterator[bytes]:
        """Yield the lines of the body as they come."""

    def close(self) -> None:
        """Close the connection unless it was read to its end."""


class Intake:
    """Reads one response.

    Args:
        limit: most bytes of one event, or of a JSON body.

    Attributes:
        event_at: monotonic time of the last whole event; None before the first.
        is_done: upstream said that the answer is over.
        data: the bytes of the event whose value was yielded last.
        templates: to be taught by who makes chunks of the values.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._decoder = EventDecoder(limit)
        self._response: Response | None = None
        self._lines: Iterator[bytes] = iter(())
        self.event_at: float | None = None
        self.is_done = False
        self.templates = Templates()
        self.data = b""

    @property
    def read_at(self) -> float:
        """Monotonic time of the last bytes; 0 before the response."""
        return self._response.last_read_at if self._response is not None else 0.0

    @property
    def is_in_event(self) -> bool:
        """Whether an event has begun and not ended."""
        return self._decoder.is_pending or (self._response is not None and self._response.is_partial)

    def items(self, response: Response) -> Iterator[Any]:
        """Yield each event's JSON value, comments as ``Comment``, and ``PAUSE``, until ``[DONE]`` or the body's end.

        Of an event that fits a template only its text is yielded, as ``str``. A JSON body where a stream was asked
        for is one value. Events with empty data are passed over.

        Raises:
            UpstreamProtocolError: data is no JSON, or the body neither an event stream nor JSON.
            What iterating the response's lines raises.
        """
        self._response, self._lines = response, response.iter_lines()
        decode, match = self._decoder.feed, self.templates.match
        text: str | None = None  # of a data line that fits a template and is an event if the next line is blank
        before = b""
        idle = 0
        for line in self._lines:
            if line is PAUSE:
                yield PAUSE
                continue
            if text is not None:
                if not line:
                    self.event_at = response.last_read_at
                    yield text
                    text = None
                    continue
                decode(before)
                text = None
            elif self._decoder.is_idle and (text := match(line)) is not None:
                before = line
                continue
            if self.event_at is None and not self._decoder.is_pending and line.lstrip().startswith(b"{"):
                yield from self._whole(line)
                return
            event = decode(line)
            if event is None:
                idle += 1
                if idle > _IDLE_LINES:  # who takes the items gives way after these alone
                    idle = 0
                    give_way()
                continue
            if type(event) is Comment:
                yield event
                continue
            yield from self._values(event)  # type: ignore[arg-type]
            if self.is_done:
                return
        if text is not None:
            decode(before)
        # Lenient where the standard is not: an event whose blank line is missing at the end is taken.
        last = self._decoder.flush()
        if last is not None:
            yield from self._values(last)

    @property
    def is_over(self) -> bool:
        """Whether nothing of the response is left to be waited for."""
        return self._response is not None and self._response.is_over

    def read_tail(self, seconds: float) -> None:
        """Read on to the body's end, within bounds, so that the connection can be used again."""
        if self._response is not None:
            self._response.read_until = time.monotonic() + seconds
        for count, _ in enumerate(self._lines):
            if count > _TAIL_LINES:
                return

    def nothing(self) -> GatewayError:
        """Make the error of a response in which no answer began."""
        headers = self._response.headers if self._response is not None else {}
        kind = str(headers.get("Content-Type", "")).partition(";")[0].strip()[:60]
        if self._decoder.stray:
            return UpstreamProtocolError(f"upstream answered with {kind or 'something'} that is no event stream")
        return UpstreamEmpty("upstream ended the answer before it began")

    def _values(self, event: ServerSentEvent) -> tuple[Any, ...]:
        stripped = event.data.strip()
        if not stripped:
            return ()
        self.event_at = time.monotonic()
        if stripped == b"[DONE]":
            self.is_done = True
            return ()
        is_error = event.event == b"error"
        self.data = event.data
        try:
            value = wire.loads(event.data)
        except ValueError:
            if is_error:
                return ({"error": stripped.decode()},)
            raise UpstreamProtocolError("upstream sent an event that is no JSON: expected a completion chunk") from None
        if is_error and not _tells_more(value):
            return ({"error": value},)
        if not isinstance(value, dict):
            raise UpstreamProtocolError("upstream sent an event that is no JSON object: expected a completion chunk")
        return (value,)

    def _whole(self, first: bytes) -> Iterator[Any]:
        body = bytearray(first)
        for count, line in enumerate(self._lines):
            if line is PAUSE:
                yield PAUSE
                continue
            body += b"\n" + line
            if len(body) > self._limit:
                raise UpstreamProtocolError("upstream sent a JSON body over the limit (SLUICE_MAX_EVENT_BYTES)")
            if not count % _IDLE_LINES:
                give_way()
        try:
            value = wire.loads(bytes(body))
        except ValueError:
            raise UpstreamProtocolError("upstream sent neither an event stream nor JSON") from None
        self.event_at = time.monotonic()
        self.is_done = True
        yield chunk_of_completion(value) if isinstance(value, dict) else value


def _tells_more(value: Any) -> bool:
    """Whether an event named ``error`` holds a chunk or an error object, and is not the error itself."""
    return isinstance(value, dict) and ("error" in value or "choices" in value)
