"""What each step of the script language says."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from app.demo import DemoUpstream, ScriptError

from .client import Answer, ask

Play = Callable[..., Answer]


def chunks(answer: Answer) -> list[dict[str, Any]]:
    """Give the chunks of an answer."""
    return [event for event in answer.events if isinstance(event, dict)]


def deltas(answer: Answer) -> list[dict[str, Any]]:
    """Give the deltas of an answer's chunks, roles left out."""
    found = [choice["delta"] for chunk in chunks(answer) for choice in chunk["choices"]]
    return [{name: value for name, value in delta.items() if name != "role"} for delta in found]


def fragments(answer: Answer) -> list[Any]:
    """Give the lists of tool call fragments, one for each chunk that has one."""
    return [delta["tool_calls"] for delta in deltas(answer) if "tool_calls" in delta]


def test_an_empty_script_is_a_good_stream(play: Play) -> None:
    """Without a step there is a head, a finish chunk, usage, `[DONE]` and a proper end."""
    answer = play()

    finish, usage, done = answer.events
    assert 200 == answer.status
    assert "text/event-stream" == dict(answer.headers)["content-type"]
    assert "stop" == finish["choices"][0]["finish_reason"]
    assert [] == usage["choices"] and 0 == usage["usage"]["completion_tokens"]
    assert "[DONE]" == done
    assert answer.wire.endswith(b"0\r\n\r\n")


def test_chunks_have_the_usual_shape(play: Play) -> None:
    """A chunk carries OpenRouter's keys in order, and the role every time; the header tells the same id."""
    answer = play({"text": "one two"})

    first, second = chunks(answer)[:2]
    assert ["id", "provider", "model", "object", "created", "choices"] == list(first)
    assert dict(answer.headers)["x-generation-id"] == first["id"] == second["id"]
    assert ["assistant", "assistant"] == [chunk["choices"][0]["delta"]["role"] for chunk in (first, second)]
    assert {"index", "delta", "finish_reason", "native_finish_reason", "logprobs"} == set(first["choices"][0])


@pytest.mark.parametrize(
    ("step", "contents"),
    [
        ({"text": " a b\n\nc "}, [" a", " b", "\n\nc", " "]),
        ({"text": {"content": "a b", "whole": True}}, ["a b"]),
        ({"text": ["x", "", "y z"]}, ["x", "", "y z"]),
        ({"text": ""}, [""]),
    ],
)
def test_text_is_cut_into_tokens(play: Play, step: dict[str, Any], contents: list[str]) -> None:
    """A string is cut at white space and loses nothing; a list is taken as it is."""
    answer = play(step, {"end": True})

    assert contents == [delta["content"] for delta in deltas(answer)]


def test_text_carries_logprobs(play: Play) -> None:
    """Each token has one entry, with as many alternatives as asked for."""
    answer = play({"text": {"content": "a b", "logprobs": 2}}, {"end": True})

    entries = [chunk["choices"][0]["logprobs"]["content"] for chunk in chunks(answer)]
    assert [("a", 2), (" b", 2)] == [(entry[0]["token"], len(entry[0]["top_logprobs"])) for entry in entries]


def test_choices_interleave(play: Play) -> None:
    """Several texts alternate by index, and each gets its finish chunk."""
    answer = play({"choices": ["a b", "x y z"]})

    told = [(c["index"], c["delta"]["content"], c["finish_reason"]) for k in chunks(answer) for c in k["choices"]]
    assert [(0, "a"), (1, "x"), (0, " b"), (1, " y"), (1, " z")] == [said[:2] for said in told[:5]]
    assert [(0, "", "stop"), (1, "", "stop")] == told[5:]


def test_choices_share_a_chunk_if_asked(play: Play) -> None:
    """With `together`, one chunk holds all choices that still speak."""
    answer = play({"choices": {"texts": ["a", "x y"], "together": True}}, {"end": True})

    assert [[0, 1], [1]] == [[choice["index"] for choice in chunk["choices"]] for chunk in chunks(answer)]


