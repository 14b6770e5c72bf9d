"""How an answer goes over the wire: framing, grouping, cuts and connections."""

from __future__ import annotations

import gc
import json
import socket
import ssl
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from app.demo import DemoUpstream
from tests.certificates import make_certificate
from tests.clock import PATIENCE, granted

from .client import Answer, ask, connect, events, send

Play = Callable[..., Answer]


def test_each_event_is_an_http_chunk(play: Play) -> None:
    """By default an event is one HTTP chunk, and the body ends with the empty one."""
    answer = play({"data": "a"}, {"data": "b"}, {"end": True})

    assert [b"data: a\n\n", b"data: b\n\n", b""] == answer.chunks


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ({"events": 2}, [b"data: a\n\ndata: b\n\n", b"data: c\n\n", b""]),
        ({"events": 0}, [b"data: a\n\ndata: b\n\ndata: c\n\n", b""]),
        ({"bytes": 4}, [b"data", b": a\n", b"\n", b"data", b": b\n", b"\n", b"data", b": c\n", b"\n", b""]),
        ({"events": 0, "bytes": 20}, [b"data: a\n\ndata: b\n\nda", b"ta: c\n\n", b""]),
    ],
)
def test_http_chunks_are_grouped_as_asked(play: Play, shape: dict[str, Any], chunks: list[bytes]) -> None:
    """Several events share an HTTP chunk, or one event takes several."""
    answer = play({"write": shape}, {"data": "a"}, {"data": "b"}, {"data": "c"}, {"end": True})

    assert chunks == answer.chunks


def test_packets_of_so_many_bytes(play: Play) -> None:
    """With a delay between them, packets arrive one by one, across all borders."""
    script = [{"head": {}}, {"wait": 0.02}, {"write": {"packet": 5, "delay": 0.02}}, {"data": "abc"}, {"end": True}]
    answer = play(*script)

    assert b"b\r\ndata: abc\n\n\r\n0\r\n\r\n" == answer.wire.partition(b"\r\n\r\n")[2]
    assert [b"b\r\nda", b"ta: a", b"bc\n\n\r", b"\n", b"0\r\n\r\n"] == answer.reads[1:]


def test_a_head_can_be_split(play: Play) -> None:
    """A shape before the head applies to the head as well."""
    answer = play({"write": {"packet": 50, "delay": 0.02}}, {"head": {}}, {"write": {}}, {"data": "x"}, {"end": True})

    assert 200 == answer.status and ["x"] == answer.events
    assert 50 == len(answer.reads[0])


def test_http_chunks_share_a_packet(play: Play) -> None:
    """Two HTTP chunks are written at once, the third when the script moves on."""
    shape = {"write": {"chunks": 2, "delay": 0.02}}
    answer = play({"head": {}}, {"wait": 0.02}, shape, {"data": "a"}, {"data": "b"}, {"data": "c"}, {"end": True})

    assert 2 == answer.reads[1].count(b"data: ")
    assert 1 == answer.reads[2].count(b"data: ")


def test_held_bytes_go_out_before_a_wait(play: Play, upstream: DemoUpstream) -> None:
    """What a shape holds back does not outlast a wait."""
    upstream.play([{"write": {"events": 0}}, {"data": "a"}, {"silence": True}])
    with connect(upstream) as connection:
        send(connection, model="m", messages=[])
        data = b""
        while b"data: a\n\n" not in data:
            data += connection.recv(65536)

    assert upstream.requests[0].closed.wait(PATIENCE)


@pytest.mark.parametrize("framing", ["chunked", "close", "length"])
@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_framings_and_encodings_carry_the_same_body(play: Play, framing: str, encoding: str | None) -> None:
    """Whatever the framing and the encoding, the body is the same, and the headers tell which."""
    answer = play({"head": {"framing": framing, "encoding": encoding}}, {"data": "a"}, {"data": "b"}, {"end": True})

    headers = dict(answer.headers)
    assert b"data: a\n\ndata: b\n\n" == answer.body
    assert (framing == "chunked", framing == "length") == ("transfer-encoding" in headers, "content-length" in headers)
    assert encoding == headers.get("content-encoding")


def test_gzip_is_flushed_with_every_event(upstream: DemoUpstream) -> None:
    """A reader can decompress an event before the next one is written."""
    upstream.play([{"head": {"encoding": "gzip"}}, {"data": "a"}, {"silence": True}])
    url = f"{upstream.base_url}/chat/completions"
    with requests.post(url, json={"messages": []}, stream=True, timeout=PATIENCE) as response:
        assert b"data: a\n\n" == response.raw.read1(65536, decode_content=True)


def test_a_declared_length_may_be_wrong(play: Play) -> None:
    """A content length is sent as given, whatever the body's length."""
    answer = play({"head": {"framing": "length", "length": 99}}, {"bytes": "x"}, {"cut": "fin"})

    assert "99" == dict(answer.headers)["content-length"] and b"x" == answer.body


