"""What a stranger can make large or slow has a limit, the limit is told, and what it held is free again."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from app import wire
from app.bulk import is_bulky
from app.demo import DemoUpstream
from app.descriptors import affordable
from tests.clock import PATIENCE
from tests.conftest import QUESTION, Served
from tests.servers import GunicornGateway, RawStream, open_stream, request, wait_until
from tests.test_bad_input import assert_error
from tests.test_streaming import texts

ASK = {**QUESTION, "stream": True}


def connection(url: str) -> socket.socket:
    """Connect to a server."""
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), PATIENCE)


def head(length: int, path: str = "/v1/chat/completions") -> bytes:
    """Give the head of a request with a body."""
    fields = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
    return f"POST {path} HTTP/1.1\r\n{fields}\r\n".encode()


@pytest.fixture(params=["gevent", "gthread"])
def worker(request: pytest.FixtureRequest, upstream: DemoUpstream) -> Iterator[GunicornGateway]:
    """A gateway under gunicorn that has little patience and little room."""
    env = {
        "OPENROUTER_BASE_URL": upstream.base_url,
        "SLUICE_PIPELINE": "off",
        "SLUICE_BODY_TIMEOUT": "1",
        "SLUICE_CLIENT_STALL_TIMEOUT": "1",
        "SLUICE_MAX_STREAMS": "3",
    }
    with GunicornGateway(env, request.param) as gateway:
        yield gateway


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/transform"])
def test_a_body_that_dribbles_is_given_up(serve: Callable[..., Served], path: str) -> None:
    """A client that sends a byte now and then is told 408 when the time for the whole body is over, on every route."""
    served = serve(SLUICE_BODY_TIMEOUT="0.5", SLUICE_PIPELINE="on")

    with connection(served.url) as client:
        client.sendall(head(1000, path) + b"{")
        answer = _dribble(client)

        assert 408 == answer.status
        assert_error(answer.json(), "body_timeout")
    assert served.gateway.open_streams == 0


def _dribble(client: socket.socket) -> RawStream:
    """Send a space every tenth of a second until there is an answer, and give that."""
    client.settimeout(0.1)
    for _ in range(600):
        try:
            client.recv(1, socket.MSG_PEEK)
            break
        except TimeoutError:
            client.sendall(b" ")
    return RawStream(client, PATIENCE)


def test_slow_bodies_take_places_and_give_them_back(worker: GunicornGateway) -> None:
    """Under each worker class: as many as there are places wait, the next is told at once, and later all are free."""
    slow = [connection(worker.url) for _ in range(3)]
    for client in slow:
        client.sendall(head(1000) + b"{")
    wait_until(lambda: _open_streams(worker) == 3)

    with open_stream(worker.chat_url, ASK) as refused:
        assert (503, "1") == (refused.status, refused.headers["retry-after"])
    for client in slow:
        with RawStream(client, PATIENCE) as answer:
            assert 408 == answer.status
            assert b"" == answer.read()[-1:].strip(b"}")
            assert_ended(client)
    with open_stream(worker.chat_url, ASK) as stream:
        assert 200 == stream.status


def _open_streams(gateway: GunicornGateway) -> int:
    with request("GET", gateway.url + "/v1/ready") as response:
        return int(response.json()["open_streams"])


def assert_ended(client: socket.socket) -> None:
    """Check that the server closes the connection: what follows on it is no new request."""
    client.settimeout(PATIENCE)
    try:
        assert b"" == client.recv(1)
    except ConnectionResetError:
        pass


def test_a_body_in_time_is_not_hurried(serve: Callable[..., Served]) -> None:
    """A body in two parts, within the limit, is read whole, and the connection serves on."""
    served = serve()
    body = json.dumps(ASK).encode()

    with connection(served.url) as client:
        client.sendall(head(len(body)) + body[:10])
        time.sleep(0.05)
        client.sendall(body[10:])
        answer = RawStream(client, PATIENCE)

        assert 200 == answer.status
        assert "[DONE]" == answer.data()[-1]


def test_an_answer_that_nobody_takes_is_given_up(worker: GunicornGateway, upstream: DemoUpstream) -> None:
    """An answer written in one piece, which no stream's clock watches, holds its server no longer than the limit."""
    upstream.play([{"text": ["x" * 1_000_000] * 12}])
    body = json.dumps({**QUESTION, "stream": False}).encode()

    with connection(worker.url) as client:
        client.sendall(head(len(body)) + body)
        wait_until(lambda: _server_side(client), what="the connection")

        wait_until(lambda: not _server_side(client), what="the server gives up")


