"""Several requests on one connection, and connections that clients close half."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from app.demo import DemoUpstream
from tests.clock import PATIENCE
from tests.conftest import QUESTION
from tests.servers import BodyCut, GunicornGateway, RawStream, children, request, wait_until

WHOLE = json.dumps({**QUESTION, "stream": False}).encode()
STREAM = json.dumps({**QUESTION, "stream": True}).encode()
MANY = 200


@pytest.fixture(scope="module")
def asked() -> Iterator[DemoUpstream]:
    """The upstream of this module's gateways."""
    with DemoUpstream() as server:
        yield server


@pytest.fixture(scope="module", params=["gevent", "gthread"])
def gateway(request: pytest.FixtureRequest, asked: DemoUpstream) -> Iterator[GunicornGateway]:
    """A gateway, of each kind that serves many, which must survive the module."""
    with GunicornGateway({"OPENROUTER_BASE_URL": asked.base_url}, request.param) as running:
        yield running
        assert 1 == running.log().count("Booting worker"), running.log()
        assert "Traceback" not in running.log()


def spelled(body: bytes | None = None, path: str = "/v1/chat/completions", more: str = "") -> bytes:
    """Spell a request out; with a body it is a POST."""
    size = "" if body is None else f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    method = "GET" if body is None else "POST"
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{size}{more}\r\n".encode() + (body or b"")


def connected(gateway: GunicornGateway) -> socket.socket:
    """Connect to it."""
    parts = urlsplit(gateway.url)
    return socket.create_connection((parts.hostname, parts.port), PATIENCE)


def answers(client: socket.socket, count: int) -> tuple[list[tuple[int, str]], list[str]]:
    """Read so many responses off one connection: status and the body's begin, of a stream its end; and ids."""
    found, ids = [], []
    response: RawStream | None = None
    for _ in range(count):
        response = RawStream(client, PATIENCE, response)
        text = response.read().decode()
        found.append((response.status, text[-14:].strip() if text.startswith(":") else text[:9]))
        ids.append(response.headers["x-request-id"])
    return found, ids


def ends(gateway: GunicornGateway, ids: list[str]) -> list[str]:
    """Wait for the records of these requests; give how they ended, in this order."""

    def reasons() -> list[str]:
        with request("GET", f"{gateway.url}/v1/metadata/events?limit=1000") as response:
            events = response.json()["data"]
        return [event["end_reason"] for one in ids for event in events if event["request_id"] == one]

    wait_until(lambda: len(reasons()) >= len(ids), what="the records")
    return reasons()


def test_requests_sent_ahead_are_answered_one_after_the_other(gateway: GunicornGateway) -> None:
    """In their order, each whole, streams and refusals among them; a request behind a refused body is read as one."""
    ahead = [spelled(path="/v1/health"), spelled(STREAM), spelled(b"{broken"), spelled(WHOLE), spelled(STREAM)]
    with connected(gateway) as client:
        client.sendall(b"".join(ahead) + spelled(path="/v1/health", more="Connection: close\r\n"))
        found, ids = answers(client, len(ahead) + 1)
        client.settimeout(PATIENCE)
        assert b"" == client.recv(1)

    begins = [(200, '{"status"'), (200, "data: [DONE]"), (400, '{"error":'), (200, '{"id":"ch'), (200, "data: [DONE]")]
    assert [*begins, begins[0]] == found
    assert ["completed", "rejected", "completed", "completed"] == ends(gateway, ids[1:-1])


def test_a_burst_does_not_hold_up_the_answers_of_its_first() -> None:
    """Requests wait when the worker comes to look: the first one's answer is relayed before the last one begins."""
    with DemoUpstream() as asked, GunicornGateway({"OPENROUTER_BASE_URL": asked.base_url}) as gateway:
        (worker,) = children(gateway.process.pid)
        os.kill(worker, signal.SIGSTOP)
        clients = [connected(gateway) for _ in range(MANY)]
        for client in clients:
            client.sendall(spelled(STREAM))
        os.kill(worker, signal.SIGCONT)
        ids = [answers(client, 1)[1][0] for client in clients]
        for client in clients:
            client.close()
        assert ["completed"] * MANY == ends(gateway, ids)
        with request("GET", f"{gateway.url}/v1/metadata/events?limit=1000") as response:
            events = response.json()["data"]

    began = [event["created_at"] for event in events]
    assert max(began) > min(event["created_at"] + event["first_chunk_ms"] / 1000 for event in events)


def test_a_client_that_leaves_takes_what_it_sent_ahead_with_it(gateway: GunicornGateway, asked: DemoUpstream) -> None:
    """The stream under way is ended upstream, and what waits behind it is not begun."""
    before = len(asked.requests)
    asked.play([{"text": "first"}, {"silence": True}], times=2)
    with connected(gateway) as client:
        client.sendall(spelled(STREAM) * 2)
        response = RawStream(client, PATIENCE)
        assert '"first"' in (response.next_data() or "")
    assert asked.requests[before].closed.wait(PATIENCE)
    asked.clear()

    assert ["client_disconnected"] == ends(gateway, [response.headers["x-request-id"]])
    assert before + 1 == len(asked.requests)


CUT = {
    "nothing of it": spelled(b"x" * 100)[:-100],
    "half of it": spelled(WHOLE)[: -len(WHOLE) // 2],
    "all but a byte": spelled(WHOLE)[:-1],
    "a flood of brackets": spelled(b"[" * 90_000)[:-1],
    "chunked": b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nff\r\nx",
}


@pytest.mark.parametrize("name", CUT)
def test_a_body_that_ends_with_half_the_connection_is_refused_at_once(gateway: GunicornGateway, name: str) -> None:
    """Nobody waits for the rest, the client hears why, and the worker serves the next."""
    with connected(gateway) as client:
        client.sendall(CUT[name])
        client.shutdown(socket.SHUT_WR)
        response = RawStream(client, PATIENCE)
        error = response.json()["error"]
        client.settimeout(PATIENCE)
        assert b"" == client.recv(1)

    assert (411 if name == "chunked" else 400) == response.status
    assert error["message"]
    assert ["rejected"] == ends(gateway, [response.headers["x-request-id"]])


@pytest.mark.parametrize("body", [b"{broken", b"[" * 90_000, b"{}", b"\xff"], ids=["broken", "deep", "bare", "no text"])
def test_a_hostile_body_of_a_client_that_only_listens_is_refused(gateway: GunicornGateway, body: bytes) -> None:
    """A whole body, and then half the connection: the refusal still reaches the client, and the connection ends."""
    with connected(gateway) as client:
        client.sendall(spelled(body))
        client.shutdown(socket.SHUT_WR)
        try:
            response = RawStream(client, PATIENCE)
        except BodyCut:
            pytest.fail("the connection ended without an answer")
        assert 400 == response.status
        assert response.json()["error"]["message"]
        client.settimeout(PATIENCE)
        assert b"" == client.recv(1)