def test_reasoning_has_text_and_details(play: Play) -> None:
    """Reasoning comes both as text and as details, whose index can be left out."""
    answer = play({"reasoning": "Hm"}, {"reasoning": {"content": "so", "index": False}}, {"end": True})

    first, second = deltas(answer)
    assert {"type": "reasoning.text", "text": "Hm", "format": "unknown", "index": 0} == first["reasoning_details"][0]
    assert "so" == second["reasoning"] and "index" not in second["reasoning_details"][0]


def test_a_tool_call_comes_in_fragments(play: Play) -> None:
    """The first fragment names the call, the others bring the arguments; the script then finishes with tool_calls."""
    answer = play({"tool_call": {"name": "f", "arguments": {"city": "Pau"}, "pieces": 2}})

    first, *others = [one for (one,) in fragments(answer)]
    function = {"name": "f", "arguments": ""}
    assert {"index": 0, "id": "call_0", "type": "function", "function": function} == first
    assert '{"city":"Pau"}' == "".join(other["function"]["arguments"] for other in others)
    assert 2 == len(others) and all({"index", "function"} == set(other) for other in others)
    assert "tool_calls" == chunks(answer)[-2]["choices"][0]["finish_reason"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"repeat": True, "pieces": 1},
            {"index": 0, "id": "call_0", "type": "function", "name": "f", "arguments": "{}"},
        ),
        ({"null": True, "pieces": 1}, {"index": 0, "id": None, "type": None, "name": None, "arguments": "{}"}),
        ({"index": None, "pieces": 1}, {"arguments": "{}"}),
        ({"whole": True}, {"index": 0, "id": "call_0", "type": "function", "name": "f", "arguments": "{}"}),
        ({"form": "null"}, {"index": 0, "id": "call_0", "type": "function", "name": "f", "arguments": None}),
        (
            {"form": "object", "arguments": {"a": 1}},
            {"index": 0, "id": "call_0", "type": "function", "name": "f", "arguments": {"a": 1}},
        ),
        ({"pieces": ["{", None]}, {"index": 0, "arguments": None}),
        (
            {"index": 7, "id": "x", "whole": True},
            {"index": 7, "id": "x", "type": "function", "name": "f", "arguments": "{}"},
        ),
    ],
)
def test_tool_calls_in_all_forms(play: Play, options: dict[str, Any], expected: dict[str, Any]) -> None:
    """The last fragment has just the keys that the options ask for."""
    answer = play({"tool_call": {"name": "f"} | options}, {"end": True})

    last = fragments(answer)[-1][0]
    assert expected == {key: value for key, value in last.items() if key != "function"} | last["function"]


@pytest.mark.parametrize(
    ("order", "ids"),
    [
        ("interleaved", [[0], [1], [0], [1]]),
        ("sequence", [[0], [0], [1], [1]]),
        ("together", [[0, 1], [0, 1]]),
    ],
)
def test_parallel_tool_calls_come_in_the_order_asked_for(play: Play, order: str, ids: list[list[int]]) -> None:
    """Fragments of several calls interleave, follow each other or share chunks."""
    calls = [{"name": "a", "pieces": 1}, {"name": "b", "pieces": 1}]
    answer = play({"tool_calls": {"calls": calls, "order": order}}, {"end": True})

    assert ids == [[fragment["index"] for fragment in row] for row in fragments(answer)]


def test_an_index_can_be_used_twice(play: Play) -> None:
    """Two calls may claim one index with ids of their own."""
    answer = play({"tool_calls": [{"index": 0, "whole": True}, {"index": 0, "whole": True}]}, {"end": True})

    assert [(0, "call_0"), (0, "call_1")] == [(one["index"], one["id"]) for (one,) in fragments(answer)]


def test_an_image_has_its_size(play: Play) -> None:
    """An image of megabytes is one event with a data URL of just so many bytes."""
    answer = play({"image": {"size": 3_000_000, "index": True}}, {"end": True})

    (item,) = deltas(answer)[0]["images"]
    assert 3_000_000 == len(base64.b64decode(item["image_url"]["url"].partition(",")[2]))
    assert 0 == item["index"]


def test_annotations_come_one_by_one(play: Play) -> None:
    """So many citations as asked for, or those given, with an index on demand."""
    answer = play({"annotations": 2}, {"annotations": {"items": [{"type": "file"}], "index": True}}, {"end": True})

    first, second, third = [delta["annotations"][0] for delta in deltas(answer)]
    assert first["url_citation"]["url"] != second["url_citation"]["url"] and "index" not in first
    assert {"type": "file", "index": 0} == third


