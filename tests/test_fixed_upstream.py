"""Upstream is one address: no request moves it, and no headers pass that are not meant to."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.demo import DemoUpstream
from app.errors import GatewayError
from app.settings import Settings
from app.ticker import Ticker
from app.transport import Call
from app.upstream import UpstreamClient
from tests.certificates import make_certificate
from tests.clock import PATIENCE
from tests.conftest import QUESTION, Served
from tests.servers import GunicornGateway, request

SENT_UPSTREAM = {
    "host",
    "accept",
    "accept-encoding",
    "user-agent",
    "content-type",
    "content-length",
    "authorization",
    "http-referer",
    "x-openrouter-title",
}
"""Every header that a chat completion goes upstream with."""

GIVEN_BACK = {
    "server",
    "date",
    "connection",
    "transfer-encoding",
    "content-length",
    "content-type",
    "content-encoding",
    "cache-control",
    "x-accel-buffering",
    "x-request-id",
    "vary",
}
"""Every header that an answer comes back with, beside those of limits and CORS."""

STRANGE = {
    "Cookie": "session=1",
    "X-Forwarded-For": "192.0.2.1",
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Proto": "https",
    "Forwarded": "for=192.0.2.1;host=evil.example",
    "X-Real-IP": "192.0.2.1",
    "X-Original-URL": "/elsewhere",
    "X-Rewrite-URL": "/elsewhere",
    "X-HTTP-Method-Override": "GET",
    "Proxy-Authorization": "Basic eDp5",
    "Proxy": "http://evil.example",
    "X-Api-Key": "mine",
    "Api-Key": "mine",
    "HTTP-Referer": "https://evil.example",
    "Referer": "https://evil.example",
    "X-Title": "Evil",
    "X-OpenRouter-Title": "Evil",
    "User-Agent": "Evil/1",
    "Accept": "text/html",
    "Accept-Encoding": "br",
    "Accept-Language": "de",
    "Range": "bytes=0-1",
    "If-None-Match": "*",
    "OpenAI-Organization": "org-1",
    "X-Stainless-Lang": "python",
    "X-Base-Url": "http://evil.example",
    "Origin": "https://evil.example",
    "Te": "trailers",
    "Upgrade-Insecure-Requests": "1",
}


@pytest.fixture
def elsewhere() -> Iterator[DemoUpstream]:
    """Give another server, which nobody must ask."""
    with DemoUpstream() as server:
        yield server
        assert [] == server.requests


def test_no_header_of_a_caller_goes_upstream(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """What goes is on a list, with the operator's values; the gateway's own key stays here."""
    served = serve(
        SLUICE_OPEN="off",
        SLUICE_API_KEYS="ann:secret-gateway-key",
        SLUICE_REFERER="https://my.example",
        SLUICE_TITLE="Mine",
    )
    with served.ask(headers={**STRANGE, "Authorization": "Bearer secret-gateway-key"}) as answer:
        assert 200 == answer.status
        answer.read()
    sent = upstream.wait_for_request().headers
    names = {name.lower() for name, _ in sent.pairs}

    assert SENT_UPSTREAM == names
    assert len(names) == len(sent.pairs)
    assert ("Bearer sk-or-v1-operator", "https://my.example", "Mine") == (
        sent["Authorization"],
        sent["HTTP-Referer"],
        sent["X-OpenRouter-Title"],
    )
    values = " ".join(value for _, value in sent.pairs)
    assert not [word for word in ("secret-gateway-key", "evil", "Evil", "192.0.2", "org-1") if word in values]


def test_headers_of_a_caller_do_not_reach_the_model_list(served: Served, upstream: DemoUpstream) -> None:
    """Which is fetched for all, with the operator's key."""
    with request("GET", f"{served.url}/v1/models?host=evil.example", headers=STRANGE) as answer:
        assert 200 == answer.status
    sent = upstream.wait_for_request()

    assert ("/api/v1/models", {}) == (sent.path, sent.query)
    assert {name.lower() for name, _ in sent.headers.pairs} <= SENT_UPSTREAM | {"connection"}
    assert "Bearer sk-or-v1-operator" == sent.headers["Authorization"]


