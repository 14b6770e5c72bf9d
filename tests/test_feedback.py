"""Feedback: who may rate what, what is refused, and what workers and restarts share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.demo import DemoUpstream
from app.learning import NEUTRAL, adjustment, average, weight
from tests.conftest import QUESTION, Served
from tests.servers import GunicornGateway, RawStream, open_stream, request, wait_until

CODE_ROW = {
    "temperature": 0.1,
    "top_p": 0.8,
    "top_k": 25,
    "frequency_penalty": 0.2,
    "presence_penalty": 0.0,
    "repetition_penalty": 1.05,
}
CODE = "Write a Python function to sort a list of integers and debug the error in it"


def rate(url: str, headers: dict[str, str] | None = None, **body: Any) -> RawStream:
    """Send a rating."""
    good = {"message_id": "chatcmpl-x", "context_type": "code", "rating": 1, "params": CODE_ROW}
    return open_stream(f"{url}/v1/feedback", {k: v for k, v in {**good, **body}.items() if v is not ...}, headers)


def stats(url: str) -> Any:
    """Fetch what was learned."""
    with request("GET", f"{url}/v1/feedback/stats") as response:
        return response.json()


def temperature(url: str) -> float:
    """Ask what AutoTune would use for a request about code."""
    with open_stream(f"{url}/v1/autotune/analyze", {"message": CODE}) as response:
        return float(response.json()["params"]["temperature"])


@pytest.fixture
def tuned(serve: Callable[..., Served]) -> Served:
    """Give a gateway with the pipeline on."""
    return serve(SLUICE_PIPELINE="on")


def test_averages_move_by_three_tenths() -> None:
    """Three times the same rating leaves 0.343 of the way from the neutral point."""
    found = average([CODE_ROW] * 3)

    assert 0.7 + (0.1 - 0.7) * (1 - 0.343) == pytest.approx(found["temperature"])
    assert NEUTRAL == average([])


def test_the_worked_example_of_an_adjustment() -> None:
    """Three likes for code give -0.1971 for the temperature, at weight 0.075."""
    assert -0.1971 == pytest.approx(adjustment([CODE_ROW] * 3, [])["temperature"])
    assert 0.075 == weight(3)


@pytest.mark.parametrize(
    ("likes", "dislikes", "learned"), [(2, 0, False), (3, 0, True), (0, 9, False), (1, 1, True), (1, 0, False)]
)
def test_what_is_enough_to_learn(likes: int, dislikes: int, learned: bool) -> None:
    """Likes alone tell from the third on, dislikes alone never, one of each does."""
    assert learned == bool(adjustment([CODE_ROW] * likes, [{**CODE_ROW, "temperature": 1.5}] * dislikes))


@pytest.mark.parametrize(("samples", "share"), [(0, 0), (2, 0), (3, 0.075), (10, 0.25), (20, 0.5), (1000, 0.5)])
def test_weight_grows_to_a_half(samples: int, share: float) -> None:
    """From three samples on, full at twenty."""
    assert share == pytest.approx(weight(samples))


def test_small_adjustments_are_left_out() -> None:
    """What is no larger than 0.01 is not applied."""
    near = {**NEUTRAL, "temperature": 1.2}

    assert {"temperature"} == adjustment([near] * 5, []).keys()


def test_ratings_of_recorded_answers_teach(tuned: Served, upstream: DemoUpstream) -> None:
    """Three likes of answers to code requests change what the next one gets; the parameters are the recorded ones."""
    before = temperature(tuned.url)
    for number in range(3):
        question = [{"role": "user", "content": CODE}]
        with tuned.ask(messages=question, stream=False, top_p=0.5) as response:
            answer = response.json()
        tuned.record(number + 1)
        with rate(tuned.url, message_id=answer["id"], params=...) as response:
            told = response.json()

    assert {"accepted": True, "total_feedback": 3, "context_type": "code", "learned": True} == told
    assert [3, 3, 0, 1.0] == [stats(tuned.url)[k] for k in ("total_feedback", "positive", "negative", "positive_rate")]
    assert temperature(tuned.url) < before


def test_a_second_rating_of_an_answer_replaces_the_first(tuned: Served) -> None:
    """The same id counts once."""
    for rating in (1, -1):
        with rate(tuned.url, rating=rating) as response:
            assert 200 == response.status

    assert [1, 0, 1] == [stats(tuned.url)[k] for k in ("total_feedback", "positive", "negative")]


def test_only_ones_own_answers_can_be_rated(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """Somebody else's answer, and an id that is not recorded, are a 404 that changes nothing."""
    served = serve(SLUICE_PIPELINE="on", SLUICE_OPEN="off", SLUICE_API_KEYS="ann:key-of-ann,bob:key-of-bob")
    ann, bob = ({"Authorization": f"Bearer key-of-{name}"} for name in ("ann", "bob"))
    with served.ask(headers=ann, stream=False) as response:
        answer = response.json()
    served.record()

    for headers, message_id in ((bob, answer["id"]), (ann, "chatcmpl-unknown")):
        with rate(served.url, headers, message_id=message_id) as response:
            assert (404, "message_id") == (response.status, response.json()["error"]["param"])
    with rate(served.url, {}, message_id=answer["id"]) as response:
        assert 401 == response.status
    with rate(served.url, ann, message_id=answer["id"]) as response:
        assert 1 == response.json()["total_feedback"]


