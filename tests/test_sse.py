"""The codec: any cut of a byte stream gives the same lines and events as the whole."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.sse import (
    Comment,
    EventDecoder,
    EventTooLong,
    LineBuffer,
    ServerSentEvent,
    encode_comment,
    encode_data,
)

LIMIT = 1 << 20
ODD = "a\u2028b\u2029c\u0085d\x0be\x0cf"
PIECES = st.one_of(
    st.sampled_from(
        [
            b"\n",
            b"\r",
            b"\r\n",
            b"\xef\xbb\xbf",
            b"data: ",
            b"data:",
            b"data",
            b"data\n",
            b": note",
            b":",
            b"event: x",
            b"id: 7",
            b"id: \0",
            b"retry: 30",
            b"retry: x",
            b"other: y",
            b" ",
            f"data: {ODD}".encode(),
            '{"a":"🔥"}'.encode(),
            b"\xff",
        ]
    ),
    st.binary(max_size=4),
)
STREAMS = st.lists(PIECES, max_size=25).map(b"".join)
Item = ServerSentEvent | Comment


def lines_of(parts: list[bytes]) -> list[bytes]:
    """Give the lines of a stream that comes in *parts*, the unfinished last one included."""
    buffer = LineBuffer(LIMIT)
    blocks = [buffer.feed(part) for part in parts]
    assert all(block == b"" or block.endswith(b"\n") for block in blocks)
    whole = b"".join(blocks)
    lines = whole.split(b"\n")[:-1]
    assert all(b"\r" not in line for line in lines)
    is_partial, rest = buffer.is_partial, buffer.flush()
    assert is_partial == bool(rest)
    assert not buffer.is_partial
    return [*lines, rest] if rest else lines


def events_of(parts: list[bytes]) -> list[Item]:
    decoder = EventDecoder(LIMIT)
    items = [decoder.feed(line) for line in lines_of(parts)]
    return [item for item in items if item is not None]


def reference_lines(data: bytes) -> list[bytes]:
    """Find the lines the plain way: the standard's grammar as one pattern over the whole."""
    parts = re.split(rb"\r\n|\n|\r", data)
    return parts if parts[-1] else parts[:-1]


def reference_events(data: bytes) -> list[bytes]:
    """Find the events' data by the standard's words, line by line, on decoded text."""
    text = data.decode(errors="replace").removeprefix("\ufeff")
    found, buffer = [], ""
    for line in re.split("\r\n|\n|\r", text)[:-1]:
        name, _, value = line.partition(":")
        if line == "":
            if buffer:
                found.append(buffer.removesuffix("\n").encode())
            buffer = ""
        elif name == "data":
            buffer += value.removeprefix(" ") + "\n"
    return found


def cuts(data: bytes, places: list[int]) -> list[bytes]:
    at = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(at)]


@given(STREAMS, st.lists(st.integers(0, 400), max_size=12))
@example(b"data: A\r\ndata: B\r\ndata: C\r\n\r\n", [16])
@example(b"\r\n\r\n", [1, 3])
@example(b"\xef\xbb\xbfdata: a\n\n", [1, 2])
@example(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", [])
def test_any_cut_gives_the_lines_of_the_whole(data: bytes, places: list[int]) -> None:
    """Lines end at LF, CRLF and CR and at nothing else, wherever the reads fall."""
    assert reference_lines(data) == lines_of(cuts(data, places))


@given(STREAMS)
def test_single_bytes_give_the_lines_of_the_whole(data: bytes) -> None:
    """The finest cut there is, and empty reads between, change nothing."""
    parts = [part for place in range(len(data)) for part in (data[place : place + 1], b"")]
    assert reference_lines(data) == lines_of(parts)


@given(STREAMS, st.lists(st.integers(0, 400), max_size=12))
def test_any_cut_gives_the_events_of_the_standard(data: bytes, places: list[int]) -> None:
    """Events are those of the standard's algorithm, however the bytes come."""
    found = [item.data for item in events_of(cuts(data, places)) if isinstance(item, ServerSentEvent)]
    # The standard drops an unfinished last line; it cannot complete an event here either.
    assert reference_events(data if data.endswith((b"\n", b"\r")) else data + b"\n") == found


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_every_single_cut_of_a_sample_gives_the_same_items(end: str) -> None:
    """Comments, multi-line data, multi-byte text and odd characters survive each cut in two."""
    sample = f"\ufeff: hello\ndata: {ODD}🔥\ndata:two\n\nevent: x\nid: 1\ndata: three\n\ndata: [DONE]\n\n"
    data = sample.replace("\n", end).encode()
    whole = events_of([data])
    assert [
        Comment(b" hello"),
        ServerSentEvent(f"{ODD}🔥\ntwo".encode()),
        ServerSentEvent(b"three", b"x", b"1"),
        ServerSentEvent(b"[DONE]", b"message", b"1"),
    ] == whole
    for place in range(len(data) + 1):
        assert whole == events_of([data[:place], data[place:]])


def test_a_carriage_return_ends_its_line_at_once() -> None:
    """A lone CR does not wait for what follows, and an LF after it in the next read is no blank line."""
    buffer = LineBuffer(LIMIT)
    assert buffer.feed(b"data: B\r") == b"data: B\n"
    assert buffer.feed(b"") == b""
    assert buffer.feed(b"\ndata: C\n") == b"data: C\n"


def test_a_line_over_the_limit_is_refused_when_its_end_comes_with_it() -> None:
    """What completes a line counts as what has waited does."""
    buffer = LineBuffer(10)
    assert b"" == buffer.feed(b"123456789")

    with pytest.raises(EventTooLong):
        buffer.feed(b"0a\nb")


def test_an_unfinished_line_over_the_limit_is_refused() -> None:
    """A line that does not end cannot fill the memory."""
    buffer = LineBuffer(10)
    assert buffer.feed(b"x" * 10) == b""
    with pytest.raises(EventTooLong, match="over 10 bytes"):
        buffer.feed(b"x")


def test_an_event_may_be_as_long_as_the_limit() -> None:
    """The limit itself is allowed, a byte more is not, and the count starts anew with each event."""
    decoder = EventDecoder(10)
    for _ in range(3):
        decoder.feed(b"data: 0123456789")
        assert ServerSentEvent(b"0123456789") == decoder.feed(b"")
    with pytest.raises(EventTooLong):
        decoder.feed(b"data: 0123456789X")


@pytest.mark.parametrize("line", [b"data:", b"data: ", b"data"])
def test_empty_data_lines_count_against_the_limit(line: bytes) -> None:
    """An event made of nothing but data lines has a limit too: each adds a line end."""
    decoder = EventDecoder(10)
    for _ in range(11):
        decoder.feed(line)
    with pytest.raises(EventTooLong):
        decoder.feed(line)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([b"data:x", b""], b"x"),
        ([b"data: x", b""], b"x"),
        ([b"data:  x", b""], b" x"),
        ([b"data", b""], b""),
        ([b"data:", b""], b""),
        ([b"data", b"data", b""], b"\n"),
        ([b"data: a: b", b""], b"a: b"),
        ([b"dat", b"data: x", b""], b"x"),
        ([b"Data: y", b"data: x", b""], b"x"),
        ([b" data: y", b"data: x", b""], b"x"),
        ([b"data : y", b"data: x", b""], b"x"),
    ],
)
def test_fields_are_read_by_the_standard(lines: list[bytes], expected: bytes) -> None:
    """One space after the colon goes, names are exact, a line without colon is a name."""
    decoder = EventDecoder(LIMIT)
    found = [decoder.feed(line) for line in lines]
    assert ServerSentEvent(expected) == found[-1]


