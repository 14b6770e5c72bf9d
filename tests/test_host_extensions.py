"""The gateway inside applications that use what Flask applications use: streams and errors keep their form."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Response

from app import create_blueprint
from app.demo import DemoUpstream
from tests.clock import PATIENCE, granted
from tests.conftest import QUESTION, Change, Served
from tests.hosts.changes import CHANGES, compressed, crossed, everything, handled, logged_in
from tests.servers import GunicornGateway, open_stream, request, wait_until
from tests.test_bad_input import assert_error
from tests.test_streaming import texts

ASK = {**QUESTION, "stream": True}
HEADERS = {"Accept-Encoding": "zstd, br, gzip, deflate", "X-User": "ann", "Cookie": "session=x"}
"""What a browser sends, as a user who is logged in."""

EACH = pytest.mark.parametrize("change", [*CHANGES, everything], ids=lambda change: change.__name__)
FIRST: list[Any] = [{"text": "first"}, {"silence": True}]


@EACH
def test_a_stream_comes_chunk_by_chunk(host: Callable[..., Served], upstream: DemoUpstream, change: Change) -> None:
    """A chunk is there while upstream holds the next, as plain text; when the client leaves upstream is let go."""
    upstream.play(FIRST)
    served = host(change)

    stream = served.ask(headers=HEADERS)
    first = json.loads(stream.next_data() or "")
    stream.close()

    assert "first" == first["choices"][0]["delta"]["content"]
    assert "text/event-stream; charset=utf-8" == stream.headers["content-type"]
    assert not {"content-encoding", "content-length"} & stream.headers.keys()
    assert upstream.requests[0].closed.wait(PATIENCE)
    assert "client_disconnected" == served.record().end_reason


@EACH
def test_a_stream_is_recorded_once(host: Callable[..., Served], upstream: DemoUpstream, change: Change) -> None:
    """It comes to its end, with one record and no place taken."""
    upstream.play([{"text": "all of it"}])
    served = host(change)

    with served.ask(headers=HEADERS) as stream:
        data = stream.data()

    assert ["all of it", "[DONE]"] == [texts(data), data[-1]]
    wait_until(lambda: served.gateway.open_streams == 0)
    assert ["completed"] == [record.end_reason for record in served.records]


WRONG: dict[str, tuple[int, str, str, bytes | None, dict[str, str]]] = {
    "route": (404, "POST", "/v1/nothing", b"{}", {}),
    "method": (405, "GET", "/v1/chat/completions", None, {}),
    "body": (400, "POST", "/v1/chat/completions", b"{", {}),
    "type": (415, "POST", "/v1/chat/completions", b"x", {"Content-Type": "text/plain"}),
    "size": (413, "POST", "/v1/chat/completions", b" " * 150_000, {}),
    "upstream": (502, "POST", "/v1/chat/completions", json.dumps(QUESTION).encode(), {}),
}


@pytest.mark.parametrize("name", WRONG)
@EACH
def test_errors_keep_their_shape(
    host: Callable[..., Served], upstream: DemoUpstream, change: Change, name: str
) -> None:
    """Whatever pages, codecs and classes the application has, a client of the API reads OpenAI's error object."""
    status, method, path, body, headers = WRONG[name]
    upstream.play([{"hangup": "fin"}])
    served = host(change, SLUICE_MAX_BODY_BYTES="120000")

    with request(method, served.url + path, body, {"X-User": "ann", **headers}) as response:
        assert status == response.status
        assert "application/json" == response.headers["content-type"]
        error = response.json()

    assert_error({"error": {key: value for key, value in error["error"].items() if key != "metadata"}})


def test_small_answers_are_compressed_where_the_application_does(host: Callable[..., Served]) -> None:
    """The extension does its work on what is no stream, so that the tests above show a stream passed over by it."""
    served = host(compressed)

    with request("GET", served.url + "/v1/health", headers=HEADERS) as response:
        assert "zstd" == response.headers["content-encoding"]


def test_who_is_not_logged_in_gets_an_api_error(host: Callable[..., Served], upstream: DemoUpstream) -> None:
    """A login extension's refusal is no page, though the application has one for that status."""

    def change(app: Flask) -> None:
        handled(app)
        logged_in(app)

    served = host(change)

    with served.ask() as response:
        assert 401 == response.status
        assert_error(response.json())
    assert not upstream.requests


def test_browsers_may_ask_first_where_the_application_lets_them(host: Callable[..., Served]) -> None:
    """A preflight is answered as it must be for the browser to go on: with success, and the extension's headers."""
    served = host(crossed)
    headers = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}

    with request("OPTIONS", served.chat_url, headers=headers) as response:
        assert 204 == response.status
        assert "POST" in response.headers["access-control-allow-methods"]
        assert response.headers["access-control-allow-origin"] in ("*", "https://page.example")


def reading(app: Flask) -> None:
    """Log every body."""

    @app.after_request
    def read(response: Response) -> Response:
        response.get_data()
        return response


def logging(app: Flask) -> None:
    """Log every body by its property."""

    @app.after_request
    def read(response: Response) -> Response:
        assert response.data is not None
        return response