def test_the_operator_may_rate_parameters_of_what_is_not_recorded(serve: Callable[..., Served]) -> None:
    """With the metadata key, and with no other; an answer of somebody else is not the operator's to rate."""
    served = serve(
        SLUICE_PIPELINE="on", SLUICE_OPEN="off", SLUICE_API_KEYS="ann:key-of-ann", SLUICE_METADATA_KEY="the-operators"
    )
    ann, operator, other = ({"Authorization": f"Bearer {key}"} for key in ("key-of-ann", "the-operators", "no-key"))
    with served.ask(headers=ann, stream=False) as response:
        answer = response.json()
    served.record()

    for headers, message_id, status in (
        (operator, "chatcmpl-unknown", 200),
        (operator, answer["id"], 404),
        (ann, "chatcmpl-unknown", 404),
        (other, "chatcmpl-unknown", 401),
        ({}, "chatcmpl-unknown", 401),
    ):
        with rate(served.url, headers, message_id=message_id) as response:
            assert status == response.status
    with request("GET", f"{served.url}/v1/feedback/stats", headers=operator) as response:
        assert 1 == response.json()["total_feedback"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("message_id", ...),
        ("message_id", ""),
        ("message_id", 5),
        ("message_id", "x" * 129),
        ("context_type", ...),
        ("context_type", "sport"),
        ("rating", ...),
        ("rating", 0),
        ("rating", 2),
        ("rating", True),
        ("rating", 1.0),
        ("rating", "1"),
        ("params", "x"),
        ("params", {"heat": 1}),
        ("params", {"temperature": 2.5}),
        ("params", {"temperature": 10**399}),
        ("params", {"temperature": "hot"}),
        ("params", {"top_k": 0}),
        ("params", {"top_p": True}),
        ("model", 5),
        ("response_text", []),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(tuned: Served, field: str, value: Any) -> None:
    """A value that is not allowed is a 400 that names the field."""
    with rate(tuned.url, **{field: value}) as response:
        error = response.json()["error"]

    assert 400 == response.status
    assert error["param"].startswith(field)
    assert 0 == stats(tuned.url)["total_feedback"]


def test_what_is_learned_is_shared_and_survives(upstream: DemoUpstream, tmp_path: Path) -> None:
    """What one worker was taught, another one applies, and so does a new process."""
    environ = {
        "OPENROUTER_BASE_URL": upstream.base_url,
        "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/records.db",
        "WEB_CONCURRENCY": "3",
    }
    with GunicornGateway(environ) as gateway:
        for number in range(20):
            with rate(gateway.url, message_id=f"chatcmpl-{number}") as response:
                assert 200 == response.status
        wait_until(lambda: all(temperature(gateway.url) < 0.1 for _ in range(15)))

    with GunicornGateway(environ) as gateway:
        assert temperature(gateway.url) < 0.1
        assert 20 == stats(gateway.url)["total_feedback"]


def test_a_database_that_is_away_costs_feedback_only(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """Feedback is a 503 that names the setting; streams go on."""
    served = serve(SLUICE_PIPELINE="on", SLUICE_DATABASE_URL="sqlite:////proc/nowhere/records.db")

    with rate(served.url) as response:
        error = json.loads(response.read())["error"]
    with served.ask(**QUESTION) as stream:
        data = stream.data()

    assert (503, "store_unavailable") == (response.status, error["code"])
    assert "SLUICE_DATABASE_URL" in error["message"]
    assert "[DONE]" == data[-1]
