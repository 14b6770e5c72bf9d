"""AutoTune: its tables and arithmetic, what it may touch, and its endpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.demo import DemoUpstream
from app.errors import ConfigurationError, RequestError
from app.pipeline import ChatRequest, Pipeline
from app.settings import Settings
from app.stages import autotune
from app.stages.autotune import PARAMS, STRATEGIES, AutoTune
from app.text.context import Detection
from app.text.weights import shipped
from tests.conftest import Served
from tests.servers import open_stream

CODE = "Write a Python function to sort a list of integers and debug the error in it"
ROWS = {
    "precise": (0.2, 0.85, 30, 0.3, 0.1, 1.1),
    "balanced": (0.7, 0.9, 50, 0.1, 0.1, 1.0),
    "creative": (1.1, 0.95, 80, 0.4, 0.6, 1.15),
    "chaotic": (1.6, 0.98, 100, 0.7, 0.8, 1.25),
}
CONTEXT_ROWS = {
    "code": (0.15, 0.8, 25, 0.2, 0.0, 1.05),
    "creative": (1.15, 0.95, 85, 0.5, 0.7, 1.2),
    "analytical": (0.4, 0.88, 40, 0.2, 0.15, 1.08),
    "conversational": (0.75, 0.9, 50, 0.1, 0.1, 1.0),
    "chaotic": (1.7, 0.99, 100, 0.8, 0.9, 1.3),
}


def detecting(monkeypatch: pytest.MonkeyPatch, context: str, confidence: float) -> None:
    """Let every message be of this context."""
    found = Detection(context, confidence, (), tuple((name, 0.0, 0.2) for name in CONTEXT_ROWS))
    monkeypatch.setattr(autotune, "detect", lambda message, history=(): found)


def values(params: Any) -> tuple[float, ...]:
    """Give parameters in their order."""
    return tuple(params[name] for name in PARAMS)


def prepared(stage: AutoTune, sent: dict[str, Any] | None = None, **options: Any) -> tuple[dict[str, Any], Any]:
    """Give the body that goes upstream, and the note."""
    body = {"messages": [{"role": "user", "content": CODE}], **(sent or {})}
    given = frozenset(key for key, value in body.items() if value is not None)
    run = Pipeline([stage]).run(ChatRequest(body, options, True, sent=given))
    return run.request.body, run.notes["autotune"]


@pytest.mark.parametrize("strategy", ROWS)
def test_a_fixed_strategy_uses_its_row(strategy: str) -> None:
    """Whatever the message."""
    assert ROWS[strategy] == values(AutoTune().tune(CODE, [], strategy).params)


@pytest.mark.parametrize("context", CONTEXT_ROWS)
@pytest.mark.parametrize("confidence", [0.6, 0.9, 1.0])
def test_adaptive_uses_the_contexts_row(monkeypatch: pytest.MonkeyPatch, context: str, confidence: float) -> None:
    """From a confidence of 0.6 on, undiluted."""
    detecting(monkeypatch, context, confidence)

    assert CONTEXT_ROWS[context] == values(AutoTune().tune(CODE, [], "adaptive").params)


def test_below_it_the_row_is_mixed_with_the_balanced_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worked example: code at 4/7."""
    detecting(monkeypatch, "code", 0.5714285714285714)

    got = values(AutoTune().tune(CODE, [], "adaptive").params)

    expected = (0.3857142857, 0.8428571429, 36, 0.1571428571, 0.0428571429, 1.0285714286)
    assert expected == pytest.approx(got, abs=1e-10)


@pytest.mark.parametrize(
    ("earlier", "frequency", "repetition"),
    [(10, 0.1, 1.0), (11, 0.105, 1.01), (14, 0.12, 1.04), (25, 0.175, 1.15), (100, 0.175, 1.15)],
)
def test_long_conversations_discourage_repetition(earlier: int, frequency: float, repetition: float) -> None:
    """From the eleventh earlier message on, up to 0.15, for fixed strategies too."""
    params = AutoTune().tune(CODE, ["x"] * earlier, "balanced").params

    assert (0.7, 0.9, 50, frequency, 0.1, repetition) == values(params)


