from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.body import LastBlock
from app.framing import Response

END = b"0\r\n\r\n"


class Wire:
    """A socket that takes so much at once, and keeps what it was given, a packet each."""

    def __init__(self, most: int = 1_000_000) -> None:
        self.most = most
        self.packets: list[bytes] = []

    def send(self, data: Any) -> int:
        self.packets.append(bytes(data[: self.most]))
        return len(self.packets[-1])

    def sendall(self, data: Any) -> None:
        while len(data):
            data = data[self.send(data) :]


def answer(wire: Wire, *, version: tuple[int, int] = (1, 1), headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """Give a response whose head is known and not sent."""
    request = SimpleNamespace(version=version, method="POST", should_close=lambda: False)
    response = Response(request, wire, SimpleNamespace(protocol="http", is_ssl=False))
    response.start_response("200 OK", [("Content-Type", "text/event-stream"), *headers])
    return response


def body_of(packets: list[bytes]) -> bytes:
    """Give what comes after the head."""
    return b"".join(packets).partition(b"\r\n\r\n")[2]


def test_head_and_first_block_are_one_packet() -> None:
    """And so are the last block and the end."""
    wire = Wire()
    response = answer(wire)
    for block in (b": one\n\n", b"data: two\n\n", LastBlock(b"data: [DONE]\n\n")):
        response.write(block)
    response.close()
    assert 3 == len(wire.packets)
    assert wire.packets[0].startswith(b"HTTP/1.1 200 OK\r\n")
    assert wire.packets[0].endswith(b"\r\n\r\n7\r\n: one\n\n\r\n")
    assert [b"B\r\ndata: two\n\n\r\n", b"E\r\ndata: [DONE]\n\n\r\n" + END] == wire.packets[1:]


def test_a_body_that_goes_on_after_its_last_block_is_whole() -> None:
    """A host's middleware may add to it."""
    wire = Wire()
    response = answer(wire)
    for block in (b"one", LastBlock(b"two"), b"three"):
        response.write(block)
    response.close()
    assert b"3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n" + END == body_of(wire.packets)


def test_a_last_block_may_be_the_only_one() -> None:
    """The head is not lost on the way."""
    wire = Wire()
    response = answer(wire)
    response.write(LastBlock(b"one"))
    response.close()
    assert b"3\r\none\r\n" + END == body_of(wire.packets)
    assert b"Transfer-Encoding: chunked" in b"".join(wire.packets)


def test_an_empty_body_has_head_and_end() -> None:
    """So has one of empty blocks."""
    wire = Wire()
    response = answer(wire)
    response.write(b"")
    response.close()
    assert END == body_of(wire.packets)


@pytest.mark.parametrize("most", [1, 7, 100])
def test_a_full_socket_gets_all_of_it(most: int) -> None:
    """What did not fit at once follows."""
    wire = Wire(most)
    response = answer(wire)
    response.write(b"one" * 100)
    response.write(LastBlock(b"two"))
    response.close()
    assert b"12C\r\n" + b"one" * 100 + b"\r\n3\r\ntwo\r\n" + END == body_of(wire.packets)


@pytest.mark.parametrize(
    ("version", "headers"), [((1, 0), ()), ((1, 1), (("Content-Length", "6"),))], ids=["HTTP/1.0", "of known length"]
)
def test_what_is_not_chunked_is_left_alone(version: tuple[int, int], headers: tuple[tuple[str, str], ...]) -> None:
    """There is no framing to join."""
    wire = Wire()
    response = answer(wire, version=version, headers=headers)
    response.write(b"one")
    response.write(LastBlock(b"two"))
    response.close()
    assert b"onetwo" == body_of(wire.packets)


def test_what_is_no_bytes_is_refused_as_before() -> None:
    """An application's mistake stays one."""
    wire = Wire()
    response = answer(wire)
    with pytest.raises(TypeError):
        response.write("text")
    assert b"" == body_of(wire.packets)
