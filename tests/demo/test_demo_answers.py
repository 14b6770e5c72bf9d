"""What humans are answered."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from app.demo import DemoUpstream

from .client import Answer, ask

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]


def say(upstream: DemoUpstream, text: str, model: str = "demo/echo", **body: Any) -> Answer:
    """Ask for a chat completion, streamed unless told otherwise."""
    asked: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": text}], "stream": True}
    return ask(upstream, **(asked | body))


def told(answer: Answer, index: int = 0) -> tuple[str, str | None]:
    """Give the text and the finish reason of one choice of a stream."""
    choices = [choice for event in answer.events[:-1] for choice in event["choices"] if choice["index"] == index]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    return text, choices[-1]["finish_reason"]


def test_echo_streams_word_by_word(upstream: DemoUpstream) -> None:
    """The last user message comes back after a comment, one word a chunk, then finish, usage and `[DONE]`."""
    answer = say(upstream, "Hello,  brave new\nworld ")

    assert answer.body.startswith(b": OPENROUTER PROCESSING\n\n")
    assert ("Hello,  brave new\nworld ", "stop") == told(answer)
    assert 5 + 3 == len(answer.events)
    usage = answer.events[-2]["usage"]
    assert 5 == usage["completion_tokens"] == usage["total_tokens"] - usage["prompt_tokens"]
    assert 0 == usage["cost"] and "[DONE]" == answer.events[-1]


def test_echo_reads_parts_and_skips_other_roles(upstream: DemoUpstream) -> None:
    """Text parts are joined, images left out, and only the last user message counts."""
    parts = [{"type": "text", "text": "a "}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "b"}]
    messages = [
        {"role": "user", "content": "no"},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "c"},
    ]

    assert "a b" == told(say(upstream, "", messages=messages))[0]


def test_story_shows_what_post_processing_is_for(upstream: DemoUpstream) -> None:
    """The story has several paragraphs, a preamble and hedges."""
    text, reason = told(say(upstream, "x", "demo/story"))

    assert "stop" == reason and text.count("\n\n") >= 4
    assert text.startswith("Sure! ") and all(hedge in text for hedge in ("I think", "perhaps", "In my opinion"))


def test_any_other_model_tells_who_answers(upstream: DemoUpstream) -> None:
    """A model that lives elsewhere is named in a text that says this is the demo."""
    answer = say(upstream, "x", "openai/gpt-9")

    assert "demo upstream" in told(answer)[0] and "openai/gpt-9" in told(answer)[0]
    assert "openai/gpt-9" == answer.events[0]["model"]


def test_a_whole_answer_is_one_json(upstream: DemoUpstream) -> None:
    """Without `stream` the same text comes in one object."""
    answer = json.loads(say(upstream, "one two", stream=False).body)

    assert "chat.completion" == answer["object"] and 2 == answer["usage"]["completion_tokens"]
    message = {"role": "assistant", "content": "one two", "refusal": None}
    assert [(0, message, "stop")] == [(c["index"], c["message"], c["finish_reason"]) for c in answer["choices"]]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"max_tokens": 2}, ("one two", "length")),
        ({"max_completion_tokens": 1, "max_tokens": 3}, ("one", "length")),
        ({"max_tokens": 4}, ("one two three four", "stop")),
        ({"stop": "three"}, ("one two ", "stop")),
        ({"stop": ["four", " tw"]}, ("one", "stop")),
        ({"stop": None, "max_tokens": None}, ("one two three four", "stop")),
    ],
)
def test_limits_are_respected(upstream: DemoUpstream, body: dict[str, Any], expected: tuple[str, str]) -> None:
    """Token limits and stop texts end the answer, streamed or not, with the right reason."""
    streamed = told(say(upstream, "one two three four", **body))
    whole = json.loads(say(upstream, "one two three four", stream=False, **body).body)["choices"][0]

    assert expected == streamed == (whole["message"]["content"], whole["finish_reason"])


def test_n_choices(upstream: DemoUpstream) -> None:
    """`n` gives that many choices, each with its own finish."""
    answer = say(upstream, "a b", n=3)

    assert [("a b", "stop")] * 3 == [told(answer, index) for index in range(3)]
    assert 3 == len(json.loads(say(upstream, "a b", n=3, stream=False).body)["choices"])


def test_a_forced_tool_is_called(upstream: DemoUpstream) -> None:
    """With a forced choice the tool is called with arguments that fit its schema, streamed or not."""
    answer = say(upstream, "x", "any/model", tools=TOOLS, tool_choice="required")
    named = {"type": "function", "function": {"name": "weather"}}
    whole = json.loads(say(upstream, "x", tools=TOOLS, tool_choice=named, stream=False).body)

    deltas = [choice["delta"] for event in answer.events[:-1] for choice in event["choices"]]
    calls = [delta["tool_calls"][0]["function"] for delta in deltas if "tool_calls" in delta]
    assert "weather" == calls[0]["name"] and len(calls) > 2
    assert {"city": "demo", "days": 1} == json.loads("".join(call["arguments"] for call in calls))
    assert "tool_calls" == told(answer)[1] == whole["choices"][0]["finish_reason"]
    (call,) = whole["choices"][0]["message"]["tool_calls"]
    assert {"city": "demo", "days": 1} == json.loads(call["function"]["arguments"])


def test_tools_are_called_by_their_own_model(upstream: DemoUpstream) -> None:
    """`demo/tools` calls without being forced, and speaks once it has the result; others do not call."""
    asked = [{"role": "user", "content": "x"}]
    answered = [*asked, {"role": "tool", "tool_call_id": "call_0", "content": "rain"}]

    assert "tool_calls" == told(say(upstream, "x", "demo/tools", tools=TOOLS))[1]
    assert ("The tool answered: rain", "stop") == told(say(upstream, "x", "demo/tools", tools=TOOLS, messages=answered))
    assert "stop" == told(say(upstream, "x", "demo/tools"))[1]
    assert ("x", "stop") == told(say(upstream, "x", tools=TOOLS, tool_choice="auto"))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"reasoning": {}}, True),
        ({"reasoning": {"effort": "low"}}, True),
        ({"include_reasoning": True}, True),
        ({"reasoning": {"exclude": True}}, False),
        ({"reasoning": {"effort": "none"}}, False),
        ({"reasoning": {"enabled": False}}, False),
        ({}, False),
    ],
)
def test_reasoning_comes_when_asked_for(upstream: DemoUpstream, body: dict[str, Any], expected: bool) -> None:
    """Reasoning precedes the text, with details, and is counted."""
    answer = say(upstream, "x", **body)
    whole = json.loads(say(upstream, "x", stream=False, **body).body)

    first = answer.events[0]["choices"][0]["delta"]
    assert expected is ("reasoning" in first) is ("reasoning_details" in first)
    counts = [
        usage["completion_tokens_details"]["reasoning_tokens"] for usage in (answer.events[-2]["usage"], whole["usage"])
    ]
    assert counts[0] == counts[1] and expected is (counts[0] > 0)
    assert expected is ("reasoning" in whole["choices"][0]["message"])


def test_models_are_clearly_the_demo(upstream: DemoUpstream) -> None:
    """Two models in OpenRouter's shape, with the demo in their names."""
    listed = json.loads(ask(upstream, "GET", "/api/v1/models").body)

    assert ["demo/echo", "demo/story"] == [model["id"] for model in listed["data"]] and 2 == listed["total_count"]
    assert all("(demo)" in model["name"] and "0" == model["pricing"]["prompt"] for model in listed["data"])


