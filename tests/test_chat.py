"""A request is checked no stricter than upstream would, and sent on as it came but for what is ours."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import wire
from app.chat import OWN_FIELDS, make_request, parse_object, parse_request
from app.errors import RequestError
from app.settings import Settings

PLAIN = Settings(default_max_tokens=0)
HELLO = [{"role": "user", "content": "Hello"}]


def parse(settings: Settings = PLAIN, **body: Any) -> Any:
    return parse_request(json.dumps({"messages": HELLO, **body}).encode(), settings)


def refused(body: dict[str, Any]) -> RequestError:
    with pytest.raises(RequestError) as caught:
        make_request(body, PLAIN)
    assert 400 == caught.value.status
    return caught.value


def test_fields_that_are_not_ours_go_upstream_as_they_came() -> None:
    """Known and unknown fields keep value, spelling and order."""
    text = (
        b'{"model":"m","tools":[{"type":"function","function":{},"eager":true}],"seed":18446744073709551616,'
        b'"temperature":1.0e0,"x_new":{"b":1,"a":null},"messages":[{"role":"user","content":"a\\u2028"}],"stream":true,'
        b'"provider":{"order":["x"]},"models":["a"],"stop":null,"n":2}'
    )
    found = wire.dumps(parse_request(text, PLAIN).body)
    assert text.replace(rb"\u2028", "\u2028".encode()) == found


def test_our_fields_are_taken_out_and_kept_as_options() -> None:
    """None of ours goes upstream, whether its stage runs or not; the stages see them as sent."""
    ours = {name: f"value of {name}" for name in OWN_FIELDS}
    found = parse(**ours)
    assert ours == found.options
    assert set() == OWN_FIELDS & found.body.keys()


def test_fields_of_a_hosts_stage_are_taken_out_too() -> None:
    """What a stage declares is not upstream's business."""
    found = make_request({"messages": HELLO, "my_field": 1}, PLAIN, ["my_field"])
    assert ({"my_field": 1}, False) == (found.options, "my_field" in found.body)


@pytest.mark.parametrize(
    ("sent", "model"),
    [
        ({}, "default/model"),
        ({"model": None}, "default/model"),
        ({"model": "x"}, "x"),
        ({"models": ["a", "b"]}, None),
        ({"models": None}, "default/model"),
    ],
)
def test_the_default_model_is_for_requests_that_name_none(sent: dict[str, Any], model: str | None) -> None:
    """A fallback list counts as naming one."""
    assert model == parse(Settings(default_model="default/model"), **sent).body.get("model")


@pytest.mark.parametrize(
    ("sent", "limit"),
    [
        ({}, 4096),
        ({"max_tokens": None}, 4096),
        ({"max_tokens": 7}, 7),
        ({"max_completion_tokens": 7}, None),
        ({"reasoning": {"effort": "high"}}, None),
        ({"reasoning": None}, 4096),
    ],
)
def test_the_default_limit_is_for_requests_that_set_none(sent: dict[str, Any], limit: int | None) -> None:
    """Any of the fields that limit an answer stands for itself."""
    assert limit == parse(Settings(), **sent).body.get("max_tokens")


def test_a_default_limit_of_zero_adds_none() -> None:
    """The operator may leave limits to upstream."""
    assert "max_tokens" not in parse(PLAIN).body


@pytest.mark.parametrize("asked", [True, False, None])
def test_upstream_is_always_asked_for_a_stream(asked: bool | None) -> None:
    """What the client wants decides only what it gets."""
    found = parse(stream=asked)
    assert (True, asked is True) == (found.body["stream"], found.stream)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"stream": True, "stream_options": {"include_usage": True}}, True),
        ({"stream": True, "stream_options": {"include_usage": False}}, False),
        ({"stream": True, "stream_options": {"include_usage": 1}}, False),
        ({"stream": True, "stream_options": {}}, False),
        ({"stream": True, "stream_options": None}, False),
        ({"stream": True}, False),
        ({"stream_options": {"include_usage": True}}, False),
    ],
)
def test_the_usage_chunk_is_for_streams_that_ask(body: dict[str, Any], expected: bool) -> None:
    """Only a true include_usage of a streamed request counts."""
    assert expected is parse(**body).include_usage


def test_an_upstream_that_counts_only_when_asked_is_asked() -> None:
    """The client's own options stay beside the addition, and its wish is remembered."""
    settings = Settings(upstream_params="openai")
    found = parse(settings, stream=True, stream_options={"include_usage": False, "x": 1})
    assert {"include_usage": True, "x": 1} == found.body["stream_options"]
    assert found.include_usage is False
    assert {"include_usage": True} == parse(settings).body["stream_options"]
    assert "stream_options" not in parse().body


def test_a_custom_system_prompt_comes_before_the_callers_messages() -> None:
    """The caller's own system messages stay, and its list is not changed."""
    mine = [{"role": "system", "content": "mine"}, *HELLO]
    body = {"messages": mine, "custom_system_prompt": "ours"}
    assert [{"role": "system", "content": "ours"}, *mine] == make_request(body, PLAIN).body["messages"]
    assert 2 == len(mine)
    assert mine == make_request({"messages": mine, "custom_system_prompt": ""}, PLAIN).body["messages"]


