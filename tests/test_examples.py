"""The host application in examples/, served by gunicorn with the installed package, as its README says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from app.demo import DemoUpstream
from tests.clock import PATIENCE

from .installed import install
from .servers import ROOT, GunicornGateway, RawStream, StartError, open_stream, request, wait_until

HOST = ROOT / "examples" / "host_app"
ASK = {"stream": True, "messages": [{"role": "user", "content": "Hello"}]}
FIRST: list[dict[str, Any]] = [{"text": ["first"]}, {"silence": True}]
"""Upstream says one thing and then nothing until its client leaves."""

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
ENV: dict[str, str | None] = {
    "JOURNAL_SECRET_KEY": "not-a-secret",
    "JOURNAL_USERS": "ada:correct-horse,bob:staple",
    "JOURNAL_TOKENS": "script:a-long-random-token",
    "OPENROUTER_API_KEY": "sk-or-operator",
    "SLUICE_OPEN": None,
    "SLUICE_PIPELINE": "off",
    "SLUICE_RETRIES": "0",
    "PYTHONPATH": None,
}


class Journal:
    """The running application as a browser and as a program see it."""

    def __init__(self, gateway: GunicornGateway) -> None:
        self.gateway = gateway
        self.chat_url = f"{gateway.url}/ai/v1/chat/completions"

    def get(self, path: str, headers: dict[str, str] | None = None) -> RawStream:
        """Ask for a page."""
        return request("GET", self.gateway.url + path, headers=headers)

    def post(self, path: str, form: dict[str, str], headers: dict[str, str] | None = None) -> RawStream:
        """Send a form."""
        return request("POST", self.gateway.url + path, urlencode(form), FORM | (headers or {}))

    def log_in(self) -> dict[str, str]:
        """Log in as ada; give the header that says so from then on."""
        with self.post("/login", {"name": "ada", "password": "correct-horse"}) as response:
            assert (302, "/") == (response.status, response.headers["location"])
            return {"Cookie": response.headers["set-cookie"].partition(";")[0]}


def serve(python: Path, upstream: DemoUpstream, **env: str | None) -> GunicornGateway:
    """Prepare the application, to run in its own folder with its own gunicorn.conf.py."""
    settings = ENV | {"OPENROUTER_BASE_URL": upstream.base_url} | env
    return GunicornGateway(settings, config="gunicorn.conf.py", cwd=HOST, ready_path="/login", python=python)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment in which the package is installed."""
    return install(tmp_path_factory.getbasetemp() / "installed").python


@pytest.fixture(scope="module")
def asked() -> Iterator[DemoUpstream]:
    """The upstream of this module's application."""
    with DemoUpstream() as server:
        yield server


@pytest.fixture(scope="module")
def journal(python: Path, asked: DemoUpstream) -> Iterator[Journal]:
    with serve(python, asked) as gateway:
        yield Journal(gateway)


@pytest.fixture(scope="module")
def ada(journal: Journal) -> dict[str, str]:
    return journal.log_in()


def test_login_page_is_a_page(journal: Journal) -> None:
    """The login page is HTML, and who is not logged in is sent there."""
    with journal.get("/login") as page:
        assert (200, "text/html; charset=utf-8") == (page.status, page.headers["content-type"])
        assert b'name="password"' in page.read()
    with journal.get("/") as response:
        assert (302, "/login") == (response.status, response.headers["location"])


def test_login_opens_the_page(journal: Journal, ada: dict[str, str]) -> None:
    """With the session's cookie the page is there, and its form leads to the gateway."""
    with journal.get("/", ada) as page:
        text = page.read().decode()

    assert 200 == page.status
    assert 'action="/ai/v1/chat/completions"' in text


@pytest.mark.parametrize(("name", "password"), [("ada", "staple"), ("eve", "correct-horse"), ("", "")])
def test_wrong_login_is_refused(journal: Journal, name: str, password: str) -> None:
    """A wrong name or password gives the login page again, as a 401 without a session."""
    with journal.post("/login", {"name": name, "password": password}) as page:
        assert (401, "text/html; charset=utf-8") == (page.status, page.headers["content-type"])
        assert "set-cookie" not in page.headers


