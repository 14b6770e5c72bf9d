"""Every way an upstream can fail, and the one ending that each of them gives the client."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.demo import DemoUpstream
from tests.clock import PATIENCE, granted
from tests.conftest import Served
from tests.servers import RawStream
from tests.test_streaming import texts

TOKEN = {"text": "some"}
ERROR = {"code": 400, "message": "told why", "metadata": {"error_type": "invalid_prompt"}}

# script, text that reaches the client, code, status of the blocking face, end reason
FAULTS: dict[str, tuple[list[Any], str, str, int, str]] = {
    "status 400": (
        [{"answer": {"status": 400, "json": {"error": ERROR}}}],
        "",
        "invalid_prompt",
        400,
        "upstream_error",
    ),
    "status 402": (
        [{"answer": {"status": 402, "json": {"error": {"code": 402, "message": "no credit"}}}}],
        "",
        "402",
        402,
        "upstream_error",
    ),
    "status 404": (
        [{"answer": {"status": 404, "json": {"error": {"code": 404, "message": "no model"}}}}],
        "",
        "404",
        404,
        "upstream_error",
    ),
    "status 422": (
        [{"answer": {"status": 422, "json": {"error": {"message": "banana"}}}}],
        "",
        "422",
        422,
        "upstream_error",
    ),
    "status 500": ([{"answer": {"status": 500, "html": "<h1>oh</h1>"}}], "", "500", 500, "upstream_error"),
    "status 524": ([{"answer": {"status": 524}}], "", "524", 524, "upstream_error"),
    "own key refused": (
        [{"answer": {"status": 401, "json": {"error": {"code": 401, "message": "sk-or-v1-operator"}}}}],
        "",
        "upstream_auth",
        502,
        "upstream_error",
    ),
    "redirect": (
        [{"answer": {"status": 307, "headers": {"Location": "http://127.0.0.1:1/"}}}],
        "",
        "upstream_protocol",
        502,
        "upstream_error",
    ),
    "error first": (
        [{"error": {"code": 429, "type": "rate_limit_exceeded"}}],
        "",
        "rate_limit_exceeded",
        429,
        "upstream_error",
    ),
    "error after text": ([TOKEN, {"error": {}}], "some", "provider_unavailable", 502, "upstream_error"),
    "error with empty choices": ([TOKEN, {"error": "empty"}], "some", "provider_unavailable", 502, "upstream_error"),
    "error alone": ([TOKEN, {"error": "bare"}], "some", "provider_unavailable", 502, "upstream_error"),
    "error in a choice": (
        [TOKEN, {"error": {"form": "choice", "content": " more"}}],
        "some more",
        "provider_unavailable",
        502,
        "upstream_error",
    ),
    "error as text": ([TOKEN, {"error": {"form": "text", "message": "plain"}}], "some", "502", 502, "upstream_error"),
    "finish reason error": ([TOKEN, {"error": "finish"}], "some", "502", 502, "upstream_error"),
    "error code as text": (
        [TOKEN, {"error": {"code": "server_error", "type": None}}],
        "some",
        "server_error",
        502,
        "upstream_error",
    ),
    "error event": (
        [TOKEN, {"error": {"form": "bare", "event": "error"}}],
        "some",
        "provider_unavailable",
        502,
        "upstream_error",
    ),
    "error as JSON body": ([{"answer": {"json": {"error": ERROR}}}], "", "invalid_prompt", 400, "upstream_error"),
    "cut by FIN": ([TOKEN, {"cut": "fin"}], "some", "upstream_cut", 502, "upstream_cut"),
    "cut by RST": ([TOKEN, {"wait": 0.1}, {"cut": "rst"}], "some", "upstream_cut", 502, "upstream_cut"),
    "clean end without finish": ([TOKEN, {"end": True}], "some", "upstream_cut", 502, "upstream_cut"),
    "close-delimited end": (
        [{"head": {"framing": "close"}}, TOKEN, {"end": True}],
        "some",
        "upstream_cut",
        502,
        "upstream_cut",
    ),
    "nothing": ([{"head": {}}, {"end": True}], "", "upstream_empty", 502, "upstream_empty"),
    "done at once": ([{"done": True}, {"end": True}], "", "upstream_empty", 502, "upstream_empty"),
    "comments only": ([{"comment": True}, {"end": True}], "", "upstream_empty", 502, "upstream_empty"),
    "no content": ([{"answer": {"status": 204}}], "", "upstream_empty", 502, "upstream_empty"),
    "garbage in data": ([TOKEN, {"data": "{not json"}], "some", "upstream_protocol", 502, "upstream_error"),
    "a number in data": ([TOKEN, {"data": "17"}], "some", "upstream_protocol", 502, "upstream_error"),
    "html with 200": ([{"answer": {"html": "<html>sorry</html>"}}], "", "upstream_protocol", 502, "upstream_error"),
    "whitespace and junk": (
        [{"answer": {"body": "\n\n  {broken", "type": "application/json"}}],
        "",
        "upstream_protocol",
        502,
        "upstream_error",
    ),
    "hang up before the head": ([{"hangup": "fin"}], "", "upstream_unreachable", 502, "upstream_error"),
    "reset before the head": ([{"hangup": "rst"}], "", "upstream_unreachable", 502, "upstream_error"),
    "half a head": (
        [{"raw_head": "HTTP/1.1 200 OK\r\nContent-"}, {"cut": "fin"}],
        "",
        "upstream_empty",
        502,
        "upstream_empty",
    ),
    "no HTTP": (
        [{"raw_head": "SSH-2.0-OpenSSH\r\n"}, {"cut": "fin"}],
        "",
        "upstream_unreachable",
        502,
        "upstream_error",
    ),
    "silence": ([TOKEN, {"silence": True}], "some", "upstream_timeout", 504, "upstream_timeout"),
    "silence from the start": ([{"silence": True}], "", "upstream_timeout", 504, "upstream_timeout"),
    "silence after the head": ([{"head": {}}, {"silence": True}], "", "upstream_timeout", 504, "upstream_timeout"),
    "comments for ever": (
        [{"head": {}}, *[{"comment": True}, {"wait": 0.2}] * 40],
        "",
        "upstream_timeout",
        504,
        "upstream_timeout",
    ),
    "an event that never ends": (
        [TOKEN, *[{"bytes": "data: {"}], *[{"bytes": " "}, {"wait": 0.1}] * 60],
        "some",
        "upstream_timeout",
        504,
        "upstream_timeout",
    ),
    "too long an event": ([TOKEN, {"bytes": {"fill": 300_000}}], "some", "upstream_protocol", 502, "upstream_error"),
    "wrong encoding": (
        [{"head": {"headers": {"Content-Encoding": "gzip"}}}, TOKEN],
        "",
        "upstream_protocol",
        502,
        "upstream_error",
    ),
}
LIMITS = {
    "SLUICE_FIRST_TOKEN_TIMEOUT": "2",
    "SLUICE_IDLE_TIMEOUT": "1.5",
    "SLUICE_MAX_EVENT_BYTES": "262144",
    "SLUICE_RETRIES": "0",
}


def ending(stream: RawStream) -> tuple[str, list[Any], dict[str, Any]]:
    """Read a failed stream to its clean end; give its text, its last chunks and its error."""
    data = stream.data()
    assert data[-1] == "[DONE]"
    assert list(data[-2]) == ["error"]
    return texts(data), data[:-2], data[-2]["error"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_stream_ends_it_as_specified(
    serve: Callable[..., Served], upstream: DemoUpstream, name: str
) -> None:
    """Text stays, one error chunk, the bare error, [DONE], a clean end, and the record's end reason."""
    script, text, code, _, reason = FAULTS[name]
    served = serve(**LIMITS)
    upstream.play(script)

    with served.ask() as stream:
        got, chunks, error = ending(stream)

    assert (text, code) == (got, error["code"])
    assert {"message", "type", "param", "code"} <= error.keys()
    assert chunks[-1]["choices"] == [{"index": 0, "delta": {}, "finish_reason": "error"}]
    assert error == chunks[-1]["x_g0dm0d3"]["error"]
    assert sum(choice["finish_reason"] is not None for chunk in chunks for choice in chunk["choices"]) == 1
    record = served.record()
    assert (reason, code, 200) == (record.end_reason, record.error_code, record.status)
    assert "sk-or-v1" not in json.dumps(error)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_whole_answer_is_a_status(serve: Callable[..., Served], upstream: DemoUpstream, name: str) -> None:
    """The same fault gives a blocking client a status and the error as JSON."""
    script, _, code, status, reason = FAULTS[name]
    served = serve(**LIMITS)
    upstream.play(script)

    with served.ask(stream=False) as response:
        body = response.json()

    assert (status, code) == (response.status, body["error"]["code"])
    record = served.record()
    assert (reason, status) == (record.end_reason, record.status)