def test_null_counts_as_not_sent() -> None:
    """Stages fill what the client left out, and null leaves out."""
    assert {"messages", "top_p"} == parse(temperature=None, top_p=0).sent


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": {}}]},
        {"role": "assistant", "content": ""},
        {"role": "assistant"},
        {"role": "tool", "tool_call_id": "c", "content": "not { json"},
        {"role": "developer", "content": "x"},
        {"role": "function", "name": "f", "content": "x"},
        {"role": "user", "content": []},
        {"role": "user", "content": [{"type": "new_kind_of_part", "x": 1}, {}]},
        {"role": "user", "content": "x", "name": 5, "cache_control": {"type": "ephemeral"}},
    ],
)
def test_legal_history_is_sent_on_untouched(message: dict[str, Any]) -> None:
    """What upstream takes is not refused here."""
    assert [message] == make_request({"messages": [copy.deepcopy(message)]}, PLAIN).body["messages"]


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({}, "messages", "got nothing"),
        ({"messages": None}, "messages", "got nothing"),
        ({"messages": []}, "messages", "got an empty list"),
        ({"messages": "hi"}, "messages", "got text"),
        ({"messages": {"role": "user"}}, "messages", "got an object"),
        ({"messages": 5}, "messages", "got a number"),
        ({"messages": True}, "messages", "got true"),
        ({"messages": [*HELLO, "hi"]}, "messages[1]", "expected an object, got text"),
        ({"messages": [None]}, "messages[0]", "got nothing"),
        ({"messages": [{"content": "x"}]}, "messages[0].role", "got nothing"),
        ({"messages": [{"role": 5}]}, "messages[0].role", "got a number"),
        ({"messages": [{"role": ["user"]}]}, "messages[0].role", "got a list"),
        ({"messages": [{"role": {}}]}, "messages[0].role", "got an object"),
        ({"messages": [{"role": "robot"}]}, "messages[0].role", "got 'robot'"),
        ({"messages": [{"role": "\ud800"}]}, "messages[0].role", "got '\\ud800'"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", "got a number"),
        ({"messages": [{"role": "user", "content": 10**400}]}, "messages[0].content", "got a number"),
        ({"messages": [{"role": "user", "content": False}]}, "messages[0].content", "got false"),
        ({"messages": [{"role": "user", "content": {"type": "text"}}]}, "messages[0].content", "got an object"),
        ({"messages": [{"role": "user", "content": [{}, "x"]}]}, "messages[0].content[1]", "got text"),
        ({"messages": HELLO, "stream": "yes"}, "stream", "expected true or false, got text"),
        ({"messages": HELLO, "stream": 1}, "stream", "got a number"),
        ({"messages": HELLO, "stream_options": True}, "stream_options", "expected an object, got true"),
        ({"messages": HELLO, "stream_options": []}, "stream_options", "got a list"),
        ({"messages": HELLO, "model": 5}, "model", "expected text"),
        ({"messages": HELLO, "model": ""}, "model", "got empty text"),
        ({"messages": HELLO, "models": "a"}, "models", "got text"),
        ({"messages": HELLO, "openrouter_api_key": 5}, "openrouter_api_key", "expected text"),
        ({"messages": HELLO, "custom_system_prompt": ["x"]}, "custom_system_prompt", "expected text"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_its_name(body: dict[str, Any], param: str, words: str) -> None:
    """The error names the field, what was expected and what came."""
    error = refused(body)
    assert param == error.param
    assert error.message.startswith(f"{param}: ")
    assert words in error.message
    assert wire.dumps(error.to_object())


def test_an_error_shows_no_more_of_a_role_than_it_must() -> None:
    """A long text in the wrong place is clipped."""
    assert len(refused({"messages": [{"role": "secret " * 1000}]}).message) < 200


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b" \r\n", "is empty"),
        (b"{", "is not JSON"),
        (b"\xff", "is not UTF-8"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[" * 500 + b"]" * 500, "nested too deeply"),
        (b"[]", "got a list"),
        (b"null", "got nothing"),
        (b"5", "got a number"),
        (b'"x"', "got text"),
        (b"true", "got true"),
    ],
)
def test_a_body_must_be_a_json_object(data: bytes, words: str) -> None:
    """Anything else is a 400 that says what came."""
    with pytest.raises(RequestError, match=words) as caught:
        parse_object(data)
    assert 400 == caught.value.status


def test_a_broken_body_is_not_quoted() -> None:
    """The error holds positions and no text of the body."""
    with pytest.raises(RequestError) as caught:
        parse_object(b'{"messages": "my secret prompt')
    assert "secret" not in caught.value.message


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)
MESSAGE = st.dictionaries(st.sampled_from(["role", "content", "name"]), JSON | st.just("user"))
BODY = st.fixed_dictionaries(
    {"messages": st.lists(MESSAGE | JSON, max_size=3) | JSON},
    optional=dict.fromkeys(("model", "models", "stream", "stream_options", "max_tokens", *OWN_FIELDS), JSON),
)


@given(BODY)
def test_any_body_is_made_a_request_or_refused(body: dict[str, Any]) -> None:
    """No JSON object, however odd, raises anything but a RequestError."""
    try:
        found: Any = make_request(copy.deepcopy(body), Settings(upstream_params="openai"))
    except RequestError as error:
        found = error
    if isinstance(found, RequestError):
        assert found.param is not None
        return
    assert found.body["stream"] is True
    assert set() == OWN_FIELDS & found.body.keys()
    assert body["messages"] == found.body["messages"][-len(body["messages"]) :]
