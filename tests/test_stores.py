"""The databases: the same behaviour on SQLite and PostgreSQL, from an older version's rows to restarts."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine, func, insert, inspect, select, text
from sqlalchemy.pool import NullPool

from app.errors import ConfigurationError
from app.record import Record
from app.stores import RecordTable, Store, StoreError, ValueRefused, row_of
from app.stores.histogram import bucket_of, middle_of, percentile
from app.stores.migrations import MIGRATIONS, _records_1, _version, migrate
from app.stores.rollup import DAY, HOUR
from app.stores.schema import metadata, periods, records
from tests.postgres import PostgreSQL

NOON = 1_764_676_800.0
"""A day's noon, in UTC."""


def row(name: str, **facts: Any) -> dict[str, Any]:
    """Make the row of a finished record."""
    facts = {"created_at": NOON, "served_model": "m", "usage": {"prompt_tokens": 10, "cost": 0.5}, **facts}
    made = Record(**{k: v for k, v in facts.items() if k not in ("end_reason", "total_ms")})
    made.close(facts.get("end_reason", "completed"))
    made.record_id = name
    return {**row_of(made), "total_ms": facts.get("total_ms", 100.0)}


def asked(store: Store, query: Any) -> list[tuple[Any, ...]]:
    """Give the rows of a query."""
    return store.read(lambda connection: [tuple(found) for found in connection.execute(query)])


def requests_by(store: Store) -> dict[tuple[int, str], int]:
    """Give the number of requests that are counted, by span and model."""
    query = select(periods.c.span, periods.c.model, func.sum(periods.c.requests)).group_by(
        periods.c.span, periods.c.model
    )
    return {(span, model): int(found) for span, model, found in asked(store, query)}


@pytest.fixture
def store(database_url: str) -> Any:
    """Give an empty store of each kind."""
    found = Store(database_url)
    yield found
    found.close()


@pytest.fixture
def table(store: Store) -> RecordTable:
    """Give the table of records in it."""
    return RecordTable(store)


def test_a_record_is_written_and_counted_once(store: Store, table: RecordTable) -> None:
    """Written again, alone or among new ones, it is left alone; what is counted is what is there."""
    assert [2, 0, 1, 4] == [
        table.add(batch)
        for batch in (
            [row("a"), row("b")],
            [row("a"), row("b")],
            [row("b"), row("c", served_model="n")],
            [*map(row, "defg"), row("a")],
        )
    ]

    assert [(7,)] == asked(store, select(func.count()).select_from(records))
    assert {(HOUR, "m"): 6, (DAY, "m"): 6, (HOUR, "n"): 1, (DAY, "n"): 1} == requests_by(store)