def _server_side(client: socket.socket) -> bool:
    """Tell whether the server still has its end of a connection open (proc(5), /proc/net/tcp; 01 is established)."""
    ours, theirs = (f"{port:04X}" for _, port in (client.getsockname(), client.getpeername()))
    rows = [line.split()[1:4] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[0].endswith(theirs) and row[1].endswith(ours) and row[2] == "01" for row in rows)


BULKY: dict[str, bytes] = {
    "numbers": b"[" + b",".join([b"1.10"] * 3000) + b"]",
    "lists": b"[" + b", ".join([b"[]"] * 3000) + b"]",
    "levels": b"[" * 3000 + b"]" * 3000,
    "texts": b"[" + b",".join([b'""'] * 3000) + b"]",
    "objects": b'{"a":' * 3000 + b"1" + b"}" * 3000,
    "quotes alone": b'"' * 20_000 + b"," * 3000,
}
LIGHT: dict[str, bytes] = {
    "prose": json.dumps(["well, well, [sic] {so} " * 3000]).encode(),
    "quotes in a text": json.dumps(['"a", \\"b\\", ' * 3000]).encode(),
    "backslashes before a quote": json.dumps(["a,b,\\" * 3000, "x,y\\\\" * 3000]).encode(),
    "few": b"[" + b",".join([b"1.10"] * 900) + b"]",
    "one long number": b"1" * 100_000,
}


@pytest.mark.parametrize("name", BULKY)
def test_many_values_are_bulky(name: str) -> None:
    """However they are packed."""
    assert is_bulky(BULKY[name], 1000)


@pytest.mark.parametrize("name", LIGHT)
def test_long_texts_are_not(name: str) -> None:
    """What stands inside a text does not count, whatever it looks like."""
    assert not is_bulky(LIGHT[name], 1000)