TARGETS = (
    "/v1/chat/completions?base_url=http://127.0.0.1:1&upstream=http://127.0.0.1:1",
    "http://127.0.0.1:1/v1/chat/completions",
    "/v1//chat/completions",
    "/v1/chat/../chat/completions",
    "/v1/chat/completions/../../../key",
    "/v1/chat%2Fcompletions",
)


def post(gateway: GunicornGateway, target: str, *keys: str) -> int:
    """Send a chat completion to *target* as it is, with an Authorization header for each key; give the status."""
    body = json.dumps(QUESTION).encode()
    host, port = gateway.url.removeprefix("http://").split(":")
    lines = "".join(f"Authorization: Bearer {key}\r\n" for key in keys)
    head = f"POST {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((host, int(port)), PATIENCE) as sock:
        sock.sendall(head.encode() + body)
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
    return int(answer.split(b" ")[1])


def test_under_gunicorn_no_target_moves_upstream_and_two_keys_are_none(upstream: DemoUpstream) -> None:
    """Query, absolute address, dots and escapes: the same place is asked, or none. Two Authorization headers, which
    gunicorn joins, are a 401 even if both are known."""
    env = {"OPENROUTER_BASE_URL": upstream.base_url, "SLUICE_OPEN": "off", "SLUICE_API_KEYS": "ann:first,bob:second"}
    with GunicornGateway(env) as gateway:
        for target in TARGETS:
            assert post(gateway, target, "first") in (200, 308, 404)
        assert {("POST", "/api/v1/chat/completions", False)} == asked(upstream)
        count = len(upstream.requests)
        keys = (("first", "second"), ("first", "first"), ("first", ""), ("", "first"), ("first, Bearer first",), ())
        assert [401] * len(keys) == [post(gateway, TARGETS[0], *found) for found in keys]
        assert count == len(upstream.requests)


def asked(upstream: DemoUpstream) -> set[tuple[str, str, bool]]:
    """Give what upstream was asked for: method, path, and whether there was a query."""
    return {(found.method, found.path, bool(found.query)) for found in upstream.requests}


@pytest.mark.parametrize(
    "model_id", ["../key", "..%2f..%2fkey", "%2e%2e/key", "http://127.0.0.1:1/x", "@127.0.0.1:1", "a%0d%0aX: y", "?x#y"]
)
def test_a_model_id_is_looked_up_and_never_asked_for(served: Served, upstream: DemoUpstream, model_id: str) -> None:
    """The list is fetched from its one address, whatever the id looks like."""
    with request("GET", f"{served.url}/v1/models/{model_id}") as answer:
        assert answer.status in (400, 404, 405)
    assert {("GET", "/api/v1/models", False)} >= asked(upstream)


def test_no_field_of_a_body_moves_upstream(served: Served, upstream: DemoUpstream, elsewhere: DemoUpstream) -> None:
    """Fields of other gateways that would are passed on as any unknown field, and mean nothing here."""
    names = ("base_url", "api_base", "endpoint", "upstream", "url", "host", "proxy", "custom_llm_provider", "webhook")
    fields = dict.fromkeys(names, elsewhere.base_url)
    headers = {"Authorization": "Bearer evil", "Host": "evil.example", "X-Evil": "1"}
    with served.ask(**fields, extra_headers=headers, headers_=headers, model=f"openai/{elsewhere.base_url}") as answer:
        assert 200 == answer.status
        answer.read()
    sent = upstream.wait_for_request()

    assert sent.body is not None
    assert elsewhere.base_url == sent.body["base_url"]
    assert f"127.0.0.1:{upstream.port}" == sent.headers["Host"]
    assert "X-Evil" not in sent.headers
    assert "evil" not in sent.headers["Authorization"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 300, 304])