def freezing(app: Flask) -> None:
    """Make every body a list."""

    @app.after_request
    def freeze(response: Response) -> Response:
        response.make_sequence()
        return response


@pytest.mark.parametrize("page", [False, True], ids=["plain", "with pages"])
@pytest.mark.parametrize("change", [reading, logging, freezing], ids=lambda change: change.__name__)
def test_a_hook_that_reads_the_body_is_told(
    host: Callable[..., Served], upstream: DemoUpstream, change: Change, page: bool
) -> None:
    """A stream that a hook would hold back is refused, saying so; what is no stream the hook may read."""

    def both(app: Flask) -> None:
        change(app)
        if page:
            handled(app)

    served = host(both)

    with served.ask() as response:
        assert 500 == response.status
        error = response.json()
    with served.ask(stream=False) as response:
        assert 200 == response.status

    assert_error(error, "host_error")
    assert "is_streamed" in error["error"]["message"]
    assert [("internal_error", "host_error"), ("completed", None)] == [
        (record.end_reason, record.error_code) for record in served.records
    ]
    assert 1 == len(upstream.requests)
    assert 0 == served.gateway.open_streams


def test_a_hook_may_put_something_in_its_place(host: Callable[..., Served]) -> None:
    """A hook that replaces a stream's body, and one that reads what is there then, both get their way."""

    def change(app: Flask) -> None:
        @app.after_request
        def second(response: Response) -> Response:
            response.headers["X-Seen"] = response.get_data(as_text=True)
            return response

        @app.after_request
        def first(response: Response) -> Response:
            response.set_data("something else")
            return response

    served = host(change)

    with served.ask() as response:
        assert (200, "something else") == (response.status, response.headers["x-seen"])
        assert b"something else" == response.read()
    wait_until(lambda: served.gateway.open_streams == 0)


def test_two_gateways_in_one_application_are_two(
    host: Callable[..., Served], upstream: DemoUpstream, tmp_path: Path
) -> None:
    """Each has its own upstream, settings, places and records."""
    records: list[Any] = []
    with DemoUpstream() as other:
        settings = {
            "SLUICE_OPEN": "on",
            "SLUICE_PIPELINE": "off",
            "SLUICE_MAX_STREAMS": "1",
            "OPENROUTER_API_KEY": "sk-or-v1-other",
            "OPENROUTER_BASE_URL": other.base_url,
            "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/other.db",
        }
        second = create_blueprint(settings, name="second", url_prefix="/second", recorder=records.append)
        served = host(lambda app: app.register_blueprint(second))
        upstream.play([{"text": "of the first"}])
        other.play(FIRST)

        with open_stream(f"{served.url}/second/v1/chat/completions", ASK) as held:
            held.next_data()
            with open_stream(f"{served.url}/second/v1/chat/completions", ASK) as refused:
                assert 503 == refused.status
            with served.ask() as stream:
                assert "of the first" == texts(stream.data())

        wait_until(lambda: len(records) == 2)
        assert ["completed"] == [record.end_reason for record in served.records]
        assert ["Bearer sk-or-v1-other"] == [asked.headers["Authorization"] for asked in other.requests]
        served.app.extensions["sluice"]["second"].upstream.close()


def test_two_gateways_of_one_name_are_refused(host: Callable[..., Served]) -> None:
    """A second blueprint under the same name stops the start, and the words name the option."""
    settings = {"SLUICE_OPEN": "on"}

    with pytest.raises(ValueError, match="name="):
        host(lambda app: app.register_blueprint(create_blueprint(settings, url_prefix="/second")))


@pytest.fixture(scope="module")
def asked() -> Iterator[DemoUpstream]:
    """The upstream of the module's gunicorn gateways."""
    with DemoUpstream() as server:
        yield server


@pytest.fixture(scope="module", params=["gevent", "gthread", "sync"])
def mounted(request: pytest.FixtureRequest, asked: DemoUpstream) -> Iterator[str]:
    """The address of the application with everything in it, under each worker class."""
    env = {"OPENROUTER_BASE_URL": asked.base_url, "SLUICE_PIPELINE": "off"}
    with GunicornGateway(env, request.param, app="tests.hosts.application:app", ready_path="/") as gateway:
        yield f"{gateway.url}/ai/v1/chat/completions"


def test_everything_under_each_worker(mounted: str, asked: DemoUpstream) -> None:
    """With every extension at once, under gevent, threads and one at a time: prompt, whole, closed when left."""
    number = len(asked.requests)
    asked.play(FIRST)
    with open_stream(mounted, ASK, HEADERS) as stream:
        assert '"first"' in (stream.next_data() or "")
    left_at = time.monotonic()
    assert asked.requests[number].closed.wait(PATIENCE)
    assert granted(left_at, asked.requests[number].closed_at) < 1

    asked.play([{"text": "all of it"}])
    with open_stream(mounted, ASK, HEADERS) as stream:
        data = stream.data()
    assert ["all of it", "[DONE]"] == [texts(data), data[-1]]

    with open_stream(mounted, b"{", HEADERS | {"Accept-Encoding": ""}) as response:
        assert 400 == response.status
        assert_error(response.json(), "invalid_request")
