"""What the normaliser makes of upstream's chunks, rule by rule, and what holds whatever upstream sends."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import wire
from app.chunks import Normalizer, chunk_of_completion
from app.errors import UpstreamProtocolError

from .test_fidelity import STREAM

ID = "chatcmpl-1"
HEAD = {"id": "gen-1", "object": "chat.completion.chunk", "created": 5, "model": "m"}


def event(*choices: Any, **more: Any) -> dict[str, Any]:
    return {**HEAD, **more, "choices": list(choices)}


def choice(delta: Any, reason: Any = None, index: Any = 0, **more: Any) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": reason, **more}


def fed(*events: Any, **options: Any) -> tuple[Normalizer, list[dict[str, Any]]]:
    normalizer = Normalizer(ID, **options)
    return normalizer, [chunk for one in copy.deepcopy(events) for chunk in normalizer.feed(one)]


def deltas(chunks: list[dict[str, Any]]) -> list[Any]:
    return [one["delta"] for chunk in chunks for one in chunk["choices"]]


def calls_of(*lists: Any) -> list[Any]:
    """Feed one event per list of tool call fragments; give the fragments that come out."""
    _, chunks = fed(*(event(choice({"content": "x", "tool_calls": calls})) for calls in lists))
    return [call for delta in deltas(chunks) for call in delta["tool_calls"]]


@pytest.mark.parametrize("value", [None, 5, "x", [], [HEAD], True, 1.5])
def test_an_event_that_is_no_object_is_no_chunk(value: Any) -> None:
    """Upstream is then not speaking the protocol."""
    with pytest.raises(UpstreamProtocolError, match="no JSON object"):
        fed(value)


def test_what_upstream_is_and_said_is_remembered() -> None:
    """Its id, model, provider and last usage are there at the end."""
    normalizer, _ = fed(
        event(choice({"content": "a"}), provider="P", usage={"total_tokens": 1}),
        event(choice({"content": "b"}), id="gen-2", model="other", provider="Q", usage={"total_tokens": 0}),
    )
    assert ("gen-1", "m", "P") == (normalizer.generation_id, normalizer.model, normalizer.provider)
    assert {"total_tokens": 0} == normalizer.usage


def test_a_model_that_comes_late_is_remembered_and_not_shown() -> None:
    """Clients see one model over the stream, the record the true one."""
    normalizer, chunks = fed({"choices": [choice({"content": "a"})]}, event(choice({"content": "b"})))
    assert ["", ""] == [chunk["model"] for chunk in chunks]
    assert ("m", "") == (normalizer.model, normalizer.head()["model"])


def test_the_time_is_ours_where_upstream_gives_none() -> None:
    """A chunk always has a whole head."""
    before = int(time.time())
    _, chunks = fed({"choices": [choice({"content": "a"})]}, event(choice({"content": "b"})))
    assert before <= chunks[0]["created"] <= time.time()
    assert chunks[0]["created"] == chunks[1]["created"]
    assert ["id", "object", "created", "model", "choices"] == list(chunks[0])


def test_missing_keys_come_first_and_the_others_keep_their_places() -> None:
    """Adding to a chunk does not shuffle it."""
    _, chunks = fed({"zeta": 1, "choices": [choice({"content": "a"})], "id": "gen-1"})
    assert ["object", "created", "model", "zeta", "choices", "id"] == list(chunks[0])


@pytest.mark.parametrize("usage", [{"total_tokens": 0}, None, [], "x"])
def test_usage_is_never_relayed_and_only_objects_are_kept(usage: Any) -> None:
    """Whatever stands there is taken out; a chunk left with nothing goes with it."""
    normalizer, chunks = fed(
        event(choice({"content": "a"})), event(choice({"role": "assistant", "content": ""}), usage=usage)
    )
    assert 1 == len(chunks)
    assert (usage if isinstance(usage, dict) else None) == normalizer.usage


def test_a_chunk_that_upstream_left_empty_is_relayed_if_it_has_a_delta() -> None:
    """Empty content that nothing was taken from is upstream's own."""
    _, chunks = fed(event(choice({"content": "a"})), event(choice({"content": ""})), event(choice({})), event())
    assert [{"role": "assistant", "content": "a"}, {"content": ""}] == deltas(chunks)


@pytest.mark.parametrize("reason", ["", False, 0])
def test_a_blank_finish_reason_is_none(reason: Any) -> None:
    """A server that sends one on every chunk has not ended the answer."""
    normalizer, chunks = fed(event(choice({"content": "a"}, reason)), event(choice({"content": "b"}, "length")))
    assert [None, None, "length"] == [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert {0: "length"} == normalizer.finishes


def test_begun_and_unfinished_choices_are_known() -> None:
    """The end of a stream needs to know what is still open."""
    normalizer, _ = fed(
        event(choice({"content": "a"}, index=1)), event(choice({"content": "a"}), choice({}, "stop", 1))
    )
    assert ([1, 0], [0]) == (list(normalizer.begun), normalizer.unfinished())
    made = normalizer.finish_chunk(0)
    assert {**HEAD, "id": ID, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]} == made
    assert [] == normalizer.unfinished()


