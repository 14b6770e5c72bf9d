"""The pieces under the upstream client: cancelling in every phase, TLS, reading lines."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import responses

from app import idle, wire
from app.demo import DemoUpstream
from app.errors import GatewayError, UpstreamStatusError
from app.settings import Settings
from app.sse import EventTooLong
from app.ticker import Ticker
from app.transport import Call, Cancelled, StreamResponse
from app.upstream import UpstreamClient
from tests.certificates import make_certificate
from tests.clock import PATIENCE, granted
from tests.conftest import Served
from tests.test_streaming import texts

BODY = wire.dumps({"model": "demo/echo", "stream": True, "messages": [{"role": "user", "content": "hi"}]})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Give a certificate that is its own authority."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def tls_upstream(certificate: Any) -> Iterator[DemoUpstream]:
    """Give a scripted upstream behind TLS."""
    with DemoUpstream(ssl_context=certificate.server_context()) as server:
        yield server


def client_for(base_url: str, **settings: str) -> UpstreamClient:
    """Make a client."""
    values = {"OPENROUTER_BASE_URL": base_url, "SLUICE_RETRIES": "0", **settings}
    return UpstreamClient(Settings.from_mapping(values), Ticker(0.2))


def open_in_thread(client: UpstreamClient, call: Call) -> tuple[threading.Thread, list[Any]]:
    """Open a call in a thread; what comes of it goes into the list."""
    results: list[Any] = []

    def work() -> None:
        try:
            response = client.open(call, BODY, "key", own_key=True)
            results.append(response)
            results.extend(response.iter_lines())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, results


def test_tls_is_verified(tls_upstream: DemoUpstream) -> None:
    """A certificate that nobody vouches for is refused, and the error names the setting."""
    with pytest.raises(GatewayError, match="SLUICE_CA_BUNDLE"):
        client_for(tls_upstream.base_url).open(Call(), BODY, "key", own_key=True)

    assert not tls_upstream.requests


def test_a_stream_comes_over_tls(tls_upstream: DemoUpstream, certificate: Any, serve: Callable[..., Served]) -> None:
    """With the right CA bundle the relay works over TLS and uses its connection again."""
    served = serve(OPENROUTER_BASE_URL=tls_upstream.base_url, SLUICE_CA_BUNDLE=str(certificate.certificate))

    for number in range(3):
        tls_upstream.play([{"text": "secret"}])
        with served.ask() as stream:
            assert "secret" == texts(stream.data())
        served.record(number + 1)

    assert 1 == tls_upstream.connects


@pytest.mark.parametrize("script", [[{"silence": True}], [{"text": "a"}, {"silence": True}]], ids=["head", "body"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("pooled", [False, True], ids=["new", "pooled"])
def test_a_call_is_cancelled_where_it_waits(
    upstream: DemoUpstream, tls_upstream: DemoUpstream, certificate: Any, script: Any, tls: bool, pooled: bool
) -> None:
    """New connection or pooled, plain or TLS, before the head or in the body: the reader wakes and upstream sees it."""
    server = tls_upstream if tls else upstream
    client = client_for(server.base_url, SLUICE_CA_BUNDLE=str(certificate.certificate))
    if pooled:
        list(client.open(Call(), BODY, "key", own_key=True).iter_lines())
    server.play(script)
    call = Call()
    thread, results = open_in_thread(client, call)
    exchange = server.wait_for_request(2 if pooled else 1)
    if "text" in script[0]:
        assert exchange.started.wait(PATIENCE)

    call.cancel()
    cancelled_at = time.monotonic()
    thread.join(PATIENCE)

    assert not thread.is_alive()
    assert exchange.closed.wait(PATIENCE)
    assert granted(cancelled_at, exchange.closed_at) < 1
    assert results
    assert (1, 1) == (server.connects, exchange.connection)
    client.close()


def test_a_call_is_cancelled_in_the_handshake(certificate: Any) -> None:
    """A TLS handshake that the other side does not answer can be left."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = client_for(
            f"https://127.0.0.1:{server.getsockname()[1]}/v1", SLUICE_CA_BUNDLE=str(certificate.certificate)
        )
        call = Call()
        thread, results = open_in_thread(client, call)
        peer, _ = server.accept()
        assert peer.recv(5)

        call.cancel()
        thread.join(PATIENCE)

        assert not thread.is_alive()
        assert isinstance(results[0], (Cancelled, GatewayError))
        peer.settimeout(PATIENCE)
        while peer.recv(65536):
            pass
        peer.close()


def test_a_cancelled_call_sends_nothing(upstream: DemoUpstream) -> None:
    """A call that was cancelled before it began opens no request."""
    call = Call()
    call.cancel()

    with pytest.raises((Cancelled, GatewayError)):
        client_for(upstream.base_url).open(call, BODY, "key", own_key=True)

    assert not upstream.requests


