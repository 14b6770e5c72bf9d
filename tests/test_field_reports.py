"""What streaming gateways are known to get wrong, each kind as a client or an upstream would bring it about."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from app.demo import DemoUpstream
from app.pipeline import ChatRequest, Chunk, Notes, Stage, Transform
from tests.clock import PATIENCE, granted, let_pass
from tests.conftest import Served
from tests.servers import open_stream
from tests.test_faults import ending
from tests.test_streaming import texts

SAY = {"role": "user", "content": "Say something."}


def deltas(data: list[Any], index: int = 0) -> list[dict[str, Any]]:
    """Give what one choice said, chunk by chunk."""
    choices = [choice for chunk in data if chunk != "[DONE]" for choice in chunk.get("choices", ())]
    return [choice["delta"] for choice in choices if choice["index"] == index and choice["delta"]]


def calls_of(data: list[Any]) -> list[dict[str, Any]]:
    """Give the tool call fragments of a stream, in order."""
    return [call for delta in deltas(data) for call in delta.get("tool_calls", ())]


def call(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    """Make a tool call, or a fragment of one."""
    return {**more, "function": {"name": name, "arguments": arguments}}


# Parse


@pytest.mark.parametrize("blank", [True, False], ids=["with its blank line", "without"])
def test_a_comment_never_becomes_data(served: Served, upstream: DemoUpstream, blank: bool) -> None:
    """Parse: keep-alive comments before, between and behind chunks come out as comments and cost no chunk."""
    beat = {"comment": {"text": "OPENROUTER PROCESSING", "blank": blank}}
    upstream.play([beat, beat, {"text": "one"}, beat, {"text": " two"}, beat, {"finish": "stop"}, beat, {"done": True}])

    with served.ask() as stream:
        blocks = stream.events()

    assert 5 == blocks.count(": OPENROUTER PROCESSING")
    assert all(block.startswith((": ", "data: {", "data: [DONE]")) and "\n" not in block for block in blocks)
    assert "one two" == texts([json.loads(block[6:]) for block in blocks if block.startswith("data: {")])


@pytest.mark.parametrize(
    "line", ["no field at all", "unknown: field", "data", "data:", "data: ", "{", ":", "id", "event: ping", "retry: x"]
)
def test_an_odd_line_does_not_poison_what_follows(served: Served, upstream: DemoUpstream, line: str) -> None:
    """Parse: a line that means nothing, in a block of its own, costs neither the chunk before nor the one behind."""
    upstream.play([{"text": "one"}, {"lines": [line, ""]}, {"text": " two"}])

    with served.ask() as stream:
        data = stream.data()

    assert ["one two", "[DONE]"] == [texts(data), data[-1]]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("end", ["crlf", "mixed"])
def test_an_event_over_several_lines_survives_any_cut(
    served: Served, upstream: DemoUpstream, end: str, size: int
) -> None:
    """Parse: CR and LF that come in different reads do not end an event of several data lines."""
    upstream.play(
        [
            {"style": {"line_ending": end, "json": "pretty"}},
            {"write": {"packet": size, "delay": 0.0001}},
            {"text": "hi"},
        ]
    )

    with served.ask() as stream:
        data = stream.data()

    assert ["hi", "[DONE]"] == [texts(data), data[-1]]


# Relay


def test_log_probabilities_are_relayed_and_joined(served: Served, upstream: DemoUpstream) -> None:
    """Relay: each chunk keeps its own, and a whole answer has those of all chunks."""
    script = [{"text": {"content": ["a", "b", "c", "d"], "logprobs": 2}}]
    upstream.play_attempts([script, script])

    with served.ask(logprobs=True, top_logprobs=2) as stream:
        data = stream.data()
    with served.ask(logprobs=True, top_logprobs=2, stream=False) as response:
        whole = response.json()["choices"][0]["logprobs"]["content"]

    found = [chunk["choices"][0].get("logprobs") for chunk in data[:4]]
    assert ["a", "b", "c", "d"] == [probs["content"][0]["token"] for probs in found]
    assert [2] * 4 == [len(probs["content"][0]["top_logprobs"]) for probs in found]
    assert [probs["content"][0] for probs in found] == whole


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_reasoning_and_vendor_fields_reach_the_client(served: Served, upstream: DemoUpstream, stream: bool) -> None:
    """Relay: reasoning, its details, the provider and fields nobody knows are there with streaming and without."""
    upstream.play(
        [
            {"reasoning": "Okay then"},
            {"delta": {"content": "yes", "vendor_field": {"kept": [1]}}},
            {"finish": {"reason": "stop", "native": "end_turn"}},
        ]
    )

    with served.ask(stream=stream) as response:
        if stream:
            data = response.data()
            said, last = deltas(data), data[-2]["choices"][0]
            reasoning = "".join(delta.get("reasoning") or "" for delta in said)
            details = [item for delta in said for item in delta.get("reasoning_details", ())]
            vendor, provider = said[-2]["vendor_field"], data[0]["provider"]
        else:
            answer = response.json()
            last = answer["choices"][0]
            message = last["message"]
            reasoning, details = message["reasoning"], message["reasoning_details"]
            vendor, provider = message["vendor_field"], answer["provider"]

    assert ["Okay then", "Okay then"] == [reasoning, "".join(item["text"] for item in details)]
    assert [{"kept": [1]}, "Demo", "end_turn"] == [vendor, provider, last["native_finish_reason"]]


@pytest.mark.parametrize("pipeline", ["off", "on"])
def test_eight_choices_stay_apart_when_upstream_breaks(
    serve: Callable[..., Served], upstream: DemoUpstream, pipeline: str
) -> None:
    """Relay: interleaved choices keep their own text, and each one gets the end that is its own."""
    served = serve(SLUICE_PIPELINE=pipeline)
    said = [f"The number {index} is here." for index in range(8)]
    ends = [{"finish": {"choice": index}} for index in (6, 1, 3)]
    upstream.play([{"choices": said}, *ends, {"wait": 0.1}, {"cut": "rst"}])

    with served.ask(n=8) as stream:
        _, chunks, _ = ending(stream)

    assert said == [texts(chunks, index) for index in range(8)]
    found = [c for chunk in chunks for c in chunk["choices"] if c["finish_reason"]]
    assert {6: "stop", 1: "stop", 3: "stop"} | dict.fromkeys((0, 2, 4, 5, 7), "error") == {
        choice["index"]: choice["finish_reason"] for choice in found
    }
    assert 8 == len(found)


# Tool calls

FRAGMENTS: dict[str, list[list[dict[str, Any]]]] = {
    "three indices, three chunks": [
        [call("look", f'{{"at":"{place}"}}', index=number, id=f"call_{number}", type="function")]
        for number, place in enumerate(("Tokyo", "Paris", "Oslo"))
    ],
    "one index for all": [
        [call("look", f'{{"at":"{place}"}}', index=0, id=f"call_{number}", type="function")]
        for number, place in enumerate(("Tokyo", "Paris", "Oslo"))
    ],
    "no index": [
        [call("look", f'{{"at":"{place}"}}', id=f"call_{number}", type="function")]
        for number, place in enumerate(("Tokyo", "Paris", "Oslo"))
    ],
    "all in one chunk without index": [
        [
            call("look", f'{{"at":"{place}"}}', id=f"call_{number}", type="function")
            for number, place in enumerate(("Tokyo", "Paris", "Oslo"))
        ]
    ],
    "identity repeated": [
        [call("look", part, index=number, id=f"call_{number}", type="function")]
        for number, place in enumerate(("Tokyo", "Paris", "Oslo"))
        for part in ('{"at":', f'"{place}"}}')
    ],
    "identity null in what follows": [
        [call(name, part, index=number, id=identity, type=kind)]  # type: ignore[arg-type]
        for number, place in enumerate(("Tokyo", "Paris", "Oslo"))
        for name, part, identity, kind in (
            ("look", '{"at":', f"call_{number}", "function"),
            (None, f'"{place}"}}', None, None),
        )
    ],
    "arguments as objects": [
        [call("look", {"at": place}, index=number, id=f"call_{number}", type="function")]
        for number, place in enumerate(("Tokyo", "Paris", "Oslo"))
    ],
}


@pytest.mark.parametrize("name", FRAGMENTS)
def test_parallel_tool_calls_stay_apart(served: Served, upstream: DemoUpstream, name: str) -> None:
    """Tool calls: however upstream marks them, three calls are three calls, each with its own arguments."""
    script = [*({"delta": {"tool_calls": calls}} for calls in FRAGMENTS[name]), {"finish": "tool_calls"}]
    upstream.play_attempts([script, script])

    with served.ask() as stream:
        fragments = calls_of(stream.data())
    with served.ask(stream=False) as response:
        message = response.json()["choices"][0]["message"]

    assert all(type(fragment["index"]) is int for fragment in fragments)
    assert all(isinstance(fragment["function"]["arguments"], str) for fragment in fragments)
    assert ["call_0", "call_1", "call_2"] == [fragment["id"] for fragment in fragments if "id" in fragment]
    assert ["look"] * 3 == [fragment["function"]["name"] for fragment in fragments if "name" in fragment["function"]]
    assert not any(None in (*fragment.values(), *fragment["function"].values()) for fragment in fragments)
    assert message["content"] is None
    assert [("call_0", "Tokyo"), ("call_1", "Paris"), ("call_2", "Oslo")] == [
        (made["id"], json.loads(made["function"]["arguments"])["at"]) for made in message["tool_calls"]
    ]


def test_bad_arguments_in_the_history_are_upstreams_business(served: Served, upstream: DemoUpstream) -> None:
    """Tool calls: a message of the history whose arguments are no JSON is sent on as it is."""
    broken = [{**call("read", '{"a":1}{"b":2}'), "id": "call_a", "type": "function"}]
    history = [SAY, {"role": "assistant", "content": None, "tool_calls": broken}]

    with served.ask(messages=[*history, {"role": "tool", "tool_call_id": "call_a", "content": "?"}]) as stream:
        assert "[DONE]" == stream.data()[-1]

    assert history == upstream.requests[0].body["messages"][:2]


# Usage


@contextlib.contextmanager
def leaving(served: Served, body: dict[str, Any]) -> Iterator[None]:
    """Send a request, and leave in the end without having read anything."""
    parts, data = urlsplit(served.url), json.dumps(body).encode()
    fields = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as client:
        client.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{fields}\r\n\r\n".encode() + data)
        yield


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_client_that_left_is_accounted_for_by_an_estimate(
    served: Served, upstream: DemoUpstream, stream: bool
) -> None:
    """Usage: without upstream's count the record estimates the tokens from the text that came, and says so."""
    upstream.play([{"text": ["x" * 100, "y" * 100]}, {"silence": True}])
    if stream:
        with served.ask() as client:
            assert client.next_data() and client.next_data()
    else:
        with leaving(served, {"stream": False, "messages": [SAY]}):
            assert upstream.wait_for_request().started.wait(PATIENCE)
            let_pass(1)  # nothing shows when the gateway has read what came

    record = served.record()

    assert ("client_disconnected", True, {"completion_tokens": 50}) == (
        record.end_reason,
        record.is_estimate,
        record.usage,
    )


