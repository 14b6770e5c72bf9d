"""A client that leaves, in every phase: upstream sees the close within a second and the books are kept."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from app.demo import DemoUpstream
from tests.clock import PATIENCE, granted
from tests.conftest import Served
from tests.servers import wait_until

PHASES: dict[str, list[Any]] = {
    "waiting for the head": [{"silence": True}],
    "before the first token": [{"head": {}}, {"comment": True}, {"silence": True}],
    "in mid stream": [{"text": {"content": ["word "] * 1000, "pace": 20}}],
    "silent in mid stream": [{"text": "word"}, {"silence": True}],
    "in the middle of an event": [{"text": "word"}, {"bytes": "data: {"}, {"silence": True}],
    "close-delimited": [{"head": {"framing": "close"}}, {"text": "word"}, {"silence": True}],
}


def assert_closed_soon(upstream: DemoUpstream, left_at: float) -> None:
    """Check that upstream saw its connection close within a second of *left_at*."""
    exchange = upstream.requests[-1]
    assert exchange.closed.wait(PATIENCE)
    assert granted(left_at, exchange.closed_at) < 1


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("abrupt", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize("phase", PHASES)
def test_upstream_is_closed_when_the_client_leaves(
    served: Served, upstream: DemoUpstream, phase: str, abrupt: bool, stream: bool
) -> None:
    """In each phase, streaming or not, upstream sees the close within a second."""
    upstream.play(PHASES[phase])
    client = _send(served, stream=stream)
    exchange = upstream.wait_for_request()
    if "head" not in phase:
        assert exchange.started.wait(PATIENCE)

    if abrupt:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    client.close()
    left_at = time.monotonic()

    assert_closed_soon(upstream, left_at)
    assert served.record().end_reason == "client_disconnected"
    assert served.gateway.open_streams == 0


def _send(served: Served, **body: Any) -> socket.socket:
    """Send a request and read nothing of what comes back."""
    host, port = served.url.removeprefix("http://").split(":")
    client = socket.create_connection((host, int(port)))
    data = json.dumps({"messages": [{"role": "user", "content": "x"}], **body}).encode()
    fields = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    client.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{fields}\r\n\r\n".encode() + data)
    return client


def test_nothing_is_sent_when_the_client_left_in_a_retry_wait(
    serve: Callable[..., Served], upstream: DemoUpstream
) -> None:
    """A client that leaves while a retry waits stops the retry."""
    served = serve(SLUICE_RETRY_BACKOFF="2")
    upstream.play_attempts([[{"answer": {"status": 503}}]] * 4)
    client = _send(served, stream=True)
    upstream.wait_for_request()

    client.close()

    assert served.record().end_reason == "client_disconnected"
    assert len(upstream.requests) == 1
    wait_until(lambda: served.gateway.open_streams == 0)


def test_a_client_that_stops_reading_is_cut_off(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """A stalled client ends its stream after the limit, and upstream is read no further than the buffers hold."""
    served = serve(SLUICE_CLIENT_STALL_TIMEOUT="1")
    upstream.play([{"text": {"content": ["x" * 60_000] * 2000, "whole": False}}])
    client = _send(served, stream=True)

    record = served.record()
    client.close()

    assert record.end_reason == "client_stalled"
    assert upstream.requests[0].closed.wait(PATIENCE)
    assert upstream.requests[0].sent < 60_000_000


def test_upstream_is_not_read_while_the_client_is_slow(served: Served, upstream: DemoUpstream) -> None:
    """Back-pressure reaches upstream: what nobody has taken is not read on."""
    upstream.play([{"text": {"content": ["x" * 60_000] * 2000, "whole": False}}])
    client = _send(served, stream=True)
    exchange = upstream.wait_for_request()

    assert exchange.started.wait(PATIENCE)
    assert not exchange.ended.wait(2)

    assert exchange.sent < 60_000_000
    client.close()
    assert exchange.closed.wait(PATIENCE)


def test_a_stalled_client_that_leaves_is_noticed(served: Served, upstream: DemoUpstream) -> None:
    """A client that left bytes unread behind it counts as gone too."""
    upstream.play([{"text": {"content": ["x" * 60_000] * 2000, "whole": False}}])
    client = _send(served, stream=True)
    exchange = upstream.wait_for_request()
    assert not exchange.ended.wait(1)

    client.close()
    left_at = time.monotonic()

    assert_closed_soon(upstream, left_at)
    assert served.record().end_reason == "client_disconnected"


def test_other_streams_go_on(served: Served, upstream: DemoUpstream) -> None:
    """One client's leaving does not touch its neighbours."""
    for _ in range(4):
        upstream.play([{"text": {"content": ["word "] * 20, "pace": 20}}])
    streams = [served.ask() for _ in range(4)]
    for stream in streams:
        stream.next_data()

    streams[0].close(abrupt=True)

    assert [stream.data()[-1] for stream in streams[1:]] == ["[DONE]"] * 3
    for stream in streams:
        stream.close()


def test_the_body_counts_once_whatever_closes_it(served: Served, upstream: DemoUpstream) -> None:
    """A body that is closed twice, from two threads, before it was started, leaves one record."""
    with served.app.test_client() as client:
        response = client.post(
            "/v1/chat/completions",
            json={"stream": True, "messages": [{"role": "user", "content": "x"}]},
            headers={"Host": "localhost"},
            buffered=False,
        )
        threads = [threading.Thread(target=response.close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        response.close()

    assert [record.end_reason for record in served.records] == ["client_disconnected"]
    assert served.gateway.open_streams == 0
    assert not upstream.requests