@pytest.mark.parametrize("route", ["stream", "whole", "models"])
def test_no_redirect_is_followed(
    served: Served, upstream: DemoUpstream, elsewhere: DemoUpstream, status: int, route: str
) -> None:
    """Nor told to the client, who would bring its key there; an upstream that moves is the operator's business."""
    location = f"{elsewhere.base_url}/chat/completions"
    upstream.play([{"answer": {"status": status, "headers": {"Location": location}}}], path=None)
    answer = request("GET", f"{served.url}/v1/models") if route == "models" else served.ask(stream=route == "stream")
    with answer:
        text = answer.read().decode()
    assert (200 if route == "stream" else 502) == answer.status
    assert '"error"' in text
    assert "location" not in answer.headers
    assert 1 == len(upstream.requests)


@pytest.mark.parametrize("route", ["stream", "whole", "error", "models"])
def test_no_header_of_upstreams_comes_back(served: Served, upstream: DemoUpstream, route: str) -> None:
    """But what is on a list: an upstream cannot set cookies, framing, or what browsers may do here."""
    headers = {
        "Set-Cookie": "a=b",
        "Location": "http://evil.example",
        "Refresh": "0; url=http://evil.example",
        "Access-Control-Allow-Origin": "*",
        "Content-Security-Policy": "default-src *",
        "Strict-Transport-Security": "max-age=1",
        "WWW-Authenticate": "Basic",
        "X-Accel-Redirect": "/etc/passwd",
        "X-Accel-Buffering": "yes",
        "X-Sendfile": "/etc/passwd",
        "X-Request-Id": "upstreams",
        "X-Evil": "1",
        "Via": "1.1 upstream",
        "x-ratelimit-limit-requests": "1",
        "x-should-retry": "true",
        "Server": "upstream/1",
        "CF-Ray": "x",
    }
    if route == "models":
        upstream.play([{"answer": {"headers": headers, "json": {"data": []}}}], path="/models")
        answer = request("GET", f"{served.url}/v1/models")
    elif route == "error":
        wrong = {"error": {"message": "no", "code": 400}}
        upstream.play([{"answer": {"status": 400, "headers": headers, "json": wrong}}])
        answer = served.ask(stream=False)
    else:
        upstream.play([{"head": {"headers": headers}}, {"text": "Hi"}])
        answer = served.ask(stream=route == "stream")
    with answer:
        answer.read()
    assert (400 if route == "error" else 200) == answer.status
    assert set() == set(answer.headers) - GIVEN_BACK
    assert not [v for v in answer.headers.values() if "upstream" in v or "evil" in v or v == "yes"]


def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    """Its authority is known, and it is not upstream's."""
    certificate = make_certificate(tmp_path, "DNS:other.example")
    settings = {"SLUICE_CA_BUNDLE": str(certificate.certificate), "SLUICE_RETRIES": "0"}
    with DemoUpstream(ssl_context=certificate.server_context()) as server:
        values = {"OPENROUTER_BASE_URL": server.base_url, **settings}
        client = UpstreamClient(Settings.from_mapping(values), Ticker(0.2))
        with pytest.raises(GatewayError, match=r"TLS with upstream .* failed"):
            client.open(Call(), b"{}", "key", own_key=True)
        assert [] == server.requests


def test_a_tls_upstream_is_never_asked_in_plain(tmp_path: Path, upstream: DemoUpstream) -> None:
    """A server that speaks no TLS gets nothing of the request, the key least of all."""
    base_url = upstream.base_url.replace("http://", "https://")
    settings = Settings.from_mapping({"OPENROUTER_BASE_URL": base_url, "SLUICE_RETRIES": "0"})
    client = UpstreamClient(settings, Ticker(0.2))
    with pytest.raises(GatewayError):
        client.open(Call(), b"{}", "key", own_key=True)
    assert [] == upstream.requests