def test_what_upstream_counts_is_no_estimate(served: Served, upstream: DemoUpstream) -> None:
    """Usage: upstream's own figures are kept as they are, also of an answer that failed behind them."""
    upstream.play([{"text": "hi"}, {"usage": {"form": "choice", "usage": {"total_tokens": 7}}}, {"error": "bare"}])

    with served.ask() as stream:
        stream.data()

    assert ({"total_tokens": 7}, False) == (served.record().usage, served.record().is_estimate)


@pytest.mark.parametrize(
    "usage", [{"cost": "free", "prompt_tokens": None, "total_tokens": -1}, {"cost": True}, {}, {"nested": {"x": [1]}}]
)
def test_odd_usage_is_relayed_as_it_is(served: Served, upstream: DemoUpstream, usage: dict[str, Any]) -> None:
    """Usage: figures of the wrong type cost nobody anything."""
    upstream.play([{"text": "hi"}, {"finish": "stop"}, {"usage": {"form": "empty", "usage": usage}}, {"done": True}])

    with served.ask(stream_options={"include_usage": True}) as stream:
        data = stream.data()

    assert [usage, "[DONE]"] == [data[-2]["usage"], data[-1]]


# Errors


def test_an_answer_without_end_is_no_success(served: Served, upstream: DemoUpstream) -> None:
    """Errors: text, then usage, then the end of the body, with neither a finish reason nor [DONE]."""
    upstream.play([{"text": "hello"}, {"usage": "empty"}, {"end": True}])

    with served.ask() as stream:
        text, _, error = ending(stream)

    assert ["hello", "upstream_cut"] == [text, error["code"]]


