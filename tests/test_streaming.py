"""The stream as a client sees it, over real sockets."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from app.demo import DemoUpstream
from tests.clock import PATIENCE, granted
from tests.conftest import Served
from tests.servers import RawStream

HEARTBEAT = ": keep-alive"


def texts(chunks: list[Any], index: int = 0) -> str:
    """Join the text of one choice."""
    choices = [choice for chunk in chunks if chunk != "[DONE]" for choice in chunk.get("choices", ())]
    return "".join(c["delta"].get("content") or "" for c in choices if c["index"] == index)


def comments_until_data(stream: RawStream, timeout: float = PATIENCE) -> int:
    """Count the comments before the next data event."""
    count = 0
    while (block := stream.next_event(timeout)) is not None and block.startswith(":"):
        count += 1
    return count


def test_head_and_first_comment_come_before_upstream_answers(served: Served, upstream: DemoUpstream) -> None:
    """The response's head and a comment reach the client although upstream takes seconds to answer."""
    upstream.play([{"wait": 5}, {"text": "late"}])
    began = time.monotonic()

    with served.ask() as stream:
        first = stream.next_event()
        took = granted(began, time.monotonic())

        assert first == HEARTBEAT
        assert took < 1
        assert not upstream.wait_for_request().started.is_set()
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.headers["cache-control"] == "no-cache, no-transform"
        assert stream.headers["x-accel-buffering"] == "no"
        assert stream.headers["x-request-id"]
        assert "content-length" not in stream.headers


def test_first_bytes_come_before_upstream_is_contacted(serve: Callable[..., Served]) -> None:
    """With nothing listening upstream, the head and the comment have already been sent."""
    served = serve(OPENROUTER_BASE_URL="http://127.0.0.1:1/v1", SLUICE_RETRIES="0")

    with served.ask() as stream:
        blocks = stream.events()

    assert stream.status == 200
    assert blocks[0] == HEARTBEAT
    assert blocks[-1] == "data: [DONE]"


def assert_comments_come(stream: RawStream, since: float) -> None:
    """Check that five comments come behind the greeting, one every 0.3 s, since the request was sent at *since*."""
    assert [HEARTBEAT] * 6 == [stream.next_event() for _ in range(6)]
    ended = time.monotonic()
    assert ended - since > 5 * 0.3 * 0.8
    assert granted(since, ended) < 5 * 0.3 * 2


@pytest.mark.parametrize(
    "script",
    [
        [{"hold": True}, {"text": "x"}],
        [{"head": {}}, {"hold": True}, {"text": "x"}],
    ],
    ids=["before the head", "before the first token"],
)
def test_comments_come_while_upstream_is_silent(
    serve: Callable[..., Served], upstream: DemoUpstream, script: list[Any]
) -> None:
    """A comment comes every heartbeat while upstream has not said anything."""
    served = serve(SLUICE_HEARTBEAT="0.3")
    upstream.play(script)
    began = time.monotonic()

    with served.ask() as stream:
        assert_comments_come(stream, began)
        upstream.release()
        assert stream.next_data()


