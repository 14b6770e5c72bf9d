"""Every response has the request's id, whoever made it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask, Response, abort

from app import create_app, create_blueprint
from app.demo import DemoUpstream
from tests.conftest import QUESTION, Served
from tests.servers import open_stream, request

Serve = Callable[..., Served]
OURS = re.compile("req-[0-9a-f]{24}")

ANSWERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a stream": ("POST", "/v1/chat/completions", {"json": {**QUESTION, "stream": True}}),
    "a whole answer": ("POST", "/v1/chat/completions", {"json": QUESTION}),
    "an upstream error": ("POST", "/v1/chat/completions", {"json": {**QUESTION, "user": "refuse"}}),
    "bad input": ("POST", "/v1/chat/completions", {"json": {}}),
    "no JSON": ("POST", "/v1/chat/completions", {"data": "x"}),
    "too large": ("POST", "/v1/chat/completions", {"data": "x" * 2000, "content_type": "application/json"}),
    "models": ("GET", "/v1/models", {}),
    "no such model": ("GET", "/v1/models/none", {}),
    "health": ("GET", "/v1/health", {}),
    "ready": ("GET", "/v1/ready", {}),
    "metrics": ("GET", "/metrics", {}),
    "the document": ("GET", "/openapi.json", {}),
    "an unknown route": ("GET", "/v1/none", {}),
    "no route": ("GET", "/elsewhere", {}),
    "a wrong method": ("DELETE", "/v1/models", {}),
    "an odd method": ("PROPFIND", "/v1/models", {}),
    "a router's redirect": ("GET", "/v1//models", {}),
    "a refused Host": ("GET", "/v1/models", {"headers": {"Host": "evil.example"}}),
    "HEAD": ("HEAD", "/v1/models", {}),
    "OPTIONS": ("OPTIONS", "/v1/chat/completions", {}),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_has_the_clients_id(name: str, upstream: DemoUpstream, tmp_path: Any) -> None:
    """Success or not, of whichever route, in an application of ours."""
    method, path, options = ANSWERS[name]
    settings = {
        "SLUICE_OPEN": "on",
        "OPENROUTER_BASE_URL": upstream.base_url,
        "SLUICE_MAX_BODY_BYTES": "1024",
        "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/records.db",
    }
    app = create_app(settings, recorder=lambda record: None)
    if name == "an upstream error":
        upstream.play([{"answer": {"status": 402, "json": {}}}])
    headers = {"X-Request-Id": "the.client/1:2", **options.get("headers", {})}
    with app.test_client() as client:
        answer = client.open(path, method=method, **{**options, "headers": headers})
        assert ["the.client/1:2"] == answer.headers.getlist("X-Request-Id")
        answer.get_data()
        answer.close()


@pytest.mark.parametrize(
    "given", ["", " ", "two words", "a" * 129, "ümlaut", "a,b;c", "<script>", 'a"b', "a\tb", "a%0d%0aSet-Cookie:x"]
)
def test_an_id_that_is_not_sane_is_replaced(served: Served, given: str) -> None:
    """A header that could end up in a log or a page as something else is not taken."""
    headers = {"X-Request-Id": given} if given.strip() else {}
    with open_stream(served.chat_url, {**QUESTION, "stream": True}, headers) as stream:
        assert OURS.fullmatch(stream.headers["x-request-id"])
        stream.read()
    assert stream.headers["x-request-id"] == served.record().request_id


def test_the_id_is_recorded(served: Served) -> None:
    """The same one that the client has."""
    with open_stream(served.chat_url, {**QUESTION, "stream": True}, {"X-Request-Id": "abc"}) as stream:
        assert "abc" == stream.headers["x-request-id"]
        stream.read()
    assert "abc" == served.record().request_id


def test_the_refusal_of_a_key_has_it(serve: Serve) -> None:
    """So that someone who is not let in can be helped."""
    served = serve(SLUICE_OPEN="off", SLUICE_API_KEYS="ann:secret-key")
    with request("POST", served.chat_url, "{}", {"X-Request-Id": "abc"}) as response:
        assert (401, "abc") == (response.status, response.headers["x-request-id"])


def host(**options: Any) -> Flask:
    """Give an application with a gateway below ``/ai`` and pages of its own."""
    app = Flask(__name__)
    settings = {"SLUICE_OPEN": "on", "SLUICE_PIPELINE": "off"}
    app.register_blueprint(create_blueprint(settings, url_prefix="/ai", **options))
    app.add_url_rule("/", "home", lambda: "home")
    return app


def id_of(app: Flask, path: str) -> str | None:
    """Ask for *path* and give the id of the response."""
    with app.test_client() as client:
        return client.get(path, headers={"X-Request-Id": "abc"}).headers.get("X-Request-Id")


def test_what_hooks_of_the_application_answer_has_it() -> None:
    """A refusal before the view, a failure in a hook, and a response put in the place of ours."""
    early, failing, late = host(), host(), host()
    early.before_request(lambda: abort(403))
    failing.before_request(lambda: 1 / 0)
    late.after_request(lambda response: Response("other", 418))
    for app in (early, failing, late):
        assert "abc" == id_of(app, "/ai/v1/health")


def test_pages_of_the_application_are_left_alone() -> None:
    """The id is on the gateway's own responses only, those below its prefix that match no route included."""
    app = host()
    assert "abc" == id_of(app, "/ai/v1/health") == id_of(app, "/ai/v1/none") == id_of(app, "/ai//v1/models")
    assert (None, None, None) == (id_of(app, "/"), id_of(app, "/none"), id_of(app, "/v1/models"))


def test_a_nested_blueprint_has_it() -> None:
    """The application may mount the gateway within a blueprint of its own."""
    from flask import Blueprint

    app, outer = Flask(__name__), Blueprint("outer", __name__, url_prefix="/outer")
    outer.register_blueprint(create_blueprint({"SLUICE_OPEN": "on"}, url_prefix="/ai"))
    app.register_blueprint(outer)
    assert "abc" == id_of(app, "/outer/ai/v1/health")
    assert None is id_of(app, "/outer/none")