@pytest.mark.parametrize("end", ["fin", "rst"])
@pytest.mark.parametrize("last", [{"usage": "empty"}, {"bytes": "data: {"}], ids=["usage", "half an event"])
def test_a_break_behind_the_finish_costs_nothing(
    served: Served, upstream: DemoUpstream, last: dict[str, Any], end: str
) -> None:
    """Errors: an upstream whose connection breaks once every choice has finished has answered."""
    upstream.play([{"text": "all"}, {"finish": "length"}, last, {"wait": 0.1}, {"cut": end}])

    with served.ask() as stream:
        data = stream.data()

    assert ["all", "length", "[DONE]"] == [texts(data), data[-2]["choices"][0]["finish_reason"], data[-1]]
    assert "length" == served.record().end_reason


OTHER_ERRORS: dict[str, Any] = {
    "an event named error": {"lines": ["event: error", 'data: {"message": "told why", "code": 529}', ""]},
    "an event named error, in words": {"lines": ["event: error", "data: told why", ""]},
    "an object that calls itself error": {"object": {"object": "error", "message": "told why", "code": 400}},
}


@pytest.mark.parametrize("name", OTHER_ERRORS)
def test_an_error_in_another_dialect_is_no_success(served: Served, upstream: DemoUpstream, name: str) -> None:
    """Errors: what other servers send where OpenRouter sends an error object is told, though [DONE] follows."""
    upstream.play([{"text": "some"}, OTHER_ERRORS[name], {"done": True}])

    with served.ask() as stream:
        text, _, error = ending(stream)

    assert ["some", "told why"] == [text, error["message"]]
    assert "upstream_error" == served.record().end_reason


