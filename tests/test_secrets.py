"""No prompt, answer, key or address in anything that is kept or shown to others, whatever happens.

Everything that is secret has a mark. The test drives every way that a request can go, and looks for the marks in the
database's files, the log at its lowest level, the metrics, the traces, the events and the statistics, and in the
answers to those whom they are none of the business of.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from app.demo import DemoUpstream
from tests.clock import PATIENCE
from tests.servers import GunicornGateway, RawStream, open_stream, request, wait_until

ADDRESS = "203.0.113.77"
KEY, OPERATOR, CLIENT, METADATA = (
    "MARKkey-gateway",
    "sk-or-v1-MARKkey-operator",
    "sk-or-v1-MARKkey-client",
    "MARKkey-meta",
)
HEADERS = {
    "Authorization": f"Bearer {KEY}",
    "X-Forwarded-For": ADDRESS,
    "Forwarded": f"for={ADDRESS}",
    "X-Real-Ip": ADDRESS,
    "Cookie": "session=MARKheader",
    "User-Agent": "MARKheader",
    "Referer": "http://MARKheader/",
    "X-Custom": "MARKheader",
    "baggage": "user=MARKheader",
    "X-Request-Id": "MARKheader two words",
}
QUESTION: dict[str, Any] = {
    "model": "test/model",
    "messages": [
        {"role": "system", "content": "MARKprompt-system"},
        {"role": "user", "content": "MARKprompt-user says MARKtrigger"},
        {"role": "assistant", "content": "MARKprompt-assistant"},
        {"role": "user", "content": [{"type": "text", "text": "MARKprompt-part"}]},
    ],
    "custom_system_prompt": "MARKprompt-custom",
    "parseltongue": True,
    "parseltongue_triggers": ["MARKtrigger"],
    "stop": ["MARKprompt-stop"],
    "tools": [{"type": "function", "function": {"name": "MARKprompt_tool", "parameters": {}}}],
    "metadata": {"MARKprompt-name": "MARKprompt-value"},
    "openrouter_api_key": CLIENT,
    "stm_mode": "live",
}
QUOTED = "you said MARKprompt-user with key sk-or-v1-MARKkey-client from 203.0.113.77"
ERROR = {"code": 400, "message": QUOTED, "metadata": {"raw": QUOTED, "error_type": "bad MARKprompt"}}
ANSWER = {"text": "I think MARKanswer is perhaps right. MARKanswer."}
USAGE = {
    "usage": {"form": "empty", "usage": {"prompt_tokens": "MARKanswer", "completion_tokens": 3, "cost": "MARKanswer"}}
}

SCRIPTS: dict[str, list[list[dict[str, Any]]]] = {
    "success": [[ANSWER]],
    "odd usage": [[ANSWER, USAGE]],
    "a status": [[{"answer": {"status": 400, "json": {"error": ERROR}, "headers": {"X-Secret": "MARKanswer"}}}]],
    "a status in words": [[{"answer": {"status": 500, "json": {"error": QUOTED}}}]],
    "a refused key": [[{"answer": {"status": 401, "json": {"error": ERROR}}}]],
    "retries": [[{"answer": {"status": 429, "json": {"error": ERROR}}}], [{"hangup": "rst"}]],
    "an error in the stream": [[ANSWER, {"error": {"form": "bare", "message": QUOTED, "type": "MARKprompt said"}}]],
    "an error event": [[{"lines": ["event: error", f"data: {QUOTED}", ""]}, {"end": True}]],
    "a cut": [[ANSWER, {"cut": "rst"}]],
    "garbage": [[ANSWER, {"data": "MARKanswer is no JSON"}]],
    "no stream": [[{"answer": {"html": "<p>MARKanswer</p>"}}]],
    "odd chunks": [
        [{"object": {"id": "gen-1", "choices": "MARKanswer", "error": {"code": QUOTED, "message": QUOTED}}}]
    ],
    "an odd head": [[{"raw_head": f"HTTP/1.1 200 {QUOTED}\r\nX-A: MARKanswer\r\nbroken MARKanswer\r\n\r\nMARKanswer"}]],
    "no HTTP": [[{"raw_head": "MARKanswer\r\n\r\n"}]],
    "encoded": [[{"head": {"headers": {"Content-Encoding": "gzip"}}}, {"bytes": "MARKanswer"}]],
}
ONE = '"messages": [{"role": "user", "content": "x"}]'
BAD = {
    "no JSON": '{"messages": MARKprompt}',
    "cut JSON": '{"messages": [{"role": "user", "content": "MARKprompt',
    "no object": '["MARKprompt"]',
    "no messages": '{"messages": "MARKprompt"}',
    "an odd role": '{"messages": [{"role": "MARKprompt", "content": "MARKprompt"}]}',
    "an odd content": '{"messages": [{"role": "user", "content": {"MARKprompt": 1}}]}',
    "an odd strategy": f'{{{ONE}, "strategy": "MARKprompt"}}',
    "an odd module": f'{{{ONE}, "stm_modules": ["MARKprompt"]}}',
    "an odd technique": f'{{{ONE}, "parseltongue_technique": "MARKprompt"}}',
    "odd triggers": f'{{{ONE}, "parseltongue": true, "parseltongue_triggers": "MARKprompt"}}',
    "odd numbers": f'{{{ONE}, "temperature": "MARKprompt", "seed": {{"a": "MARKprompt"}}}}',
    "an odd key": f'{{{ONE}, "openrouter_api_key": "MARKkey ümlaut"}}',
}
TOOLS = {
    "/v1/autotune/analyze": {"message": "MARKprompt", "strategy": "MARKprompt"},
    "/v1/transform": {"text": "MARKprompt", "modules": ["MARKprompt"]},
    "/v1/parseltongue/encode": {"text": "MARKprompt", "technique": "MARKprompt", "custom_triggers": ["MARKtrigger"]},
    "/v1/parseltongue/detect": {"text": "MARKprompt MARKtrigger", "custom_triggers": ["MARKtrigger"]},
    "/v1/feedback": {"message_id": "x", "rating": 1, "response_text": "MARKanswer", "context_type": "MARKprompt"},
}


class Collector:
    """Takes the traces."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Stop listening."""
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Give what takes the traces."""
    found = Collector()
    yield found
    found.stop()


def whole(stream: RawStream) -> bytes:
    """Read to the end, or to a cut, and close."""
    with stream:
        return stream.read()


def drive(gateway: GunicornGateway, upstream: DemoUpstream) -> dict[str, bytes]:
    """Send requests that go every way; give what those were told who may not see what others said."""
    shown: dict[str, bytes] = {}
    for name, attempts in SCRIPTS.items():
        for stream in (True, False):
            upstream.play_attempts(attempts)
            whole(open_stream(gateway.chat_url, {**QUESTION, "stream": stream, "user": name}, HEADERS))
            upstream.clear()
    for user in ("leak-prepare", "leak-feed"):
        upstream.play([ANSWER])
        whole(open_stream(gateway.chat_url, {**QUESTION, "stream": True, "user": user}, HEADERS))
        upstream.clear()
    upstream.play([ANSWER, {"silence": True}])
    with open_stream(gateway.chat_url, {**QUESTION, "stream": True}, HEADERS) as left:
        left.read_some()
        upstream.wait_for_request(len(upstream.requests)).started.wait(PATIENCE)
    upstream.play([{"silence": True}])
    whole(open_stream(gateway.chat_url, {**QUESTION, "stream": True, "user": "a limit"}, HEADERS))
    for body in BAD.values():
        whole(open_stream(gateway.chat_url, body, HEADERS))
    for path, body in TOOLS.items():
        whole(open_stream(gateway.url + path, body, HEADERS))
    whole(request("GET", f"{gateway.url}/v1/none?q=MARKprompt", headers=HEADERS))
    whole(request("GET", f"{gateway.url}/v1/models/none?q=MARKprompt", headers=HEADERS))
    whole(request("POST", gateway.chat_url, "x" * 70_000 + "MARKprompt", HEADERS))
    for name, given in {"an unknown key": "MARKkey-wrong", "an unknown client key": "sk-or-v1-MARKkey-wrong"}.items():
        headers = {**HEADERS, "Authorization": f"Bearer {given}"}
        shown[name] = whole(open_stream(gateway.chat_url, QUESTION, headers))
        shown[f"{name}, metadata"] = whole(request("GET", f"{gateway.url}/v1/metadata/events", headers=headers))
    return shown


def look(gateway: GunicornGateway) -> dict[str, bytes]:
    """Give what the operator sees."""
    operator = {"Authorization": f"Bearer {METADATA}"}
    paths = (
        "/v1/metadata/events?limit=1000",
        "/v1/metadata/events?format=ndjson",
        "/v1/metadata/stats?by=model,period",
    )
    return {
        path: whole(request("GET", gateway.url + path, headers=operator))
        for path in (*paths, "/metrics", "/v1/ready", "/openapi.json")
    }


def leaks(found: dict[str, bytes]) -> list[str]:
    """Name what holds a mark, and which."""
    marks = re.compile(rb"MARK\w+|203\.0\.113\.77")
    return [f"{name}: {mark.decode()}" for name, text in found.items() for mark in sorted(set(marks.findall(text)))]


def settings(upstream: DemoUpstream, collector: Collector, **more: str) -> dict[str, str | None]:
    """Give the environment of a gateway that tells all it may tell."""
    return {
        "SLUICE_OPEN": None,
        "SLUICE_API_KEYS": f"ann:{KEY}",
        "SLUICE_METADATA_KEY": METADATA,
        "SLUICE_CLIENT_KEYS": "on",
        "SLUICE_TRUSTED_PROXIES": "1",
        "SLUICE_PARSELTONGUE_TRIGGERS": "MARKtrigger",
        "SLUICE_LOG_LEVEL": "debug",
        "SLUICE_TRACING": "on",
        "SLUICE_FETCH_GENERATIONS": "on",
        "SLUICE_RETRY_BACKOFF": "0.01",
        "SLUICE_FIRST_TOKEN_TIMEOUT": "0.5",
        "SLUICE_MAX_BODY_BYTES": "65536",
        "OPENROUTER_API_KEY": OPERATOR,
        "OPENROUTER_BASE_URL": upstream.base_url,
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "200",
        **more,
    }


def test_no_mark_is_kept_or_shown(upstream: DemoUpstream, collector: Collector, tmp_path: Path) -> None:
    """Through success, every failure, bad input, a client that leaves, and stages and recorders that fail."""
    database = tmp_path / "records.db"
    env = settings(upstream, collector, SLUICE_LOG_FORMAT="json", SLUICE_DATABASE_URL=f"sqlite:///{database}")
    args = ["--access-logfile", "-", "--log-level", "debug"]
    with GunicornGateway(env, app="tests.hosts.leaky:app", args=args) as gateway:
        found = drive(gateway, upstream)
        count = 2 * len(SCRIPTS) + 4 + len(BAD) + 1

        def recorded() -> bool:
            return len(json.loads(look(gateway)["/v1/metadata/events?limit=1000"])["data"]) == count

        wait_until(recorded, what=f"{count} records")
        found |= look(gateway)
        wait_until(lambda: b"".join(collector.bodies).count(b"sluice.record_id") == count, what="traces")
        found |= {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        found["traces"] = b"".join(collector.bodies)
        found["log"] = gateway.log().encode()
    assert b"leaky.py" in found["log"]
    assert b"detach" not in found["log"]
    assert count == found["log"].count(b'"end_reason"')
    assert {"records.db", "records.db-wal"} <= set(found)
    assert [] == leaks(found)


def test_no_mark_is_told_while_the_database_is_away(upstream: DemoUpstream, collector: Collector) -> None:
    """Nor is the database's address or password, by the log in its form for people."""
    url = "postgresql://MARKkey-user:MARKkey-password@127.0.0.1:1/MARKkey-database"
    env = settings(upstream, collector, SLUICE_LOG_FORMAT="text", SLUICE_DATABASE_URL=url)
    with GunicornGateway(env, app="tests.hosts.leaky:app") as gateway:
        found = drive(gateway, upstream)
        gateway.wait_for_log("records cannot be written")
        found |= look(gateway)
        found["log"] = gateway.log().encode()
    assert b"end_reason=completed" in found["log"]
    assert [] == leaks(found)