@pytest.mark.parametrize("block", [[b"event: x"], [b"id: 7"], [b"retry: 3000"], [b": note"], [b"nonsense"], []])
def test_a_block_without_data_is_no_event(block: list[bytes]) -> None:
    """Fields alone dispatch nothing, and leave nothing behind but the id and the time."""
    decoder = EventDecoder(LIMIT)
    assert [item for line in [*block, b""] if isinstance(item := decoder.feed(line), ServerSentEvent)] == []
    decoder.feed(b"data: x")
    event = decoder.feed(b"")
    assert isinstance(event, ServerSentEvent)
    assert (event.data, event.event) == (b"x", b"message")


def test_the_last_id_persists_and_one_with_nul_is_ignored() -> None:
    """An id holds until the next; one with NUL does not count."""
    assert [
        item.id
        for item in events_of([b"id: 7\ndata: a\n\nid: \0x\ndata: b\n\nid\ndata: c\n\n"])
        if isinstance(item, ServerSentEvent)
    ] == [b"7", b"7", b""]


@pytest.mark.parametrize(
    ("value", "expected"), [(b"3000", 3000), (b"x", None), (b"-1", None), (b"", None), ("٣".encode(), None)]
)
def test_retry_takes_ascii_digits_only(value: bytes, expected: int | None) -> None:
    """A reconnection time is digits, and otherwise no time at all."""
    assert [ServerSentEvent(b"a", retry=expected)] == events_of([b"retry: %b\ndata: a\n\n" % value])


def test_an_event_without_its_blank_line_is_given_by_flush_only() -> None:
    """The standard drops it; who is lenient may ask."""
    decoder = EventDecoder(LIMIT)
    assert decoder.feed(b"data: [DONE]") is None
    assert decoder.is_pending
    assert ServerSentEvent(b"[DONE]") == decoder.flush()
    assert not decoder.is_pending
    assert decoder.flush() is None


def test_bytes_that_are_no_utf8_become_replacement_characters() -> None:
    """A bad byte costs itself and not the event."""
    assert [ServerSentEvent("a\ufffdb é".encode())] == events_of([b"data: a\xffb \xc3\xa9\n\n"])


def test_a_body_that_is_no_event_stream_shows_how_it_begins() -> None:
    """The first line that is no field is kept, clipped."""
    decoder = EventDecoder(LIMIT)
    for line in (b": note", b"data: x", b"<html>: yes", b"<body>"):
        decoder.feed(line)
    assert decoder.stray == b"<html>: yes"
    other = EventDecoder(LIMIT)
    other.feed(b"x" * 100_000)
    assert len(other.stray) == 65536


@given(st.binary(max_size=50).filter(lambda data: not re.search(rb"[\r\n]", data)))
def test_what_is_encoded_is_decoded_to_the_same(data: bytes) -> None:
    """Data without line ends comes back, and comments never join an event."""
    items = events_of([encode_comment(b" a") + encode_data(data) + encode_comment(b"b")])
    text = data.decode(errors="replace").encode()
    assert [Comment(b" a"), ServerSentEvent(text), Comment(b"b")] == items
