"""Web pages of other origins: who may call, and what they may read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask_cors import CORS

from app import create_app, create_blueprint
from app.cors import Cors
from app.errors import ConfigurationError
from tests.conftest import QUESTION, Served
from tests.servers import RawStream, request

PAGE = "https://app.example"


def preflight(served: Served, path: str, method: str = "POST", origin: str = PAGE) -> RawStream:
    """Ask as a browser does before it sends a request with a key."""
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang",
    }
    with request("OPTIONS", f"{served.url}{path}", headers=asked) as answer:
        assert b"" == answer.read()
        return answer


def vary(answer: RawStream) -> list[str]:
    return [name.strip().lower() for name in answer.headers.get("vary", "").split(",") if name.strip()]


@pytest.fixture
def for_page(serve: Callable[..., Served]) -> Served:
    """Give a gateway that one page may call, and a development server."""
    return serve(SLUICE_CORS_ORIGINS=f"{PAGE}, http://localhost:5173", SLUICE_RATE_LIMIT="100/minute")


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/v1/chat/completions", "POST"),
        ("/v1/models", "GET"),
        ("/v1/models/a/b", "GET"),
        ("/v1/ready", "GET"),
        ("/openapi.json", "GET"),
        ("/v1/responses", "POST"),
        ("/elsewhere", "GET"),
    ],
)
def test_a_preflight_is_answered_on_every_route(for_page: Served, path: str, method: str) -> None:
    """With the method and the headers asked for, also where the answer will be a 404 that the page should read."""
    answer = preflight(for_page, path, method)

    assert answer.status in (200, 204)
    assert PAGE == answer.headers["access-control-allow-origin"]
    assert method in answer.headers["access-control-allow-methods"]
    assert "authorization,content-type,x-stainless-lang" == answer.headers["access-control-allow-headers"]
    assert {"origin", "access-control-request-headers"} <= set(vary(answer))
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("stream", [True, False])
def test_a_page_may_read_answers_and_what_their_headers_tell(for_page: Served, stream: bool) -> None:
    """Streams and whole answers."""
    with for_page.ask(stream=stream, headers={"Origin": "http://localhost:5173"}) as answer:
        answer.read()
    assert (200, "http://localhost:5173") == (answer.status, answer.headers["access-control-allow-origin"])
    exposed = answer.headers["access-control-expose-headers"].lower()
    assert all(name in exposed for name in ("x-request-id", "retry-after", "x-ratelimit-remaining-requests"))
    assert "origin" in vary(answer)


@pytest.mark.parametrize("fault", ["body", "route", "method", "host"])
def test_a_page_may_read_errors(for_page: Served, fault: str) -> None:
    """Or all it would be told is that the network failed."""
    headers = {"Origin": PAGE, **({"Host": "evil.example"} if fault == "host" else {})}
    path, method = {"route": ("/v1/nothing", "POST"), "method": ("/v1/models", "POST")}.get(
        fault, ("/v1/chat/completions", "POST")
    )
    with request(method, f"{for_page.url}{path}", b"{", headers) as answer:
        assert "error" in answer.json()
    assert PAGE == answer.headers["access-control-allow-origin"]


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "https://app.example.evil", "http://app.example", "https://app.example:8443", "null", ""],
)
def test_other_origins_are_not_let_in(for_page: Served, origin: str) -> None:
    """Neither by what they begin or end with, nor by scheme or port; caches are told that it depends."""
    for answer in (
        preflight(for_page, "/v1/chat/completions", origin=origin),
        for_page.ask(headers={"Origin": origin}, stream=False),
    ):
        answer.close()
        assert not [name for name in answer.headers if name.startswith("access-control-")]
        assert "origin" in vary(answer)


def test_any_origin_by_a_star(serve: Callable[..., Served]) -> None:
    """The same answer for all, which caches may keep for all."""
    served = serve(SLUICE_CORS_ORIGINS="*")
    with served.ask(headers={"Origin": "null"}, stream=False) as answer:
        assert "*" == answer.headers["access-control-allow-origin"]
        assert "origin" not in vary(answer)
    assert "*" == preflight(served, "/v1/chat/completions").headers["access-control-allow-origin"]


def test_nothing_is_said_unless_asked_for(served: Served) -> None:
    """As shipped, browsers keep other pages out."""
    assert not [name for name in preflight(served, "/v1/models").headers if name.startswith("access-control-")]
    with served.ask(headers={"Origin": PAGE}, stream=False) as answer:
        assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("odd", ["a\tb", "x" * 3000, "a;b", "é"])
def test_odd_names_of_headers_are_not_sent_back(for_page: Served, odd: str) -> None:
    """Only what can be the name of a header, and not without end."""
    asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": odd}
    with request("OPTIONS", f"{for_page.url}/v1/models", headers=asked) as answer:
        assert "access-control-allow-headers" not in answer.headers


@pytest.mark.parametrize(
    "origins",
    ["app.example", "https://app.example/", "https://*.example", "null", "*, https://a.b", "https://u@x", "https://"],
)
def test_an_origin_that_is_none_stops_the_start(origins: str) -> None:
    """It would never match, and nobody would know why."""
    with pytest.raises(ConfigurationError, match="SLUICE_CORS_ORIGINS: expected"):
        create_app({"SLUICE_OPEN": "on", "SLUICE_CORS_ORIGINS": origins})


def test_origins_are_compared_as_browsers_send_them() -> None:
    """In lower case, and without a default port."""
    cors = Cors(["HTTPS://App.Example:443", "http://x:80", "http://x:8080", "chrome-extension://abc"])

    assert {"https://app.example", "http://x", "http://x:8080", "chrome-extension://abc"} == cors._origins


def test_a_star_without_keys_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Any page that is open in a browser on this machine could spend the operator's money."""
    Cors(["*"])
    assert "" == caplog.text
    Cors(["*"], is_open=True)
    assert "every web page" in caplog.text