def test_chunks_of_any_kind(play: Play) -> None:
    """Deltas, choices, chunks, objects and what all chunks share are given as they are to be."""
    answer = play(
        {"delta": {"refusal": "No."}},
        {"choice": {"index": 1, "delta": None}},
        {"chunk": {"debug": {}}},
        {"object": [1]},
        {"base": {"id": "gen-2", "provider": None}},
        {"text": "x"},
        {"end": True},
    )

    refusal, bare, debug, anything, moved = answer.events
    assert "No." == refusal["choices"][0]["delta"]["refusal"]
    assert [{"index": 1, "delta": None}] == bare["choices"]
    assert "choices" not in debug and {} == debug["debug"]
    assert [1] == anything
    assert "gen-2" == moved["id"] and "provider" not in moved


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("length", {"finish_reason": "length", "native_finish_reason": "length", "content": "", "role": "assistant"}),
        (
            {"native": "end_turn"},
            {"finish_reason": "stop", "native_finish_reason": "end_turn", "content": "", "role": "assistant"},
        ),
        (
            {"native": None, "content": "."},
            {"finish_reason": "stop", "native_finish_reason": None, "content": ".", "role": "assistant"},
        ),
        ({"delta": {}}, {"finish_reason": "stop", "native_finish_reason": "stop"}),
    ],
)
def test_finish_in_all_forms(play: Play, finish: Any, expected: dict[str, Any]) -> None:
    """A finish chunk has the reasons and the delta asked for, and no second one follows."""
    answer = play({"text": "x"}, {"finish": finish})

    choice = chunks(answer)[1]["choices"][0]
    reasons = {name: choice[name] for name in ("finish_reason", "native_finish_reason")}
    assert expected == reasons | choice["delta"]
    assert 4 == len(answer.events)


@pytest.mark.parametrize(
    ("form", "choices"), [("empty", "[]"), ("choice", '[{"index": 0'), ("missing", "absent"), ("null", "null")]
)
def test_usage_in_all_forms(play: Play, form: str, choices: str) -> None:
    """Usage comes once, beside the choices asked for."""
    answer = play({"text": "x"}, {"finish": "stop"}, {"usage": form})

    told = [chunk for chunk in chunks(answer) if "usage" in chunk]
    assert 1 == len(told) and 1 == told[0]["usage"]["completion_tokens"]
    assert json.dumps(told[0].get("choices", "absent")).strip('"').startswith(choices)


def test_usage_on_the_finish_chunk(play: Play) -> None:
    """The finish chunk can carry the usage, and then no usage chunk follows."""
    answer = play({"text": "x"}, {"finish": {"usage": True}})

    assert [False, True] == ["usage" in chunk for chunk in chunks(answer)]


def test_given_usage_replaces_the_count(play: Play) -> None:
    """Usage numbers can be given."""
    answer = play({"usage": {"usage": {"prompt_tokens": 1}}}, {"end": True})

    assert {"prompt_tokens": 1} == chunks(answer)[0]["usage"]


TOLD = {"code": 502, "message": "Provider disconnected", "metadata": {"error_type": "provider_unavailable"}}


@pytest.mark.parametrize(
    ("form", "error", "reasons", "inner"),
    [
        ("choices", TOLD, ["error"], None),
        ("empty", TOLD, [], None),
        ("bare", TOLD, None, None),
        ("choice", "absent", ["error"], TOLD),
        ("text", "Provider disconnected", None, None),
        ("null", None, [None], None),
        ("finish", "absent", ["error"], None),
    ],
)
def test_errors_in_all_forms(play: Play, form: str, error: Any, reasons: list[Any] | None, inner: Any) -> None:
    """The error stands where its form says, and the body ends after it without finish and `[DONE]`."""
    answer = play({"text": "x"}, {"error": form}, {"end": True})

    event = answer.events[1]
    choices = event.get("choices")
    assert error == event.get("error", "absent")
    assert reasons == (None if choices is None else [choice["finish_reason"] for choice in choices])
    assert inner == (choices[0].get("error") if choices else None)


