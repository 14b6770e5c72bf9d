"""What the streams of a soak do: a script for the demo upstream, how the client behaves, and what must come of it."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

__all__ = ["SCENARIOS", "Scenario", "body_of", "pick"]


class Scenario(NamedTuple):
    """One kind of request.

    Attributes:
        weight: how often it comes, against the others.
        attempts: one script for each attempt of the gateway's.
        reason: the end reason of its record.
        code: the error code that the client is told, if any; None where it is told none or does not stay.
        leaves: the client closes once a chunk has come (``chunk``), before anything has (``head``), or stops reading
            (``stalls``).
        body: further fields of the request.
    """

    name: str
    weight: int
    attempts: list[list[Any]]
    reason: str = "completed"
    code: str | None = None
    leaves: str | None = None
    body: dict[str, Any] = {}


def _words(count: int, pace: float | None) -> dict[str, Any]:
    text: dict[str, Any] = {"content": [f"word{number} " for number in range(count)]}
    return {"text": text if pace is None else {**text, "pace": pace}}


_SOME = _words(8, 4)
_WHOLE = {"stream": False}

SCENARIOS = [
    Scenario("story", 30, [[_words(30, 4)]]),
    Scenario("long story", 12, [[_words(100, 5)]]),
    Scenario("burst", 8, [[_words(200, None)]]),
    Scenario("slow first token", 6, [[{"wait": 3}, _SOME]]),
    Scenario("blocking", 6, [[_SOME]], body=_WHOLE),
    Scenario("tool calls", 4, [[{"tool_call": {"pieces": 6, "pace": 4}}]], "tool_calls"),
    Scenario("two choices", 2, [[{"choices": [["a "] * 20, ["b "] * 20]}]], body={"n": 2}),
    Scenario("reasoning", 3, [[{"reasoning": {"content": ["hm "] * 10, "pace": 5}}, _SOME]]),
    Scenario("image", 1, [[{"image": 100_000}]]),
    Scenario("dribbled", 2, [[{"write": {"packet": 40, "delay": 0.02}}, _words(5, None)]]),
    Scenario("retried", 4, [[{"answer": {"status": 503}}], [{"hangup": "fin"}], [_SOME]][::2]),
    Scenario("refused", 3, [[{"answer": {"status": 400, "json": {"error": {"message": "no", "code": 400}}}}]],
             "upstream_error", "400"),
    Scenario("error in the stream", 3, [[_SOME, {"error": {"code": 502}}]], "upstream_error", "provider_unavailable"),
    Scenario("cut", 3, [[_SOME, {"cut": "rst"}]], "upstream_cut", "upstream_cut"),
    Scenario("ended early", 2, [[_SOME, {"end": True}]], "upstream_cut", "upstream_cut"),
    Scenario("hung up", 2, [[{"hangup": "fin"}]], "upstream_error", "upstream_unreachable"),
    Scenario("garbage", 2, [[_SOME, {"data": "{broken"}]], "upstream_error", "upstream_protocol"),
    Scenario("blocking cut", 2, [[_SOME, {"cut": "fin"}]], "upstream_cut", "upstream_cut", body=_WHOLE),
    Scenario("silence", 2, [[_SOME, {"silence": True}]], "upstream_timeout", "upstream_timeout"),
    Scenario("no token", 2, [[{"silence": True}]], "upstream_timeout", "upstream_timeout"),
    Scenario("left in mid stream", 8, [[_SOME, {"silence": True}]], "client_disconnected", leaves="chunk"),
    Scenario("left at once", 3, [[{"silence": True}]], "client_disconnected", leaves="head"),
    Scenario("stopped reading", 2, [[{"image": 150_000}] * 80], "client_stalled", leaves="stalls"),
    Scenario("bad request", 2, [[]], "rejected", "invalid_request", body={"temperature": 1, "stream": "yes"}),
]  # fmt: skip


def pick(number: int, seed: int) -> Scenario:
    """Give the scenario of a request by its number; the same for the same seed."""
    weights = [scenario.weight for scenario in SCENARIOS]
    return random.Random(f"{seed} {number}").choices(SCENARIOS, weights)[0]


def body_of(scenario: Scenario, key: str) -> bytes:
    """Write the request; *key* is one that no other request has, so that its attempts are counted apart."""
    script = json.dumps({"key": key, "attempts": scenario.attempts})
    body = {"model": "demo/script", "stream": True, "messages": [{"role": "user", "content": script}], **scenario.body}
    return json.dumps(body).encode()