@pytest.mark.parametrize("body", [{"message": "told why", "code": 400}, {"detail": "told why"}, {"object": "x"}])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_json_that_is_no_completion_is_an_error(
    served: Served, upstream: DemoUpstream, body: dict[str, Any], stream: bool
) -> None:
    """Errors: a 200 with other JSON fails with the words in it, and no chunk is made of it."""
    upstream.play([{"answer": {"json": body}}])

    with served.ask(stream=stream) as response:
        if stream:
            _, chunks, error = ending(response)
            assert 1 == len(chunks)
        else:
            error = response.json()["error"]

    assert ("told why" in error["message"]) is ("object" not in body)
    assert body.get("code", 502) == int(error["code"])


class Careless(Stage):
    """Writes what is no JSON where the test says."""

    name = "careless"

    def __init__(self, where: str) -> None:
        self._where = where

    def prepare(self, request: ChatRequest, notes: Notes) -> ChatRequest:
        """Note something."""
        notes[self.name] = {"seen": object()} if self._where == "notes" else {1: 2} if self._where == "keys" else {}
        return request

    def start(self, request: ChatRequest, notes: Notes) -> Transform | None:
        """Give a transform that spoils chunks, if it is to."""
        where = self._where

        class Spoiler(Transform):
            def feed(self, chunk: Chunk) -> list[Chunk]:
                is_end = chunk["choices"][0].get("finish_reason") is not None
                if where == ("end" if is_end else "chunk"):
                    chunk["spoiled"] = {1, 2}
                return [chunk]

        return Spoiler() if where in ("end", "chunk") else None