@pytest.mark.parametrize("form", ["choices", "empty", "bare", "choice", "text", "finish"])
def test_nothing_is_added_after_an_error(play: Play, form: str) -> None:
    """After an error the body ends properly; `[DONE]` comes only if the script has it."""
    assert 2 == len(play({"text": "x"}, {"error": form}).events)
    assert "[DONE]" == play({"text": "x"}, {"error": form}, {"done": True}).events[-1]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"code": "server_error"}, TOLD | {"code": "server_error"}),
        ({"code": None, "type": None}, {"message": "Provider disconnected"}),
        ({"metadata": {"provider_code": "x"}}, TOLD | {"metadata": TOLD["metadata"] | {"provider_code": "x"}}),  # type: ignore[operator]
        ({"extra": {"http_status": 503}}, TOLD | {"http_status": 503}),
    ],
)
def test_errors_have_the_fields_asked_for(play: Play, options: dict[str, Any], expected: dict[str, Any]) -> None:
    """Code, type and metadata can be changed or left out, and keys added."""
    answer = play({"error": {"form": "bare"} | options})

    assert expected == answer.events[0]["error"]


@pytest.mark.parametrize(
    ("steps", "body"),
    [
        ([{"comment": None}], b": OPENROUTER PROCESSING\n\n"),
        ([{"comment": {"text": "x", "blank": False}}], b": x\n"),
        ([{"comment": ""}], b":\n\n"),
        ([{"data": "x"}], b"data: x\n\n"),
        ([{"data": ""}], b"data: \n\n"),
        ([{"data": {"space": ""}}], b"data:\n\n"),
        ([{"data": "a\nb"}], b"data: a\ndata: b\n\n"),
        ([{"data": {"text": "x", "event": "error"}}], b"event: error\ndata: x\n\n"),
        ([{"done": {"text": "[DONE] ", "space": "  ", "blank": False}}], b"data:  [DONE] \n"),
        ([{"done": True}], b"data: [DONE]\n\n"),
        ([{"lines": ["event: ping", "id: 7", "retry: 3000", ""]}], b"event: ping\nid: 7\nretry: 3000\n\n"),
        ([{"lines": "id: 1"}], b"id: 1\n"),
        ([{"bytes": "é\u2028"}], "é\u2028".encode()),
        ([{"bytes": {"hex": "f09f"}}, {"bytes": {"base64": "lKU="}}, {"bytes": {"fill": 2}}], "🔥xx".encode()),
        ([{"bytes": b"\xff"}], b"\xff"),
        ([{"bom": True}, {"data": "x"}], b"\xef\xbb\xbfdata: x\n\n"),
        ([{"style": {"line_ending": "crlf"}}, {"data": "x"}], b"data: x\r\n\r\n"),
        ([{"style": {"line_ending": "cr"}}, {"comment": "x"}], b": x\r\r"),
        ([{"style": {"space": ""}}, {"object": {"a": "é"}}], 'data:{"a":"é"}\n\n'.encode()),
        ([{"style": {"ascii": True}}, {"object": {"a": "é"}}], b'data: {"a":"\\u00e9"}\n\n'),
        ([{"style": {"json": "spaced"}}, {"object": {"a": [1, 2]}}], b'data: {"a": [1, 2]}\n\n'),
        ([{"style": {"json": "pretty"}}, {"object": {"a": 1}}], b'data: {\ndata:  "a": 1\ndata: }\n\n'),
        ([{"object": "\ud800"}], b'data: "\\ud800"\n\n'),
        ([{"repeat": {"times": 2, "steps": [{"data": "x"}]}}], b"data: x\n\n" * 2),
    ],
)
def test_lines_and_bytes(play: Play, steps: list[dict[str, Any]], body: bytes) -> None:
    """Events, lines and bytes are written exactly as asked for."""
    answer = play(*steps, {"end": True})

    assert body == answer.body


def test_mixed_line_ends_have_all_three(play: Play) -> None:
    """`mixed` uses LF, CRLF and CR in turn."""
    body = play({"style": {"line_ending": "mixed"}}, {"lines": ["x"] * 6}, {"end": True}).body

    assert [2, 2, 4] == [body.count(b"\r\n"), body.count(b"x\n"), body.count(b"\r")]