def test_a_finish_made_after_tool_calls_says_so() -> None:
    """Clients act on the reason."""
    normalizer, _ = fed(event(choice({"tool_calls": [{"id": "a", "function": {"name": "f"}}]})))
    assert "tool_calls" == normalizer.finish_chunk(0)["choices"][0]["finish_reason"]


def test_what_rides_on_a_finish_chunk_makes_no_chunk_without_choices() -> None:
    """Clients that index choices[0] never see an empty list that upstream did not send."""
    end = choice({"role": "assistant", "content": ""}, "stop")
    _, chunks = fed(event(choice({"content": "a"})), event(end, openrouter_metadata={"attempt": 1}, usage={"a": 1}))
    assert [1, 1] == [len(chunk["choices"]) for chunk in chunks]
    assert {"attempt": 1} == chunks[1]["openrouter_metadata"]


@pytest.mark.parametrize(
    ("told", "code", "status"),
    [
        (event(choice({"content": ""}, "error"), error={"code": 429, "message": "m"}), "429", 429),
        (event(error={"code": 502, "message": "m"}), "502", 502),
        ({"error": {"code": "server_error", "message": "m"}}, "server_error", 502),
        ({"error": "m"}, "502", 502),
        (event(choice({}, "error", error={"code": 503, "message": "m"})), "503", 503),
        (event(choice({}, None, error={"message": "m", "metadata": {"error_type": "timeout"}})), "timeout", 502),
        (event(choice({}, "stop", error={"code": 500, "message": "m"})), "500", 500),
    ],
)
def test_an_error_is_found_in_every_form(told: dict[str, Any], code: str, status: int) -> None:
    """At the top, in a choice, with or without choices: it becomes the failure and is not relayed."""
    normalizer, chunks = fed(event(choice({"content": "a"})), told)
    assert normalizer.failure is not None
    assert (code, status, "m") == (normalizer.failure.code, normalizer.failure.status, normalizer.failure.message)
    assert "error" not in json.dumps(chunks)


def test_a_finish_reason_error_alone_is_a_failure() -> None:
    """Clients that know only choices are not left to guess."""
    normalizer, chunks = fed(event(choice({"content": "a"})), event(choice({"content": "b"}, "error")))
    assert normalizer.failure is not None
    assert ("502", 502) == (normalizer.failure.code, normalizer.failure.status)
    assert ["a", "b"] == [delta["content"] for delta in deltas(chunks)]
    assert ([0], {}) == (normalizer.unfinished(), normalizer.finishes)


def test_the_first_error_counts_and_text_beside_it_is_given() -> None:
    """What came before the failure, or with it, belongs to the client."""
    told = event(choice({"content": "half"}, "error"), error={"code": 502, "message": "first"})
    normalizer, chunks = fed(told, event(error={"message": "second"}))
    assert normalizer.failure is not None
    assert "first" == normalizer.failure.message
    assert [{"role": "assistant", "content": "half"}] == deltas(chunks)


def test_errors_are_told_with_regard_to_the_key() -> None:
    """A 401 in the stream on the operator's key is neutral, and keys are masked."""
    normalizer, _ = fed({"error": {"code": 401, "message": "bad sk-or-v1-abcdef"}}, own_key=True)
    assert normalizer.failure is not None
    assert "upstream_auth" == normalizer.failure.code
    normalizer, _ = fed({"error": {"code": 400, "message": "bad hunter2hunter2"}}, secret="hunter2hunter2")
    assert normalizer.failure is not None
    assert "bad [masked]" == normalizer.failure.message


def test_the_operators_account_at_upstream_is_no_clients_business() -> None:
    """Upstream tells its id beside errors; a client that brought its own key is told its own."""
    error = {"code": 429, "message": "slow down", "metadata": {"user_id": "user_x", "reason": "rate"}}
    shown = []
    for own_key in (True, False):
        normalizer, chunks = fed(event(choice({"content": "a"}), user_id="user_x"), own_key=own_key)
        normalizer.feed({"error": dict(error), "user_id": "user_x"})
        assert normalizer.failure is not None
        shown.append(("user_id" in chunks[0], normalizer.failure.metadata))
    assert [(False, {"reason": "rate"}), (True, error["metadata"])] == shown