@pytest.mark.parametrize("count", [*range(1, 40), 200, 350, 500])
def test_a_cut_at_any_byte_is_told(served: Served, upstream: DemoUpstream, count: int) -> None:
    """Wherever upstream's body is cut, the client is told and the stream ends cleanly."""
    upstream.play([{"cut_at": {"count": count}}, {"text": "one two three four five six"}])

    with served.ask() as stream:
        text, _, error = ending(stream)

    assert error["code"] in ("upstream_cut", "upstream_empty")
    assert "one two three four five six".startswith(text)


def test_only_unfinished_choices_end_with_an_error(served: Served, upstream: DemoUpstream) -> None:
    """A choice that had finished keeps its own finish reason."""
    upstream.play([{"choices": {"texts": ["a", "b"]}}, {"finish": {"choice": 0}}, {"cut": "fin"}])

    with served.ask(n=2) as stream:
        _, chunks, _ = ending(stream)

    ends = {c["index"]: c["finish_reason"] for chunk in chunks for c in chunk["choices"] if c["finish_reason"]}
    assert ends == {0: "stop", 1: "error"}


def test_an_error_after_all_choices_finished_has_no_error_chunk(served: Served, upstream: DemoUpstream) -> None:
    """The finish chunk goes out, then the bare error."""
    upstream.play([{"text": "a"}, {"finish": "stop"}, {"error": "bare"}])

    with served.ask() as stream:
        _, chunks, _ = ending(stream)

    assert [c["finish_reason"] for chunk in chunks for c in chunk["choices"] if c["finish_reason"]] == ["stop"]


