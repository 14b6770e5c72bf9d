"""Limits that four workers share through a real Redis: exact together, and usable while it is away."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from app.access import Caller, Key, Quotas, subject_of
from app.access.lease import SharedLeases
from app.access.shared import Shared, SharedAway, open_shared
from app.demo import DemoUpstream
from app.errors import LimitsUnavailable, RateLimited, TooManyStreams
from app.record import Record
from app.settings import Settings
from tests.clock import PATIENCE, granted
from tests.conftest import QUESTION
from tests.redis import RedisServer
from tests.servers import GunicornGateway, RawStream, open_stream, request, wait_until
from tests.test_quotas import COSTS, HANGS, Record_, bearer, keyed

STREAM = {**QUESTION, "stream": True}
TEN_CENTS = [{"text": "Hi"}, {"usage": {"form": "empty", "usage": {"total_tokens": 3, "cost": 0.1}}}]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """Give a Redis of our own."""
    with RedisServer(tmp_path) as server:
        yield server


@pytest.fixture
def shared(redis: RedisServer) -> Iterator[Shared]:
    """Give a process' connections to it."""
    found = open_shared(redis.url)
    assert found is not None
    yield found
    found.client.close()
    found.client.connection_pool.disconnect()


def workers(redis: RedisServer, upstream: DemoUpstream, **env: str) -> GunicornGateway:
    """Make a gateway of four workers that share this Redis."""
    return GunicornGateway(
        {
            "OPENROUTER_BASE_URL": upstream.base_url,
            "SLUICE_PIPELINE": "off",
            "WEB_CONCURRENCY": "4",
            "SLUICE_LIMIT_STORAGE": redis.url,
            **env,
        }
    )


def ask(gateway: GunicornGateway, number: int = 0, **body: Any) -> RawStream:
    return open_stream(gateway.chat_url, {**STREAM, **body}, bearer(number))


def status(gateway: GunicornGateway, number: int = 0) -> int:
    """Send a request, read its answer, give its status."""
    with ask(gateway, number) as answer:
        answer.read()
        return answer.status


def test_four_workers_let_through_exactly_what_may_pass(
    redis: RedisServer, upstream: DemoUpstream, tmp_path: Path
) -> None:
    """Rates, streams and budgets of different keys, each asked for by many at once and one after the other."""
    keys = keyed(tmp_path, 'rate_limit = "50/hour"', "streams = 7", "budget = 2.5")
    upstream.play(HANGS, times=7)
    with workers(redis, upstream, **keys) as gateway, ThreadPoolExecutor(40) as pool:
        held = list(pool.map(lambda _: ask(gateway, 1), range(40)))
        assert {200: 7, 429: 33} == Counter(answer.status for answer in held)
        upstream.wait_for_request(7)

        assert {200: 50, 429: 70} == Counter(pool.map(lambda _: status(gateway), range(120)))

        upstream.play(COSTS, times=None)
        assert [200] * 10 + [402] * 8 == [status(gateway, 2) for _ in range(18)]

        for answer in held:
            answer.close()
        wait_until(lambda: redis.client.zcard("sluice:streams:label:label1") == 0, what="all places to be free")
        assert [200] * 30 == [status(gateway, 1) for _ in range(30)]


def test_a_budget_is_spent_at_its_very_end(redis: RedisServer, upstream: DemoUpstream, tmp_path: Path) -> None:
    """Eight times ten cents are eighty, to four workers, to many at once, and to who counts them from the record."""
    upstream.play(TEN_CENTS, times=None)
    env = {
        **keyed(tmp_path, "budget = 0.8", "budget = 0.3"),
        "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/records.db",
    }
    with workers(redis, upstream, **env) as gateway, ThreadPoolExecutor(20) as pool:
        assert [200] * 8 + [402] * 4 == [status(gateway) for _ in range(12)]
        assert [200] * 3 + [402] * 4 == [status(gateway, 1) for _ in range(7)]
        assert {402: 40} == Counter(pool.map(lambda number: status(gateway, number % 2), range(40)))
        gateway.stop()
    redis.client.flushall()
    with workers(redis, upstream, **env) as gateway, ThreadPoolExecutor(20) as pool:
        assert {402: 40} == Counter(pool.map(lambda number: status(gateway, number % 2), range(40)))