def test_headers_of_any_kind(play: Play) -> None:
    """Status, reason and headers come as asked for, repeated ones too."""
    head = {"status": 299, "reason": "Odd", "headers": {"Set-Cookie": ["a=1", "b=2"], "Retry-After": 3}, "type": None}
    answer = play({"head": head}, {"end": True})

    assert answer.head.startswith("HTTP/1.1 299 Odd\r\n")
    assert ["a=1", "b=2"] == [value for name, value in answer.headers if name == "set-cookie"]
    assert ("retry-after", "3") in answer.headers and "content-type" not in dict(answer.headers)


def test_a_raw_head_is_sent_as_it_is(play: Play) -> None:
    """A head spelled out is followed by an unframed body that ends with the connection."""
    answer = play({"raw_head": "HTTP/1.1 200 OK\r\nX: "}, {"bytes": "y\r\n\r\nbody"}, {"end": True})

    assert b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nbody" == answer.wire


def test_raw_bytes_pass_the_framing(play: Play) -> None:
    """Bytes for the wire are not framed: a broken chunk size reaches the client."""
    answer = play({"head": {}}, {"wire": "zz\r\n"}, {"cut": "fin"})

    assert answer.wire.endswith(b"\r\n\r\nzz\r\n")


@pytest.mark.parametrize(
    ("step", "status", "kind", "body"),
    [
        ({"json": {"a": 1}}, 200, "application/json", b'{"a":1}'),
        ({"json": None, "leading": "\n \n"}, 200, "application/json", b"\n \nnull"),
        ({"status": 502, "html": "<h1>"}, 502, "text/html; charset=utf-8", b"<h1>"),
        ({"text": "no"}, 200, "text/plain; charset=utf-8", b"no"),
        ({"status": 500, "body": {"hex": "ff"}, "type": "x/y"}, 500, "x/y", b"\xff"),
        (503, 503, None, b""),
    ],
)
def test_answers_that_are_no_stream(play: Play, step: Any, status: int, kind: str | None, body: bytes) -> None:
    """JSON, HTML, text, bytes or nothing, with a length."""
    answer = play({"answer": step})

    assert (status, kind, body) == (answer.status, dict(answer.headers).get("content-type"), answer.body)
    assert str(len(body)) == dict(answer.headers)["content-length"]


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_a_cut_ends_without_the_last_chunk(play: Play, upstream: DemoUpstream, how: str) -> None:
    """A cut closes or resets the connection in the middle of the body."""
    answer = play({"data": "a"}, {"wait": 0.05}, {"cut": how})

    assert [b"data: a\n\n"] == answer.chunks
    assert answer.reset is (how == "rst")
    assert upstream.requests[0].ended.wait(PATIENCE) and "cut" == upstream.requests[0].outcome


@pytest.mark.parametrize("count", range(0, 12))
def test_a_cut_at_any_byte_of_the_body(play: Play, count: int) -> None:
    """Just so many bytes of the body arrive, then the body ends properly or not."""
    script = [{"data": "a"}, {"data": "b"}]
    cut = play({"cut_at": count}, *script)
    ended = play({"head": {}}, {"cut_at": {"count": count, "how": "clean"}}, *script)

    assert b"data: a\n\ndata: b\n\n"[:count] == (cut.body if cut.wire else b"") == ended.body
    assert ended.wire.endswith(b"0\r\n\r\n") and not cut.wire.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("count", [1, 9, 150, 170, 171, 200])
def test_a_cut_at_any_byte_of_the_wire(play: Play, count: int) -> None:
    """Head and framing count where the wire is counted."""
    answer = play({"cut_at": {"count": count, "of": "wire"}}, {"text": "some words"})

    assert count == len(answer.wire)


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_a_hang_up_comes_without_a_response(play: Play, how: str) -> None:
    """The connection ends after the request."""
    answer = play({"hangup": how})

    assert b"" == answer.wire and answer.reset is (how == "rst")


def test_a_connection_is_refused_when_accepted(upstream: DemoUpstream) -> None:
    """A script that refuses closes the next connection before a request is read, and is used up by it."""
    upstream.play([{"refuse": "fin"}])
    with connect(upstream) as connection:
        assert b"" == connection.recv(1)

    assert 200 == ask(upstream, model="demo/echo", messages=[{"role": "user", "content": "x"}]).status
    assert 2 == upstream.connects and 1 == len(upstream.requests)


@pytest.mark.parametrize("script", [[{"silence": True}], [{"head": {}}, {"silence": True}]])
def test_silence_before_and_after_the_head(upstream: DemoUpstream, script: list[Any]) -> None:
    """Silence lasts until the peer leaves, which is noticed at once."""
    upstream.play(script)
    connection = connect(upstream)
    send(connection, model="m", messages=[])
    exchange = upstream.wait_for_request()
    if len(script) == 2:
        assert connection.recv(15) == b"HTTP/1.1 200 OK"
    left = time.monotonic()
    connection.close()

    assert exchange.closed.wait(PATIENCE) and exchange.ended.wait(PATIENCE)
    assert "closed" == exchange.outcome and exchange.started.is_set() is (len(script) == 2)
    assert granted(left, exchange.closed_at) < 1