def test_a_cut_after_the_finish_is_no_error(served: Served, upstream: DemoUpstream) -> None:
    """An upstream that ends after a finish reason without [DONE] has answered."""
    upstream.play([{"text": "a"}, {"finish": "stop"}, {"end": True}])

    with served.ask() as stream:
        data = stream.data()

    assert [data[-2]["choices"][0]["finish_reason"], data[-1]] == ["stop", "[DONE]"]
    assert served.record().end_reason == "completed"


@pytest.mark.parametrize(
    ("script", "reason"),
    [([{"text": "a"}, {"done": True}], "stop"), ([{"tool_call": "f"}, {"done": True}], "tool_calls")],
)
def test_done_without_finish_finishes(served: Served, upstream: DemoUpstream, script: list[Any], reason: str) -> None:
    """[DONE] without a finish reason finishes with stop, or tool_calls after tool calls."""
    upstream.play(script)

    with served.ask() as stream:
        data = stream.data()

    assert reason == data[-2]["choices"][0]["finish_reason"]


@pytest.mark.parametrize(
    "script",
    [
        [{"text": "a"}, {"finish": "stop"}, {"done": {"text": "[DONE]", "blank": False}}, {"end": True}],
        [{"text": "a"}, {"finish": "stop"}, {"done": "[DONE]  "}],
        [{"text": "a"}, {"finish": "stop"}, {"done": {"text": "[DONE]", "space": ""}}],
        [
            {"data": ""},
            {"text": "a"},
            {"lines": ["event: ping", ""]},
            {"lines": ["id: 7", ""]},
            {"lines": ["retry: 3000", ""]},
        ],
        [{"bom": True}, {"text": "a"}],
        [{"text": "a"}, {"error": "null"}],
        [{"text": "a"}, {"done": True}, {"text": "after the end"}],
    ],
)
def test_what_is_odd_but_harmless_is_relayed(served: Served, upstream: DemoUpstream, script: list[Any]) -> None:
    """Oddities of the event stream cost nothing and do not reach the client."""
    upstream.play(script)

    with served.ask() as stream:
        blocks = stream.events()

    chunks = [json.loads(block[6:]) for block in blocks if block.startswith("data: {")]
    assert texts(chunks) == "a"
    assert blocks[-1] == "data: [DONE]"
    assert all(block.startswith((":", "data: {", "data: [DONE]")) for block in blocks)
    assert all("error" not in chunk for chunk in chunks)


def test_the_deadline_ends_a_busy_stream(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """A stream that never falls silent still ends at the deadline."""
    served = serve(SLUICE_DEADLINE="1")
    upstream.play([{"text": {"content": ["a "] * 200, "pace": 20}}])

    with served.ask() as stream:
        _, _, error = ending(stream)

    assert error["code"] == "deadline"
    assert served.record().end_reason == "deadline"
    exchange = upstream.requests[0]
    assert exchange.closed.wait(PATIENCE)
    assert granted(exchange.time, exchange.closed_at) < 3


def test_a_client_key_that_is_refused_is_the_clients_401(served: Served, upstream: DemoUpstream) -> None:
    """A 401 on a key that the client brought stays a 401, with its text masked."""
    upstream.play([{"answer": {"status": 401, "json": {"error": {"code": 401, "message": "bad key sk-or-v1-client"}}}}])

    with served.ask(stream=False, openrouter_api_key="sk-or-v1-client") as response:
        body = response.json()

    assert response.status == 401
    assert body["error"]["message"] == "bad key [masked]"


def test_early_failures_can_have_their_status(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """With stream errors as status, a stream that fails before it says anything is a status with its headers."""
    served = serve(SLUICE_STREAM_ERRORS="status", SLUICE_RETRIES="0")
    upstream.play([{"answer": {"status": 429, "headers": {"Retry-After": "7"}}}])
    upstream.play([{"delta": {"role": "assistant", "content": ""}}, {"error": {"code": 503}}])
    upstream.play([{"text": "fine"}])

    with served.ask() as refused, served.ask() as failed, served.ask() as fine:
        assert (refused.status, refused.headers["retry-after"]) == (429, "7")
        assert failed.status == 503
        assert fine.status == 200
        assert texts(fine.data()) == "fine"


def test_headers_are_held_back_for_so_long_only(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """After SLUICE_COMMIT_AFTER the stream begins, and a failure is an event in it."""
    served = serve(SLUICE_STREAM_ERRORS="status", SLUICE_COMMIT_AFTER="0.3")
    upstream.play([{"hold": True}, {"error": {"code": 503}}])

    with served.ask() as stream:
        upstream.release()
        _, _, error = ending(stream)

    assert stream.status == 200
    assert error["code"] == "provider_unavailable"