def test_redis_may_be_restarted_under_load(redis: RedisServer, upstream: DemoUpstream, tmp_path: Path) -> None:
    """Four workers under requests without a pause: each is answered, and the limits are exact again afterwards."""
    env = keyed(tmp_path, 'rate_limit = "1000000/hour"\nstreams = 50\nbudget = 100', 'rate_limit = "50/hour"')
    is_over = threading.Event()
    statuses: Counter[int] = Counter()

    def load(gateway: GunicornGateway) -> None:
        while not is_over.is_set():
            statuses[status(gateway)] += 1

    with workers(redis, upstream, **env) as gateway, ThreadPoolExecutor(40) as pool:
        loads = [pool.submit(load, gateway) for _ in range(8)]
        for times in (1, 2):
            redis.stop()
            gateway.wait_for_log(f"(?s)(cannot be asked.*){{{4 * times}}}")
            redis.start()
            gateway.wait_for_log(f"(?s)(is back.*){{{4 * times}}}")
        is_over.set()
        for done in loads:
            done.result()

        assert {200} == set(statuses)
        assert {200: 50, 429: 70} == Counter(pool.map(lambda _: status(gateway, 1), range(120)))
        wait_until(lambda: redis.client.zcard("sluice:streams:label:label0") == 0, what="all places to be free")
        assert "Traceback" not in gateway.log()


def test_a_killed_workers_streams_are_free_again(redis: RedisServer, upstream: DemoUpstream, tmp_path: Path) -> None:
    """Nobody gives them back; they run out within half a minute, and no living stream's place does."""
    upstream.play(HANGS, times=None)
    env = {**keyed(tmp_path, "streams = 4"), "SLUICE_IDLE_TIMEOUT": "100"}
    one, other = (workers(redis, upstream, WEB_CONCURRENCY="1", **env) for _ in range(2))
    with one, other:  # noqa: SIM117 - both have to listen before anything is asked
        with ask(one), ask(one), ask(one), ask(other) as living:
            upstream.wait_for_request(4)
            with ask(other) as refused:
                assert 429 == refused.status
            one.stop(signal.SIGKILL)
            killed_at = time.monotonic()
            assert 4 == redis.client.zcard("sluice:streams:label:label0")
            found: list[RawStream] = []

            def all_are_free() -> bool:
                answer = ask(other)
                if answer.status == 200:
                    found.append(answer)
                else:
                    answer.close()
                    time.sleep(0.5)
                return len(found) == 3

            wait_until(all_are_free, 10 * PATIENCE, "the dead streams' places")
            assert granted(killed_at, time.monotonic()) < 30
            with ask(other) as refused:
                assert 429 == refused.status
            assert living.next_event() is not None
            for answer in found:
                answer.close()