def test_a_generation_can_be_looked_up(upstream: DemoUpstream) -> None:
    """The id in the chunks finds the generation; another id is a 404."""
    answer = say(upstream, "one two")
    found = ask(upstream, "GET", f"/api/v1/generation?id={answer.events[0]['id']}")

    assert ("demo/echo", 2, True) == tuple(
        json.loads(found.body)["data"][name] for name in ("model", "tokens_completion", "streamed")
    )
    assert 404 == ask(upstream, "GET", "/api/v1/generation?id=gen-none").status


def test_other_routes(upstream: DemoUpstream) -> None:
    """The key is told to be none; unknown paths and methods, and bodies without messages, are errors in JSON."""
    assert "demo" in json.loads(ask(upstream, "GET", "/api/v1/key").body)["data"]["label"]
    statuses = [ask(upstream, *route).status for route in (("GET", "/api/v1/none"), ("DELETE", "/api/v1/key"))]
    assert [404, 405] == statuses
    refused = ask(upstream, model="demo/echo")
    assert 400 == refused.status == json.loads(refused.body)["error"]["code"]


def test_usage_form_can_be_the_captured_one() -> None:
    """With `usage_form` choice, usage comes beside an empty delta."""
    with DemoUpstream(usage_form="choice") as upstream:
        (choice,) = say(upstream, "x").events[-2]["choices"]

    assert "" == choice["delta"]["content"] and choice["finish_reason"] is None


def test_pace_and_first_token() -> None:
    """Tokens come at the pace asked for, after the wait asked for."""
    with DemoUpstream(pace=50, first_token=0.1) as upstream:
        began = time.monotonic()
        say(upstream, "a b c d e f")
        took = time.monotonic() - began

    assert took >= 0.1 + 5 / 50
