"""Final figures of answers that broke off, fetched afterwards."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from app.demo import DemoUpstream
from app.errors import UpstreamConnectionError, UpstreamStatusError
from app.generations import Generations
from app.record import Record
from app.stores import StoreError
from tests.clock import PATIENCE
from tests.conftest import Served
from tests.servers import request, wait_until

Serve = Callable[..., Served]
TOLD = {
    "native_tokens_prompt": 21,
    "native_tokens_completion": 4,
    "tokens_prompt": 20,
    "tokens_completion": 3,
    "native_tokens_reasoning": 1,
    "total_cost": 0.5,
}


@pytest.fixture
def fetching(serve: Serve) -> Served:
    """Give a gateway that fetches, soon."""
    served = serve(SLUICE_FETCH_GENERATIONS="on", SLUICE_RETRIES="0")
    assert served.gateway.generations is not None
    served.gateway.generations.delays = (0.6, 0.1, 0.1, 0.1)
    return served


def break_off(served: Served, **body: Any) -> None:
    """Leave in the middle of an answer."""
    with served.ask(**body) as stream:
        heard = b""
        while b"three" not in heard:
            heard += stream.read_some()


def event(served: Served) -> dict[str, Any]:
    """Give the only event."""
    with request("GET", f"{served.url}/v1/metadata/events") as response:
        [found] = json.loads(response.read())["data"]
        return dict(found)


def totals(served: Served) -> dict[str, Any]:
    """Give the sums of the statistics."""
    with request("GET", f"{served.url}/v1/metadata/stats") as response:
        return dict(json.loads(response.read())["totals"])


def test_the_estimate_is_replaced(fetching: Served, upstream: DemoUpstream) -> None:
    """The record, the statistics and the metrics get upstream's own figures, though it did not know them at once."""
    upstream.play([{"text": "one two three"}, {"silence": True}])
    upstream.play([{"answer": {"status": 404, "json": {}}}], path="/generation")
    upstream.play([{"answer": {"json": {"data": TOLD}}}], path="/generation")
    break_off(fetching)
    record = fetching.record()
    assert record.is_estimate
    wait_until(lambda: len(fetching.gateway.journal or ()) == 0)
    wait_until(lambda: not event(fetching)["usage"]["is_estimate"])
    assert {
        "prompt_tokens": 21,
        "completion_tokens": 4,
        "total_tokens": 25,
        "cost": 0.5,
        "is_estimate": False,
    }.items() <= event(fetching)["usage"].items()
    found = totals(fetching)
    assert (1, 21, 4, 25, 0.5) == tuple(
        found[name] for name in ("requests", "prompt_tokens", "completion_tokens", "total_tokens", "cost")
    )
    asked = [exchange for exchange in upstream.requests if exchange.path.endswith("/generation")]
    assert [{"id": record.generation_id}] * 2 == [exchange.query for exchange in asked]
    assert "Bearer sk-or-v1-operator" == asked[0].headers["authorization"]
    with request("GET", f"{fetching.url}/metrics") as response:
        shown = response.read().decode()
    assert 'sluice_tokens_total{kind="completion"} 4.0' in shown
    assert "sluice_cost_total 0.5" in shown


def test_the_clients_key_asks_for_the_clients_answer(fetching: Served, upstream: DemoUpstream) -> None:
    """Another key would not be told, and the operator's must not be shown around."""
    upstream.play([{"text": "one two three"}, {"silence": True}])
    break_off(fetching, openrouter_api_key="sk-or-v1-clients")
    exchange = upstream.wait_for_request(2)
    assert ("/api/v1/generation", "Bearer sk-or-v1-clients") == (exchange.path, exchange.headers["authorization"])


def test_an_id_from_the_head_will_do(fetching: Served, upstream: DemoUpstream) -> None:
    """The client may leave before the first chunk, when only the response's head has told the id."""
    upstream.play([{"head": {}}, {"silence": True}])
    with fetching.ask() as stream:
        stream.read_some()
        upstream.wait_for_request().started.wait(PATIENCE)
        wait_until(lambda: next(iter(fetching.gateway.metrics._open.values())).headers_ms is not None)
    exchange = upstream.wait_for_request(2)
    assert upstream.requests[0].generation_id is not None
    assert {"id": upstream.requests[0].generation_id} == exchange.query