@pytest.mark.parametrize("policy", ["allow", "refuse"])
def test_without_redis_the_operator_decides_and_nobody_waits(
    redis: RedisServer, upstream: DemoUpstream, tmp_path: Path, policy: str
) -> None:
    """Gone or hanging, at the start or in mid stream: answers come at once, never a 500, and counting goes on after."""
    env = keyed(tmp_path, 'rate_limit = "1000/hour"\nstreams = 3\nbudget = 100')
    expected = 200 if policy == "allow" else 503
    redis.stop()
    env |= {"SLUICE_LIMIT_ON_FAILURE": policy, "WEB_CONCURRENCY": "2"}
    with workers(redis, upstream, **env) as gateway, ThreadPoolExecutor(20) as pool:
        assert {expected: 40} == Counter(pool.map(lambda _: status(gateway), range(40)))
        redis.start()
        wait_until(lambda: [status(gateway) for _ in range(12)] == [200] * 12, what="recovery")
        wait_until(lambda: status(gateway) and redis.client.keys("*/sluice/*"), what="counting")
        upstream.play(HANGS, times=3)
        held = list(pool.map(lambda _: ask(gateway), range(3)))
        assert [200] * 3 == [answer.status for answer in held]
        assert ["Hi"] * 3 == [json.loads(found.next_data() or "")["choices"][0]["delta"]["content"] for found in held]
        wait_until(lambda: redis.client.zcard("sluice:streams:label:label0") == 3, what="the leases")

        redis.pause()
        began = time.monotonic()
        assert {expected: 40} == Counter(pool.map(lambda _: status(gateway), range(40)))
        assert granted(began, time.monotonic()) < 15
        with request("GET", f"{gateway.url}/v1/ready") as ready:
            assert 200 == ready.status
        redis.resume()
        redis.stop()
        redis.start()
        # Redis has forgotten the open streams; their workers have not.
        wait_until(lambda: redis.client.zcard("sluice:streams:label:label0") == 3, what="the leases")
        wait_until(lambda: status(gateway) == 429, what="the limit to hold again")
        for answer in held:
            answer.close()
        wait_until(lambda: [status(gateway) for _ in range(8)] == [200] * 8, what="all places to be free")
        assert "Traceback" not in gateway.log()
        assert redis.url not in gateway.log()


def test_leases_on_redis_own_clock(shared: Shared, redis: RedisServer) -> None:
    """What is renewed stays, what is not runs out, what was given back is free at once."""
    leases, others = SharedLeases(shared, ttl=0.6, renew=0.1), SharedLeases(shared, ttl=0.6, renew=60)
    kept, left = leases.acquire("a", 2), others.acquire("a", 2)
    assert kept is not None
    assert left is not None
    assert leases.acquire("a", 2) is None
    wait_until(lambda: redis.client.zcard("sluice:streams:a") == 2)
    second = wait_until(lambda: leases.acquire("a", 2), what="the lease that nobody renews")
    assert leases.acquire("a", 2) is None
    second.release()
    second.release()
    assert leases.acquire("a", 2) is not None
    kept.release()


def test_a_lost_lease_comes_back_while_its_stream_goes_on(shared: Shared, redis: RedisServer) -> None:
    """Redis was emptied, or a process slept for too long: the stream counts again, over the limit if need be."""
    leases = SharedLeases(shared, renew=0.1)
    lease = leases.acquire("a", 1)
    assert lease is not None
    redis.client.flushall()
    wait_until(lambda: redis.client.zcard("sluice:streams:a") == 1, what="the lease")
    assert leases.acquire("a", 1) is None
    lease.release()
    wait_until(lambda: redis.client.zcard("sluice:streams:a") == 0, what="the release")


def test_what_could_not_be_given_back_is_given_back_later(shared: Shared, redis: RedisServer) -> None:
    """A release that Redis did not hear of costs the caller no place once it does."""
    leases = SharedLeases(shared, ttl=60, renew=0.1)
    lease = leases.acquire("a", 1)
    assert lease is not None
    redis.pause()
    lease.release()
    redis.resume()
    wait_until(lambda: redis.client.zcard("sluice:streams:a") == 0, what="the release")


def test_an_acquire_that_is_broken_off_leaves_nothing_behind(shared: Shared, redis: RedisServer) -> None:
    """The server may have taken the lease although nobody waited for its answer."""
    leases = SharedLeases(shared, ttl=60, renew=0.1)
    script = leases._acquire

    def taken_but_not_told(**kwargs: Any) -> Any:
        script(**kwargs)
        raise KeyboardInterrupt

    leases._acquire = taken_but_not_told
    with pytest.raises(KeyboardInterrupt):
        leases.acquire("a", 1)
    wait_until(lambda: redis.client.zcard("sluice:streams:a") == 0, what="the release")


