"""Requests that are wrong: a JSON error in OpenAI's shape with the right status, and nothing goes upstream."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.demo import DemoUpstream
from tests.conftest import QUESTION, Served
from tests.servers import open_stream, request

JSON = {"Content-Type": "application/json"}
GOOD = json.dumps(QUESTION).encode()

BODIES: dict[str, tuple[bytes, str | None]] = {
    "empty": (b"", None),
    "blank": (b"  \n", None),
    "no JSON": (b"{", None),
    "not UTF-8": (b'{"messages": "\xff"}', None),
    "NaN": (b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}', None),
    "nested deeply": (b"[" * 100_000, None),
    "a list": (b"[]", None),
    "a text": (b'"x"', None),
    "no messages": (b"{}", "messages"),
    "messages null": (b'{"messages": null}', "messages"),
    "messages empty": (b'{"messages": []}', "messages"),
    "messages text": (b'{"messages": "hi"}', "messages"),
    "message text": (b'{"messages": ["hi"]}', "messages[0]"),
    "no role": (b'{"messages": [{"content": "x"}]}', "messages[0].role"),
    "unknown role": (b'{"messages": [{"role": "wizard", "content": "x"}]}', "messages[0].role"),
    "role number": (b'{"messages": [{"role": 3}]}', "messages[0].role"),
    "content number": (b'{"messages": [{"role": "user", "content": 3}]}', "messages[0].content"),
    "part text": (b'{"messages": [{"role": "user", "content": ["x"]}]}', "messages[0].content[0]"),
    "stream text": (b'{"stream": "yes", "messages": [{"role": "user", "content": "x"}]}', "stream"),
    "stream options": (b'{"stream_options": 1, "messages": [{"role": "user", "content": "x"}]}', "stream_options"),
    "model number": (b'{"model": 1, "messages": [{"role": "user", "content": "x"}]}', "model"),
    "model empty": (b'{"model": "", "messages": [{"role": "user", "content": "x"}]}', "model"),
    "models text": (b'{"models": "a", "messages": [{"role": "user", "content": "x"}]}', "models"),
    "key number": (b'{"openrouter_api_key": 1, "messages": [{"role": "user", "content": "x"}]}', "openrouter_api_key"),
    "key with a line end": (
        b'{"openrouter_api_key": "a\\r\\nb: c", "messages": [{"role": "user", "content": "x"}]}',
        "openrouter_api_key",
    ),
    "key not ASCII": (
        '{"openrouter_api_key": "schlüssel", "messages": [{"role": "user", "content": "x"}]}'.encode(),
        "openrouter_api_key",
    ),
}


def assert_error(body: Any, code: str | None = None, param: str | None = None) -> None:
    """Check an error's shape."""
    error = body["error"]
    assert {"message", "type", "param", "code"} == error.keys()
    assert isinstance(error["message"], str) and error["message"]
    assert param == error["param"]
    if code is not None:
        assert code == error["code"]


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_wrong_is_a_400_that_names_the_field(served: Served, upstream: DemoUpstream, name: str) -> None:
    """The status is 400, the error names the field, the record says rejected."""
    data, param = BODIES[name]

    with open_stream(served.chat_url, data, JSON) as response:
        body = response.json()

    assert 400 == response.status
    assert_error(body, "invalid_request", param)
    assert "rejected" == served.record().end_reason
    assert not upstream.requests


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"])
def test_another_content_type_is_a_415(served: Served, upstream: DemoUpstream, kind: str) -> None:
    """Only JSON is taken."""
    with open_stream(served.chat_url, GOOD, {"Content-Type": kind}) as response:
        assert 415 == response.status
        assert_error(response.json(), "unsupported_media_type")

    assert not upstream.requests


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "application/vnd.x+json"])
def test_json_content_types_are_taken(served: Served, kind: str) -> None:
    """With parameters and suffixes."""
    with open_stream(served.chat_url, GOOD, {"Content-Type": kind}) as response:
        assert 200 == response.status


def test_an_encoded_body_is_a_415(served: Served) -> None:
    """Compressed bodies are not unpacked."""
    with open_stream(served.chat_url, GOOD, {**JSON, "Content-Encoding": "gzip"}) as response:
        assert 415 == response.status
        assert_error(response.json(), "unsupported_media_type")


def test_a_chunked_body_is_a_411(served: Served, upstream: DemoUpstream) -> None:
    """A body without a length is refused before it is read."""
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(GOOD), GOOD)
    with open_stream(served.chat_url, chunked, {**JSON, "Transfer-Encoding": "chunked"}) as response:
        assert 411 == response.status
        assert_error(response.json(), "length_required")

    assert not upstream.requests


