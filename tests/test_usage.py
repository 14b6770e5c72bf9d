"""What an answer used and cost: as upstream reported it, in whatever form, and an estimate only where it did not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.demo import DemoUpstream
from tests.conftest import Served
from tests.servers import request, wait_until

BYOK = {
    "prompt_tokens": 20,
    "completion_tokens": 7,
    "total_tokens": 27,
    "cost": 0.0001,
    "is_byok": True,
    "cost_details": {"upstream_inference_cost": 0.002, "upstream_inference_prompt_cost": 0.001},
    "prompt_tokens_details": {"cached_tokens": 16, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
FREE = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "cost": 0, "is_byok": False}
NOTHING = {
    "prompt_tokens": None,
    "completion_tokens": None,
    "total_tokens": None,
    "cost": None,
    "is_estimate": False,
    "reasoning_tokens": None,
    "cached_tokens": None,
    "is_byok": None,
    "upstream_cost": None,
}


def usage(served: Served) -> dict[str, Any]:
    """Wait for the one record and give its usage as operators read it."""

    def events() -> list[Any]:
        with request("GET", f"{served.url}/v1/metadata/events") as response:
            found: list[Any] = response.json()["data"]
            return found

    found: dict[str, Any] = wait_until(events)[0]["usage"]
    return found


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "ending",
    [
        lambda figures: [{"finish": "stop"}, {"usage": {"form": "empty", "usage": figures}}],
        lambda figures: [{"finish": "stop"}, {"usage": {"form": "choice", "usage": figures}}],
        lambda figures: [{"finish": "stop"}, {"usage": {"form": "missing", "usage": figures}}],
        lambda figures: [{"finish": {"reason": "stop", "usage": figures}}, {"done": True}],
    ],
    ids=["without choices", "beside an empty choice", "without a list of choices", "on the finish chunk"],
)
def test_every_form_of_usage_is_recorded(
    served: Served, upstream: DemoUpstream, ending: Callable[[Any], list[Any]], stream: bool
) -> None:
    """All figures, those of a key of one's own too, whether or not the client asked for usage."""
    upstream.play([{"text": "Hello"}, *ending(BYOK)])
    with served.ask(stream=stream) as response:
        response.read()

    assert {
        "prompt_tokens": 20,
        "completion_tokens": 7,
        "total_tokens": 27,
        "cost": 0.0001,
        "is_estimate": False,
        "reasoning_tokens": 5,
        "cached_tokens": 16,
        "is_byok": True,
        "upstream_cost": 0.002,
    } == usage(served)


def test_zero_is_zero_and_not_missing(served: Served, upstream: DemoUpstream) -> None:
    """A free answer costs nothing, which is a figure."""
    upstream.play([{"text": "Hello"}, {"finish": "stop"}, {"usage": {"form": "empty", "usage": FREE}}])
    with served.ask() as stream:
        stream.data()

    assert {**NOTHING, **FREE} == usage(served)


@pytest.mark.parametrize(
    "figures", [{"cost": None, "cost_details": None, "prompt_tokens_details": None}, {"cost": "x"}]
)
def test_nulls_and_nonsense_are_missing(served: Served, upstream: DemoUpstream, figures: dict[str, Any]) -> None:
    """Rather than zero, and no obstacle."""
    upstream.play([{"text": "Hello"}, {"finish": "stop"}, {"usage": {"form": "empty", "usage": figures}}])
    with served.ask() as stream:
        stream.data()

    assert NOTHING == usage(served)


@pytest.mark.parametrize(
    ("script", "tokens"),
    [
        ([{"text": {"content": "x" * 40, "whole": True}}], 10),
        ([{"reasoning": "y" * 20}, {"text": {"content": "x" * 21, "whole": True}}], 11),
        ([{"reasoning": "y" * 20}], 5),
        ([{"tool_call": {"arguments": '{"a": "bcdefghij"}'}}], 5),
    ],
    ids=["text", "reasoning and text", "reasoning alone", "a tool call"],
)
def test_an_answer_that_broke_off_is_estimated(
    served: Served, upstream: DemoUpstream, script: list[Any], tokens: int
) -> None:
    """From all that a model is paid for; the mark says so, and what was never told stays missing."""
    upstream.play([*script, {"cut": "fin"}])
    with served.ask() as stream:
        stream.data()

    assert {**NOTHING, "completion_tokens": tokens, "is_estimate": True} == usage(served)


def test_usage_that_came_before_the_break_is_no_estimate(served: Served, upstream: DemoUpstream) -> None:
    """It is what upstream says."""
    upstream.play([{"text": "Hello"}, {"usage": {"form": "empty", "usage": FREE}}, {"cut": "fin"}])
    with served.ask() as stream:
        stream.data()

    assert not usage(served)["is_estimate"]


def test_where_nothing_came_nothing_is_estimated(served: Served, upstream: DemoUpstream) -> None:
    """An error before the first chunk costs nothing that we know of."""
    upstream.play([{"answer": {"status": 500, "json": {"error": {"code": 500, "message": "no"}}}}])
    with served.ask() as stream:
        stream.data()

    assert NOTHING == usage(served)