def test_what_is_held_goes_on_when_it_is_released(upstream: DemoUpstream) -> None:
    """A held answer sends what came before the step and nothing behind it, until it is told to go on."""
    upstream.play([{"data": "before"}, {"hold": True}, {"data": "behind"}, {"end": True}])
    with connect(upstream) as connection:
        send(connection, model="m", messages=[])
        received = b""
        while b"before" not in received:
            received += connection.recv(65536)
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)

        upstream.release()

        connection.settimeout(PATIENCE)
        while not received.endswith(b"0\r\n\r\n"):
            received += connection.recv(65536)
    assert b"behind" in received


def test_waits_come_where_the_script_has_them(play: Play, upstream: DemoUpstream) -> None:
    """A wait before the first byte delays the head, a wait after it the next event."""
    play({"wait": 0.1}, {"data": "a"}, {"wait": 0.1}, {"end": True})

    (exchange,) = upstream.requests
    assert exchange.started_at is not None and exchange.ended_at is not None
    assert exchange.started_at - exchange.time >= 0.1 and exchange.ended_at - exchange.started_at >= 0.1


def test_connections_are_used_again(upstream: DemoUpstream) -> None:
    """After a proper end the next request may come on the same connection, even one sent early."""
    with connect(upstream) as connection:
        body: dict[str, Any] = {"model": "demo/echo", "messages": [{"role": "user", "content": "one"}], "stream": True}
        send(connection, **body, close=False)
        send(connection, **body, close=True)
        data = b""
        while read := connection.recv(65536):
            data += read

    assert 2 == data.count(b"[DONE]")
    assert [1, 1] == [exchange.connection for exchange in upstream.requests] and 1 == upstream.connects


def test_http_1_0_gets_an_unframed_body(upstream: DemoUpstream) -> None:
    """A client of HTTP/1.0 gets a body that ends with the connection."""
    with connect(upstream) as connection:
        connection.sendall(b"GET /api/v1/models HTTP/1.0\r\n\r\n")
        upstream.wait_for_request()
        data = b""
        while read := connection.recv(65536):
            data += read

    assert "demo/echo" == json.loads(data.partition(b"\r\n\r\n")[2])["data"][0]["id"]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    ],
)
def test_requests_that_cannot_be_read_are_a_400(upstream: DemoUpstream, request_bytes: bytes) -> None:
    """A request that is none, or has a body of unknown length, is refused."""
    with connect(upstream) as connection:
        connection.sendall(request_bytes)
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")

    assert [] == upstream.requests


def test_a_client_that_does_not_read_holds_the_upstream(upstream: DemoUpstream) -> None:
    """With full buffers the upstream stops writing, and goes on when the client reads."""
    upstream.play([{"repeat": {"times": 300, "steps": [{"bytes": {"fill": 100_000}}]}}, {"end": True}])
    with connect(upstream) as connection:
        send(connection, model="m", messages=[])
        exchange = upstream.wait_for_request()
        assert not exchange.ended.wait(0.5)
        held = exchange.sent
        assert held < 25_000_000
        while connection.recv(1 << 20):
            pass

    assert exchange.ended.wait(PATIENCE) and exchange.finished and exchange.sent > 30_000_000


def test_tls(tmp_path: Path) -> None:
    """With a certificate the upstream speaks TLS, notices closes and resets as without."""
    made = make_certificate(tmp_path)
    with DemoUpstream(ssl_context=made.server_context()) as upstream:
        url = f"{upstream.base_url}/chat/completions"
        assert url.startswith("https://127.0.0.1:")
        body: dict[str, Any] = {
            "model": "demo/echo",
            "messages": [{"role": "user", "content": "hi you"}],
            "stream": True,
        }
        content = requests.post(url, json=body, verify=str(made.certificate), timeout=PATIENCE).content
        assert "[DONE]" == events(content)[-1]

        for how in ("fin", "rst"):
            upstream.play([{"text": "x"}, {"cut": how}])
            with pytest.raises(requests.exceptions.ChunkedEncodingError):
                requests.post(url, json=body, verify=str(made.certificate), timeout=PATIENCE)

        upstream.play([{"silence": True}])
        context = ssl.create_default_context(cafile=str(made.certificate))
        with context.wrap_socket(connect(upstream), server_hostname="127.0.0.1") as connection:
            send(connection, **body)
            exchange = upstream.wait_for_request(4)
        assert exchange.closed.wait(PATIENCE)
        upstream.wait_for_connections(0)


def test_stopping_closes_connections_whose_handshake_failed_or_never_ended(tmp_path: Path) -> None:
    """A server that stops right then leaves no socket open."""
    context = make_certificate(tmp_path).server_context()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for number in range(6):
            with (
                DemoUpstream(ssl_context=context) as server,
                socket.create_connection(("127.0.0.1", server.port)) as sock,
            ):
                if number % 2:
                    sock.sendall(b"\x16\x03\x01")
                else:
                    with pytest.raises(ssl.SSLError):
                        ssl.create_default_context().wrap_socket(sock, server_hostname="localhost")
        gc.collect()

    assert [] == [str(warning.message) for warning in seen if issubclass(warning.category, ResourceWarning)]