@pytest.mark.parametrize("layout", ["compact", "pretty"])
def test_events_with_mixed_line_ends_stay_apart(play: Play, layout: str) -> None:
    """However many there are, each is ended by an empty line, and a reader of event streams finds them all."""
    body = play({"style": {"line_ending": "mixed", "json": layout}}, {"text": ["a"] * 12}, {"end": True}).body

    blocks = re.split("\n\n+", re.sub("\r\n|\r", "\n", body.decode()).strip("\n"))
    assert ["a"] * 12 == [json.loads(block.replace("data: ", ""))["choices"][0]["delta"]["content"] for block in blocks]


def test_roles_on_the_first_chunk_only(play: Play) -> None:
    """`role` first gives each choice its role once, never not at all."""
    first = play({"style": {"role": "first"}}, {"choices": ["a b", "x"]}, {"end": True})
    never = play({"style": {"role": "never"}}, {"text": "a"}, {"end": True})

    roles = [(c["index"], "role" in c["delta"]) for chunk in chunks(first) for c in chunk["choices"]]
    assert [(0, True), (1, True), (0, False)] == roles
    assert "role" not in chunks(never)[0]["choices"][0]["delta"]


def test_garbage_is_the_same_every_time(play: Play) -> None:
    """Two runs give the same senseless bytes, another seed gives others."""
    script = ({"garbage": 100}, {"end": True})

    assert play(*script).body == play(*script).body != play({"garbage": {"size": 100, "seed": 2}}, {"end": True}).body


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ({"text": "x"}, "list of steps"),
        ([{"speak": "x"}], "unknown step 'speak'"),
        ([{"text": "x", "wait": 1}], "one key"),
        ([{"text": {"content": "x", "speed": 1}}], "speed"),
        ([{"repeat": {"times": 2}}], "repeat"),
        ([{"repeat": {"steps": [{"nothing": 1}]}}], "nothing"),
    ],
)
def test_a_wrong_script_is_refused_at_once(upstream: DemoUpstream, script: Any, complaint: str) -> None:
    """Names of steps and options are checked when a script is queued."""
    with pytest.raises(ScriptError, match=complaint):
        upstream.play(script)


@pytest.mark.parametrize(
    "step",
    [
        {"usage": "odd"},
        {"error": "odd"},
        {"cut": "odd"},
        {"style": {"json": "odd"}},
        {"bytes": {"odd": 1}},
        {"head": {"framing": "x"}},
    ],
)
def test_a_wrong_value_is_told_to_client_and_test(play: Play, upstream: DemoUpstream, step: dict[str, Any]) -> None:
    """A value that turns out wrong before the head is a 400, and is kept for the test."""
    answer = play(step)

    assert 400 == answer.status
    assert "failed" == upstream.requests[0].outcome
    assert [ScriptError] == [type(failure) for failure in upstream.failures]
    upstream.failures.clear()


def test_a_script_from_the_request(upstream: DemoUpstream) -> None:
    """`demo/script` plays what the last user message says."""
    messages = [{"role": "user", "content": [{"type": "text", "text": '[{"data": "mine"}, {"end": true}]'}]}]
    answer = ask(upstream, model="demo/script", messages=messages)

    assert ["mine"] == answer.events


def test_attempts_go_by_key(upstream: DemoUpstream) -> None:
    """The n-th request with a key plays its n-th script, the last one repeats, other keys count for themselves."""

    def attempt(key: str) -> str:
        script = {"key": key, "attempts": [[{"data": "first"}, {"end": True}], [{"data": "then"}, {"end": True}]]}
        answer = ask(upstream, model="demo/script", messages=[{"role": "user", "content": json.dumps(script)}])
        return str(answer.events[0])

    assert ["first", "then", "first", "then"] == [attempt("a"), attempt("a"), attempt("b"), attempt("a")]
    assert [("a", 1), ("a", 2), ("b", 1), ("a", 3)] == [(one.key, one.attempt) for one in upstream.requests]


def test_a_message_that_is_no_script_is_a_400(upstream: DemoUpstream) -> None:
    """A human who picks `demo/script` is told what it expects."""
    answer = ask(upstream, model="demo/script", messages=[{"role": "user", "content": "Hello"}])

    assert 400 == answer.status and b"must be JSON" in answer.body
    upstream.failures.clear()
