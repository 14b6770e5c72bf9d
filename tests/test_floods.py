"""An upstream that sends what makes no answer, without end and without a pause, costs the others nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.conftest import QUESTION
from tests.servers import GunicornGateway, open_stream, request
from tests.test_odd_upstreams import RawUpstream

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
FLOODS: dict[str, tuple[bytes, bytes, str]] = {
    "blank lines": (b"\r\n", b"\n", "upstream_timeout"),
    "events without data": (b"\r\n", b"data:\n\n", "upstream_timeout"),
    "ids": (b"\r\n", b"id: 1\n\n", "upstream_timeout"),
    "comments": (b"\r\n", b":\n\n", "upstream_timeout"),
    "blank lines in JSON": (b"\r\n{", b"\n", "upstream_protocol"),
    "trailers": (b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n", "upstream_cut"),
}


@pytest.fixture(scope="module", params=FLOODS)
def flood(request: pytest.FixtureRequest) -> Iterator[tuple[RawUpstream, str]]:
    """An upstream that sends the same bytes until it is let go, and the error that this is."""
    head, again, code = FLOODS[request.param]

    def answer(connection: socket.socket, number: int, text: str) -> None:
        connection.sendall(HEAD + head)
        while True:
            connection.sendall(again * (65536 // len(again)))

    upstream = RawUpstream(answer)
    yield upstream, code
    upstream.close()


def test_a_flood_of_nothing_is_ended_by_its_limit_and_holds_nobody_up(flood: tuple[RawUpstream, str]) -> None:
    """The limits fire although upstream's bytes never make the reader wait, and the worker answers others meanwhile."""
    upstream, code = flood
    env: dict[str, str | None] = {
        "OPENROUTER_BASE_URL": upstream.base_url,
        "SLUICE_FIRST_TOKEN_TIMEOUT": "1",
        "SLUICE_MAX_EVENT_BYTES": "1000000",
        "SLUICE_RETRIES": "0",
    }
    with GunicornGateway(env) as gateway:
        with open_stream(gateway.chat_url, {**QUESTION, "stream": True}) as stream:
            with request("GET", f"{gateway.url}/v1/health") as alive:
                assert 200 == alive.status
            assert code == stream.data()[-2]["error"]["code"]
        assert 1 == gateway.log().count("Booting worker")
