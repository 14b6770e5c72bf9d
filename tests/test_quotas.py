"""How much a caller may take: requests per time, requests at once, US dollars. Counted in one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.access import Caller, Key, Quotas
from app.access import budget as budget_module
from app.access.address import client_address, masked
from app.access.budget import Budgets, BudgetsUnknown, period_of
from app.access.lease import MemoryLeases
from app.access.rate import Rates, read_rates
from app.demo import DemoUpstream
from app.errors import BudgetExceeded, ConfigurationError, LimitsUnavailable, RateLimited, TooManyStreams
from app.record import Record
from app.settings import Settings
from app.stores import RecordTable, SpendingTable, Store, StoreError, row_of
from tests.conftest import QUESTION, Served
from tests.servers import open_stream, request, wait_until

COSTS = [{"text": "Hi"}, {"usage": {"form": "empty", "usage": {"total_tokens": 3, "cost": 0.25}}}]
HANGS = [{"text": "Hi"}, {"silence": True}]


def rates(text: str) -> Any:
    return read_rates(text, "here")


def keyed(tmp_path: Path, *tables: str) -> dict[str, str]:
    """Give settings with a key file: keys ``key0``, ``key1``, ..., labels ``label0``, ..., and further fields."""
    path = tmp_path / "keys.toml"
    texts = [f'[[keys]]\nlabel = "label{n}"\nkey = "key{n}"\n{table}\n' for n, table in enumerate(tables)]
    path.write_text("".join(texts))
    return {"SLUICE_OPEN": "off", "SLUICE_API_KEYS_FILE": str(path)}


def bearer(number: int = 0) -> dict[str, str]:
    return {"Authorization": f"Bearer key{number}"}


# Requests per time.


@pytest.mark.parametrize("text", ["", "often", "0/minute", "-1/minute", "10/fortnight", "1.5/minute", "10/minute;"])
def test_an_unreadable_rate_stops_the_start(text: str) -> None:
    """With the setting's name and an example."""
    with pytest.raises(ConfigurationError, match="here: expected rates like `60 per minute; 1000 per day`"):
        rates(text)
    if text:
        with pytest.raises(ConfigurationError, match="SLUICE_RATE_LIMIT"):
            Quotas(Settings(open=True, rate_limit=text))


def test_the_request_beyond_the_rate_is_refused_and_told_when_to_come_back() -> None:
    """Exactly as many pass as may, each subject for itself."""
    counted = Rates()
    found = [counted.count("a", rates("3/minute")) for _ in range(3)]
    assert [(3, 2), (3, 1), (3, 0)] == [(s.limit, s.remaining) for s in found if s is not None]
    with pytest.raises(RateLimited, match="more than 3 per 1 minute") as caught:
        counted.count("a", rates("3/minute"))

    headers = caught.value.to_headers()
    assert 55 <= int(headers["Retry-After"]) <= 60
    assert ("3", "0", f"{headers['Retry-After']}s") == (
        headers["x-ratelimit-limit-requests"],
        headers["x-ratelimit-remaining-requests"],
        headers["x-ratelimit-reset-requests"],
    )
    assert "x-should-retry" not in headers
    assert counted.count("b", rates("3/minute")) is not None
    assert counted.count("a", ()) is None


def test_a_client_library_is_not_made_to_retry_into_a_long_wait() -> None:
    """It would wait half a second instead of hours, and ask again for nothing."""
    counted = Rates()
    counted.count("a", rates("1/day"))
    with pytest.raises(RateLimited) as caught:
        counted.count("a", rates("1/day"))
    assert "false" == caught.value.to_headers()["x-should-retry"]


def test_a_request_that_the_short_window_refuses_is_not_taken_from_the_long_one() -> None:
    """Whoever runs into the minute's limit keeps the day's."""
    counted, both = Rates(), rates("3 per day; 1 per second")
    counted.count("a", both)
    for _ in range(5):
        with pytest.raises(RateLimited):
            counted.count("a", both)
    standing = counted.count("a", rates("3 per day"))

    assert standing is not None
    assert 1 == standing.remaining


def test_callers_who_stay_away_are_forgotten() -> None:
    """An address that came once takes no memory for ever."""
    counted = Rates()
    for number in range(50):
        counted.count(f"address:{number}", rates("5/second"))
    wait_until(lambda: counted.count("last", rates("100000/second")) and len(counted._seen) == 1, what="forgetting")

    assert len(counted._limiter.storage.events) <= 1  # type: ignore[attr-defined]