def test_comments_come_between_tokens(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """A comment comes every heartbeat between two chunks."""
    served = serve(SLUICE_HEARTBEAT="0.3")
    upstream.play([{"text": "one"}, {"hold": True}, {"text": "two"}])
    began = time.monotonic()

    with served.ask() as stream:
        assert "one" == texts([json.loads(stream.next_data() or "")])
        assert [HEARTBEAT] * 5 == [stream.next_event() for _ in range(5)]
        ended = time.monotonic()
        upstream.release()
        assert '"two"' in (stream.next_data() or "")

    assert ended - began > 5 * 0.3 * 0.8
    assert granted(began, ended) < 5 * 0.3 * 2


def test_comments_come_in_the_wait_of_a_retry(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """A comment comes every heartbeat while a retry waits."""
    served = serve(SLUICE_HEARTBEAT="0.3")
    upstream.play_attempts([[{"answer": {"status": 429, "headers": {"Retry-After": "25"}}}], [{"text": "x"}]])
    began = time.monotonic()

    with served.ask() as stream:
        assert_comments_come(stream, began)
        assert 1 == len(upstream.requests)


def test_comments_do_not_come_while_chunks_do(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """A busy stream carries no comments of ours beside the first."""
    served = serve(SLUICE_HEARTBEAT="2")
    upstream.play([{"text": {"content": ["a"] * 50, "pace": 20}}])

    with served.ask() as stream:
        blocks = stream.events()

    assert blocks.count(HEARTBEAT) == 1


def test_each_chunk_is_relayed_before_upstream_sends_the_next(served: Served, upstream: DemoUpstream) -> None:
    """A chunk arrives although upstream has fallen silent behind it."""
    upstream.play([{"text": "first"}, {"silence": True}])

    with served.ask() as stream:
        chunk = json.loads(stream.next_data() or "")

        assert chunk["choices"][0]["delta"]["content"] == "first"
        assert upstream.wait_for_request().outcome == "open"


@pytest.mark.parametrize("framing", ["chunked", "close"])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_no_framing_delays_a_chunk(served: Served, upstream: DemoUpstream, framing: str, encoding: str) -> None:
    """Chunks come at once in close-delimited and compressed bodies too."""
    upstream.play([{"head": {"framing": framing, "encoding": encoding}}, {"text": "first"}, {"silence": True}])

    with served.ask() as stream:
        chunk = json.loads(stream.next_data() or "")

    assert chunk["choices"][0]["delta"]["content"] == "first"


def test_a_whole_stream_has_the_parts_in_order(served: Served, upstream: DemoUpstream) -> None:
    """Chunks with one id, the finish chunk with the metadata, [DONE], and a clean end."""
    upstream.play([{"comment": "OPENROUTER PROCESSING"}, {"text": "Hello there, reader."}])

    with served.ask() as stream:
        blocks = stream.events()

    chunks = [json.loads(block[6:]) for block in blocks if block.startswith("data: {")]
    assert blocks[:2] == [HEARTBEAT, ": OPENROUTER PROCESSING"]
    assert blocks[-1] == "data: [DONE]"
    assert texts(chunks) == "Hello there, reader."
    assert {"chat.completion.chunk"} == {chunk["object"] for chunk in chunks}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert chunks[0]["id"].startswith("chatcmpl-") and len(chunks[0]["id"]) == len("chatcmpl-") + 24
    assert [
        chunks[0]["choices"][0]["delta"].get("role"),
        chunks[1]["choices"][0]["delta"].get("role"),
    ] == ["assistant", None]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    told = chunks[-1]["x_g0dm0d3"]
    assert served.record().record_id == told["record_id"]
    assert upstream.requests[0].generation_id == told["generation_id"]
    assert told["attempts"] == [{"status": 200}]
    assert all("usage" not in chunk for chunk in chunks)


@pytest.mark.parametrize("form", ["empty", "choice", "missing", "null"])
def test_usage_comes_once_and_only_if_asked(served: Served, upstream: DemoUpstream, form: str) -> None:
    """Every form of upstream's usage becomes one chunk with empty choices, for clients that asked."""
    script = [{"text": "hi"}, {"finish": "stop"}, {"usage": form}, {"done": True}]
    upstream.play_attempts([script, script])

    with served.ask(stream_options={"include_usage": True}) as stream:
        asked = stream.data()
    with served.ask(stream_options={"include_usage": False}) as stream:
        not_asked = stream.data()

    assert [chunk["choices"] for chunk in asked if chunk != "[DONE]" and "usage" in chunk] == [[]]
    assert "usage" in asked[-2] and asked[-1] == "[DONE]"
    assert not [chunk for chunk in not_asked if chunk != "[DONE]" and ("usage" in chunk or not chunk["choices"])]


def test_choices_keep_their_index(served: Served, upstream: DemoUpstream) -> None:
    """Two choices interleave as upstream sends them, each with one finish chunk, the last with the metadata."""
    upstream.play(
        [{"choices": {"texts": ["one two three", "uno dos"]}}, {"finish": {"choice": 0}}, {"finish": {"choice": 1}}]
    )

    with served.ask(n=2) as stream:
        chunks = stream.data()

    ends = [chunk for chunk in chunks if chunk != "[DONE]" and chunk["choices"][0]["finish_reason"]]
    assert [texts(chunks, 0), texts(chunks, 1)] == ["one two three", "uno dos"]
    assert [end["choices"][0]["index"] for end in ends] == [0, 1]
    assert ["x_g0dm0d3" in end for end in ends] == [False, True]


def test_upstream_is_always_asked_to_stream(served: Served, upstream: DemoUpstream) -> None:
    """A client that wants a whole answer is served from a stream."""
    upstream.play([{"text": "whole answer"}])

    with served.ask(stream=False, temperature=0.5, seed=7) as response:
        answer = response.json()

    sent = upstream.requests[0]
    assert {"stream": True, "temperature": 0.5, "seed": 7, "max_tokens": 4096} | sent.body == sent.body
    assert sent.headers["Accept-Encoding"] == "identity"
    assert sent.headers["Authorization"] == "Bearer sk-or-v1-operator"
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] == "whole answer"
    assert answer["usage"]["total_tokens"] > 0
    assert answer["x_g0dm0d3"]["record_id"] == served.record().record_id


def test_a_whole_answer_has_the_parts_of_all_chunks(served: Served, upstream: DemoUpstream) -> None:
    """Text concatenates, lists append, tool calls are put together."""
    upstream.play(
        [
            {"reasoning": "Let me think."},
            {"text": {"content": "Some text", "logprobs": 1}},
            {"tool_calls": [{"name": "look", "arguments": {"at": "it"}}, {"name": "leave", "arguments": {}}]},
            {"finish": "tool_calls"},
        ]
    )

    with served.ask(stream=False) as response:
        choice = response.json()["choices"][0]

    message = choice["message"]
    assert [message["reasoning"], message["content"]] == ["Let me think.", "Some text"]
    assert len(choice["logprobs"]["content"]) == 2
    assert [(call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]] == [
        ("look", '{"at":"it"}'),
        ("leave", "{}"),
    ]
    assert choice["finish_reason"] == "tool_calls"


def test_a_json_answer_to_a_stream_request_is_relayed(served: Served, upstream: DemoUpstream) -> None:
    """An upstream that answers without streaming still gives the client a stream."""
    completion = {
        "id": "gen-1",
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    upstream.play([{"answer": {"json": completion, "leading": "\n \n"}}])

    with served.ask() as stream:
        chunks = stream.data()

    assert texts(chunks) == "whole"
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"


def test_a_four_megabyte_event_passes(served: Served, upstream: DemoUpstream) -> None:
    """An image of several megabytes in one event is relayed whole."""
    upstream.play([{"image": 3_000_000}])

    with served.ask() as stream:
        chunks = stream.data()

    url = chunks[0]["choices"][0]["delta"]["images"][0]["image_url"]["url"]
    assert len(url) > 4_000_000
    assert chunks[-1] == "[DONE]"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1400])
@pytest.mark.parametrize("eol", ["lf", "crlf", "cr", "mixed"])
def test_any_packets_and_line_ends_give_the_same_chunks(
    served: Served, upstream: DemoUpstream, size: int, eol: str
) -> None:
    """However upstream's bytes are cut and its lines end, the client receives the same."""
    words = "naïve 🔥 line\u2028separator\u0085 and\x0bmore"
    upstream.play([{"style": {"line_ending": eol}}, {"write": {"packet": size}}, {"text": words}, {"text": "end"}])

    with served.ask() as stream:
        chunks = stream.data()

    assert words + "end" == texts(chunks)


def test_the_connection_to_upstream_is_used_again(served: Served, upstream: DemoUpstream) -> None:
    """Streams that were read to their end leave their connection to the next."""
    for number in range(5):
        with served.ask() as stream:
            assert stream.data()[-1] == "[DONE]"
        served.record(number + 1)

    assert upstream.connects == 1


def test_cookies_of_upstream_go_nowhere(served: Served, upstream: DemoUpstream) -> None:
    """A cookie that upstream sets is not sent with the next request."""
    upstream.play([{"head": {"headers": {"Set-Cookie": "who=ann; Path=/"}}}, {"text": "x"}])

    for _ in range(2):
        with served.ask() as stream:
            stream.data()

    assert "Cookie" not in upstream.requests[1].headers


def test_own_fields_do_not_go_upstream(served: Served, upstream: DemoUpstream) -> None:
    """The gateway's own request fields are taken out, everything else is sent on as it came."""
    vendor = {"provider": {"order": ["x"]}, "plugins": [], "unknown_field": {"deep": [1, 2.50, None]}}
    own = {"custom_system_prompt": "Be brief.", "autotune": True, "stm_modules": [], "parseltongue": False}

    with served.ask(**vendor, **own) as stream:
        stream.data()

    body = upstream.requests[0].body
    assert vendor == {name: body[name] for name in vendor}
    assert not own.keys() & body.keys()
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