def test_what_was_learned_is_added_in_adaptive_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worked example of feedback: 0.15 - 0.1971 * 0.075."""
    detecting(monkeypatch, "code", 0.8)
    stage = AutoTune()
    stage.learn_from(lambda context: {"temperature": -0.1971 * 0.075} if context == "code" else {})

    assert 0.1352175 == stage.tune(CODE, [], "adaptive").params["temperature"]
    assert 0.2 == stage.tune(CODE, [], "precise").params["temperature"]


def test_bounds_hold_for_what_was_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learned values cannot leave them, and top_k is rounded half up."""
    detecting(monkeypatch, "code", 0.8)
    stage = AutoTune()
    stage.learn_from(lambda context: {"temperature": -5.0, "top_p": 5.0, "top_k": 0.5, "presence_penalty": 9.0})

    assert (0, 1, 26, 0.2, 2, 1.05) == values(stage.tune(CODE, [], "adaptive").params)


def test_only_what_was_left_out_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's own values go as they came; null counts as left out."""
    detecting(monkeypatch, "code", 0.8)

    body, note = prepared(AutoTune(), {"top_p": 5, "presence_penalty": None})

    assert 5 == body["top_p"]
    assert (0.15, 25, 0.2, 0.0, 1.05) == tuple(body[name] for name in PARAMS if name != "top_p")
    assert ("code", 0.8, "adaptive") == (note["detected_context"], note["confidence"], note["strategy"])


@pytest.mark.parametrize(
    "sent",
    [
        {"temperature": 0.3},
        {"temperature": 0},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"functions": [{"name": "f"}]},
        {"response_format": {"type": "json_object"}},
        {"response_format": "json_object"},
        {"response_format": {}},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        {"messages": [{"role": "user", "content": ""}]},
        {"messages": [{"role": "system", "content": "x"}]},
    ],
)
def test_where_it_does_not_run(sent: dict[str, Any]) -> None:
    """The body stays as it was, and the note is null."""
    body, note = prepared(AutoTune(), sent)

    assert not [name for name in PARAMS if name in body and name not in sent]
    assert note is None


@pytest.mark.parametrize(
    "sent",
    [
        {"temperature": None},
        {"tools": []},
        {"tools": None},
        {"functions": []},
        {"response_format": {"type": "text"}},
        {"response_format": None},
    ],
)
def test_where_it_still_runs(sent: dict[str, Any]) -> None:
    """Null and empty values count as left out."""
    _, note = prepared(AutoTune(), sent)

    assert note is not None


def test_text_beside_an_image_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text parts are joined by a newline."""
    seen: list[str] = []
    found = Detection("code", 0.8, (), ())
    monkeypatch.setattr(autotune, "detect", lambda message, history=(): seen.append(message) or found)
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "text", "text": "b"},
    ]

    prepared(AutoTune(), {"messages": [{"role": "user", "content": parts}]})

    assert ["a\nb"] == seen


def test_the_last_user_message_and_what_came_before_it_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """System and developer messages are not part of the conversation."""
    seen: list[Any] = []
    found = Detection("code", 0.8, (), ())
    monkeypatch.setattr(autotune, "detect", lambda message, history=(): seen.append((message, list(history))) or found)
    roles = [
        ("system", "s"),
        ("user", "one"),
        ("assistant", "two"),
        ("developer", "d"),
        ("user", "three"),
        ("assistant", "four"),
    ]

    prepared(AutoTune(), {"messages": [{"role": role, "content": text} for role, text in roles]})

    assert [("three", ["one", "two"])] == seen


@pytest.mark.parametrize(
    ("stage", "sent"),
    [(AutoTune(openrouter=False), {}), (AutoTune(), {"provider": {"require_parameters": True}})],
)
def test_openrouters_own_parameters_can_be_kept_back(stage: AutoTune, sent: dict[str, Any]) -> None:
    """top_k and repetition_penalty are not sent to upstreams that refuse them."""
    body, _ = prepared(stage, sent)

    assert not {"top_k", "repetition_penalty"} & body.keys()
    assert {"temperature", "top_p", "frequency_penalty", "presence_penalty"} <= body.keys()


def test_it_can_be_turned_off_and_on() -> None:
    """The request's word goes before the setting."""
    assert prepared(AutoTune(), autotune=False)[1] is None
    assert prepared(AutoTune(enabled=False))[1] is None
    assert prepared(AutoTune(enabled=False), autotune=True)[1] is not None