def test_logging_out_ends_it(journal: Journal) -> None:
    """The cookie that logging out gives opens neither the page nor the gateway."""
    with journal.post("/logout", {}, journal.log_in()) as response:
        cookie = {"Cookie": response.headers["set-cookie"].partition(";")[0]}

    with open_stream(journal.chat_url, ASK, cookie) as refused:
        assert 401 == refused.status


def test_who_is_logged_in_gets_a_stream(journal: Journal, ada: dict[str, str], asked: DemoUpstream) -> None:
    """The session lets its owner call the gateway, which calls upstream with the operator's key."""
    number = len(asked.requests) + 1
    asked.play([{"text": "one two three"}])

    with open_stream(journal.chat_url, ASK, ada) as stream:
        assert (200, "text/event-stream; charset=utf-8") == (stream.status, stream.headers["content-type"])
        chunks = stream.data()

    deltas = [choice["delta"].get("content") or "" for chunk in chunks[:-1] for choice in chunk["choices"]]
    sent = asked.wait_for_request(number).headers
    assert "one two three" == "".join(deltas)
    assert "[DONE]" == chunks[-1]
    assert "Bearer sk-or-operator" == sent["Authorization"]
    assert "cookie" not in sent


def test_a_token_gets_a_stream(journal: Journal, asked: DemoUpstream) -> None:
    """A program's token does as well, and stays with the application."""
    number = len(asked.requests) + 1

    with open_stream(journal.chat_url, ASK, {"Authorization": "Bearer a-long-random-token"}) as stream:
        assert 200 == stream.status
        assert "[DONE]" == stream.data()[-1]

    assert "a-long-random-token" not in str(asked.wait_for_request(number).headers.pairs)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Cookie": "session=forged"}])
def test_nobody_else_gets_one(journal: Journal, asked: DemoUpstream, headers: dict[str, str]) -> None:
    """Everybody else gets a 401 in OpenAI's shape, and upstream is not called."""
    before = len(asked.requests)

    with open_stream(journal.chat_url, ASK, headers) as response:
        assert (401, "application/json") == (response.status, response.headers["content-type"])
        error = response.json()["error"]

    assert {"message", "type", "param", "code"} <= error.keys()
    assert "invalid_api_key" == error["code"]
    assert before == len(asked.requests)


@pytest.mark.parametrize("path", ["/nowhere", "/ai/nowhere"])
def test_the_applications_errors_stay_pages(journal: Journal, path: str) -> None:
    """What is not below the gateway's routes is the application's 404, a page of its own."""
    with journal.get(path) as response:
        assert (404, "text/html; charset=utf-8") == (response.status, response.headers["content-type"])
        assert "<title>404 – Journal</title>" in response.read().decode()


def test_the_gateways_errors_stay_json(journal: Journal, ada: dict[str, str]) -> None:
    """The application's handler for all HTTP errors does not reach into the gateway."""
    with journal.get("/ai/v1/nowhere", ada) as response:
        assert (404, "application/json") == (response.status, response.headers["content-type"])
        assert "not_found" == response.json()["error"]["code"]
    with open_stream(journal.chat_url, "{", ada) as response:
        assert (400, "application/json") == (response.status, response.headers["content-type"])


def test_after_request_marks_streams_too(journal: Journal, ada: dict[str, str], asked: DemoUpstream) -> None:
    """The application's `after_request` adds its header to a stream's response and to a page's alike."""
    asked.play([{"text": "marked"}])

    with open_stream(journal.chat_url, ASK, ada) as stream, journal.get("/login") as page:
        for response in (stream, page):
            assert re.fullmatch(r"view;dur=\d+\.\d", response.headers["server-timing"])