def test_a_huge_body_is_a_413(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """A body over the limit is refused by its length."""
    served = serve(SLUICE_MAX_BODY_BYTES="2000")

    with open_stream(served.chat_url, GOOD + b" " * 2000, JSON) as response:
        assert 413 == response.status
        assert_error(response.json(), "payload_too_large")

    assert not upstream.requests


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_another_method_is_a_405(served: Served, method: str) -> None:
    """The error names the method that is taken."""
    with request(method, served.chat_url) as response:
        assert (405, "POST") == (response.status, response.headers["allow"])
        assert_error(response.json(), "method_not_allowed")


def test_options_tells_the_methods(served: Served) -> None:
    """Whoever asks what a route takes is told, as extensions for CORS rely on."""
    with request("OPTIONS", served.chat_url) as response:
        assert (204, "POST") == (response.status, response.headers["allow"])


@pytest.mark.parametrize(
    "path", ["/v1/responses", "/v1/completions", "/v1/embeddings", "/v1/nothing", "/v1/chat", "/x"]
)
def test_another_route_is_a_404(served: Served, path: str) -> None:
    """The error says what there is."""
    with request("POST", served.url + path) as response:
        body = response.json()

    assert 404 == response.status
    assert_error(body, "not_found")
    assert "/v1" in body["error"]["message"]


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.2:8000", "[::1].evil"])
def test_a_foreign_host_is_a_403_in_open_mode(served: Served, upstream: DemoUpstream, host: str) -> None:
    """A page that resolves its own name to this machine gets nothing."""
    with open_stream(served.chat_url, GOOD, {**JSON, "Host": host}) as response:
        assert response.status in (400, 403)
        assert_error(response.json())

    assert not upstream.requests


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:9", "[::1]:8000", "gw.example"])
def test_local_hosts_and_allowed_ones_are_served(serve: Callable[..., Served], host: str) -> None:
    """Any port of this machine's own names, and what the operator allows."""
    served = serve(SLUICE_ALLOWED_HOSTS="gw.example")

    with open_stream(served.chat_url, GOOD, {**JSON, "Host": host}) as response:
        assert 200 == response.status


def test_with_keys_only_they_let_in(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """An unknown bearer, an OpenRouter key among them, is a short 401; a known one never goes upstream."""
    served = serve(SLUICE_OPEN="off", SLUICE_API_KEYS="ann:secret-of-ann")
    for token in ("", "Bearer wrong", "Bearer sk-or-v1-x", "Basic secret-of-ann", "secret-of-ann"):
        with open_stream(served.chat_url, GOOD, {**JSON, "Authorization": token}) as response:
            assert 401 == response.status
            assert {
                "message": "Invalid API key",
                "type": "invalid_request_error",
                "param": None,
                "code": "invalid_api_key",
            } == response.json()["error"]

    assert not served.records
    with open_stream(served.chat_url, GOOD, {**JSON, "Authorization": "Bearer secret-of-ann"}) as response:
        assert 200 == response.status
    assert "ann" == served.record().key_label
    assert "Bearer sk-or-v1-operator" == upstream.requests[0].headers["Authorization"]


def test_a_client_key_never_falls_back_to_the_operators(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """Where clients may not bring keys, one that does is refused."""
    served = serve(SLUICE_OPEN="off", SLUICE_API_KEYS="ann:secret-of-ann")
    headers = {"Authorization": "Bearer secret-of-ann"}

    with served.ask(headers=headers, stream=False, openrouter_api_key="sk-or-v1-mine") as response:
        assert 400 == response.status

    assert not upstream.requests


def test_more_requests_than_a_worker_may_have_are_a_503(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """The one too many is told to come back; the place is free again when a stream ends."""
    served = serve(SLUICE_MAX_STREAMS="1")
    upstream.play([{"silence": True}])
    first = served.ask()
    upstream.wait_for_request()

    with served.ask() as second:
        assert (503, "1") == (second.status, second.headers["retry-after"])
        assert_error(second.json(), "overloaded")
    first.close()
    served.record(2)

    with served.ask() as third:
        assert 200 == third.status


@pytest.mark.parametrize("given", ["abc-123", "x" * 128])
def test_a_sane_request_id_is_kept(served: Served, given: str) -> None:
    """It comes back with every response."""
    with request("GET", served.url + "/v1/health", headers={"X-Request-Id": given}) as response:
        assert given == response.headers["x-request-id"]


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", "ä", "<script>"])
def test_an_odd_request_id_is_replaced(served: Served, given: str) -> None:
    """A new one is made instead."""
    with request("GET", served.url + "/v1/health", headers={"X-Request-Id": given}) as response:
        assert response.headers["x-request-id"].startswith("req-")
