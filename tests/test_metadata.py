"""What operators read: pages that neither skip nor repeat, statistics that agree with the records, clear refusals."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import product
from typing import Any
from urllib.parse import urlencode

import pytest

from app import wire
from app.demo import DemoUpstream
from app.errors import RequestError
from app.questions import read_event_query, read_stats_query
from app.record import END_REASONS, SUCCESSES, Record
from app.stores import EventFilter, Events, Place, Question, RecordTable, Statistics, Store, row_of
from app.stores.rollup import DAY, HOUR
from tests.conftest import Served
from tests.servers import RawStream, request, wait_until

MIDNIGHT = 1_764_633_600
MODELS = ("a/one", "b/two", "c/three")


def get(served: Served, path: str, headers: dict[str, str] | None = None, **query: Any) -> RawStream:
    """Ask for metadata."""
    return request("GET", f"{served.url}/v1/metadata/{path}?{urlencode(query)}", None, headers)


def asked(served: Served, path: str, **query: Any) -> Any:
    """Ask for metadata and give the JSON of the answer."""
    with get(served, path, **query) as response:
        found = response.json()
        assert 200 == response.status, found
    return found


def made(number: int, chance: random.Random) -> Record:
    """Make a record of any kind; every fourth one has come at the same moment as the one before."""
    record = Record(created_at=float(MIDNIGHT + 600 * (number - (number % 4 == 0))))
    record.record_id = f"{chance.getrandbits(128):032x}"
    record.requested_model = chance.choice(MODELS)
    record.served_model = record.requested_model if chance.random() < 0.8 else None
    record.key_label = chance.choice(["ann", "bob"])
    record.status = chance.choice([200, 200, 200, 400, 502])
    record.first_chunk_ms = chance.choice([None, round(chance.lognormvariate(6, 1), 1)])
    record.usage = chance.choice([None, {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5, "cost": 0.25}])
    record.attempts = [{"status": 429}] * chance.randrange(3) + [{"status": 200}]
    record.pipeline = {"autotune": {"detected_context": "code"}, "stm": {"changed": chance.random() < 0.5}}
    record.close(chance.choice(END_REASONS))
    record.total_ms = round(chance.lognormvariate(8, 1), 1)
    return record


@pytest.fixture
def filled(database_url: str) -> Any:
    """Give a store with 400 records over three days, and the records, newest first."""
    chance = random.Random(7)
    found = [made(number, chance) for number in range(400)]
    store = Store(database_url)
    RecordTable(store).add([row_of(record) for record in found])
    yield store, sorted(found, key=lambda record: (record.created_at, record.record_id), reverse=True)
    store.close()


def matches(chosen: EventFilter, record: Record) -> bool:
    """Tell whether a record is one of those that a filter chooses."""
    return (
        (chosen.since is None or record.created_at >= chosen.since)
        and (chosen.until is None or record.created_at < chosen.until)
        and (chosen.model is None or (record.served_model or record.requested_model) == chosen.model)
        and (chosen.end_reason is None or record.end_reason == chosen.end_reason)
        and (chosen.key_label is None or record.key_label == chosen.key_label)
        and (chosen.status is None or record.status == chosen.status)
    )


def test_pages_give_each_record_once_in_order(filled: Any) -> None:
    """Whatever the filters and the size of a page, records of the same moment included."""
    store, all_records = filled
    events, chance = Events(store), random.Random(1)
    for _ in range(60):
        chosen = EventFilter(
            since=chance.choice([None, float(MIDNIGHT + 6000), all_records[200].created_at]),
            until=chance.choice([None, float(MIDNIGHT + 200_000), all_records[10].created_at]),
            model=chance.choice([None, None, *MODELS, "no/such"]),
            end_reason=chance.choice([None, None, "completed", "rejected"]),
            key_label=chance.choice([None, None, "ann"]),
            status=chance.choice([None, None, 200, 502, 599]),
        )
        limit, after, seen = chance.choice([1, 3, 50, 1000]), None, []
        while page := events.page(chosen, after, limit):
            assert len(page) <= limit
            seen += [event["record_id"] for event in page]
            after = Place(page[-1]["created_at"], page[-1]["record_id"])
        assert [record.record_id for record in all_records if matches(chosen, record)] == seen, chosen


def exact(times: list[float], share: float) -> float | None:
    """Give a percentile of the times themselves, by nearest rank."""
    return sorted(times)[math.ceil(share * len(times)) - 1] if times else None


def agrees(row: dict[str, Any], group: list[Record]) -> None:
    """Check a row of figures against its records."""
    reasons = [record.end_reason for record in group]
    assert {reason: reasons.count(reason) for reason in set(reasons)} == row["end_reasons"]
    assert len(group) == row["requests"]
    successes = sum(reasons.count(reason) for reason in SUCCESSES)
    assert (round(successes / len(group), 6) if group else None) == row["success_rate"]
    usages = [record.usage or {} for record in group]
    for name in ("prompt_tokens", "completion_tokens", "total_tokens", "cost"):
        assert sum(usage.get(name, 0) for usage in usages) == row[name]
    assert sum(len(record.attempts) - 1 for record in group) == row["retries"]
    assert ({"code": len(group)} if group else {}) == row["contexts"]
    assert sum(record.pipeline["stm"]["changed"] for record in group) == row["stm_changed"]
    for kind in ("first_chunk_ms", "total_ms"):
        times = [getattr(record, kind) for record in group if getattr(record, kind) is not None]
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            wanted = exact(times, share)
            assert (None if wanted is None else pytest.approx(wanted, rel=0.05)) == row[kind][name]


TIMES = [
    (None, None),
    (MIDNIGHT + 5 * HOUR, None),
    (None, MIDNIGHT + DAY + HOUR),
    (MIDNIGHT + 3 * HOUR, MIDNIGHT + 7 * HOUR),
    (MIDNIGHT + 20 * HOUR, MIDNIGHT + 2 * DAY + 3 * HOUR),
    (MIDNIGHT + 20 * HOUR, MIDNIGHT + 26 * HOUR),
    (MIDNIGHT + DAY, MIDNIGHT + 2 * DAY),
    (MIDNIGHT + 99 * DAY, None),
]


def test_statistics_agree_with_the_records(filled: Any) -> None:
    """Row by row and in total, for every grouping and time: counts and sums exactly, percentiles within 5 %."""
    store, all_records = filled
    for (since, until), model, by_model, period in product(TIMES, (None, "b/two"), (True, False), (None, HOUR, DAY)):
        where = EventFilter(since=since, until=until, model=model)
        chosen = [record for record in all_records if matches(where, record)]
        totals, rows = Statistics(store).answer(Question(since, until, model, by_model, period))

        agrees(totals, chosen)
        groups: dict[Any, list[Record]] = {}
        for record in chosen:
            key = [record.served_model or record.requested_model] if by_model else []
            key += [record.created_at // period * period] if period else []
            groups.setdefault(tuple(key), []).append(record)
        found = {tuple(row[name] for name in ("model", "start") if name in row): row for row in rows}
        assert groups.keys() == found.keys(), where
        for key, group in groups.items():
            agrees(found[key], group)


def test_a_request_can_be_read_back(serve: Callable[..., Served], upstream: DemoUpstream, database_url: str) -> None:
    """Its record has every fact, and its figures are in the statistics."""
    served = serve(SLUICE_PIPELINE="on", SLUICE_DATABASE_URL=database_url)
    with served.ask(stream=False, messages=[{"role": "user", "content": "Write a haiku"}]) as response:
        answer = response.json()
    with served.ask(messages=[]) as response:
        assert 400 == response.status
    wait_until(lambda: len(asked(served, "events")["data"]) == 2)

    refused, event = asked(served, "events")["data"]
    record = served.records[0]
    facts = answer["x_g0dm0d3"]
    assert (answer["id"], facts["record_id"]) == (event["completion_id"], event["record_id"])
    assert facts["params_used"] == event["params_used"]
    assert "reasoning" not in event["pipeline"]["autotune"] and "reasoning" in facts["pipeline"]["autotune"]
    assert (200, "completed", None, False) == (event["status"], event["end_reason"], event["error"], event["stream"])
    assert event["headers_ms"] <= event["first_chunk_ms"] <= event["total_ms"] == record.total_ms
    usage = answer["usage"]
    assert [usage[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens", "cost")] == [
        event["usage"][name] for name in ("prompt_tokens", "completion_tokens", "total_tokens", "cost")
    ]
    assert (400, "rejected") == (refused["status"], refused["end_reason"])
    assert {"code": "invalid_request", "type": "invalid_request_error"}.items() <= refused["error"].items()
    totals = asked(served, "stats")["totals"]
    assert (2, {"completed": 1, "rejected": 1}, 0.5) == tuple(
        totals[name] for name in ("requests", "end_reasons", "success_rate")
    )


@pytest.fixture
def full(serve: Callable[..., Served], filled: Any, database_url: str) -> Served:
    """Give an open gateway over the store with records."""
    return serve(SLUICE_DATABASE_URL=database_url, SLUICE_RETENTION_DAYS="0")


def test_events_come_as_a_list_or_as_lines(full: Served) -> None:
    """The same events, cursor in the object or in a header, by format or by the Accept header."""
    found = asked(full, "events", limit=7, model="a/one")
    assert ["object", "data", "next_cursor"] == list(found)
    for headers, query in (({}, {"format": "ndjson"}), ({"Accept": "application/x-ndjson"}, {})):
        with get(full, "events", headers, limit=7, model="a/one", **query) as response:
            lines = response.read().splitlines()
            assert "application/x-ndjson" == response.headers["content-type"]
            assert found["next_cursor"] == response.headers["x-next-cursor"]
        assert found["data"] == [wire.loads(line) for line in lines]


def test_cursors_lead_through_everything_and_end(full: Served, filled: Any) -> None:
    """The last page says so, though it is full."""
    seen, cursor, sizes = [], "", []
    while cursor is not None:
        page = asked(full, "events", limit=80, cursor=cursor)
        seen += [event["record_id"] for event in page["data"]]
        sizes.append(len(page["data"]))
        cursor = page["next_cursor"]

    assert [record.record_id for record in filled[1]] == seen
    assert [80] * 5 == sizes
    with get(full, "events", format="ndjson", limit="all") as response:
        assert seen == [wire.loads(line)["record_id"] for line in response.read().splitlines()]
    assert 100 == len(asked(full, "events")["data"])


def test_times_are_unix_seconds_or_iso_8601(full: Served) -> None:
    """Without an offset they are UTC; a plus sign that was not escaped is understood."""
    wanted = asked(full, "events", since=MIDNIGHT + 3600, limit=1000)["data"]
    assert 0 < len(wanted) < 400
    for text in ("2025-12-02T01:00:00", "2025-12-02T01:00:00Z", "2025-12-02T02:00:00+01:00", "2025-12-02 01:00"):
        assert wanted == asked(full, "events", since=text, limit=1000)["data"], text
    with request("GET", f"{full.url}/v1/metadata/events?since=2025-12-02T02:00:00+01:00&limit=1000") as response:
        assert wanted == response.json()["data"]


@pytest.mark.parametrize(
    ("path", "query", "words"),
    [
        ("events", {"limit": "0"}, "1 to 1000"),
        ("events", {"limit": "1001"}, "1 to 1000"),
        ("events", {"limit": "x"}, "1 to 1000"),
        ("events", {"limit": "all"}, "ndjson"),
        ("events", {"since": "yesterday"}, "ISO 8601"),
        ("events", {"until": "nan"}, "ISO 8601"),
        ("events", {"until": "9" * 400}, "ISO 8601"),
        ("events", {"since": "9999-12-31T23:59:59-23:59"}, "ISO 8601"),
        ("events", {"since": "20", "until": "10"}, "before until"),
        ("events", {"end_reason": "bored"}, "completed, length"),
        ("events", {"status": "99"}, "100 to 599"),
        ("events", {"status": "2e2"}, "100 to 599"),
        ("events", {"status": "٢٠٠"}, "100 to 599"),
        ("events", {"model": "a\0b"}, "printable"),
        ("events", {"key_label": "x" * 201}, "200"),
        ("events", {"cursor": "nonsense"}, "next_cursor"),
        ("events", {"cursor": "bmFuIGFi"}, "next_cursor"),
        ("events", {"cursor": "é"}, "next_cursor"),
        ("events", {"format": "csv"}, "json, ndjson"),
        ("events", {"sort": "asc"}, "since, until, model"),
        ("stats", {"by": "key"}, "model, period"),
        ("stats", {"period": "week", "by": "period"}, "hour, day"),
        ("stats", {"period": "day"}, "by=period"),
        ("stats", {"by": "period", "since": "0"}, "31 days"),
        ("stats", {"limit": "5"}, "since, until"),
    ],
)
def test_nonsense_is_refused_by_name(path: str, query: dict[str, str], words: str) -> None:
    """The error says which parameter and what it takes."""
    read = read_event_query if path == "events" else read_stats_query
    with pytest.raises(RequestError) as caught:
        read({name: [value] for name, value in query.items()})
    assert (400, "invalid_request") == (caught.value.status, caught.value.code)
    assert words in caught.value.message
    assert caught.value.param in (*query, None)


def test_a_parameter_given_twice_is_refused(served: Served) -> None:
    """Rather than half heard."""
    with request("GET", f"{served.url}/v1/metadata/events?model=a&model=b") as response:
        assert (400, "model") == (response.status, response.json()["error"]["param"])


def test_periods_without_a_beginning_go_back_as_far_as_they_may() -> None:
    """The answer says from when on."""
    asked_for = {"by": ["period"], "period": ["hour"], "until": [str(MIDNIGHT + 1)]}
    question = read_stats_query(asked_for).question
    assert (MIDNIGHT + HOUR, MIDNIGHT + HOUR - 31 * DAY) == (question.until, question.since)
    question = read_stats_query({"by": ["model,period"]}, now=MIDNIGHT - 1.5).question
    assert (None, MIDNIGHT - 7 * DAY) == (question.until, question.since)


def test_only_the_operator_reads(serve: Callable[..., Served]) -> None:
    """A caller's key is no operator's; without a metadata key there is nothing to read."""
    caller = {"Authorization": "Bearer key-of-ann"}
    closed = serve(SLUICE_OPEN="off", SLUICE_API_KEYS="ann:key-of-ann")
    keyed = serve(SLUICE_OPEN="off", SLUICE_API_KEYS="ann:key-of-ann", SLUICE_METADATA_KEY="operator")
    for path in ("events", "stats"):
        with get(closed, path, caller) as response:
            assert 404 == response.status
        with get(keyed, path, caller) as response:
            assert 401 == response.status
        with get(keyed, path, {"Authorization": "Bearer operator"}) as response:
            assert 200 == response.status


def test_a_database_that_is_away_is_a_503(serve: Callable[..., Served]) -> None:
    """Which names the setting; the probe says it too and stays 200, because streams go on."""
    served = serve(SLUICE_DATABASE_URL="sqlite:////proc/nowhere/records.db")
    for path in ("events", "stats"):
        with get(served, path) as response:
            error = response.json()["error"]
        assert (503, "store_unavailable") == (response.status, error["code"])
        assert "SLUICE_DATABASE_URL" in error["message"]

    def ready() -> Any:
        with request("GET", f"{served.url}/v1/ready") as response:
            assert 200 == response.status
            return response.json()["store"]

    wait_until(lambda: {"state": "failing", "waiting": 0, "dropped": 0} == ready())
