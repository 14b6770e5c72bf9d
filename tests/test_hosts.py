"""The blueprint inside applications whose hooks and middleware do what hooks and middleware do."""

from __future__ import annotations

import gc
import gzip
import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from flask import Flask, Response, abort, request

from app.demo import DemoUpstream
from tests.clock import PATIENCE, granted
from tests.conftest import Change, Served
from tests.servers import wait_until
from tests.test_streaming import texts


class Rewrapped:
    """A middleware whose iterator forgets to hand ``close`` on."""

    def __init__(self, wsgi: Any) -> None:
        self._wsgi = wsgi

    def __call__(self, environ: Any, start_response: Any) -> Iterator[bytes]:
        """Give the blocks one by one."""
        yield from map(bytes, self._wsgi(environ, start_response))


def unclosed(app: Flask) -> None:
    """Put a middleware around the application that does not close."""
    app.wsgi_app = Rewrapped(app.wsgi_app)  # type: ignore[method-assign]


def replaced(app: Flask) -> None:
    """Put a generator around the body, as tracing hooks do."""

    @app.after_request
    def wrap(response: Response) -> Response:
        inner: Iterable[Any] = response.response
        response.response = (block for block in inner)
        response.direct_passthrough = False
        return response


def headed(app: Flask) -> None:
    """Add headers, as security hooks do."""

    @app.after_request
    def add(response: Response) -> Response:
        response.headers["X-Frame-Options"] = "DENY"
        response.vary.add("Cookie")
        return response


def compressed(app: Flask) -> None:
    """Compress what is text or JSON, as compression extensions do, the whole body at once."""

    @app.after_request
    def compress(response: Response) -> Response:
        if response.mimetype in ("text/html", "text/plain", "application/json"):
            response.direct_passthrough = False
            response.set_data(gzip.compress(response.get_data()))
            response.headers["Content-Encoding"] = "gzip"
        return response


def curious(app: Flask) -> None:
    """Look at the request's body before the gateway does."""

    @app.before_request
    def look() -> None:
        assert not request.form
        assert request.get_json(silent=True)


@pytest.mark.parametrize(
    "change", [unclosed, replaced, headed, compressed, curious], ids=lambda change: change.__name__
)
def test_a_stream_is_not_held_up(host: Callable[[Change], Served], upstream: DemoUpstream, change: Change) -> None:
    """Each chunk comes at once, and when the client leaves upstream is closed within a second."""
    upstream.play([{"text": "first"}, {"silence": True}])
    served = host(change)

    stream = served.ask()
    first = json.loads(stream.next_data() or "")
    stream.close()
    left_at = time.monotonic()

    assert "first" == first["choices"][0]["delta"]["content"]
    assert upstream.requests[0].closed.wait(PATIENCE)
    assert granted(left_at, upstream.requests[0].closed_at) < 1
    assert "client_disconnected" == served.record().end_reason
    wait_until(lambda: served.gateway.open_streams == 0)


@pytest.mark.parametrize(
    "change", [unclosed, replaced, headed, compressed, curious], ids=lambda change: change.__name__
)
def test_a_stream_ends_as_it_should(host: Callable[[Change], Served], upstream: DemoUpstream, change: Change) -> None:
    """To its last byte, with one record."""
    upstream.play([{"text": "all of it"}])
    served = host(change)

    with served.ask() as stream:
        data = stream.data()

    assert ["all of it", "[DONE]"] == [texts(data), data[-1]]
    assert "completed" == served.record().end_reason
    wait_until(lambda: served.gateway.open_streams == 0)
    assert 1 == len(served.records)


def refusing(app: Flask) -> None:
    """Refuse every request before it reaches a blueprint."""

    @app.before_request
    def refuse() -> None:
        abort(401)


def answering(app: Flask) -> None:
    """Answer every request before it reaches a blueprint."""

    @app.before_request
    def answer() -> Response:
        return Response("closed for maintenance", 503)


@pytest.mark.parametrize(("change", "status"), [(refusing, 401), (answering, 503)])
def test_a_host_may_answer_first(
    host: Callable[[Change], Served], upstream: DemoUpstream, change: Change, status: int
) -> None:
    """What a hook of the host's answers stands, signed with a request id like every other answer."""
    served = host(change)

    with served.ask() as response:
        assert status == response.status
        assert response.headers["x-request-id"].startswith("req-")
        response.read()

    assert not served.records and not upstream.requests


def raising(app: Flask) -> None:
    """Fail once the view has answered."""

    @app.after_request
    def fail(response: Response) -> Response:
        if response.mimetype == "text/event-stream":
            raise LookupError("a fault of the host's")
        return response


def falling(app: Flask) -> None:
    """Fail when the request is torn down."""

    @app.teardown_request
    def fall(error: BaseException | None) -> None:
        raise LookupError("a fault of the host's")


def swapping(app: Flask) -> None:
    """Answer something else than the view did."""

    @app.after_request
    def swap(response: Response) -> Response:
        return Response("something else")


@pytest.mark.parametrize("change", [raising, falling, swapping], ids=lambda change: change.__name__)
def test_a_body_that_nobody_asks_for_holds_nothing(
    host: Callable[[Change], Served], upstream: DemoUpstream, change: Change
) -> None:
    """A fault of the host's that keeps the stream from being sent costs no place, garbage collected or not."""
    served = host(change)
    gc.disable()
    try:
        with served.ask() as response:
            response.read()
        wait_until(lambda: served.gateway.open_streams == 0)
    finally:
        gc.enable()

    assert ["client_disconnected"] == [record.end_reason for record in served.records]
    assert not upstream.requests
