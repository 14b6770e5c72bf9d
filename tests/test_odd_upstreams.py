"""Upstreams that speak HTTP in ways no script of the demo upstream has words for."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clock import PATIENCE
from tests.conftest import Served
from tests.test_faults import ending
from tests.test_streaming import texts

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"


def event(content: str | None, reason: str | None = None) -> bytes:
    """Write one event with a text or a finish reason."""
    choice = {"index": 0, "delta": {} if content is None else {"content": content}, "finish_reason": reason}
    return b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode()


def stream(text: str) -> bytes:
    """Write a whole stream's events."""
    return event(text) + event(None, "stop") + b"data: [DONE]\n\n"


def chunked(body: bytes, extension: bytes = b"", trailers: bytes = b"") -> bytes:
    """Write a body as one HTTP chunk, and its end."""
    return b"%x%b\r\n%b\r\n0\r\n%b\r\n" % (len(body), extension, body, trailers)


class RawUpstream:
    """Answers each request as *answer* does, which is given the connection, the number of the request and its text.

    A connection is closed when *answer* is over and says so by True; otherwise it takes the next request.
    """

    def __init__(self, answer: Callable[[socket.socket, int, str], bool | None]) -> None:
        self._answer = answer
        self._server = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.requests = 0
        self.connects = 0
        self.base_url = f"http://127.0.0.1:{self._server.getsockname()[1]}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Close everything."""
        self._server.close()
        for connection in self._connections:
            connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self.connects += 1
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while (asked := _request(connection)) is not None:
                self.requests += 1
                if self._answer(connection, self.requests, asked):
                    return