def test_a_clock_that_is_put_back_locks_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The window would otherwise last an hour longer."""
    counted, real = Rates(), time.time
    counted.count("a", rates("1/minute"))
    monkeypatch.setattr(time, "time", lambda: real() - 3600)
    counted.count("a", rates("1/minute"))
    with pytest.raises(RateLimited):
        counted.count("a", rates("1/minute"))


def test_two_hundred_at_once_at_the_limit() -> None:
    """Neither one more nor one less than may."""
    counted, passed = Rates(), []
    start = threading.Barrier(200)

    def come() -> None:
        start.wait()
        try:
            counted.count("a", rates("50/minute"))
            passed.append(1)
        except RateLimited:
            pass

    threads = [threading.Thread(target=come) for _ in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 50 == len(passed)


def test_headers_tell_how_the_caller_stands_on_every_answer(serve: Callable[..., Served], tmp_path: Path) -> None:
    """On streams, whole answers, errors and other routes; a key's own rate goes over everyone's."""
    served = serve(SLUICE_RATE_LIMIT="100/minute", **keyed(tmp_path, "", 'rate_limit = "4/minute"'))
    with served.ask(headers=bearer()) as answer:
        assert ("100", "99") == standing(answer)
        assert "[DONE]" == answer.data()[-1]
    with served.ask(headers=bearer(1)) as answer:
        assert ("4", "3") == standing(answer)
    with served.ask(headers=bearer(1), stream=False) as answer:
        assert ("4", "2") == standing(answer)
    with served.ask(headers=bearer(1), messages=[]) as answer:
        assert (400, ("4", "1")) == (answer.status, standing(answer))
    with request("GET", f"{served.url}/v1/models", headers=bearer(1)) as answer:
        assert (200, ("4", "0")) == (answer.status, standing(answer))
    with served.ask(headers=bearer(1)) as answer:
        error = answer.json()["error"]
        assert (429, ("4", "0")) == (answer.status, standing(answer))
        assert ("rate_limit_error", "rate_limit_exceeded") == (error["type"], error["code"])
        assert 0 < int(answer.headers["retry-after"]) <= 60
    with request("GET", f"{served.url}/v1/health") as answer:
        assert (200, (None, None)) == (answer.status, standing(answer))
    wait_until(lambda: len(served.records) == 5, what="all records")
    assert ("rejected", "label1", 429) == (
        served.records[-1].end_reason,
        served.records[-1].key_label,
        served.records[-1].status,
    )


def standing(answer: Any) -> tuple[str | None, str | None]:
    headers = answer.headers
    assert headers.get("ratelimit-limit") == headers.get("x-ratelimit-limit-requests")
    return headers.get("x-ratelimit-limit-requests"), headers.get("x-ratelimit-remaining-requests")


# Addresses.


@pytest.mark.parametrize(
    ("hops", "peer", "forwarded", "expected"),
    [
        (0, "10.0.0.1", "1.2.3.4", "10.0.0.1"),
        (0, "10.0.0.1", None, "10.0.0.1"),
        (1, "10.0.0.1", "1.2.3.4", "1.2.3.4"),
        (1, "10.0.0.1", "6.6.6.6, 1.2.3.4", "1.2.3.4"),
        (1, "10.0.0.1", "6.6.6.6,1.2.3.4", "1.2.3.4"),
        (2, "10.0.0.1", "6.6.6.6, 1.2.3.4, 10.0.0.2", "1.2.3.4"),
        (2, "10.0.0.1", "1.2.3.4", "10.0.0.1"),
        (1, "10.0.0.1", None, "10.0.0.1"),
        (1, "10.0.0.1", "", "10.0.0.1"),
        (1, "10.0.0.1", "1.2.3.4, unknown", "10.0.0.1"),
        (1, "10.0.0.1", "1.2.3.4:5678", "1.2.3.4"),
        (1, "10.0.0.1", "[2001:db8::1]:443", "2001:db8::/64"),
        (1, "10.0.0.1", "2001:db8:0:0:1:2:3:4", "2001:db8::/64"),
        (0, "::ffff:1.2.3.4", None, "1.2.3.4"),
        (0, "fe80::1%eth0", None, "fe80::/64"),
        (0, "", None, ""),
        (0, "unix:", None, "unix:"),
    ],
)
def test_only_believed_proxies_say_where_a_client_is(
    hops: int, peer: str, forwarded: str | None, expected: str
) -> None:
    """Each adds at the right end; what a client wrote there itself changes nothing."""
    environ = {"REMOTE_ADDR": peer} | ({} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded})

    assert expected == client_address(environ, hops)


def test_addresses_are_hashed_with_a_key() -> None:
    """The same in every process of a deployment, and not to be found by trying all addresses."""
    one, other = Settings(open=True, metadata_key="a"), Settings(open=True, metadata_key="b")

    assert masked("1.2.3.4", one) == masked("1.2.3.4", one)
    assert 3 == len({masked("1.2.3.4", one), masked("1.2.3.4", other), masked("1.2.3.5", one)})


def test_open_mode_counts_addresses_and_spoofing_does_not_help(serve: Callable[..., Served], caplog: Any) -> None:
    """A client that invents forwarding headers stays who it is, and its address is nowhere kept."""
    served = serve(SLUICE_RATE_LIMIT="2/minute", SLUICE_TRUSTED_PROXIES="1")

    def ask(forwarded: str) -> int:
        with served.ask(headers={"X-Forwarded-For": forwarded}, stream=False) as answer:
            return answer.status

    assert [200, 200, 429] == [ask(f"9.9.9.{n}, 203.0.113.7") for n in range(3)]
    assert 200 == ask("203.0.113.7, 203.0.113.8")
    assert "203.0.113" not in repr([record.to_dict() for record in served.records])
    assert "203.0.113" not in "".join(line.getMessage() for line in caplog.records)


def test_a_forwarded_address_never_grants_access(serve: Callable[..., Served], tmp_path: Path) -> None:
    """With keys a caller needs one, wherever it says it comes from."""
    served = serve(SLUICE_TRUSTED_PROXIES="1", **keyed(tmp_path, ""))
    for forwarded in ("127.0.0.1", "::1", "localhost"):
        headers = {"X-Forwarded-For": forwarded, "X-Real-IP": forwarded, "Forwarded": f"for={forwarded}"}
        with served.ask(headers=headers) as answer:
            assert 401 == answer.status


# Requests at once.


def test_leases_in_memory_are_given_back_once() -> None:
    """A second release does not make room for two."""
    leases = MemoryLeases()
    first, second = leases.acquire("a", 2), leases.acquire("a", 2)
    assert first is not None
    assert second is not None
    assert leases.acquire("a", 2) is None
    assert leases.acquire("b", 2) is not None
    first.release()
    first.release()
    assert leases.acquire("a", 2) is not None
    assert leases.acquire("a", 2) is None


def test_one_request_too_many_at_once_is_refused(
    serve: Callable[..., Served], upstream: DemoUpstream, tmp_path: Path
) -> None:
    """Streams and whole answers count alike, each key for itself; a stream that ends or is left makes room."""
    served = serve(SLUICE_STREAMS_PER_KEY="2", **keyed(tmp_path, "", "streams = 1"))
    upstream.play(HANGS, times=3)
    first, second = served.ask(headers=bearer()), served.ask(headers=bearer())
    third = served.ask(headers=bearer(1))
    upstream.wait_for_request(3)
    for number in (0, 1):
        with served.ask(headers=bearer(number), stream=False) as answer:
            error = answer.json()["error"]
            assert (429, "too_many_streams", "1") == (answer.status, error["code"], answer.headers["retry-after"])
    first.close()
    wait_until(lambda: served.gateway.open_streams == 2, what="the place to be free")
    with served.ask(headers=bearer()) as answer:
        assert "[DONE]" == answer.data()[-1]
    second.close()
    third.close()
    wait_until(lambda: served.gateway.open_streams == 0, what="all places to be free")


def test_the_next_request_may_come_the_moment_the_last_one_ended(serve: Callable[..., Served], tmp_path: Path) -> None:
    """A client that sends one after the other is never told that it has two under way."""
    served = serve(SLUICE_STREAMS_PER_KEY="1", **keyed(tmp_path, ""))
    for number in range(60):
        with served.ask(headers=bearer(), stream=number % 3 > 0) as answer:
            assert 200 == answer.status
            answer.read()


@pytest.mark.parametrize("fault", ["stage", "upstream", "body"])
def test_a_request_that_fails_gives_its_place_back(
    serve: Callable[..., Served], upstream: DemoUpstream, tmp_path: Path, fault: str
) -> None:
    """Whatever it fails with, before or behind the gate."""
    served = serve(SLUICE_STREAMS_PER_KEY="1", SLUICE_RETRIES="0", **keyed(tmp_path, ""))
    for _ in range(3):
        if fault == "upstream":
            upstream.play([{"answer": {"status": 500, "json": {"error": {"message": "no"}}}}])
        body = {"messages": "x"} if fault == "body" else {"stop": "\ud800"} if fault == "stage" else {}
        with served.ask(headers=bearer(), stream=False, **body) as answer:
            assert 429 != answer.status
            answer.read()
    with served.ask(headers=bearer(), stream=False) as answer:
        assert 200 == answer.status


# Budgets.


@pytest.mark.parametrize(
    ("now", "period", "begin", "end"),
    [
        ("2026-12-31T23:59:59", "day", "2026-12-31", "2027-01-01"),
        ("2026-12-31T23:59:59", "month", "2026-12-01", "2027-01-01"),
        ("2027-01-01T00:00:00", "month", "2027-01-01", "2027-02-01"),
        ("2028-02-29T12:00:00", "month", "2028-02-01", "2028-03-01"),
        ("2028-02-29T12:00:00", "day", "2028-02-29", "2028-03-01"),
    ],
)
def test_periods_are_days_and_months_of_utc(now: str, period: str, begin: str, end: str) -> None:
    """Whatever the machine's time zone."""
    found = period_of(period, datetime.fromisoformat(now).replace(tzinfo=UTC).timestamp())

    assert [begin, end] == [datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d") for at in found]


def test_a_spent_budget_is_a_402_at_the_very_next_request(
    serve: Callable[..., Served], upstream: DemoUpstream, tmp_path: Path
) -> None:
    """Before the record is written; the message says how much and until when, and the refusal is recorded."""
    served = serve(**keyed(tmp_path, "budget = 0.75", 'budget = 5\nbudget_period = "day"'))
    upstream.play(COSTS, times=4)
    for stream in (True, False, True):
        with served.ask(headers=bearer(), stream=stream) as answer:
            assert 200 == answer.status
            answer.read()
    with served.ask(headers=bearer()) as answer:
        error = answer.json()["error"]
    assert (402, "insufficient_quota", "budget_exceeded") == (answer.status, error["type"], error["code"])
    assert f"$0.75 of $0.75 for the month that began {datetime.now(UTC):%Y-%m}-01" in error["message"]
    assert ({"budget", "spent", "period", "since", "until"}, 0.75) == (
        set(error["metadata"]),
        error["metadata"]["spent"],
    )
    served.record(4)
    (record,) = (record for record in served.records if record.end_reason == "rejected")
    assert ("rejected", "label0", 402, "budget_exceeded") == (
        record.end_reason,
        record.key_label,
        record.status,
        record.error_code,
    )
    with served.ask(headers=bearer(1)) as answer:
        assert 200 == answer.status
        answer.read()


def test_a_budget_counts_what_other_processes_wrote_down(serve: Callable[..., Served], tmp_path: Path) -> None:
    """And what was spent before a restart, in this period."""
    served = serve(**keyed(tmp_path, "budget = 1"))
    table = RecordTable(Store(f"sqlite:///{tmp_path}/records.db"))
    old = Record(key_label="label0", usage={"cost": 50.0}, created_at=time.time() - 40 * 86_400, end_reason="completed")
    table.add([row_of(old), row_of(Record(key_label="label1", usage={"cost": 50.0}, end_reason="completed"))])
    with served.ask(headers=bearer(), stream=False) as answer:
        assert 200 == answer.status
    table.add([row_of(Record(key_label="label0", usage={"cost": 1.0}, end_reason="completed"))])

    def refused() -> bool:
        with served.ask(headers=bearer(), stream=False) as answer:
            return answer.status == 402

    wait_until(refused, what="the refusal")


def test_a_budget_of_nothing_lets_nothing_through(serve: Callable[..., Served], tmp_path: Path) -> None:
    """Zero is a budget, not the lack of one."""
    served = serve(**keyed(tmp_path, "budget = 0"))
    with served.ask(headers=bearer()) as answer:
        assert 402 == answer.status


@pytest.mark.parametrize("cost", [-5.0, "NaN", 1e305, True, None, {"usd": 1}])
def test_odd_costs_neither_make_room_nor_take_it(
    serve: Callable[..., Served], upstream: DemoUpstream, tmp_path: Path, cost: Any
) -> None:
    """A negative, infinite or wordy cost is nothing."""
    served = serve(**keyed(tmp_path, "budget = 0.4"))
    odd = {"usage": {"form": "empty", "usage": {"total_tokens": 3, "cost": cost}}}
    for script in (COSTS, [{"text": "Hi"}, odd], COSTS):
        upstream.play(script)
        with served.ask(headers=bearer(), stream=False) as answer:
            assert 200 == answer.status
            answer.read()
    with served.ask(headers=bearer(), stream=False) as answer:
        assert 402 == answer.status


class Record_:
    """A record whose sums are set by hand, and that counts how often it is read."""

    def __init__(self) -> None:
        self.sum, self.reads, self.is_away = 0.0, 0, False
        self.without: list[str] = []

    def spent(self, key_label: str, since: float, without: Any = ()) -> float:
        self.reads += 1
        self.without = list(without)
        if self.is_away:
            raise StoreError("away")
        return self.sum


KEY = Key("a", ("",), budget=1.0)


def test_a_sum_of_binary_fractions_is_no_cent_short() -> None:
    """Eight times ten cents add up to a hair less than eighty, and have spent them all the same."""
    record = Record_()
    record.sum = sum([0.1] * 8)
    assert record.sum < 0.8
    with pytest.raises(BudgetExceeded):
        Budgets(record).check(Key("a", ("",), budget=0.8))
    Budgets(record).check(Key("a", ("",), budget=0.800001))


def test_the_record_is_read_once_a_second_at_most() -> None:
    """Two hundred requests cost one sum."""
    record = Record_()
    budgets = Budgets(record)
    for _ in range(200):
        budgets.check(KEY)

    assert 1 == record.reads


def test_what_is_remembered_beside_the_record_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry is left out of the sum, whether it has been written yet or not."""
    monkeypatch.setattr(budget_module, "_FRESH", 0.0)
    record = Record_()
    budgets = Budgets(record)
    budgets.settle(KEY, "one", time.time(), 0.6)
    budgets.check(KEY)
    assert ["one"] == record.without
    budgets.settle(KEY, "two", time.time(), 0.3)
    budgets.check(KEY)
    budgets.settle(KEY, "three", time.time(), 0.1)
    with pytest.raises(BudgetExceeded):
        budgets.check(KEY)


def test_records_that_are_kept_for_too_short_a_time_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """A month's sum would lose its first days; said once. What is the default is long enough."""
    assert 31.0 == Settings().retention_days
    for period, days, said in (("day", 1.0, 0), ("month", 0.0, 0), ("month", 31.0, 0), ("month", 30.0, 1)):
        quotas = Quotas(Settings(api_keys=("a:b",), retention_days=days))
        quotas.watch(Record_())
        for _ in range(2):
            quotas.enter(Caller("a", "label:a", Key("a", ("",), budget=1.0, period=period)), Record())
        assert said == caplog.text.count("set SLUICE_RETENTION_DAYS to 31 or more")


def test_a_new_period_starts_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was spent before midnight of the first does not count after it."""
    record = Record_()
    budgets = Budgets(record)
    now = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC).timestamp()
    monkeypatch.setattr(budget_module.time, "time", lambda: now)
    budgets.settle(KEY, "one", now, 1.0)
    with pytest.raises(BudgetExceeded, match="the next one begins 2026-12-01T00:00:00Z"):
        budgets.check(KEY)
    now += 2
    budgets.check(KEY)
    assert 2 == record.reads


def test_while_the_record_is_away_the_last_sum_counts() -> None:
    """And what this process has spent since; a key that nobody has asked for is a matter of policy."""
    record = Record_()
    budgets = Budgets(record)
    record.is_away = True
    with pytest.raises(BudgetsUnknown):
        budgets.check(KEY)
    with pytest.raises(BudgetsUnknown):
        budgets.check(KEY)
    assert 1 == record.reads  # nobody waits for a database that has just failed


def test_an_outage_does_not_forget_what_was_spent(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """The last sum and what came after it go on counting, however long it lasts; the log says so once."""
    monkeypatch.setattr(budget_module, "_FRESH", 0.0)
    monkeypatch.setattr(budget_module, "_AGAIN", 0.0)
    monkeypatch.setattr(budget_module, "_RECENT", 0.0)
    record = Record_()
    record.sum = 0.5
    budgets = Budgets(record)
    budgets.check(KEY)
    record.is_away = True
    budgets.settle(KEY, "one", time.time(), 0.3)
    for _ in range(3):
        budgets.check(KEY)
    budgets.settle(KEY, "two", time.time(), 0.2)
    with pytest.raises(BudgetExceeded):
        budgets.check(KEY)
    assert 1 == caplog.text.count("the last sum known counts")


@pytest.mark.parametrize(("policy", "expected"), [("allow", None), ("refuse", LimitsUnavailable)])
def test_the_operator_decides_what_an_unknown_budget_means(policy: str, expected: Any) -> None:
    """Through, or a 503 that says when to come back."""
    record = Record_()
    record.is_away = True
    quotas = Quotas(Settings(api_keys=("a:b",), limit_on_failure=policy))
    quotas.watch(record)
    caller = Caller("a", "label:a", KEY)
    if expected is None:
        quotas.enter(caller, Record())
        return
    with pytest.raises(LimitsUnavailable) as caught:
        quotas.enter(caller, Record())
    assert (503, "1") == (caught.value.status, caught.value.retry_after)


def test_sums_of_the_record(tmp_path: Path) -> None:
    """Of one label, from a time on, without some records, costs above zero only."""
    store = Store(f"sqlite:///{tmp_path}/x.db")
    table, now = SpendingTable(store), time.time()
    assert 0 == table.spent("a", now)
    rows = [("a", now, 1.5), ("a", now - 100, 8.0), ("b", now, 4.0), ("a", now + 1, -3.0), ("a", now + 2, None)]
    records = [Record(key_label=k, created_at=at, usage={"cost": c}, end_reason="completed") for k, at, c in rows]
    RecordTable(store).add([row_of(record) for record in records])

    assert [1.5, 9.5, 0.0] == [
        table.spent("a", now - 1),
        table.spent("a", 0, ["other"]),
        table.spent("a", now - 1, [records[0].record_id]),
    ]


def test_memory_says_at_the_start_that_each_worker_counts_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Four workers let four times as much through, which nobody should find out later."""
    Quotas(Settings(open=True))
    assert "" == caplog.text
    Quotas(Settings(open=True, streams_per_key=2))
    Quotas(Settings(api_keys=("a:b",)), own_limits=True)
    assert 2 == caplog.text.count("count in each worker alone")


@pytest.mark.parametrize("url", ["redis", "http://x", "redis://127.0.0.1:port", "memcached://x"])
def test_a_storage_that_is_none_stops_the_start(url: str) -> None:
    """The message does not show the address, which may hold a password."""
    with pytest.raises(ConfigurationError, match="SLUICE_LIMIT_STORAGE") as caught:
        Quotas(Settings(open=True, limit_storage=url))
    assert "x" not in caught.value.message.replace("expected", "").replace("unix", "").replace("Redis, like", "")


def test_a_refused_caller_is_told_by_its_own_limits() -> None:
    """A key's streams go over everyone's."""
    quotas = Quotas(Settings(api_keys=("a:b",), streams_per_key=1))
    caller = Caller("a", "label:a", Key("a", ("",), streams=2))
    places = [quotas.enter(caller, Record()) for _ in range(2)]
    with pytest.raises(TooManyStreams, match="you have 2 requests under way"):
        quotas.enter(caller, Record())
    places[0].leave()
    quotas.enter(caller, Record())


def test_an_open_gateway_limits_streams_by_address(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """One address is one caller."""
    served = serve(SLUICE_STREAMS_PER_KEY="1", SLUICE_TRUSTED_PROXIES="1")
    upstream.play(HANGS)
    with open_stream(served.chat_url, {**QUESTION, "stream": True}, {"X-Forwarded-For": "192.0.2.1"}):
        upstream.wait_for_request()
        for address, status in (("192.0.2.1", 429), ("192.0.2.2", 200)):
            with served.ask(headers={"X-Forwarded-For": address}, stream=False) as answer:
                assert status == answer.status
