"""A whole answer is what its chunks say together."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import wire
from app.answer import Answer
from app.chunks import Normalizer

from .test_fidelity import CORPUS, STREAM, events_of

HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5, "model": "m"}


def answer(*choices: dict[str, Any], usage: Any = None) -> dict[str, Any]:
    """Join chunks of one choice each."""
    whole = Answer()
    for choice in choices:
        whole.add({**HEAD, "choices": [{"index": 0, "finish_reason": None, **choice}]})
    return whole.completion(usage)


def message(*deltas: Any) -> Any:
    return answer(*({"delta": delta} for delta in deltas))["choices"][0]["message"]


def test_the_shape_is_openrouters_whole_completion() -> None:
    """Head, choices and usage are where clients look for them."""
    found = answer(
        {"delta": {"role": "assistant", "content": "Hel"}, "logprobs": None},
        {"delta": {"content": "lo"}},
        {"delta": {}, "finish_reason": "stop", "native_finish_reason": "end_turn"},
        usage={"total_tokens": 0},
    )
    assert {
        **HEAD,
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "logprobs": None,
                "native_finish_reason": "end_turn",
                "message": {"role": "assistant", "content": "Hello", "refusal": None},
            }
        ],
        "usage": {"total_tokens": 0},
    } == found


def test_usage_is_left_out_where_there_is_none() -> None:
    """No invented figures."""
    assert "usage" not in answer({"delta": {"content": "a"}})


@pytest.mark.parametrize("key", ["content", "reasoning", "reasoning_content", "refusal"])
def test_text_fields_concatenate(key: str) -> None:
    """Pieces, empty and null ones among them, make one text."""
    assert "abc" == message({key: "a"}, {key: None}, {key: ""}, {key: "bc"}, {key: None})[key]


@pytest.mark.parametrize("key", ["reasoning_details", "images", "annotations", "x_list"])
def test_lists_append(key: str) -> None:
    """Items of all chunks are there, in order, and the chunks' own lists are not changed."""
    first = [{"index": 0}]
    assert [{"index": 0}, {"index": 1}, 5] == message({key: first}, {key: None}, {key: [{"index": 1}, 5]})[key]
    assert [{"index": 0}] == first


def test_of_any_other_field_the_last_value_wins() -> None:
    """A null does not wipe a value."""
    found = message({"x": 1, "y": "a", "z": None}, {"x": 2, "y": "b"}, {"x": None})
    assert (2, "b", None) == (found["x"], found["y"], found["z"])


def test_logprobs_of_every_chunk_are_kept() -> None:
    """Four tokens in four chunks are four entries, refusals beside them."""
    pieces = [{"content": [{"token": str(n)}], "refusal": [{"token": "r"}] if n == 2 else None} for n in range(4)]
    found = answer(*({"delta": {"content": "x"}, "logprobs": piece} for piece in (None, *pieces, None)))
    assert {"content": [{"token": str(n)} for n in range(4)], "refusal": [{"token": "r"}]} == (
        found["choices"][0]["logprobs"]
    )


def test_audio_data_and_transcript_concatenate() -> None:
    """The id is said once, the texts are pieces."""
    found = message(
        {"audio": None},
        {"audio": {"id": "a", "data": "UklG", "transcript": "He"}},
        {"audio": {"data": "Rg==", "transcript": "llo"}},
        {"audio": {"expires_at": 5}},
    )
    assert {"id": "a", "data": "UklGRg==", "transcript": "Hello", "expires_at": 5} == found["audio"]


