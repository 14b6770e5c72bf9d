"""Retries: which failures, how long the waits, when to give up, and what the client is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from app.demo import DemoUpstream
from app.transport import Breaker, UpstreamDown
from tests.clock import granted
from tests.conftest import Served
from tests.servers import free_port
from tests.test_streaming import texts

OK: list[Any] = [{"text": "fine"}]


def failing(status: int, retry_after: str | None = None) -> list[Any]:
    """Give a script that answers with *status*."""
    headers = {"Retry-After": retry_after} if retry_after is not None else {}
    return [{"answer": {"status": status, "headers": headers}}]


@pytest.mark.parametrize("status", [429, 502, 503])
def test_a_passing_failure_is_tried_again(served: Served, upstream: DemoUpstream, status: int) -> None:
    """Each status of the card is tried again, and every attempt is told."""
    upstream.play_attempts([failing(status), failing(status), OK])

    with served.ask() as stream:
        data = stream.data()

    attempts = data[-2]["x_g0dm0d3"]["attempts"]
    assert "fine" == texts(data)
    assert [status, status, 200] == [attempt["status"] for attempt in attempts]
    assert attempts == served.record().attempts


@pytest.mark.parametrize("status", [400, 401, 404, 408, 413, 500, 504, 529])
def test_other_failures_are_not(served: Served, upstream: DemoUpstream, status: int) -> None:
    """Any other status ends the request at its first attempt, with Retry-After or without."""
    upstream.play(failing(status, "0"))

    with served.ask(stream=False) as response:
        assert (502 if status == 401 else status) == response.status
        assert "x-should-retry" not in response.headers

    assert 1 == len(upstream.requests)


def test_it_gives_up_after_the_last_retry(served: Served, upstream: DemoUpstream) -> None:
    """Four attempts with the shipped setting; the client is told not to multiply them."""
    upstream.play_attempts([failing(429)] * 4)

    with served.ask(stream=False) as response:
        body = response.json()

    assert (429, "false") == (response.status, response.headers["x-should-retry"])
    assert "rate_limit_error" == body["error"]["type"]
    assert [429] * 4 == [attempt["status"] for attempt in served.record().attempts]


def test_waits_double_and_the_first_retry_waits_too(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """The waits are the backoff, twice and four times it, each with up to half of it as jitter."""
    served = serve(SLUICE_RETRY_BACKOFF="0.2")
    upstream.play_attempts([failing(503)] * 3 + [OK])

    with served.ask() as stream:
        stream.data()

    waits = [attempt["wait"] for attempt in served.record().attempts[:3]]
    times = [exchange.time for exchange in upstream.requests]
    for wait, base, passed in zip(waits, (0.2, 0.4, 0.8), (b - a for a, b in pairwise(times)), strict=True):
        assert base <= wait <= base * 1.5
        assert passed >= wait


@pytest.mark.parametrize("kind", ["seconds", "date"])
def test_retry_after_replaces_the_wait(serve: Callable[..., Served], upstream: DemoUpstream, kind: str) -> None:
    """A wait that upstream asks for is a floor, in seconds or as a date."""
    served = serve(SLUICE_RETRY_BACKOFF="30")
    due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3)
    upstream.play_attempts([failing(429, "1" if kind == "seconds" else format_datetime(due, usegmt=True)), OK])

    with served.ask() as stream:
        stream.data()
        ended = datetime.now(UTC)

    first, second = upstream.requests
    if kind == "seconds":
        assert 1 <= second.time - first.time
    else:
        assert due <= ended
    assert granted(first.time, second.time) < 5


def test_a_longer_retry_after_gives_up_at_once(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """A wait over the limit goes to the client, now."""
    served = serve(SLUICE_RETRY_AFTER_MAX="5")
    upstream.play(failing(429, "60"))

    with served.ask(stream=False) as response:
        assert (429, "60") == (response.status, response.headers["retry-after"])
        assert "x-should-retry" not in response.headers

    assert 1 == len(upstream.requests)


@pytest.mark.parametrize("header", ["-5", "1.5", "soon", "", "99999999999999999999x", "Thu, 99 Foo 2099"])
def test_an_unreadable_retry_after_is_ignored(served: Served, upstream: DemoUpstream, header: str) -> None:
    """Then the usual wait holds."""
    upstream.play_attempts([failing(429, header), OK])

    with served.ask() as stream:
        assert "fine" == texts(stream.data())


def test_a_past_date_does_not_wait(served: Served, upstream: DemoUpstream) -> None:
    """A date that has passed asks for no wait."""
    upstream.play_attempts([failing(429, "Wed, 21 Oct 2015 07:28:00 GMT"), OK])

    with served.ask() as stream:
        stream.data()

    assert 0 == served.record().attempts[0]["wait"]


def test_a_connection_lost_after_the_request_was_sent_is_no_retry(served: Served, upstream: DemoUpstream) -> None:
    """Upstream may have begun to work, and to bill."""
    upstream.play([{"hangup": "rst"}])

    with served.ask(stream=False) as response:
        assert 502 == response.status

    assert 1 == len(upstream.requests)
    assert [{"error": "connection lost"}] == served.record().attempts


def test_nothing_is_retried_after_a_byte_was_relayed(served: Served, upstream: DemoUpstream) -> None:
    """A stream that breaks is told, not repeated."""
    upstream.play([{"text": "a"}, {"error": {"code": 503}}])

    with served.ask() as stream:
        stream.data()

    assert 1 == len(upstream.requests)


def test_a_refused_connection_is_tried_again(serve: Callable[..., Served]) -> None:
    """Connections that fail before the request was sent are retried, and the error says what to look at."""
    served = serve(OPENROUTER_BASE_URL=f"http://127.0.0.1:{free_port()}/v1")

    with served.ask(stream=False) as response:
        error = response.json()["error"]

    assert (502, "upstream_unreachable") == (response.status, error["code"])
    assert "SLUICE_CONNECT_TIMEOUT" in error["message"]
    assert ["connect failed"] * 4 == [attempt["error"] for attempt in served.record().attempts]


def test_a_name_that_does_not_resolve_is_told(serve: Callable[..., Served]) -> None:
    """A wrong host name is a 502 like any other missing connection."""
    served = serve(OPENROUTER_BASE_URL="http://no-such-host.invalid/v1", SLUICE_RETRIES="0")

    with served.ask(stream=False) as response:
        assert 502 == response.status


def test_an_upstream_that_is_down_is_spared(serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    """Many requests at once do not become four times as many connects, and newcomers are told at once."""
    monkeypatch.setattr("app.transport.Breaker", partial(Breaker, pause=1000))  # longer than any machine takes
    served = serve(OPENROUTER_BASE_URL=f"http://127.0.0.1:{free_port()}/v1", SLUICE_RETRY_BACKOFF="0.1")
    messages: list[str] = []

    def ask() -> None:
        with served.ask(stream=False) as response:
            messages.append(response.json()["error"]["message"])

    threads = [threading.Thread(target=ask) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    began = time.monotonic()
    ask()
    ended = time.monotonic()

    attempts = [attempt for record in served.records for attempt in record.attempts]
    assert sum(attempt["error"] == "connect failed" for attempt in attempts) < 80
    assert any(attempt["error"] == "not tried" for attempt in attempts)
    assert "is down" in messages[-1] and granted(began, ended) < 1


def test_the_breaker_lets_one_try_through_each_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the pause one connect is tried; success closes the breaker."""
    now = [100.0]
    monkeypatch.setattr("app.transport.time", SimpleNamespace(monotonic=lambda: now[0]))
    breaker = Breaker(limit=3, pause=0.05)
    for _ in range(3):
        breaker.check()
        breaker.failed()
    with pytest.raises(UpstreamDown):
        breaker.check()
    now[0] += 0.06

    breaker.check()
    with pytest.raises(UpstreamDown):
        breaker.check()
    breaker.succeeded()

    breaker.check()