def test_debug_chunks_are_kept_if_asked_for() -> None:
    """Their place is before the answer, and text beside debug data is never lost."""
    first = event(debug={"echo_upstream_body": {}})
    beside = event(choice({"content": "a"}), debug=None)
    assert [1, 2] == [len(fed(first, beside, keep_debug=keep)[1]) for keep in (False, True)]
    _, chunks = fed(first, beside)
    assert [{"role": "assistant", "content": "a"}] == deltas(chunks)
    assert "debug" not in chunks[0]


def test_parallel_calls_without_index_are_told_apart() -> None:
    """By id, by another name, or by their place in one list; a fragment with neither joins the last."""
    named = [{"function": {"name": name, "arguments": "{}"}} for name in ("f", "g", "g")]
    assert [0, 1, 2] == [call["index"] for call in calls_of(named)]
    by_id = [[{"id": key, "function": {"arguments": "x"}}] for key in ("a", "b", "a")]
    assert [0, 1, 0] == [call["index"] for call in calls_of(*by_id)]
    pieces = [[{"id": "a", "function": {"name": "f", "arguments": ""}}], [{"function": {"arguments": "{}"}}]]
    assert [0, 0] == [call["index"] for call in calls_of(*pieces)]
    repeated = [[{"function": {"name": "f", "arguments": piece}}] for piece in ("{", "}")]
    assert [0, 0] == [call["index"] for call in calls_of(*repeated)]


def test_a_name_that_is_first_empty_is_sent_once() -> None:
    """Client libraries glue names together."""
    calls = calls_of(*([{"index": 0, "id": "a", "function": {"name": name}}] for name in ("", "f", "f", "")))
    assert ["", "f"] == [call["function"]["name"] for call in calls if "name" in call["function"]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [("{}", "{}"), (None, ""), ({"a": "é"}, '{"a":"é"}'), (5, "5"), (False, "false"), ([], "[]")],
)
def test_arguments_are_text(arguments: Any, expected: str) -> None:
    """Null is nothing, and any other value its JSON."""
    assert expected == calls_of([{"index": 0, "function": {"arguments": arguments}}])[0]["function"]["arguments"]


@pytest.mark.parametrize(
    "calls", [None, [], {}, "x", ["x", None, 5, [[]]], 5, [{"function": None}], [{"function": "f"}]]
)
def test_tool_calls_of_no_known_form_break_nothing(calls: Any) -> None:
    """They are relayed, and what follows is still understood."""
    known = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    _, chunks = fed(event(choice({"content": "x", "tool_calls": calls})), event(choice({"tool_calls": [{**known}]})))
    assert [known] == chunks[-1]["choices"][0]["delta"]["tool_calls"]


def test_an_exact_number_in_arguments_keeps_its_spelling() -> None:
    """Arguments that came as an object are written as they were read."""
    text = b'[{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":{"a":1.10,"b":18446744073709551616}}}]}}]}]'
    _, chunks = fed(*wire.loads(text))
    assert '{"a":1.10,"b":18446744073709551616}' == deltas(chunks)[0]["tool_calls"][0]["function"]["arguments"]