def test_tool_calls_are_joined_by_index_and_id() -> None:
    """Arguments are glued per call, a new id starts a new call, and the whole has no indices."""
    found = message(
        {"content": None, "tool_calls": None},
        {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"x":'}, "extra": 1}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
        {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": " "}}]},
        {"tool_calls": None},
    )
    assert found["content"] is None
    calls = [(call["id"], call["type"], call["function"]) for call in found["tool_calls"]]
    assert [
        ("a", "function", {"name": "f", "arguments": '{"x":1}'}),
        ("b", "function", {"name": "g", "arguments": "{}"}),
        ("c", "function", {"name": "f", "arguments": "{} "}),
    ] == calls
    assert 1 == found["tool_calls"][0]["extra"]
    assert not any("index" in call for call in found["tool_calls"])


def test_a_call_without_a_function_can_still_be_read() -> None:
    """Arguments are text even where upstream sent none."""
    found = message(
        {"tool_calls": [{"index": 0, "id": "a", "function": None}, "junk"]},
        {"tool_calls": [{"index": 1, "id": "b"}]},
        {"tool_calls": [{"index": 0, "function": {"name": "f"}}]},
    )
    assert [{"arguments": "", "name": "f"}, {"arguments": ""}] == [call["function"] for call in found["tool_calls"]]


@pytest.mark.parametrize(
    ("deltas", "content"),
    [
        ([{"role": "assistant"}], ""),
        ([{"content": None}], ""),
        ([{"content": None, "tool_calls": [{"index": 0, "id": "a"}]}], None),
        ([{"refusal": "no"}], None),
        ([{"content": "a", "tool_calls": [{"index": 0, "id": "a"}]}], "a"),
    ],
)
def test_content_is_null_only_beside_calls_or_a_refusal(deltas: list[Any], content: str | None) -> None:
    """Otherwise a client may count on text."""
    assert content == message(*deltas)["content"]


def test_choices_are_kept_apart_and_sorted() -> None:
    """Two interleaved answers do not mix."""
    whole = Answer()
    for index, text in ((1, "b"), (0, "a"), (1, "B"), (0, "A")):
        whole.add({**HEAD, "choices": [{"index": index, "delta": {"content": text}}]})
    assert [(0, "aA"), (1, "bB")] == [
        (choice["index"], choice["message"]["content"]) for choice in whole.completion(None)["choices"]
    ]


def test_top_level_fields_stay() -> None:
    """Provider and vendor fields ride along, and so does our own metadata."""
    whole = Answer()
    whole.add({**HEAD, "provider": "P", "choices": []})
    whole.add({**HEAD, "x_g0dm0d3": {"a": 1}, "choices": [{"index": 0, "delta": {"content": "a"}}]})
    found = whole.completion(None)
    assert ("P", {"a": 1}) == (found["provider"], found["x_g0dm0d3"])


def test_asking_twice_gives_the_same() -> None:
    """Giving the completion uses nothing up."""
    whole = Answer()
    whole.add({**HEAD, "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "a"}]}}]})
    assert whole.completion(None) == whole.completion(None)


ODD = st.sampled_from([None, 5, True, "x", [], ["y"], {}, {"a": 1}])


@given(
    st.lists(ODD, min_size=1, max_size=5),
    st.sampled_from(["content", "refusal", "audio", "logprobs", "images", "function"]),
)
def test_values_of_changing_types_break_nothing(values: list[Any], key: str) -> None:
    """A field that is text once and an object next still makes an answer that can be written."""
    if key == "function":
        found = message(*({"tool_calls": [{"index": 0, "function": value}]} for value in values))
        assert isinstance(found["tool_calls"][0]["function"]["arguments"], (str, type(None)))
    elif key == "logprobs":
        found = answer(*({"delta": {}, "logprobs": value} for value in values))
    else:
        found = message(*({key: value} for value in values))
    assert wire.dumps(found)


@settings(max_examples=200, deadline=None)
@given(STREAM)
def test_any_normalised_answer_can_be_joined_and_holds_its_text(events: list[dict[str, Any]]) -> None:
    """Whatever upstream sends, there is a completion that can be written, each choice with a message and an end."""
    found = joined(wire.loads(wire.dumps(events)))
    assert "chat.completion" == found["object"]
    assert wire.loads(wire.dumps(found)) == found
    for choice in found["choices"]:
        assert choice["message"]["role"]
        assert choice["finish_reason"]


# Where content is no text, or indices are not upstream's, the plain count below would count something else.
UNCOUNTED = {"content_odd", "odd_indexes", "missing_choices_and_deltas", "missing_head"}


@pytest.mark.parametrize("path", [path for path in CORPUS if path.stem not in UNCOUNTED], ids=lambda path: path.stem)
def test_every_recorded_text_is_whole(path: Any) -> None:
    """The content of each choice is that of its pieces in upstream's own events."""
    events = events_of(path)
    wanted: dict[int, str] = {}
    for event in events:
        for choice in event.get("choices", []):
            wanted[choice["index"]] = wanted.get(choice["index"], "") + (choice["delta"].get("content") or "")
    found = joined(events)
    assert wanted == {choice["index"]: choice["message"]["content"] or "" for choice in found["choices"]}
    assert json.dumps(found)


def joined(events: list[dict[str, Any]]) -> dict[str, Any]:
    normalizer, whole = Normalizer("chatcmpl-1"), Answer()
    for event in events:
        for chunk in normalizer.feed(event):
            whole.add(chunk)
    for index in normalizer.unfinished():
        whole.add(normalizer.finish_chunk(index))
    return whole.completion(normalizer.usage)


def test_a_function_call_of_the_old_form_is_joined() -> None:
    """Its name comes once and its arguments in pieces, as those of a tool call."""
    found = message({"function_call": {"name": "f", "arguments": '{"a"'}}, {"function_call": {"arguments": ":1}"}})

    assert {"name": "f", "arguments": '{"a":1}'} == found["function_call"]
    assert found["content"] is None


def test_a_custom_tool_call_is_joined() -> None:
    """Its input is text that comes in pieces, and it has no function."""
    call = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "f", "input": "ab"}}
    found = message({"tool_calls": [call]}, {"tool_calls": [{"index": 0, "custom": {"input": "cd"}}]})

    assert [{"id": "c", "type": "custom", "custom": {"name": "f", "input": "abcd"}}] == found["tool_calls"]
    assert {"name": "f", "input": "ab"} == call["custom"]