def _request(connection: socket.socket) -> str | None:
    """Read one request; give its last message's text, or None at the connection's end."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    while length is not None and len(body) < int(length[1]):
        body += connection.recv(65536)
    text: str = json.loads(body)["messages"][-1]["content"]
    return text


@pytest.fixture
def behind(serve: Callable[..., Served]) -> Iterator[Callable[..., tuple[Served, RawUpstream]]]:
    """Give a function that starts a gateway in front of an upstream that answers as told."""
    started: list[RawUpstream] = []

    def start(answer: Callable[[socket.socket, int, str], bool | None], **settings: Any) -> tuple[Served, RawUpstream]:
        upstream = RawUpstream(answer)
        started.append(upstream)
        limits = {"SLUICE_FIRST_TOKEN_TIMEOUT": "3", "SLUICE_IDLE_TIMEOUT": "3", **settings}
        return serve(OPENROUTER_BASE_URL=upstream.base_url, **limits), upstream

    yield start
    for upstream in started:
        upstream.close()


def say(text: str) -> list[dict[str, str]]:
    """Make the messages of a request."""
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize("status", [100, 102, 103])
@pytest.mark.parametrize("count", [1, 3])
def test_interim_responses_are_passed_over(behind: Any, status: int, count: int) -> None:
    """They are no answer, and nobody is given the answer of the request before on the same connection."""

    def answer(connection: socket.socket, number: int, text: str) -> None:
        interim = b"HTTP/1.1 %d Wait\r\nLink: </a>\r\n\r\n" % status
        connection.sendall(interim * count)
        connection.sendall(HEAD + chunked(stream(text)))

    served, upstream = behind(answer)

    for number in range(4):
        with served.ask(messages=say(f"question {number}"), stream=number % 2 == 0) as response:
            if number % 2 == 0:
                assert f"question {number}" == texts(response.data())
            else:
                assert f"question {number}" == response.json()["choices"][0]["message"]["content"]
        served.record(number + 1)

    assert upstream.connects < 4  # a connection may still be on its way back to the pool


def test_a_switch_of_protocols_is_an_error(behind: Any) -> None:
    """Nobody asked for one, and what follows it on that connection is not taken for an answer."""

    def answer(connection: socket.socket, number: int, text: str) -> None:
        if number == 1:
            connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")
        connection.sendall(HEAD + chunked(stream(text)))

    served, upstream = behind(answer)

    with served.ask(messages=say("one")) as response:
        _, _, error = ending(response)
    with served.ask(messages=say("two")) as response:
        assert "two" == texts(response.data())

    assert "upstream_unreachable" == error["code"]
    assert 2 == upstream.connects


def test_an_idle_connection_that_upstream_closed_is_not_used(behind: Any) -> None:
    """A pooled connection that has died meanwhile costs a new connection and no error."""
    closed = threading.Event()

    def answer(connection: socket.socket, number: int, text: str) -> bool:
        connection.sendall(HEAD + chunked(stream(text)))
        connection.close()
        closed.set()
        return True

    served, upstream = behind(answer)

    for number in range(3):
        closed.clear()
        with served.ask(messages=say("again")) as response:
            assert "again" == texts(response.data())
        assert closed.wait(PATIENCE)
        served.record(number + 1)

    assert (3, 3) == (upstream.connects, upstream.requests)
    assert [[{"status": 200}]] * 3 == [record.attempts for record in served.records]


def test_chunk_extensions_and_trailers_are_no_text(behind: Any) -> None:
    """They are read and left out, and the connection serves the next request."""

    def answer(connection: socket.socket, number: int, text: str) -> None:
        connection.sendall(HEAD + chunked(stream(text), b' ;a=b;c="d"', b"X-Sum: 1\r\nX-More: 2\r\n"))

    served, upstream = behind(answer)

    for number in range(4):
        with served.ask(messages=say("plain")) as response:
            assert "plain" == texts(response.data())
        served.record(number + 1)

    assert upstream.connects < 4  # a connection may still be on its way back to the pool


WRONG: dict[str, tuple[bytes, str]] = {
    "a length that is too long": (LENGTH % 1000 + event("half"), "upstream_cut"),
    "a length that is too short": (LENGTH % (len(stream("half")) - 3) + stream("half"), "upstream_protocol"),
    "a chunk size that is none": (HEAD + b"%x\r\n%b\r\nzz\r\n" % (len(event("half")), event("half")), "upstream_cut"),
    "a negative chunk size": (HEAD + b"%x\r\n%b\r\n-5\r\n" % (len(event("half")), event("half")), "upstream_cut"),
    "a chunk that ends early": (HEAD + b"fff\r\n" + event("half"), "upstream_cut"),
    "a header without end": (b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 70_000 + b"\r\n\r\n", "upstream_unreachable"),
    "headers without number": (b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 200 + b"\r\n", "upstream_unreachable"),
    "gzip that is none": (
        HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n") + chunked(b"\x1f\x8b\x08 and no more"),
        "upstream_protocol",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_framing_is_told(behind: Any, name: str) -> None:
    """Whatever the framing promises and does not keep, the stream ends as a failed one, and the next one is fine."""
    data, code = WRONG[name]

    def answer(connection: socket.socket, number: int, text: str) -> bool:
        connection.sendall(data if number == 1 else HEAD + chunked(stream(text)))
        return number == 1

    served, _ = behind(answer)

    with served.ask(messages=say("first")) as response:
        text, _, error = ending(response)
    with served.ask(messages=say("second")) as response:
        assert "second" == texts(response.data())

    assert code == error["code"]
    assert text in ("", "half")


@pytest.mark.parametrize("rest", [b"zz\r\n", b"\r\n0\r\n\r\n"], ids=["no size", "an empty line"])
def test_what_came_before_wrong_framing_counts(behind: Any, rest: bytes) -> None:
    """Text in the same packet is relayed, and an answer that was whole by then is whole."""

    def answer(connection: socket.socket, number: int, text: str) -> bool:
        body = event(text) if number == 1 else stream(text)
        connection.sendall(HEAD + b"%x\r\n%b\r\n" % (len(body), body) + rest)
        return True

    served, _ = behind(answer)

    with served.ask(messages=say("half")) as response:
        text, _, error = ending(response)
    with served.ask(messages=say("whole")) as response:
        data = response.data()

    assert ("half", "upstream_cut") == (text, error["code"])
    assert ["whole", "[DONE]", None] == [texts(data), data[-1], served.record(2).error_code]


def test_a_refusal_before_the_request_was_read_is_told(serve: Callable[..., Served]) -> None:
    """An upstream that answers a large body early and hangs up still has its answer heard."""
    heard = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                body = b'{"error": {"code": 413, "message": "too much"}}'
                connection.sendall(b"HTTP/1.1 413 No\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(0.05)
                while not heard.is_set():  # the gateway keeps the connection, for it has been read to its end
                    with contextlib.suppress(TimeoutError):
                        connection.recv(65536)

        thread = threading.Thread(target=refuse)
        thread.start()
        served = serve(OPENROUTER_BASE_URL=f"http://127.0.0.1:{server.getsockname()[1]}/v1")

        with served.ask(stream=False, messages=say("x" * 4_000_000)) as response:
            error = response.json()["error"]
        heard.set()
        thread.join(PATIENCE)

    assert (413, "too much") == (response.status, error["message"])