def test_it_is_off_unless_asked_for(served: Served) -> None:
    """Nothing is asked of upstream that the operator did not want."""
    assert served.gateway.generations is None


class World:
    """An upstream and a table that do as told: what is in the lists is given or raised, one after the other."""

    def __init__(self, answers: list[Any], settled: list[Any]) -> None:
        self.answers, self.settled = answers, settled
        self.asked: list[tuple[str, str | None]] = []
        self.told: list[Any] = []
        self.done = threading.Event()

    def get(self, path: str, key: str | None = None) -> Any:
        self.asked.append((path, key))
        return self._next(self.answers)

    def settle(self, record_id: str, usage: Any) -> bool:
        return bool(self._next(self.settled))

    def on_settled(self, usage: Any) -> None:
        self.told.append(usage)
        self.done.set()

    @staticmethod
    def _next(values: list[Any]) -> Any:
        value = values.pop(0)
        if isinstance(value, Exception):
            raise value
        return value


def broken_off(**facts: Any) -> Record:
    """Give the record of an answer that broke off."""
    return Record(**{"generation_id": "gen-1", "usage": {"completion_tokens": 1}, "is_estimate": True, **facts})


def test_what_fails_is_tried_again() -> None:
    """Upstream away, nothing known yet, the record not written yet, the database away: each waits for the next try."""
    world = World(
        [UpstreamConnectionError("away"), {"data": {}}, "no object", {"data": TOLD}],
        [False, StoreError("away"), True],
    )
    generations = Generations(world, world, world.on_settled, delays=(0.01,) * 7)
    generations.want(broken_off(), None)
    assert world.done.wait(PATIENCE)
    assert 4 == len(world.asked)
    assert 21 == world.told[0]["prompt_tokens"]


@pytest.mark.parametrize("answer", [UpstreamStatusError("no", status=401), ZeroDivisionError()])
def test_what_will_never_be_told_is_given_up(answer: Exception) -> None:
    """A refusal is final, and a fault of ours ends one fetch, not all of them."""
    world = World([answer, {"data": TOLD}], [True])
    generations = Generations(world, world, world.on_settled, delays=(0.01, 0.01))
    generations.want(broken_off(generation_id="first"), None)
    wait_until(lambda: len(world.asked) == 1 and not len(generations))
    generations.want(broken_off(generation_id="second"), None)
    assert world.done.wait(PATIENCE)
    assert ["/generation?id=first", "/generation?id=second"] == [path for path, _ in world.asked]


def test_tries_are_bounded() -> None:
    """After the last one the estimate stays."""
    world = World([{}] * 9, [])
    generations = Generations(world, world, world.on_settled, delays=(0.01, 0.01))
    generations.want(broken_off(), None)
    wait_until(lambda: len(world.asked) == 2 and not len(generations))
    world.answers[:] = [{"data": TOLD}]
    world.settled[:] = [True]
    generations.want(broken_off(generation_id="a?&/../b c"), "sk-or-client")
    assert world.done.wait(PATIENCE)
    assert ("/generation?id=a%3F%26%2F..%2Fb%20c", "sk-or-client") == world.asked[2]


def test_what_waits_is_bounded_and_named_without_its_key() -> None:
    """A storm of clients that leave fills no memory; nobody's key is shown by a repr."""
    world = World([], [])
    generations = Generations(world, world, world.on_settled, delays=(1000.0,), limit=3)
    for _ in range(5):
        generations.want(broken_off(), "sk-or-MARKED")
    assert (3, 2) == (len(generations), generations.passed_over)
    assert "MARKED" not in repr(vars(generations))


@pytest.mark.parametrize(
    "record",
    [
        broken_off(generation_id=None),
        broken_off(usage={"completion_tokens": 0}, is_estimate=False),
    ],
    ids=["no id", "counted"],
)
def test_what_is_known_or_unknowable_is_not_asked_for(record: Record) -> None:
    """Zero reported by upstream is zero."""
    world = World([], [])
    generations = Generations(world, world, world.on_settled)
    generations.want(record, None)
    assert 0 == len(generations)