@pytest.mark.parametrize("first", ["host", "gateway"])
@pytest.mark.parametrize("ours", [None, PAGE])
def test_a_hosts_own_extension_is_not_doubled(tmp_path: Path, first: str, ours: str | None) -> None:
    """Flask-Cors for the whole application, whichever was there first, with and without our setting."""
    host = Flask(__name__)
    settings: dict[str, Any] = {"SLUICE_OPEN": "on", "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/x.db"}
    blueprint = create_blueprint(settings | ({"SLUICE_CORS_ORIGINS": ours} if ours else {}), url_prefix="/ai")
    for step in (first, "gateway" if first == "host" else "host"):
        if step == "host":
            CORS(host, origins=[PAGE])
        else:
            host.register_blueprint(blueprint)
    host.get("/own")(lambda: "own")
    client = host.test_client()
    asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST"}

    for answer in (
        client.options("/ai/v1/chat/completions", headers=asked),
        client.post("/ai/v1/chat/completions", json={**QUESTION, "messages": []}, headers={"Origin": PAGE}),
        client.get("/ai/v1/nothing", headers={"Origin": PAGE}),
        client.get("/own", headers={"Origin": PAGE}),
    ):
        assert [PAGE] == answer.headers.getlist("Access-Control-Allow-Origin")
    assert answer.headers.get("Access-Control-Expose-Headers") is None


def test_a_hosts_own_routes_are_left_alone(tmp_path: Path) -> None:
    """The setting is the gateway's."""
    host = Flask(__name__)
    settings = {
        "SLUICE_OPEN": "on",
        "SLUICE_CORS_ORIGINS": PAGE,
        "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/x.db",
    }
    host.register_blueprint(create_blueprint(settings, url_prefix="/ai"))
    host.get("/own")(lambda: "own")
    answer = host.test_client().get("/own", headers={"Origin": PAGE})

    assert "Access-Control-Allow-Origin" not in answer.headers
    assert "Vary" not in answer.headers