def test_cancelling_an_ended_call_spares_the_next_one_on_its_connection(upstream: DemoUpstream) -> None:
    """A connection that went back to its pool is no longer the old call's to shut down."""
    client = client_for(upstream.base_url)
    old = Call()
    list(client.open(old, BODY, "key", own_key=True).iter_lines())
    upstream.play([{"text": "a"}, {"wait": 0.3}, {"text": "b"}])
    thread, results = open_in_thread(client, Call())
    upstream.wait_for_request(2)

    old.cancel()
    thread.join(PATIENCE)

    assert b"data: [DONE]" in results
    assert 1 == upstream.connects
    client.close()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64, 65536])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_are_whole_however_they_are_read(size: int, end: bytes) -> None:
    """iter_lines gives the same lines for every read size and line end."""
    lines = [b"data: a", b"", b": c", "data: é🔥\u2028".encode(), b"", b"last without end"]

    assert lines == list(_response(end.join(lines), size).iter_lines())


def test_a_line_over_the_limit_raises() -> None:
    """An unfinished line is kept only up to the limit."""
    response = _response(b"x" * 1000, 100)
    response.line_limit = 500

    with pytest.raises(EventTooLong):
        list(response.iter_lines())


class _Raw(io.BytesIO):
    """What a response reads from, at most *size* bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self._size = size

    def read1(self, amount: int | None = -1, decode_content: bool = True) -> bytes:
        """Give the next piece."""
        return self.read(self._size)


def _response(data: bytes, size: int) -> StreamResponse:
    response = StreamResponse()
    response.raw = _Raw(data, size)
    return response


@responses.activate
def test_the_request_carries_attribution_and_nothing_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Attribution headers come from settings; netrc and proxies of the environment are not looked at."""
    (tmp_path / ".netrc").write_text("machine up.example login ann password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    responses.post("https://up.example/v1/chat/completions", body="data: [DONE]\n\n")
    client = client_for("https://up.example/v1", SLUICE_REFERER="https://my.example", SLUICE_TITLE="Mine")

    client.open(Call(), BODY, "sk-or-v1-x", own_key=True)

    sent = responses.calls[0].request.headers
    assert ["Bearer sk-or-v1-x", "https://my.example", "Mine", "identity"] == [
        sent[name] for name in ("Authorization", "HTTP-Referer", "X-OpenRouter-Title", "Accept-Encoding")
    ]


@responses.activate
def test_an_error_body_is_read_defensively() -> None:
    """HTML, junk and empty bodies become an error with upstream's status."""
    for body in (b"<html>", b"", b"\xff", b"[1]", b'{"detail": "why"}'):
        responses.post("https://up.example/v1/chat/completions", body=body, status=418)
        with pytest.raises(UpstreamStatusError) as caught:
            client_for("https://up.example/v1").open(Call(), BODY, "key", own_key=True)
        assert 418 == caught.value.status
        responses.reset()


@pytest.mark.parametrize("left", [b"", b"HTTP/1.1 200 OK\r\n"], ids=["closed", "stray bytes"])
def test_an_idle_connection_that_is_no_longer_clean_is_not_used_again(left: bytes) -> None:
    """A request on it would be lost with a closed connection, or be answered by what was left behind."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = client_for(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", SLUICE_OPEN="on")
        answered, spoiled = threading.Event(), threading.Event()

        def serve() -> None:
            first, _ = listener.accept()
            first.recv(65536)
            first.sendall(answer)
            answered.wait(PATIENCE)
            first.sendall(left) if left else first.close()
            spoiled.set()
            second, _ = listener.accept()
            second.recv(65536)
            second.sendall(answer)
            second.close()
            first.close()

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        try:
            assert {} == client.get("/models")
            answered.set()
            spoiled.wait(PATIENCE)
            assert {} == client.get("/models")
            server.join(PATIENCE)
        finally:
            client.close()

    assert not server.is_alive()


def test_a_connection_that_is_idle_for_long_is_closed(upstream: DemoUpstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a further request, and without touching one in use; the next call opens a connection of its own."""
    monkeypatch.setattr(idle, "KEPT", 0.0)
    client = client_for(upstream.base_url)
    upstream.play([{"text": "a"}, {"silence": True}])
    call = Call()
    thread, _ = open_in_thread(client, call)
    upstream.wait_for_request(1)
    upstream.play([{"text": "b"}])
    list(client.open(Call(), BODY, "key", own_key=True).iter_lines())

    in_use, idle_one = upstream.requests
    assert idle_one.closed.wait(30)
    assert not in_use.closed.is_set()
    list(client.open(Call(), BODY, "key", own_key=True).iter_lines())
    assert 3 == upstream.connects
    call.cancel()
    thread.join(30)
    client.close()


def test_a_connection_is_kept_for_the_next_call(upstream: DemoUpstream) -> None:
    """As long as it was used a short while ago."""
    client = client_for(upstream.base_url)
    for _ in range(3):
        list(client.open(Call(), BODY, "key", own_key=True).iter_lines())
    assert 1 == upstream.connects
    client.close()
