"""What a client receives is what upstream sent, but for the list in ``fidelity.py``: held against an oracle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import wire
from app.chunks import Normalizer
from app.mailbox import Mailbox
from app.pipeline import ChatRequest, Pipeline
from app.record import Record
from app.relay import Stream
from app.settings import Settings
from app.sinks import EventSink, Last
from app.sse import EventDecoder, ServerSentEvent
from app.ticker import Ticker

from .fidelity import expected_events

CORPUS = sorted((Path(__file__).parent / "data" / "streams").glob("*.jsonl"))
ID = "chatcmpl-0123456789abcdef01234567"


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


class Answer:
    """A response whose body is given lines."""

    headers = {"Content-Type": "text/event-stream"}
    last_read_at = 0.0
    is_partial = False

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines

    def iter_lines(self) -> Iterator[bytes]:
        return iter(self._lines)

    def close(self) -> None:
        pass


class ScriptedUpstream:
    """Answers every call with the same lines."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines

    def open(self, *args: Any, **options: Any) -> Answer:
        return Answer(self._lines)

    def broken(self, call: Any, error: Exception) -> Any:
        raise AssertionError(f"nothing can break here: {error}")


def relayed(events: list[dict[str, Any]], *, usage: bool = False, debug: bool = False) -> list[bytes]:
    """Send *events* and ``[DONE]`` through the relay with the pipeline off; give the data of the client's events."""
    lines = [b": OPENROUTER PROCESSING", b""]
    for event in events:
        lines += [b"data: " + json.dumps(event, ensure_ascii=False).encode(), b""]
    lines += [b"data: [DONE]", b""]
    body = {"debug": {"echo_upstream_body": True}} if debug else {}
    stream = Stream(
        ScriptedUpstream(lines),
        Ticker(60),
        Settings(open=True),
        Pipeline().run(ChatRequest(body, {}, True, include_usage=usage)),
        EventSink(Mailbox(1 << 30)),
        Record(completion_id=ID),
        key=None,
        own_key=False,
    )
    stream.start()
    blocks: list[bytes] = []
    while not blocks or not isinstance(blocks[-1], Last):
        blocks += stream.take()
    stream.close()
    decoder = EventDecoder(1 << 30)
    found = [decoder.feed(line) for line in b"".join(blocks).split(b"\n")[:-1]]
    data = [item.data for item in found if isinstance(item, ServerSentEvent)]
    assert data.pop() == b"[DONE]"
    return data


def without_ours(data: list[bytes]) -> list[str]:
    """Take out our metadata, once, and the time where upstream gave none; keep every key's place."""
    events = [wire.loads(item) for item in data]
    assert sum("x_g0dm0d3" in event for event in events) == 1
    for event in events:
        event.pop("x_g0dm0d3", None)
    return [json.dumps(event) for event in events]


def expected(events: list[dict[str, Any]], created: Any, **asked: bool) -> list[str]:
    wanted = expected_events(events, ID, **asked)
    return [json.dumps(event | {"created": created} if event["created"] == "NOW" else event) for event in wanted]


@pytest.mark.parametrize("usage", [False, True], ids=["plain", "usage"])
@pytest.mark.parametrize("debug", [False, True], ids=["", "debug"])
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_the_relay_changes_nothing_but_what_is_listed(path: Path, debug: bool, usage: bool) -> None:
    """Every recorded shape reaches the client as the oracle says, keys in order."""
    events = events_of(path)
    data = relayed(events, usage=usage, debug=debug)
    created = json.loads(data[0])["created"]
    assert expected(events, created, usage_asked=usage, debug_asked=debug) == without_ours(data)


def test_the_corpus_covers_every_field_of_the_protocol() -> None:
    """A field that no recorded stream holds would not be tested at all."""
    text = "".join(path.read_text(encoding="utf-8") for path in CORPUS)
    fields = (
        "id object created model provider system_fingerprint service_tier choices index finish_reason usage error debug"
        " native_finish_reason logprobs role content reasoning reasoning_details tool_calls refusal audio images"
        " annotations openrouter_metadata top_logprobs signature summary data tool_name cost is_byok cost_details"
        " prompt_tokens_details completion_tokens_details server_tool_use_details reasoning_content transcript"
    )
    assert [field for field in fields.split() if f'"{field}":' not in text] == []