def test_a_body_of_many_values_is_a_413(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """It is refused before anything is made of it, and the error names the setting."""
    served = serve(SLUICE_MAX_VALUES="1000")

    with served.ask(junk=[1.5] * 1001) as response:
        assert 413 == response.status
        error = response.json()
    with served.ask(junk="1,5," * 10_000) as stream:
        assert "[DONE]" == stream.data()[-1]

    assert_error(error, "payload_too_large")
    assert "SLUICE_MAX_VALUES" in error["error"]["message"]
    assert 1 == len(upstream.requests)


def test_a_request_of_many_messages_is_a_400(serve: Callable[..., Served]) -> None:
    """One more than the limit is refused by name, as many as the limit are served."""
    served = serve(SLUICE_MAX_MESSAGES="20")

    with served.ask(messages=QUESTION["messages"] * 21) as response:
        assert 400 == response.status
        assert_error(response.json(), "invalid_request", "messages")
    with served.ask(messages=QUESTION["messages"] * 20) as response:
        assert 200 == response.status


@pytest.mark.parametrize(("levels", "status"), [(250, 200), (300, 400), (2000, 400), (90_000, 400)])
def test_nesting_has_a_limit(served: Served, upstream: DemoUpstream, levels: int, status: int) -> None:
    """What can be sent on is, level for level; deeper bodies are told how deep they may be."""
    deep = "[" * levels + "]" * levels
    body = json.dumps(QUESTION)[:-1] + f', "deep": {deep}}}'

    with open_stream(served.chat_url, body) as response:
        assert status == response.status
        answer = response.json()

    if status == 200:
        assert deep == wire.dumps(upstream.requests[0].body["deep"]).decode()
    else:
        assert "nested too deeply, more than 254 levels" in answer["error"]["message"]


def test_an_event_has_a_limit(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """An upstream event over the limit ends the stream properly, whether it ever ends itself or not."""
    served = serve(SLUICE_MAX_EVENT_BYTES="2000")
    for script in ([{"text": ["x" * 3000]}], [{"bytes": "data: " + "x" * 3000}, {"silence": True}]):
        upstream.play(script)
        with served.ask() as stream:
            data: list[Any] = stream.data()

        assert ["upstream_protocol", "[DONE]"] == [data[-2]["error"]["code"], data[-1]]


def test_an_answer_that_is_held_has_a_limit(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """Upstream may go on without end: what is given whole is given up then, and what is streamed is not held."""
    served = serve(SLUICE_MAX_ANSWER_BYTES="20000")
    upstream.play([{"text": ["x" * 100] * 200}, {"silence": True}])
    with served.ask(stream=False) as response:
        error = response.json()["error"]

    assert (502, "upstream_protocol") == (response.status, error["code"])
    assert "SLUICE_MAX_ANSWER_BYTES" in error["message"]
    assert upstream.requests[0].closed.wait(PATIENCE)

    upstream.play([{"text": ["x" * 100] * 200}])
    with served.ask() as stream:
        assert "[DONE]" == stream.data()[-1]


@pytest.mark.parametrize(
    ("descriptors", "streams"), [(None, 1000), (65536, 1000), (2350, 1000), (2348, 999), (1024, 337), (256, 64), (3, 1)]
)
def test_streams_are_no_more_than_there_are_files_for(descriptors: int | None, streams: int) -> None:
    """Two files a stream and some for all else; where there are few, half of them are kept for all else."""
    assert streams == affordable(1000, descriptors)


def test_few_files_lower_the_limit_and_say_so(upstream: DemoUpstream) -> None:
    """Started with 64 files, the gateway says how many streams that makes, and the one beyond gets its 503."""
    env = {"OPENROUTER_BASE_URL": upstream.base_url, "SLUICE_PIPELINE": "off"}
    for _ in range(16):
        upstream.play([{"text": "a"}, {"silence": True}])
    limited = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"]
    with GunicornGateway(env, before=limited) as gateway:
        told = gateway.wait_for_log(r"may open only 64 files, enough for (\d+) streams.*allow it 2350")
        streams = [open_stream(gateway.chat_url, ASK) for _ in range(int(told[1]))]
        assert all(stream.next_data() for stream in streams)
        with open_stream(gateway.chat_url, ASK) as refused:
            assert (503, "1") == (refused.status, refused.headers["retry-after"])
        for stream in streams:
            stream.close()


def test_files_are_raised_to_what_streams_need(upstream: DemoUpstream) -> None:
    """Where the system allows more than it gives at first, the shipped configuration takes what the limit needs."""
    env = {"OPENROUTER_BASE_URL": upstream.base_url}
    with GunicornGateway(env, before=["sh", "-c", 'ulimit -Sn 200; exec "$@"', "sh"]) as gateway:
        limits = resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)

        assert limits[0] == min(2350, limits[1])
        assert "SLUICE_MAX_STREAMS" not in gateway.log()


@pytest.mark.parametrize(("kind", "told"), [("gthread", True), ("sync", True), ("gevent", False)])
def test_slow_headers_are_a_proxys_business_and_it_is_said(upstream: DemoUpstream, kind: str, told: bool) -> None:
    """The worker classes that wait for headers for ever say so at start; gevent does not wait, and says nothing."""
    with GunicornGateway({"OPENROUTER_BASE_URL": upstream.base_url}, kind) as gateway:
        words = "headers for as long as a client likes: keep it behind a proxy"
        if told:
            gateway.wait_for_log(words)
        else:
            with open_stream(gateway.chat_url, ASK) as stream:  # whoever serves has said what there is to say
                assert "[DONE]" == stream.data()[-1]
            assert words not in gateway.log()


MANY = 2000


@pytest.fixture
def many_files() -> Iterator[None]:
    """Let this process open as many files as both ends of so many streams take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MANY + 500
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_two_thousand_streams_are_open_at_once(upstream: DemoUpstream, tmp_path: Path) -> None:
    """On one worker: all alive, the one beyond the limit told so, all finishing, each with its record."""
    upstream.play([{"text": "first"}, {"hold": True}, {"text": " last"}], times=None)
    database = tmp_path / "records.db"
    env = {
        "OPENROUTER_BASE_URL": upstream.base_url,
        "SLUICE_PIPELINE": "off",
        "SLUICE_MAX_STREAMS": str(MANY),
        "SLUICE_HEARTBEAT": "2",
        "SLUICE_DATABASE_URL": f"sqlite:///{database}",
    }
    with GunicornGateway(env) as gateway, contextlib.ExitStack() as stack:
        streams = [stack.enter_context(open_stream(gateway.chat_url, ASK)) for _ in range(MANY)]
        assert all('"first"' in (stream.next_data() or "") for stream in streams)
        assert (MANY, MANY) == (_open_streams(gateway), sum(asked.outcome == "open" for asked in upstream.requests))

        with open_stream(gateway.chat_url, ASK) as refused:
            assert (503, "1") == (refused.status, refused.headers["retry-after"])
            assert "SLUICE_MAX_STREAMS" in refused.json()["error"]["message"]
        assert all((stream.next_event() or "").startswith(":") for stream in streams)

        upstream.release()
        for stream in streams:
            data = stream.data()
            assert [" last", "[DONE]"] == [texts(data), data[-1]]
        wait_until(lambda: _reasons(database) == {"completed": MANY, "rejected": 1}, what="the records")


def _reasons(database: Path) -> dict[str, int]:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        try:
            return dict(connection.execute("SELECT end_reason, count(*) FROM sluice_records GROUP BY end_reason"))
        except sqlite3.OperationalError:
            return {}  # nothing was written yet