@pytest.mark.parametrize(
    "text",
    [
        '{"created":N,"choices":[{"index":N,"delta":{"content":N,"tool_calls":[{"index":N,"id":N}]}}]}'.replace("N", n)
        for n in ("1" * 5000, "1e400", "123456789012345678901234567890", "-0", "-1", "1.0")
    ]
    + [
        '{"choices":[{"delta":{"role":"\\ud800","content":"\\udfff"},"finish_reason":"\\ud800"}]}',
        '{"choices":[{"delta":{"content":%s}}]}' % ("[" * 200 + "]" * 200),
        '{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":%s}}]}}]}' % ("[" * 200 + "]" * 200),
        '{"choices":[{"finish_reason":%s,"delta":[1]}]}' % ("9" * 3999),
        '{"error":%s}' % ('{"a":' * 200 + "1" + "}" * 200),
        '{"error":{"message":"m","metadata":%s}}' % ("[" * 200 + "]" * 200),
        '{"error":{"code":%s,"message":{}}}' % ("9" * 5000),
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_hostile_values_are_relayed_or_replaced_and_can_be_written(text: str) -> None:
    """Huge, deep and broken values raise nothing on their way through."""
    normalizer, chunks = fed(wire.loads(text.encode()), event(choice({"content": "after"}, "stop")))
    for index in normalizer.unfinished():
        chunks.append(normalizer.finish_chunk(index))
    assert [wire.loads(wire.dumps(chunk)) for chunk in chunks]
    if normalizer.failure is not None:
        assert wire.dumps(normalizer.failure.to_object())


def test_a_whole_completion_becomes_the_chunks_of_an_answer() -> None:
    """An upstream that answers JSON to a stream request is relayed as what it says."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    whole = {
        **HEAD,
        "object": "chat.completion",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"},
            {"index": 1, "message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"},
            "junk",
        ],
        "usage": {"total_tokens": 3},
    }
    normalizer, chunks = fed(chunk_of_completion(whole))
    assert ["chat.completion.chunk"] * 3 == [chunk["object"] for chunk in chunks]
    assert ["Hi", None] == [delta["content"] for delta in deltas(chunks[:1])]
    assert [{"index": 0, **call}] == deltas(chunks)[1]["tool_calls"]
    assert {0: "stop", 1: "tool_calls"} == normalizer.finishes
    assert {"total_tokens": 3} == normalizer.usage


@pytest.mark.parametrize("choices", [None, [], {}, "x", ["x"], [None]])
def test_a_whole_completion_without_choices_begins_nothing(choices: Any) -> None:
    """It is an answer that says nothing."""
    normalizer, chunks = fed(chunk_of_completion({**HEAD, "choices": choices}))
    assert ({}, []) == (normalizer.begun, chunks)


def test_an_error_inside_a_whole_completion_is_a_failure() -> None:
    """Partial text is given, the error told."""
    error = {"code": 502, "message": "Provider disconnected", "metadata": {"error_type": "provider_unavailable"}}
    half = {"index": 0, "finish_reason": "error", "message": {"role": "assistant", "content": "half"}, "error": error}
    normalizer, chunks = fed(chunk_of_completion({"choices": [half]}))
    assert normalizer.failure is not None
    assert "provider_unavailable" == normalizer.failure.code
    assert ["half"] == [delta["content"] for delta in deltas(chunks)]


@settings(max_examples=200, deadline=None)
@given(STREAM)
def test_what_holds_for_every_answer(events: list[dict[str, Any]]) -> None:
    """One head, one role and at most one finish per choice, no usage, no null error, whole tool call fragments."""
    normalizer, chunks = fed(*wire.loads(wire.dumps(events)))
    heads = [(chunk["id"], chunk["object"], chunk["created"], chunk["model"]) for chunk in chunks]
    assert len(set(heads)) <= 1
    begun: set[int] = set()
    roles: list[int] = []
    late: set[int] = set()
    finished: list[int] = []
    for chunk in chunks:
        assert not {"usage", "error", "debug"} & chunk.keys()
        ends = [one for one in chunk["choices"] if one.get("finish_reason") is not None]
        assert len(chunk["choices"]) == 1 or not ends
        for one in chunk["choices"]:
            assert type(one["index"]) is int and type(one["delta"]) is dict
            assert not {"usage", "error"} & one.keys()
            if "role" in one["delta"]:
                assert isinstance(one["delta"]["role"], str)
                assert one["index"] not in begun or one in ends
                roles.append(one["index"])
            elif one["index"] not in begun:
                late.add(one["index"])  # its first chunk was its finish, and its text comes after
            begun.add(one["index"])
            _check_lists(one["delta"])
        finished += [end["index"] for end in ends]
        assert not any(any(value for key, value in end["delta"].items() if key != "role") for end in ends)
    assert len(set(finished)) == len(finished)
    assert finished == list(normalizer.finishes)
    assert begun <= set(normalizer.begun)
    assert sorted(begun) == sorted(roles)
    assert late <= set(finished)


def _check_lists(delta: dict[str, Any]) -> None:
    for key in ("tool_calls", "reasoning_details", "images", "annotations"):
        items = delta.get(key)
        for item in items if isinstance(items, list) else []:
            if isinstance(item, dict):
                assert type(item["index"]) is int
    calls = delta.get("tool_calls")
    assert calls is None or isinstance(calls, list)
    for call in calls or []:
        if isinstance(call, dict):
            assert None not in [call[key] for key in ("id", "type") if key in call]
            if isinstance(call.get("function"), dict):
                assert isinstance(call["function"].get("arguments", ""), str)
                assert call["function"].get("name", "") is not None


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from(["a", "b"]), st.booleans()), min_size=1, max_size=8))
def test_a_calls_id_type_and_name_come_once(fragments: list[tuple[int, str, bool]]) -> None:
    """However often upstream repeats them, a client that glues fragments gets each once per run of a call."""
    calls = calls_of(
        *(
            [{"index": index, "id": key, "type": "function", "function": {"name": f"f{key}", "arguments": "1"}}]
            for index, key, _ in fragments
        )
    )
    last: dict[int, str] = {}
    for (index, key, _), call in zip(fragments, calls, strict=True):
        is_new = last.get(index) != key
        assert is_new == ("id" in call) == ("type" in call) == ("name" in call["function"])
        last[index] = key
