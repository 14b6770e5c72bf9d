"""What any bytes must be to the code that reads them first: each target takes bytes and raises where it is wrong.

The first bytes of an input say where it is cut; so one engine that knows nothing of streams finds the cuts too.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from app import wire
from app.bulk import is_bulky
from app.chat import parse_object, parse_request
from app.chunks import Normalizer
from app.errors import GatewayError, RequestError
from app.gateway import Gateway
from app.intake import Intake
from app.settings import Settings
from app.sse import EventDecoder, EventTooLong, LineBuffer, ServerSentEvent, encode_data
from app.template import content_of
from tests.test_sse import reference_events

__all__ = ["TARGETS"]

LIMIT = 4096


def cut(data: bytes) -> tuple[bytes, list[bytes]]:
    """Give what follows the first four bytes, and the same in parts whose sizes those say."""
    sizes, rest = [size % 61 + 1 for size in data[:4]] or [1], data[4:]
    parts, at, turn = [], 0, 0
    while at < len(rest):
        parts.append(rest[at : at + sizes[turn % len(sizes)]])
        at += len(parts[-1])
        turn += 1
    return rest, parts


def lines_of(parts: list[bytes]) -> list[bytes] | None:
    """Give the lines of a stream that comes in parts; None where one is over the limit."""
    buffer = LineBuffer(LIMIT)
    try:
        whole = b"".join(map(buffer.feed, parts))
    except EventTooLong:
        return None
    lines = whole.split(b"\n")[:-1]
    rest = buffer.flush()
    return [*lines, rest] if rest else lines


def lines(data: bytes) -> None:
    """Lines end at LF, CRLF and CR and at nothing else, wherever the reads fall, and long ones are refused."""
    whole, parts = cut(data)
    expected = re.split(rb"\r\n|\n|\r", whole)
    found = lines_of(parts)
    if found is None:
        assert max(map(len, expected)) > LIMIT
    else:
        assert (expected if expected[-1] else expected[:-1]) == found


def events(data: bytes) -> None:
    """Events are those of the standard, read from its words; what is written of them is read as the same."""
    whole, parts = cut(data)
    found_lines = lines_of(parts)
    if found_lines is None:
        return
    decoder = EventDecoder(LIMIT)
    try:
        items = [item for line in found_lines if (item := decoder.feed(line)) is not None]
    except EventTooLong:
        return
    found = [item.data for item in items if isinstance(item, ServerSentEvent)]
    assert reference_events(whole) == found
    for text in (text for text in found if b"\n" not in text):
        again = EventDecoder(2 * LIMIT)
        read = [again.feed(line) for line in encode_data(text).split(b"\n")[:-1]]
        assert [text] == [item.data for item in read if isinstance(item, ServerSentEvent)]


class _Response:
    """An upstream response whose body comes in parts."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts
        self.headers: dict[str, str] = {}
        self.last_read_at, self.read_until, self.is_partial = 1.0, 0.0, False

    def iter_lines(self) -> Iterator[bytes]:
        buffer = LineBuffer(LIMIT)
        for part in self._parts:
            yield from buffer.feed(part).split(b"\n")[:-1]
        if rest := buffer.flush():
            yield rest

    def close(self) -> None:
        """Nothing to close."""


def stream(data: bytes) -> None:
    """A body gives the same chunks however it is cut, with templates or without, or the same of our errors."""
    whole, parts = cut(data)
    plain = _chunks([whole], teach=False)
    assert plain == _chunks(parts, teach=False)
    assert plain == _chunks(parts, teach=True)


def _chunks(parts: list[bytes], *, teach: bool) -> tuple[list[Any], str | None]:
    intake, normalizer, found = Intake(LIMIT), Normalizer("chatcmpl-fuzz"), []
    normalizer.created = 1
    templates = intake.templates
    try:
        for item in intake.items(_Response(parts)):
            if isinstance(item, str):
                found.append(wire.loads(templates.render(item)))
            elif isinstance(item, dict):
                text = content_of(item) if teach and templates.may_learn else None
                made = normalizer.feed(item)
                if text is not None:
                    templates.learn(intake.data, text, made)
                found += [wire.loads(wire.dumps(chunk)) for chunk in made]
                if normalizer.failure is not None:
                    raise normalizer.failure
            elif not isinstance(item, bytes):
                normalizer.feed(item)
        found += [normalizer.finish_chunk(index) for index in normalizer.unfinished()]
    except (GatewayError, EventTooLong) as error:
        return found, type(error).__name__
    for chunk in found:
        assert chunk["id"] == "chatcmpl-fuzz" and isinstance(chunk["choices"], list)
        assert all(isinstance(choice["delta"], dict) for choice in chunk["choices"])
    return found, None


@functools.cache
def _gateway() -> Gateway:
    values = {"SLUICE_OPEN": "on", "SLUICE_PARSELTONGUE": "on", "SLUICE_PARSELTONGUE_TRIGGERS": "story,a"}
    return Gateway(Settings.from_mapping(values))


def request(data: bytes) -> None:
    """A body is refused by a request error, or goes through every stage to upstream as JSON that is read the same."""
    gateway = _gateway()
    try:
        run = gateway.pipeline.run(parse_request(data, gateway.settings, gateway.own_fields))
    except RequestError as error:
        json.dumps(error.to_object()).encode()
        return
    assert not run.errors, run.errors
    sent = wire.dumps(run.request.body)
    assert sent == wire.dumps(wire.loads(sent))
    assert run.request.body["stream"] is True and not gateway.own_fields & run.request.body.keys()


def document(data: bytes) -> None:
    """JSON comes back out as it went in, and what the standard library refuses is refused."""
    try:
        value = wire.loads(data)
    except ValueError:
        return
    written = wire.dumps(value)
    assert written == wire.dumps(wire.loads(written))
    plain = functools.partial(json.loads, parse_int=str, parse_float=str, parse_constant=_refused)
    assert plain(data.decode()) == plain(written.decode())


def _refused(name: str) -> None:
    raise AssertionError(f"{name} was taken for JSON")


def bulk(data: bytes) -> None:
    """The count of values in a JSON text errs by no more than its empty containers and what equal keys hide."""
    try:
        value = parse_object(data)
    except RequestError:
        is_bulky(data, 1)
        return
    nodes, empty = _count(value)
    hides = _has_equal_keys(data)
    for limit in (1, 5, 25):
        if len(data) >= 2 * limit:
            is_over = nodes - 1 + empty >= limit
            assert is_bulky(data, limit) is is_over or (hides and not is_over), (nodes, empty, limit)


def _has_equal_keys(data: bytes) -> bool:
    found: list[bool] = []

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        found.append(len(value) < len(pairs))
        return value

    json.loads(data, object_pairs_hook=look)
    return any(found)


def _count(value: Any) -> tuple[int, int]:
    nodes, empty, left = 0, 0, [value]
    while left:
        item = left.pop()
        nodes += 1
        if isinstance(item, (dict, list)):
            empty += not item
            left += item.values() if isinstance(item, dict) else item
    return nodes, empty


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (lines, events, stream, request, document, bulk)
}