def test_what_is_counted_of_a_record(store: Store, table: RecordTable) -> None:
    """Tokens, cost, retries, corrections, end reasons, contexts and times, in the hour and the day it came."""
    table.add(
        [
            row(
                "a",
                created_at=NOON + 3599.9,
                usage={"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3, "cost": 0.25},
                attempts=[{"status": 429}, {"error": "connect failed"}, {"status": 200}],
                pipeline={"autotune": {"detected_context": "code"}, "stm": {"changed": True}},
                first_chunk_ms=50.0,
                total_ms=200.0,
            ),
            row("b", created_at=NOON, usage=None, end_reason="rejected", served_model=None, requested_model="m"),
        ]
    )

    tallies = {
        "end_reason": {"completed": 1, "rejected": 1},
        "context": {"code": 1},
        "first_chunk_ms": {str(bucket_of(50)): 1},
        "total_ms": {str(bucket_of(100)): 1, str(bucket_of(200)): 1},
    }
    for span, start in ((HOUR, NOON), (DAY, NOON - 43_200)):
        where = (periods.c.span == span) & (periods.c.start == start)
        assert [("m", 2, 2, 1, 3, 0, 3, 0.25, tallies)] == asked(store, select(*periods.c[2:]).where(where))


def test_many_writers_lose_and_double_nothing(database_url: str) -> None:
    """Each batch is written by two of them at once, and all count in the same hour."""
    batches = [[row(f"{batch}-{n}", served_model=f"m{n % 3}") for n in range(40)] for batch in range(8)]
    stores, failures = [Store(database_url) for _ in range(4)], []

    def write(number: int) -> None:
        try:
            for turn in range(8):
                RecordTable(stores[number]).add(batches[(turn + number // 2 * 4) % 8])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert [] == failures
    assert [(320,)] == asked(stores[0], select(func.count()).select_from(records))
    assert 320 == sum(found for (span, _), found in requests_by(stores[0]).items() if span == HOUR)
    for found in stores:
        found.close()


def test_final_figures_take_the_place_of_an_estimate(store: Store, table: RecordTable) -> None:
    """In the record and in what was counted, hour and day; another record is left alone, and an unknown one told."""
    estimate = {"usage": {"completion_tokens": 9}, "is_estimate": True}
    table.add([row("a", **estimate), row("b", **estimate)])
    final = {"prompt_tokens": 21, "completion_tokens": 4, "total_tokens": 25, "cost": 0.5, "is_byok": None}
    assert table.settle("a", final)
    assert not table.settle("none", final)

    names = ("prompt_tokens", "completion_tokens", "total_tokens", "cost")
    columns = (records.c[name] for name in ("record_id", "is_estimate", *names))
    assert [("a", False, 21, 4, 25, 0.5), ("b", True, None, 9, None, None)] == asked(
        store, select(*columns).order_by(records.c.record_id)
    )
    assert [(21, 13, 25, 0.5)] * 2 == asked(store, select(*(periods.c[name] for name in names)))
    assert {(HOUR, "m"): 2, (DAY, "m"): 2} == requests_by(store)


@pytest.fixture
def older(database_url: str) -> str:
    """Give the URL of a database of the first version with rows in it, some of them odd."""
    engine = create_engine(database_url.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool)
    new = {column.name for column in records.c} - {column.name for column in _records_1.c}
    rows = [
        row("a", pipeline={"stm": {"changed": True}}, attempts=[{"status": 429}, {"status": 200}]),
        row("b", served_model=None, requested_model="x" * 5000, end_reason="rejected", usage=None),
        row("c", served_model="", requested_model=None),
    ]
    with engine.begin() as connection:
        _version.create(connection)
        MIGRATIONS[0](connection)
        connection.execute(insert(_version).values(version=1))
        plain = [{k: v for k, v in one.items() if k not in new} for one in rows]
        plain[1]["requested_model"] = "x" * 5000
        for one in plain:
            for name in ("params_used", "pipeline", "attempts"):
                one[name] = {"pipeline": {"stm": {"changed": True}}, "attempts": [{}, {}]}.get(name, {})
        connection.execute(insert(_records_1), plain)
    return database_url


def test_an_older_database_is_brought_up_to_date(older: str) -> None:
    """Its rows are kept, take part in statistics once the writer has counted them, and the tables are as if new."""
    store = Store(older)
    table = RecordTable(store)

    assert 1 == table.add([row("new")])
    assert {(HOUR, "m"): 1, (DAY, "m"): 1} == requests_by(store)
    assert [3, 0] == [table.count_uncounted(), table.count_uncounted()]

    assert {"m": 2, "x" * 200: 1, "": 1} == {model: n for (span, model), n in requests_by(store).items() if span == DAY}
    assert [(4, 3)] == asked(
        store, select(func.sum(periods.c.retries) + 1, func.sum(periods.c.stm_changed)).where(periods.c.span == HOUR)
    )
    assert [("a",), ("b",), ("c",), ("new",)] == asked(store, select(records.c.record_id).order_by("record_id"))
    store.close()


def shape(connection: Connection) -> dict[str, Any]:
    """Give columns and indexes of every table, as the database tells them."""
    told = inspect(connection)
    return {
        table: (
            {(c["name"], str(c["type"]), c["nullable"]) for c in told.get_columns(table)},
            {(i["name"], tuple(i["column_names"])) for i in told.get_indexes(table)},
            tuple(told.get_pk_constraint(table)["constrained_columns"]),
        )
        for table in told.get_table_names()
        if table != "sluice_schema"
    }


@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection")
def test_migrated_tables_are_those_of_the_schema(older: str, tmp_path: Path) -> None:
    """Whether a database has grown up or was made today makes no difference."""
    engine = create_engine(older.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool)
    with engine.begin() as connection:
        assert 1 == migrate(connection)
        assert len(MIGRATIONS) == migrate(connection)
        migrated = shape(connection)
        for name in migrated:
            connection.execute(text(f"DROP TABLE {name}"))
        metadata.create_all(connection)
        made = shape(connection)

    assert made == migrated


def test_rows_of_an_older_writer_are_counted_later(store: Store, table: RecordTable) -> None:
    """During an update old processes go on writing, and know nothing of the new columns."""
    table.add([row("a")])
    old = {k: v for k, v in row("b").items() if k in {column.name for column in _records_1.c}}
    for name in ("params_used", "pipeline", "attempts"):
        old[name] = {}
    store.write(lambda connection: connection.execute(insert(records), [old]))

    assert [1, 0] == [table.count_uncounted(), table.count_uncounted()]
    assert 2 == requests_by(store)[HOUR, "m"]


def test_a_database_of_a_newer_version_is_left_alone(store: Store, table: RecordTable, database_url: str) -> None:
    """The program says that it is too old, and writes nothing."""
    table.add([row("a")])
    store.write(lambda connection: connection.execute(text("UPDATE sluice_schema SET version = 99")))

    with pytest.raises(StoreError, match="has schema 99, this program knows 2"):
        RecordTable(Store(database_url)).add([row("b")])
    assert [("a",)] == asked(store, select(records.c.record_id))


def test_old_records_go_in_small_steps(store: Store, table: RecordTable) -> None:
    """What is younger stays; hours and days go once they are wholly past."""
    table.add([row(f"old {n}", created_at=NOON - 2 * DAY + n) for n in range(700)])
    table.add([row("late", created_at=NOON - 60), row("young", created_at=NOON + 60)])

    steps = []
    while step := table.forget_before(NOON):
        steps.append(step)

    assert max(steps) <= 501
    assert [("young",)] == asked(store, select(records.c.record_id))
    assert {(HOUR, "m"): 1, (DAY, "m"): 2} == requests_by(store)
    assert [(NOON,)] == asked(store, select(periods.c.start).where(periods.c.span == HOUR))


@pytest.mark.parametrize("facts", [{"status": 2**40}, {"status": None}, {"chunks": object()}])
def test_a_row_that_cannot_be_is_told_apart(
    store: Store, table: RecordTable, facts: dict[str, Any], database_url: str
) -> None:
    """Writing it again would never help, so it is no sign that the database is away."""
    if facts == {"status": 2**40} and database_url.startswith("sqlite"):
        facts = {"status": None}  # SQLite's integers have 64 bits
    with pytest.raises(ValueRefused):
        table.add([{**row("a"), **facts}])
    assert 1 == table.add([row("b")])


def test_another_database_in_its_place_is_set_up(tmp_path: Path) -> None:
    """Somebody moved the file away: writing goes on in a new one, not in the one that has no name any more."""
    store = Store(f"sqlite:///{tmp_path}/records.db")
    table = RecordTable(store)
    table.add([row("a")])
    for path in tmp_path.glob("records.db*"):
        path.rename(tmp_path / f"old-{path.name}")

    table.add([row("b")])

    assert [("b",)] == asked(store, select(records.c.record_id))
    store.close()


def test_a_dropped_table_is_made_anew(store: Store, table: RecordTable) -> None:
    """It costs one try."""
    table.add([row("a")])
    store.write(lambda connection: [connection.execute(text(f"DROP TABLE {t.name}")) for t in metadata.sorted_tables])
    store.write(lambda connection: connection.execute(text("DROP TABLE sluice_schema")))

    with pytest.raises(StoreError):
        table.add([row("b")])
    assert 1 == table.add([row("b")])


def test_a_locked_file_is_waited_for_in_short_turns(tmp_path: Path) -> None:
    """The lock's end is seen at once; a lock that stays is told."""
    store = Store(f"sqlite:///{tmp_path}/records.db")
    table = RecordTable(store)
    table.add([row("a")])
    other = sqlite3.connect(tmp_path / "records.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
    timer.start()

    assert 1 == table.add([row("b")])
    timer.join()
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="locked"):
        table.add([row("c")])
    other.execute("COMMIT")
    assert 1 == table.add([row("c")])
    other.close()
    store.close()


def test_a_restarted_postgres_costs_nothing(postgres: PostgreSQL) -> None:
    """A connection that was kept is replaced in the same call."""
    store = Store(postgres.database())
    table = RecordTable(store)
    table.add([row("a")])
    pids = {asked(store, text("SELECT pg_backend_pid()"))[0] for _ in range(3)}
    postgres.stop("immediate")
    with pytest.raises(StoreError, match=r"refused|unexpectedly"):
        table.add([row("b")])
    postgres.start()

    assert 1 == table.add([row("b")])
    assert 1 == len(pids)
    postgres.execute("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    assert 1 == table.add([row("c")])
    store.close()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda server: server.url("records_1", "wrong-secret"), "password authentication failed"),
        (lambda server: server.url("no_such_database"), "does not exist"),
        (lambda server: server.url("x").replace(str(server.port), "1"), "Connection refused"),
    ],
)
def test_what_is_wrong_with_postgres_is_told_without_its_address(
    postgres: PostgreSQL, spoil: Callable[[PostgreSQL], str], words: str
) -> None:
    """In the driver's words, as far as they hold neither host, user nor password."""
    with pytest.raises(StoreError, match=words) as caught:
        RecordTable(Store(spoil(postgres))).add([row("a")])
    assert "127.0.0.1" not in str(caught.value) and "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.write_bytes(b"no database at all" * 100), "file is not a database"),
        (lambda path: path.mkdir(), "unable to open database file"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_without_its_name(
    tmp_path: Path, spoil: Callable[[Path], object], words: str
) -> None:
    """In SQLite's words."""
    spoil(tmp_path / "records.db")
    with pytest.raises(StoreError, match=words) as caught:
        RecordTable(Store(f"sqlite:///{tmp_path}/records.db")).add([row("a")])
    assert str(tmp_path) not in str(caught.value)


def test_a_forked_child_leaves_its_parents_connections_alone(store: Store, table: RecordTable) -> None:
    """Both write on; what the child ends does not end the parent's."""
    table.add([row("a")])
    child = os.fork()
    if child == 0:
        try:
            done = table.add([row("b")])
            os._exit(0 if done == 1 else 1)
        finally:
            os._exit(2)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert 1 == table.add([row("c")])
    assert [("a",), ("b",), ("c",)] == asked(store, select(records.c.record_id).order_by("record_id"))


@given(st.floats(0.1, 1e9))
def test_a_bucket_stands_for_its_times_within_five_percent(ms: float) -> None:
    """From a tenth of a millisecond to days."""
    assert abs(middle_of(bucket_of(ms)) / ms - 1) < 0.05


@given(st.lists(st.floats(0.5, 1e6), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99]))
def test_percentiles_are_within_five_percent(times: list[float], share: float) -> None:
    """Against those of the times themselves, by nearest rank; they are told to a tenth of a millisecond."""
    buckets = sorted(Counter(map(bucket_of, times)).items())
    exact = sorted(times)[math.ceil(share * len(times)) - 1]

    found = percentile(buckets, share)

    assert found is not None
    assert abs(found - exact) <= (math.sqrt(1.09) - 1 + 1e-9) * exact + 0.05 + 1e-9  # as exact as floats are


def test_no_times_have_no_percentile_and_zero_has_one() -> None:
    """Zero milliseconds count as the smallest."""
    assert percentile([], 0.5) is None
    assert 0.1 == percentile([(bucket_of(0.0), 1)], 0.99)


def test_addresses_are_taken_in_their_usual_forms(postgres: PostgreSQL, tmp_path: Path) -> None:
    """Whatever driver they name, and as some platforms spell them."""
    url = postgres.database()
    for form in ("postgres:", "postgresql:", "postgresql+psycopg2:"):
        store = Store(url.replace("postgresql:", form))
        assert [(1,)] == asked(store, text("SELECT 1"))
        store.close()
    store = Store(f"sqlite+pysqlite:///{tmp_path}/a/b/records.db")
    assert [(1,)] == asked(store, text("SELECT 1"))
    store.close()


@pytest.mark.parametrize("url", ["mysql://a/b", "sqlite://", "sqlite:///:memory:", "nonsense", ""])
def test_other_addresses_stop_the_start(url: str) -> None:
    """The message names the setting and not the address, which may hold a password."""
    with pytest.raises(ConfigurationError, match=r"^SLUICE_DATABASE_URL: expected sqlite:///file or postgresql://"):
        Store(url)
