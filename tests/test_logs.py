"""The log: a line a request, for people or for machines."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app import create_app
from app.demo import DemoUpstream
from app.faults import told
from app.log_format import JsonFormatter, TextFormatter
from app.logs import log_record, set_up
from app.record import Record
from app.settings import Settings
from tests.conftest import QUESTION, Served
from tests.servers import GunicornGateway, open_stream, request

Serve = Callable[..., Served]


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    """Give what the loggers are told, debug included."""
    found: list[logging.LogRecord] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    logger, keeper = logging.getLogger("sluice"), Keeper()
    logger.addHandler(keeper)
    logger.setLevel(logging.DEBUG)
    yield found
    logger.removeHandler(keeper)
    logger.setLevel(logging.NOTSET)


def finished(**facts: Any) -> Record:
    """Give a record that has ended."""
    record = Record(completion_id="chatcmpl-1", **facts)
    record.close("completed")
    return record


def test_a_request_is_one_json_line(lines: list[logging.LogRecord]) -> None:
    """It has ids, route, status, end reason, times, model, key label, attempts and tokens; nothing missing is null."""
    record = finished(
        request_id="r-1",
        requested_model="a/b",
        key_label="ann",
        attempts=[{"status": 429}, {"status": 200}],
        usage={"prompt_tokens": 0, "completion_tokens": 3, "cost": 0.5},
        first_chunk_ms=12.5,
    )
    log_record(record)
    text = JsonFormatter().format(lines[0])
    assert "\n" not in text
    found = json.loads(text)
    assert None not in found.values()
    expected = {
        "level": "info",
        "logger": "sluice.requests",
        "message": "POST /v1/chat/completions 200",
        "method": "POST",
        "route": "/v1/chat/completions",
        "request_id": "r-1",
        "record_id": record.record_id,
        "completion_id": "chatcmpl-1",
        "stream": False,
        "requested_model": "a/b",
        "key_label": "ann",
        "status": 200,
        "end_reason": "completed",
        "attempts": 2,
        "first_chunk_ms": 12.5,
        "total_ms": record.total_ms,
        "chunks": 0,
        "is_estimate": False,
        "prompt_tokens": 0,
        "completion_tokens": 3,
        "cost": 0.5,
    }
    assert expected == {name: value for name, value in found.items() if name != "time"}
    assert found["time"].endswith("Z")


def test_a_request_is_one_text_line(lines: list[logging.LogRecord]) -> None:
    """A model's name that a client made up begins no line of its own."""
    log_record(finished(requested_model="a\n2026-12-02 ERROR forged\r\x1b[31m", request_id="r-1"))
    text = TextFormatter().format(lines[0])
    assert "\n" not in text
    assert "\r" not in text
    assert "\x1b" not in text
    assert "POST /v1/chat/completions 200 end_reason=completed" in text
    assert "request_id=r-1" in text


@pytest.mark.parametrize("odd", ["\ud800", 10**30, float("nan"), {"a": "b"}, b"bytes"])
def test_odd_values_do_not_lose_the_line(lines: list[logging.LogRecord], odd: Any) -> None:
    """What an upstream calls a provider may be anything."""
    log_record(finished(provider=odd, usage={"cost": odd}))
    assert "completed" == json.loads(JsonFormatter().format(lines[0]))["end_reason"]
    assert "completed" in TextFormatter().format(lines[0])


def test_an_exception_is_told_without_its_words() -> None:
    """Its kind, place and cause are there; its words can hold the prompt it was about."""
    try:
        try:
            raise KeyError("the prompt")
        except KeyError as error:
            raise ValueError("the answer") from error
    except ValueError as error:
        text = told(error)
        record = logging.LogRecord("sluice", 40, "", 0, "It failed", (), (ValueError, error, error.__traceback__))
    assert "ValueError at test_logs.py:" in text
    assert "from KeyError at test_logs.py:" in text
    for shown in (text, JsonFormatter().format(record), TextFormatter().format(record)):
        assert "ValueError" in shown
        assert "the prompt" not in shown
        assert "the answer" not in shown


def test_what_has_no_record_has_a_line_too(lines: list[logging.LogRecord], serve: Serve) -> None:
    """A refused key, an unknown route and a list are logged; a probe and a page's file only at level debug."""
    served = serve(SLUICE_OPEN="off", SLUICE_API_KEYS="ann:secret-key", SLUICE_LOG_LEVEL="debug")
    for path in ("/v1/models", "/v1/nothing/at/all", "/elsewhere", "/v1/health", "/static/x/base.css"):
        with request("GET", served.url + path, headers={"X-Request-Id": path[1:]}):
            pass
    found = [(line.levelname, vars(line)["facts"]) for line in lines if line.name == "sluice.requests"]
    assert [
        ("INFO", "/v1/models", 401, "v1/models"),
        ("INFO", "unknown", 404, "v1/nothing/at/all"),
        ("INFO", "unknown", 404, "elsewhere"),
        ("DEBUG", "/v1/health", 200, "v1/health"),
        ("DEBUG", "/static/<state>/<path:name>", 200, "static/x/base.css"),
    ] == [(level, facts["route"], facts["status"], facts["request_id"]) for level, facts in found]


def test_an_application_keeps_the_handlers_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    """Ours is added only where nothing would be seen otherwise, once, and made anew by the next settings."""
    logger, root = logging.getLogger("sluice"), logging.getLogger()
    set_up(Settings.from_mapping({}))
    assert [] == logger.handlers
    kept, root.handlers = root.handlers, []
    try:
        for form in ("text", "json"):
            set_up(Settings.from_mapping({"SLUICE_LOG_FORMAT": form, "SLUICE_LOG_LEVEL": "warning"}))
        assert [JsonFormatter] == [type(handler.formatter) for handler in logger.handlers]
        logger.info("not shown")
        logger.warning("shown")
        assert ["shown"] == [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()]
    finally:
        root.handlers = kept
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)


def test_a_blueprint_sets_up_no_logging(upstream: DemoUpstream) -> None:
    """That is its application's business; an application of ours does it by the settings."""
    logger = logging.getLogger("sluice")
    level = logger.level
    create_app({"SLUICE_OPEN": "on", "OPENROUTER_BASE_URL": upstream.base_url, "SLUICE_LOG_LEVEL": "error"})
    assert logging.ERROR == logger.level
    logger.setLevel(level)


def test_every_line_is_json_under_gunicorn(upstream: DemoUpstream) -> None:
    """Its own lines too, and none has an address; the access log, if switched on, has no query either."""
    env = {"OPENROUTER_BASE_URL": upstream.base_url, "SLUICE_LOG_FORMAT": "json"}
    with GunicornGateway(env, args=["--access-logfile", "-"]) as gateway:
        with open_stream(gateway.chat_url, {**QUESTION, "stream": True}, {"X-Request-Id": "r-1"}) as stream:
            stream.read()
        with request("GET", f"{gateway.url}/v1/health?token=query-secret"):
            pass
        gateway.wait_for_log('"end_reason":"completed"')
        gateway.wait_for_log("GET /v1/health")
        found = [json.loads(line) for line in gateway.log().splitlines()]
    assert {"gunicorn.error", "gunicorn.access", "sluice.requests"} <= {line["logger"] for line in found}
    [line] = [line for line in found if line.get("request_id") == "r-1"]
    assert "/v1/chat/completions" == line["route"]
    asked = [line["message"] for line in found if line["logger"] == "gunicorn.access"]
    assert not any("127.0.0.1" in text or "query-secret" in text for text in asked)
