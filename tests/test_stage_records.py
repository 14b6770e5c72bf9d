"""What metadata and the record tell of the stages: the same, and true, however a request ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app import Stage, Transform
from app.demo import DemoUpstream
from app.pipeline import Pipeline
from app.text.hedges import Hedges
from tests.conftest import Served
from tests.servers import wait_until
from tests.test_metadata import asked

PIECES = ["Sure, I think we ", "should probably ", "use it. It is ", "perhaps ", "best."]
RAW = "".join(PIECES)
DONE = "We should use it. It is best."
MODES = pytest.mark.parametrize("mode", ["live", "correct"])
WAYS = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
CHOICES = pytest.mark.parametrize("n", [1, 3])


@pytest.fixture
def gateway(serve: Callable[..., Served]) -> Served:
    """Give a gateway with the shipped pipeline."""
    return serve(SLUICE_PIPELINE="on", SLUICE_RETRIES="0")


def row(served: Served) -> dict[str, Any]:
    """Give the one record as it is kept."""
    served.record()
    journal = served.gateway.journal
    assert journal is not None
    wait_until(journal.flush)
    (found,) = asked(served, "events")["data"]
    event: dict[str, Any] = found
    return event


def facts_of(response: Any, stream: bool) -> dict[str, Any]:
    """Give the metadata of an answer, whole or not."""
    if not stream:
        found: dict[str, Any] = response.json()["x_g0dm0d3"]
        return found
    told = [chunk["x_g0dm0d3"] for chunk in response.data() if isinstance(chunk, dict) and "x_g0dm0d3" in chunk]
    last: dict[str, Any] = told[-1]
    return last


def assert_told_alike(facts: dict[str, Any], event: dict[str, Any]) -> None:
    """Check that what is kept is what the client was told, but for words that may quote the prompt."""
    expected = {name: dict(note) if note else note for name, note in facts["pipeline"].items()}
    for note in filter(None, expected.values()):
        note.pop("reasoning", None)
    assert expected == event["pipeline"]
    assert facts["params_used"] == event["params_used"]
    assert facts["attempts"] == event["attempts"]


def played(n: int) -> list[dict[str, Any]]:
    """Give the script of *n* choices, interleaved."""
    return [{"choices": {"texts": [PIECES] * n}}] if n > 1 else [{"text": PIECES}]


@CHOICES
@MODES
@WAYS
def test_an_answer_that_came_whole(gateway: Served, upstream: DemoUpstream, stream: bool, mode: str, n: int) -> None:
    """Lengths are those of all choices, and something was changed."""
    upstream.play(played(n))

    with gateway.ask(stream=stream, stm_mode=mode, n=n) as response:
        facts = facts_of(response, stream)

    event = row(gateway)
    assert_told_alike(facts, event)
    note = event["pipeline"]["stm"]
    assert (True, None, len(RAW) * n, len(DONE) * n) == (
        note["changed"],
        note["skipped"],
        note["original_length"],
        note["transformed_length"],
    )
    assert ("completed", event["context"]) == (event["end_reason"], event["pipeline"]["autotune"]["detected_context"])


@CHOICES
@MODES
def test_a_stream_that_is_cut(gateway: Served, upstream: DemoUpstream, mode: str, n: int) -> None:
    """The note is about what the client got: all that came, corrected only where the stream itself was."""
    upstream.play([{"choices": {"texts": [PIECES[:4]] * n}} if n > 1 else {"text": PIECES[:4]}, {"cut": "fin"}])

    with gateway.ask(stm_mode=mode, n=n) as response:
        data = response.data()

    given = sum(len(choice["delta"].get("content") or "") for chunk in data[:-2] for choice in chunk.get("choices", ()))
    event = row(gateway)
    assert_told_alike(data[-3]["x_g0dm0d3"], event)
    note = event["pipeline"]["stm"]
    came = len("".join(PIECES[:4])) * n
    assert (mode == "live", came, given) == (note["changed"], note["original_length"], note["transformed_length"])
    assert ("upstream_cut", given) == (event["end_reason"], event["characters"])
    assert {"id", "object", "created", "model"} <= set.intersection(*(set(chunk) for chunk in data[:-2]))


@MODES
@WAYS
@pytest.mark.parametrize(
    "first", [{"head": {"status": 500}}, {"error": {"form": "empty", "code": 502}}, {"cut": "fin"}]
)
def test_an_answer_that_never_began(
    gateway: Served, upstream: DemoUpstream, first: dict[str, Any], stream: bool, mode: str
) -> None:
    """STM has done nothing; what went before is told as usual."""
    upstream.play([first])

    with gateway.ask(stream=stream, stm_mode=mode) as response:
        facts = facts_of(response, stream)

    event = row(gateway)
    assert_told_alike(facts, event)
    note = event["pipeline"]["stm"]
    assert (False, 0, 0, 0) == (
        note["changed"],
        note["original_length"],
        note["transformed_length"],
        note["held_chars_max"],
    )
    assert event["pipeline"]["autotune"]["strategy"] == "adaptive"
    assert event["end_reason"] in ("upstream_error", "upstream_cut", "upstream_empty")


@CHOICES
@MODES
def test_a_client_that_leaves(gateway: Served, upstream: DemoUpstream, mode: str, n: int) -> None:
    """What came until then is in the record."""
    upstream.play([*played(n), {"silence": True}])
    came = len(RAW) * n

    with gateway.ask(stm_mode=mode, n=n) as response:
        seen = ""
        while seen.count("use") < n:
            seen += response.next_data() or ""

    event = row(gateway)
    note = event["pipeline"]["stm"]
    length = note["original_length"]
    assert "client_disconnected" == event["end_reason"]
    assert 0 < length <= came
    assert (mode == "live") is note["changed"]
    assert (note["transformed_length"] < length) is (mode == "live")


@MODES
@WAYS
def test_answers_of_other_kinds(gateway: Served, upstream: DemoUpstream, stream: bool, mode: str) -> None:
    """JSON asked for: neither AutoTune nor STM; tools: no AutoTune, and no text for STM."""
    upstream.play([{"text": ['{"a": "I think it works."}']}])
    upstream.play([{"tool_call": {"name": "f"}}])

    with gateway.ask(stream=stream, stm_mode=mode, response_format={"type": "json_object"}) as response:
        assert {"autotune": None, "parseltongue": None, "stm": None} == facts_of(response, stream)["pipeline"]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    with gateway.ask(stream=stream, stm_mode=mode, tools=tools) as response:
        facts = facts_of(response, stream)["pipeline"]

    assert facts["autotune"] is None
    assert (False, 0) == (facts["stm"]["changed"], facts["stm"]["original_length"])
    assert ["completed", "tool_calls"] == [gateway.record(number).end_reason for number in (1, 2)]


@MODES
@WAYS
@CHOICES
def test_stm_that_fails(
    gateway: Served, upstream: DemoUpstream, monkeypatch: pytest.MonkeyPatch, stream: bool, mode: str, n: int
) -> None:
    """The client has the raw text of all choices, and metadata and record say that STM failed and changed nothing."""
    monkeypatch.setattr(Hedges, "decide", lambda *arguments: 1 / 0)
    upstream.play([{"choices": {"texts": [PIECES] * n}}])

    with gateway.ask(stream=stream, stm_mode=mode, n=n, stm_modules=["hedge_reducer"]) as response:
        if stream:
            data = response.data()
            facts, found = data[-2]["x_g0dm0d3"], [""] * n
            for choice in (choice for chunk in data[:-1] for choice in chunk["choices"]):
                found[choice["index"]] += choice["delta"].get("content") or ""
            assert [RAW] * n == found
        else:
            answer = response.json()
            facts = answer["x_g0dm0d3"]
            assert [RAW] * n == [choice["message"]["content"] for choice in answer["choices"]]

    assert [("stm", "ZeroDivisionError")] == [(error["stage"], error["error"]) for error in facts["stage_errors"]]
    event = row(gateway)
    assert_told_alike(facts, event)
    note = event["pipeline"]["stm"]
    assert (False, "failed") == (note["changed"], note["skipped"])
    assert ("completed", len(RAW) * n) == (event["end_reason"], event["characters"])


class _Counting(Transform):
    """Counts what it is fed, and fails on request."""

    def __init__(self, note: dict[str, Any], fails: bool) -> None:
        self.note, self.fails, self.seen = note, fails, 0

    def feed(self, chunk: Any) -> Any:
        """Count."""
        self.seen += sum(len(choice["delta"].get("content") or "") for choice in chunk["choices"])
        if self.fails and self.seen > 20:
            raise ValueError("text of the answer")
        return [chunk]

    def tell(self) -> None:
        """Write the sum."""
        self.note["seen"] = self.seen


class Counting(Stage):
    """A host's own."""

    name = "counting"
    fields = ("counting_fails",)

    def start(self, request: Any, notes: Any) -> Transform:
        """Begin."""
        notes["counting"] = {"seen": 0}
        return _Counting(notes["counting"], bool(request.options.get("counting_fails")))


@WAYS
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("order", [5, 25, 100])
def test_a_hosts_own_stage(gateway: Served, upstream: DemoUpstream, stream: bool, fails: bool, order: int) -> None:
    """Its note stands beside the others wherever it stands in the chain, and its failure leaves STM's work alone."""
    own = Counting()
    own.order = order  # type: ignore[misc]
    gateway.gateway.pipeline = Pipeline([*gateway.gateway.pipeline.stages, own])
    gateway.gateway.own_fields |= {"counting_fails"}
    upstream.play([{"text": PIECES}])

    with gateway.ask(stream=stream, stm_mode="live", counting_fails=fails) as response:
        facts = facts_of(response, stream)

    event = row(gateway)
    assert_told_alike(facts, event)
    assert (True, len(DONE)) == (facts["pipeline"]["stm"]["changed"], facts["pipeline"]["stm"]["transformed_length"])
    assert [("counting", "ValueError")] * fails == [(e["stage"], e["error"]) for e in facts["stage_errors"]]
    if not fails:
        assert (len(DONE) if order == 100 else len(RAW)) == facts["pipeline"]["counting"]["seen"]
    assert ("completed", len(DONE)) == (event["end_reason"], event["characters"])