@pytest.mark.parametrize("where", ["notes", "keys", "chunk", "end"])
def test_a_stage_that_writes_no_json_leaves_no_stream_open(
    serve: Callable[..., Served], upstream: DemoUpstream, where: str
) -> None:
    """Errors: what cannot be written costs the note or the stage's effect, never the answer, and is told."""
    served = serve(SLUICE_PIPELINE="on", options={"stages": [Careless(where)]})
    upstream.play([{"text": "hello"}])

    with served.ask() as stream:
        data = stream.data()

    assert "[DONE]" == data[-1]
    assert "hello" == texts(data[:-1])
    told = data[-2]["x_g0dm0d3"]
    spoiled = "notes" if where in ("notes", "keys") else "transform"
    assert {"stage": "careless", "in": spoiled, "error": "TypeError"} in told["stage_errors"]
    assert "careless" not in told["pipeline"] or spoiled == "transform"
    assert "completed" == served.record().end_reason
    assert 0 == served.gateway.open_streams


# Timeouts


def test_the_first_token_limit_interrupts_the_wait(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """Timeouts: the limit fires when it passes, not when the late token comes, and upstream is let go then."""
    served = serve(SLUICE_FIRST_TOKEN_TIMEOUT="1")
    upstream.play([{"head": {}}, {"wait": 10}, {"text": "late"}])

    with served.ask() as stream:
        _, _, error = ending(stream)

    exchange = upstream.requests[0]
    assert "upstream_timeout" == error["code"]
    assert exchange.closed.wait(PATIENCE) and exchange.closed_at is not None
    assert 0.9 < exchange.closed_at - exchange.time
    assert granted(exchange.time, exchange.closed_at) < 3


def test_the_idle_limit_begins_with_the_first_event(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """Timeouts: a first token that takes longer than the idle limit is in time."""
    served = serve(SLUICE_IDLE_TIMEOUT="1.5", SLUICE_FIRST_TOKEN_TIMEOUT="60")
    upstream.play([{"head": {}}, {"wait": 2.5}, {"text": "late"}])

    with served.ask() as stream:
        assert "late" == texts(stream.data())


def test_comments_keep_a_begun_answer_alive(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """Timeouts: behind the first event an upstream that only comments is not silent."""
    served = serve(SLUICE_IDLE_TIMEOUT="1.5", SLUICE_FIRST_TOKEN_TIMEOUT="60")
    beats = [{"comment": True}, {"wait": 0.2}] * 12
    upstream.play([{"text": "one"}, *beats, {"text": " two"}])

    with served.ask() as stream:
        assert "one two" == texts(stream.data())


@pytest.mark.parametrize("mode", ["event", "status"])
def test_a_held_back_head_is_no_stalled_client(serve: Callable[..., Served], upstream: DemoUpstream, mode: str) -> None:
    """Timeouts: a client cannot stall while there is nothing for it to take."""
    served = serve(SLUICE_STREAM_ERRORS=mode, SLUICE_COMMIT_AFTER="10", SLUICE_CLIENT_STALL_TIMEOUT="1")
    upstream.play([{"wait": 2}, {"text": "late"}])

    with served.ask() as stream:
        assert "late" == texts(stream.data())


def test_an_upstream_that_dribbles_behind_the_end_is_let_go(served: Served, upstream: DemoUpstream) -> None:
    """Timeouts: once [DONE] was there, bytes that go on for ever do not hold the connection."""
    dribble = {"repeat": {"steps": [{"bytes": " "}, {"wait": 0.05}]}}
    upstream.play([{"text": "all"}, {"finish": "stop"}, {"done": True}, dribble])
    began = time.monotonic()

    with served.ask() as stream:
        assert "all" == texts(stream.data())

    assert upstream.requests[0].closed.wait(PATIENCE)
    assert granted(began, upstream.requests[0].closed_at) < 8


# Encoding


def test_bytes_that_are_no_text_do_not_reach_the_client(served: Served, upstream: DemoUpstream) -> None:
    """Encoding: in comments as in data a bad byte becomes the replacement character, so the stream stays UTF-8."""
    bad = {"hex": (b': odd \xff\xfe\n\ndata: {"choices":[{"index":0,"delta":{"content":"a\xffb"}}]}\n\n').hex()}
    upstream.play([{"text": "x"}, {"bytes": bad}])

    with served.ask() as stream:
        blocks = stream.events()

    assert ": odd \ufffd\ufffd" in blocks
    assert "xa\ufffdb" == texts([json.loads(block[6:]) for block in blocks if block.startswith("data: {")])


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_halves_of_a_surrogate_pair_pass_both_ways(served: Served, upstream: DemoUpstream, stream: bool) -> None:
    """Encoding: escapes that no UTF-8 can hold are relayed as escapes, and the record is written all the same."""
    halves = r'{"model":"m\udfff","choices":[{"index":0,"delta":{"content":"%s"}}]}'
    upstream.play([{"data": halves % r"\ud83d"}, {"data": halves % r"\ude00"}, {"finish": "stop"}])
    body = r'{"stream":%s,"model":"\ud800","messages":[{"role":"user","content":"\udbff"}]}'

    with open_stream(served.chat_url, body % str(stream).lower()) as response:
        text = texts(response.data()) if stream else response.json()["choices"][0]["message"]["content"]

    assert "😀" == text.encode("utf-16", "surrogatepass").decode("utf-16")
    assert rb"\udbff" in upstream.requests[0].raw
    assert served.record().end_reason == "completed"
    journal = served.gateway.journal
    assert journal is not None and journal.flush(PATIENCE)
    assert 0 == journal.dropped


def test_a_byte_order_mark_before_the_request_is_passed_over(served: Served, upstream: DemoUpstream) -> None:
    """Encoding: some clients write one, and it is no part of the JSON."""
    body = b"\xef\xbb\xbf" + json.dumps({"stream": True, "messages": [SAY]}).encode()

    with open_stream(served.chat_url, body) as stream:
        assert "[DONE]" == stream.data()[-1]


# Buffering and headers

FRAMINGS: dict[str, list[Any]] = {
    "content length": [{"head": {"framing": "length"}}, {"text": "hi"}],
    "gzip": [{"head": {"encoding": "gzip"}}, {"text": "hi"}],
    "close": [{"head": {"framing": "close"}}, {"text": "hi"}],
    "JSON": [{"answer": {"json": {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}}}],
    "an error": [{"answer": {"status": 400, "json": {"error": {"message": "no"}}}}],
    "a cut": [{"text": "hi"}, {"cut": "rst"}],
}


@pytest.mark.parametrize("name", FRAMINGS)
def test_a_stream_has_headers_of_its_own(served: Served, upstream: DemoUpstream, name: str) -> None:
    """Headers: upstream's framing and encoding are its connection's, and no proxy may buffer, errors included."""
    upstream.play(FRAMINGS[name])

    with served.ask() as stream:
        data = stream.data()
        headers = stream.headers

    assert "[DONE]" == data[-1]
    assert not {"content-length", "content-encoding", "set-cookie"} & headers.keys()
    assert ["chunked", "no", "no-cache, no-transform", "text/event-stream; charset=utf-8"] == [
        headers[key] for key in ("transfer-encoding", "x-accel-buffering", "cache-control", "content-type")
    ]


# Validation


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "tool_calls": [{**call("f", "{}"), "id": "c1", "type": "function"}]},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "tool_calls": [{**call("f", ""), "id": "c1", "type": "function"}]},
        {"role": "assistant", "content": "x", "reasoning_details": [{"type": "reasoning.encrypted", "data": "=="}]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "ok"}]},
        {"role": "developer", "content": "Be brief.", "name": "boss", "vendor": {"a": 1.10}},
    ],
    ids=["null content", "empty content", "no content", "reasoning", "parts", "vendor field"],
)
def test_a_message_of_the_history_goes_upstream_as_it_came(
    served: Served, upstream: DemoUpstream, message: dict[str, Any]
) -> None:
    """Validation: the gateway is no stricter than upstream, and sends each message on byte for byte."""
    sent = json.dumps(message, separators=(",", ":")).encode()
    body = b'{"stream":true,"messages":[{"role":"user","content":"x"},%b]}' % sent

    with open_stream(served.chat_url, body) as stream:
        assert 200 == stream.status
        assert "[DONE]" == stream.data()[-1]

    assert sent in upstream.requests[0].raw