def test_two_hundred_at_once_take_as_many_leases_as_there_are(shared: Shared) -> None:
    """However they come."""
    shared.client.connection_pool.timeout = PATIENCE  # so many at once wait for a connection longer on a slow machine
    leases, start, found = SharedLeases(shared), threading.Barrier(200), []

    def come() -> None:
        start.wait()
        found.append(leases.acquire("a", 50))

    threads = [threading.Thread(target=come) for _ in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {True: 50, False: 150} == Counter(lease is not None for lease in found)


def test_only_the_first_waits_for_a_redis_that_hangs(shared: Shared, redis: RedisServer) -> None:
    """The others are told at once, and one a second finds out when it is back."""
    redis.pause()
    with pytest.raises(SharedAway):
        shared.call(shared.client.ping)
    began = time.monotonic()
    for _ in range(100):
        with pytest.raises(SharedAway):
            shared.call(shared.client.ping)
    assert granted(began, time.monotonic()) < 0.4
    assert shared.is_away
    redis.resume()

    def answers() -> bool:
        try:
            return bool(shared.call(shared.client.ping))
        except SharedAway:
            return False

    wait_until(answers, what="Redis")
    assert not shared.is_away


def test_a_refusal_counts_as_an_answer_of_redis(redis: RedisServer) -> None:
    """After an outage a caller over its rate does not keep the others from being counted."""
    quotas = Quotas(Settings(open=True, limit_storage=redis.url, rate_limit="1/hour", limit_on_failure="refuse"))
    redis.stop()
    with pytest.raises(LimitsUnavailable):
        quotas.count(Caller(None, "a"))
    redis.start()
    shared = quotas._shared
    assert shared is not None
    shared.client.ping()

    def counts() -> bool:
        try:
            quotas.count(Caller(None, "a"))
        except LimitsUnavailable:
            return False
        return True

    wait_until(counts, what="counting")
    shared.is_away, shared._next_try = True, 0.0
    with pytest.raises(RateLimited):
        quotas.count(Caller(None, "a"))
    assert not quotas.is_away
    shared.client.connection_pool.disconnect()


def test_what_one_process_spends_another_knows_at_once(redis: RedisServer) -> None:
    """Before the record of it is written, and once: what is in the record by now is left out of its sum."""
    settings = Settings(api_keys=("a:b",), limit_storage=redis.url)
    caller = Caller("é ü", "label:é ü", Key("é ü", ("",), budget=1.0))
    record, quotas = Record_(), [Quotas(settings), Quotas(settings)]
    for found in quotas:
        found.watch(record)
        found.enter(caller, Record())
    written = Record()
    quotas[0].enter(caller, written).leave({"cost": 0.6})
    quotas[1].enter(caller, Record()).leave({"cost": 0.3})
    quotas[0].enter(caller, Record()).leave({"cost": 0.1})
    for found in quotas:
        with pytest.raises(Exception, match=r"\$1 of \$1 for the month"):
            found.enter(caller, Record())
    fresh = Quotas(settings)
    fresh.watch(record)
    with pytest.raises(Exception, match=r"\$1 of \$1"):
        fresh.enter(caller, Record())
    assert written.record_id in record.without
    for found in (*quotas, fresh):
        assert found._shared is not None
        found._shared.client.connection_pool.disconnect()


def test_labels_of_any_kind_are_counted_apart(redis: RedisServer) -> None:
    """A slash, a colon or a star in one does not reach into another's."""
    quotas = Quotas(Settings(open=True, limit_storage=redis.url, rate_limit="1/hour", streams_per_key=1))
    for label in ("a", "a/1", "a:b", "*", "ü", "{a}", "a b", "\ud800"):
        caller = Caller(label, subject_of(label))
        quotas.count(caller)
        quotas.enter(caller, Record())
        with pytest.raises(RateLimited):
            quotas.count(caller)
        with pytest.raises(TooManyStreams):
            quotas.enter(caller, Record())
    assert quotas._shared is not None
    quotas._shared.client.connection_pool.disconnect()