ODD = st.sampled_from([None, True, 0, 1.5, -1, "0", "", [], {}, ["x"], {"a": 1}])
TEXT = st.sampled_from(["", "a", "b\u2028"])


def maybe(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with any of *keys*, in any order."""
    fixed = st.fixed_dictionaries({}, optional=keys)
    return st.tuples(fixed, st.randoms(use_true_random=False)).map(_shuffled)


def _shuffled(pair: tuple[dict[str, Any], Any]) -> dict[str, Any]:
    keys = list(pair[0])
    pair[1].shuffle(keys)
    return {key: pair[0][key] for key in keys}


IDS = st.sampled_from([None, "a", "b"])
INDEX = st.one_of(st.integers(0, 2), ODD)
FUNCTION = st.one_of(maybe(name=st.sampled_from([None, "", "f", "g"]), arguments=st.one_of(TEXT, ODD), vendor=ODD), ODD)
CALL = maybe(index=INDEX, id=IDS, type=st.sampled_from([None, "function"]), function=FUNCTION, vendor=ODD)
ITEM = maybe(index=INDEX, id=IDS, type=st.sampled_from(["reasoning.text", "reasoning.summary"]), text=TEXT)
ITEMS = st.one_of(st.lists(st.one_of(ITEM, ODD), max_size=2), ODD)
DELTA = maybe(
    role=st.one_of(st.just("assistant"), ODD),
    content=st.one_of(TEXT, ODD),
    reasoning=TEXT,
    tool_calls=st.one_of(st.lists(st.one_of(CALL, ODD), max_size=2), CALL, ODD),
    reasoning_details=ITEMS,
    images=ITEMS,
    vendor=ODD,
)
CHOICE = maybe(
    index=INDEX,
    delta=st.one_of(DELTA, DELTA, DELTA, ODD),
    finish_reason=st.sampled_from([None, None, None, "", "stop", "length", 5]),
    native_finish_reason=st.sampled_from([None, "end_turn"]),
    logprobs=st.one_of(st.none(), st.just({"content": [{"token": "a"}]})),
    error=st.sampled_from([None, {}]),
    usage=st.one_of(st.just({"total_tokens": 2}), ODD),
    vendor=ODD,
)
EVENT = maybe(
    id=st.one_of(st.just("gen-1"), ODD),
    object=st.just("chat.completion.chunk"),
    created=st.one_of(st.integers(1, 3), ODD),
    model=st.one_of(TEXT, ODD),
    provider=st.just("P"),
    choices=st.one_of(st.lists(st.one_of(CHOICE, CHOICE, CHOICE, ODD), max_size=3), ODD),
    usage=st.one_of(st.just({"total_tokens": 1}), ODD),
    error=st.sampled_from([None, {}, ""]),
    debug=ODD,
    vendor=ODD,
)
STREAM = st.lists(EVENT, min_size=1, max_size=6)


def normalized(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Do what the relay does with a good answer, without its threads."""
    normalizer = Normalizer(ID)
    out = [chunk for event in wire.loads(wire.dumps(events)) for chunk in normalizer.feed(event)]
    assert normalizer.failure is None
    out += [normalizer.finish_chunk(index) for index in normalizer.unfinished()]
    is_end = [bool(chunk["choices"]) and chunk["choices"][0].get("finish_reason") is not None for chunk in out]
    pairs = list(zip(out, is_end, strict=True))
    return [chunk for chunk, end in pairs if not end] + [chunk for chunk, end in pairs if end]


@settings(max_examples=300, deadline=None)
@given(STREAM)
def test_any_answer_is_changed_as_listed_and_not_otherwise(events: list[dict[str, Any]]) -> None:
    """Over arbitrary chunks, odd and hostile ones, normaliser and oracle agree to the last key."""
    found = normalized(events)
    created = found[0]["created"] if found else 0
    assert expected(events, created) == [json.dumps(chunk) for chunk in found]