def test_an_unknown_field_in_a_tool_is_upstreams_to_refuse(served: Served, upstream: DemoUpstream) -> None:
    """Validation: it is sent on, and upstream's refusal comes back readable with its own status."""
    refusal = {"error": {"code": 422, "message": "tools.0: extra inputs are not permitted"}}
    upstream.play([{"answer": {"status": 422, "json": refusal}}])
    tools = [{"type": "function", "function": {"name": "f"}, "eager_input_streaming": True}]

    with served.ask(stream=False, tools=tools, autotune=True, reasoning_effort="banana") as response:
        error = response.json()["error"]

    assert (422, refusal["error"]["message"]) == (response.status, error["message"])
    sent = upstream.requests[0].body
    assert (tools, "banana") == (sent["tools"], sent["reasoning_effort"])
    assert "autotune" not in sent


REFUSALS: dict[str, dict[str, Any]] = {
    "OpenAI": {"json": {"error": {"message": "no such effort: banana", "param": "reasoning_effort", "code": "x"}}},
    "Google": {"json": [{"error": {"message": "no such effort: banana", "param": "reasoning_effort"}}]},
    "FastAPI": {"json": {"detail": [{"loc": ["body", "effort"], "msg": "no such effort: banana", "input": "banana"}]}},
    "a text": {"json": "no such effort: banana"},
    "an error in an error": {"json": {"error": {"error": {"message": "no such effort: banana"}}}},
    "errors": {"json": {"errors": [{"message": "no such effort: banana"}, 5, "and more"]}},
    "a detail": {"json": {"title": "Bad", "detail": "no such effort: banana"}},
    "plain text": {"text": "no such effort: banana\n"},
}
WORDLESS: dict[str, dict[str, Any]] = {
    "a page": {"html": "<h1>Bad Request</h1>"},
    "nothing": {"json": None},
    "numbers": {"json": {"error": {"message": 5}, "detail": [5]}},
    "cut JSON": {"text": '{"error": {"mess', "type": "application/json"},
    "no faults": {"json": {"detail": [None, {"msg": 5}]}},
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", REFUSALS | WORDLESS)
def test_a_refusal_in_any_dialect_keeps_its_status_and_words(
    served: Served, upstream: DemoUpstream, name: str, stream: bool
) -> None:
    """Validation: what upstream says is wrong reaches the client; where it says nothing readable, that is said."""
    upstream.play([{"answer": {"status": 422, **(REFUSALS | WORDLESS)[name]}}])

    with served.ask(stream=stream, reasoning_effort="banana") as response:
        error = response.data()[-2]["error"] if stream else response.json()["error"]

    assert ("no such effort: banana" if name in REFUSALS else "gave no reason") in error["message"]
    assert ("reasoning_effort" if name in ("OpenAI", "Google") else None) == error["param"]
    if not stream:
        assert 422 == response.status
    assert ("upstream_error", "x" if name == "OpenAI" else "422") == (
        served.record().end_reason,
        served.record().error_code,
    )


# Retry


def test_a_break_is_told_as_it_was_and_nothing_is_added_to_the_prompt(served: Served, upstream: DemoUpstream) -> None:
    """Retry: once text went out there is no second attempt, no continuation, and the first cause is the one told."""
    upstream.play([{"text": "half"}, {"error": {"code": 503, "message": "the true cause"}}])

    with served.ask(messages=[SAY], models=["a/b", "c/d"]) as stream:
        text, _, error = ending(stream)

    assert ["half", "the true cause"] == [text, error["message"]]
    assert [[SAY]] == [exchange.body["messages"] for exchange in upstream.requests]
