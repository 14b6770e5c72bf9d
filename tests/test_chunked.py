"""Chunked framing, however it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chunked import ChunkedDecoder

BODY = b"5\r\nhello\r\n1;name=value\r\n,\r\n7 \r\n a\r\nb c\r\n0\r\nTrailer: yes\r\n\r\n"


def decoded(decoder: ChunkedDecoder, data: bytes, size: int) -> bytes:
    """Feed *data* in pieces of *size* bytes and give the body."""
    return b"".join(decoder.feed(data[start : start + size]) for start in range(0, len(data), size))


@pytest.mark.parametrize("size", range(1, len(BODY) + 1))
def test_the_body_comes_out_however_it_is_cut(size: int) -> None:
    """Sizes, extensions, line ends and trailers may be cut anywhere."""
    decoder = ChunkedDecoder()

    assert b"hello, a\r\nb c" == decoded(decoder, BODY, size)
    assert decoder.is_done


@given(st.lists(st.binary(min_size=1, max_size=300)), st.integers(1, 64), st.booleans())
def test_any_chunks_make_their_body(chunks: list[bytes], size: int, upper: bool) -> None:
    """What was framed comes out, sizes in either case, and only the last chunk ends it."""
    form = b"%X\r\n%b\r\n" if upper else b"%x\r\n%b\r\n"
    framed = b"".join(form % (len(chunk), chunk) for chunk in chunks)
    decoder = ChunkedDecoder()

    assert b"".join(chunks) == decoded(decoder, framed, size)
    assert not decoder.is_done
    decoder.feed(b"0\r\n\r\n")
    assert decoder.is_done


def test_a_chunk_is_handed_out_before_it_is_complete() -> None:
    """A token that has come must not wait for the rest of its chunk."""
    decoder = ChunkedDecoder()

    assert b"hel" == decoder.feed(b"5\r\nhel")
    assert b"lo" == decoder.feed(b"lo")


def test_what_follows_the_end_is_dropped() -> None:
    """Bytes after the last chunk belong to no body."""
    decoder = ChunkedDecoder()

    assert b"a" == decoder.feed(b"1\r\na\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert b"" == decoder.feed(b"more")


@pytest.mark.parametrize(
    "framing",
    [
        b"hello\r\n",
        b"-5\r\nhello\r\n",
        b"+5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"1_0\r\nhello\r\n",
        b"\r\n5\r\nhello\r\n",
        b"5\r\nhelloX\r\n",
        b"5\r\nhello5\r\n",
        b"ffffffffffffffff0\r\n",
        b"5" + b" " * 70_000,
        b"0\r\n" + b"A: b\r\n" * 20_000,
    ],
    ids=lambda framing: repr(framing[:12]),
)
def test_what_is_no_framing_is_refused(framing: bytes) -> None:
    """Guessing where a chunk begins would put framing into the answer."""
    with pytest.raises(ValueError, match="chunk"):
        ChunkedDecoder().feed(framing)