def test_stream_is_not_held_back(journal: Journal, ada: dict[str, str], asked: DemoUpstream) -> None:
    """Hooks and middleware of the application notwithstanding, a chunk comes while upstream holds the next."""
    number = len(asked.requests) + 1
    asked.play(FIRST)

    with open_stream(journal.chat_url, ASK, ada) as stream:
        chunk = json.loads(stream.next_data() or "")

        assert "first" == chunk["choices"][0]["delta"]["content"]
        assert "open" == asked.wait_for_request(number).outcome


@pytest.mark.parametrize("abrupt", [False, True], ids=["fin", "rst"])
def test_leaving_closes_upstream(journal: Journal, ada: dict[str, str], asked: DemoUpstream, abrupt: bool) -> None:
    """A reader's leaving gets through the application's wrapper: upstream is closed, the middleware told the end."""
    number = len(asked.requests) + 1
    asked.play(FIRST)
    ends = journal.gateway.log().count("POST /ai/v1/chat/completions took")

    with open_stream(journal.chat_url, ASK, ada) as stream:
        stream.next_data()
        stream.close(abrupt=abrupt)

    assert asked.wait_for_request(number).closed.wait(PATIENCE)
    wait_until(lambda: journal.gateway.log().count("POST /ai/v1/chat/completions took") > ends)


def test_own_route_streams_text(journal: Journal, ada: dict[str, str], asked: DemoUpstream) -> None:
    """The application's own route sends the first words while upstream holds the next, and asks what it means to."""
    number = len(asked.requests) + 1
    asked.play([{"text": ["It rained. "]}, {"silence": True}])

    with journal.post("/summary", {"entry": "Rain all day."}, ada) as response:
        assert (200, "text/plain; charset=utf-8") == (response.status, response.headers["content-type"])
        assert "server-timing" in response.headers
        assert b"It rained. " == response.read_some()
        exchange = asked.wait_for_request(number)
        assert "open" == exchange.outcome

    assert "Rain all day." == exchange.body["messages"][-1]["content"]
    assert 300 == exchange.body["max_tokens"]


def test_own_route_says_what_failed(journal: Journal, ada: dict[str, str], asked: DemoUpstream) -> None:
    """When upstream fails half way, what came stays, the text says so, and the response ends properly."""
    asked.play([{"text": ["It "]}, {"cut": "fin"}])

    with journal.post("/summary", {"entry": "Rain all day."}, ada) as response:
        text = response.read().decode()

    assert text.startswith("It \n(No more than this: ")


def test_own_route_is_for_those_logged_in(journal: Journal, ada: dict[str, str], asked: DemoUpstream) -> None:
    """Without a session it leads to the login, with an empty form to an error page; upstream hears of neither."""
    before = len(asked.requests)
    with journal.post("/summary", {"entry": "Rain."}) as response:
        assert (302, "/login") == (response.status, response.headers["location"])
    with journal.post("/summary", {"entry": " "}, ada) as page:
        assert (400, "text/html; charset=utf-8") == (page.status, page.headers["content-type"])
        assert "There is nothing to summarise." in page.read().decode()

    assert before == len(asked.requests)


@pytest.mark.parametrize("name", ["JOURNAL_SECRET_KEY", "JOURNAL_USERS"])
def test_it_says_what_it_needs(python: Path, asked: DemoUpstream, name: str) -> None:
    """Without a setting that it cannot do without, the application does not start, and names it."""
    with pytest.raises(StartError, match=f"set {name}"):
        serve(python, asked, **{name: None}).start()


def test_readme_names_what_there_is() -> None:
    """Files that the README names exist, and so do the settings."""
    text = (HOST / "README.md").read_text()
    code = "".join(path.read_text() for path in HOST.rglob("*.py"))
    files = re.findall(r"`([\w./]+\.py)`", text)
    settings = set(re.findall(r"JOURNAL_(\w+)=", text))

    assert len(files) >= 4
    assert [] == [name for name in files if not (HOST / name).is_file()]
    assert {"SECRET_KEY", "USERS", "TOKENS"} == settings
    assert all(f'"{name}"' in code for name in settings)