@pytest.mark.parametrize(
    ("field", "value"), [("autotune", "yes"), ("autotune", 1), ("strategy", "wild"), ("strategy", 1)]
)
def test_wrong_values_are_refused(field: str, value: Any) -> None:
    """With the field's name, and the five strategies."""
    with pytest.raises(RequestError) as caught:
        prepared(AutoTune(), **{field: value})

    assert field == caught.value.param
    assert field != "strategy" or all(name in caught.value.message for name in STRATEGIES)


def test_an_unknown_strategy_stops_the_start() -> None:
    """The setting is named."""
    with pytest.raises(ConfigurationError, match="SLUICE_STRATEGY"):
        AutoTune(strategy="wild")


@pytest.fixture
def tuned(serve: Callable[..., Served]) -> Served:
    """Give a gateway with the pipeline on."""
    return serve(SLUICE_PIPELINE="on")


def analyze(served: Served, **body: Any) -> Any:
    """Ask for a decision."""
    with open_stream(f"{served.url}/v1/autotune/analyze", body) as response:
        return {"status": response.status, **response.json()}


def test_parameters_are_told_and_sent(tuned: Served, upstream: DemoUpstream) -> None:
    """What went upstream is in the metadata and in the record."""
    with tuned.ask(messages=[{"role": "user", "content": CODE}]) as stream:
        data = stream.data()

    told = data[-2]["x_g0dm0d3"]
    sent = upstream.requests[0].body
    assert "code" == told["pipeline"]["autotune"]["detected_context"]
    assert values(sent) == values(told["params_used"]) == CONTEXT_ROWS["code"]
    record = tuned.record()
    assert "code" == record.pipeline["autotune"]["detected_context"]
    assert "reasoning" not in record.pipeline["autotune"]


def test_analyze_gives_the_whole_decision(tuned: Served) -> None:
    """Every field, the evidence and the deltas."""
    found = analyze(tuned, message=CODE)

    assert "code" == found["detected_context"]
    assert ["code"] == [entry["type"] for entry in found["context_scores"]][:1]
    assert 100 == pytest.approx(sum(entry["percentage"] for entry in found["context_scores"]), abs=0.5)
    assert {"pattern", "source"} == found["pattern_matches"][0].keys()
    assert values(found["baseline_params"]) == ROWS["balanced"]
    delta = next(entry for entry in found["param_deltas"] if entry["param"] == "temperature")
    assert (0.7, 0.15, -0.55) == (delta["before"], delta["after"], delta["delta"]) and delta["reason"]
    assert isinstance(found["reasoning"], str)


def test_analyze_clamps_overrides(tuned: Served) -> None:
    """The worked example."""
    found = analyze(tuned, message="x", strategy="creative", overrides={"temperature": 3.5, "top_k": 250, "top_p": -1})

    assert (2, 0, 100, 0.4, 0.6, 1.15) == values(found["params"])
    assert ROWS["creative"] == values(found["baseline_params"])


def test_analyze_counts_earlier_messages(tuned: Served) -> None:
    """The worked example with fourteen of them."""
    history = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}] * 7
    system = [{"role": "system", "content": "z"}]

    found = analyze(tuned, message="x", strategy="balanced", conversation_history=[*system, *history])

    assert (0.7, 0.9, 50, 0.12, 0.1, 1.04) == values(found["params"])


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "message"),
        ({"message": " "}, "message"),
        ({"message": 1}, "message"),
        ({"message": "x", "strategy": "wild"}, "strategy"),
        ({"message": "x", "conversation_history": "y"}, "conversation_history"),
        ({"message": "x", "conversation_history": [1]}, "conversation_history"),
        ({"message": "x", "overrides": []}, "overrides"),
        ({"message": "x", "overrides": {"heat": 1}}, "overrides"),
        ({"message": "x", "overrides": {"top_p": "high"}}, "overrides.top_p"),
    ],
)
def test_analyze_refuses_what_it_cannot_take(tuned: Served, body: dict[str, Any], param: str) -> None:
    """A 400 that names the field."""
    found = analyze(tuned, **body)

    assert (400, param) == (found["status"], found["error"]["param"])


@pytest.mark.parametrize("switch", ["on", "off"])
def test_the_model_is_loaded_before_the_first_request(switch: str) -> None:
    """No stream waits for it; where the stage is off it takes no memory."""
    shipped.cache_clear()

    AutoTune.from_settings(Settings.from_mapping({"SLUICE_AUTOTUNE": switch}))

    assert (switch == "on") == bool(shipped.cache_info().currsize)
