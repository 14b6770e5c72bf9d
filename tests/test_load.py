"""Under a load of every ending: a record for each request, once, with the right end reason, whatever is stopped."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, func, select, text
from sqlalchemy.pool import NullPool

from app.demo import DemoUpstream
from app.stores import Store
from app.stores.rollup import HOUR
from app.stores.schema import periods, records
from tests.clock import PATIENCE
from tests.load import KEY, Load
from tests.postgres import PostgreSQL
from tests.servers import GunicornGateway, open_stream, request, wait_until

SECONDS = 3.0


@pytest.fixture
def load_upstream() -> Iterator[DemoUpstream]:
    """Give an upstream that remembers nothing, for many requests."""
    with DemoUpstream(record=False) as server:
        yield server


def gateway_for(
    upstream: DemoUpstream, database_url: str, app: str = "wsgi:app", **environ: str | None
) -> GunicornGateway:
    """Make a gateway with four workers."""
    return GunicornGateway(
        {
            "OPENROUTER_BASE_URL": upstream.base_url,
            "SLUICE_OPEN": None,
            "SLUICE_API_KEYS": "ann:key-of-ann",
            "SLUICE_METADATA_KEY": "operator",
            "SLUICE_DATABASE_URL": database_url,
            "SLUICE_HEARTBEAT": "0.5",
            "SLUICE_RETRY_BACKOFF": "0.05",
            "SLUICE_GRACEFUL_TIMEOUT": "4",
            "WEB_CONCURRENCY": "4",
            **environ,
        },
        app=app,
    )


def written(database_url: str) -> dict[str, list[str]]:
    """Give the end reasons in the database, by request id; what is counted must be as many."""
    store = Store(database_url)
    found: dict[str, list[str]] = {}
    query = select(records.c.request_id, records.c.end_reason)
    for request_id, reason in store.read(lambda connection: connection.execute(query).all()):
        found.setdefault(request_id, []).append(reason)
    summed = select(func.sum(periods.c.requests)).where(periods.c.span == HOUR)
    counted = store.read(lambda connection: connection.execute(summed).scalar())
    store.close()
    assert sum(map(len, found.values())) == int(counted or 0)
    return found


def check(load: Load, found: dict[str, list[str]], since: float = float("inf")) -> None:
    """Hold the records against what was asked; requests that ended after *since* may be missing."""
    assert [] == load.failures
    assert [] == [request_id for request_id, reasons in found.items() if len(reasons) > 1]
    wrong, missing = [], []
    for asked in load.asked:
        reasons = found.pop(asked.request_id, [])
        if not reasons and asked.is_sure and asked.ended_at < since:
            missing.append(asked)
        if asked.is_sure and not set(reasons) <= asked.reasons:
            wrong.append((asked, reasons))
    assert ([], []) == (wrong, missing)
    assert {} == found
    assert len({asked.kind for asked in load.asked if asked.is_sure}) >= 10


def run_for(seconds: float, load: Load) -> None:
    """Let a load run until time is up and every kind of request has been asked."""
    load.start()
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > end and len(load.asked) > 150, what="150 requests")


def test_each_request_has_its_record_though_the_gateway_is_stopped(
    load_upstream: DemoUpstream, database_url: str
) -> None:
    """Answered, failed, cut, refused, abandoned in every phase, drained: each once, with its reason."""
    with gateway_for(load_upstream, database_url) as gateway:
        load = Load(gateway.url)
        run_for(SECONDS, load)
        with open_stream(gateway.chat_url, {"messages": []}, {"Authorization": "Bearer wrong"}) as refused:
            assert 401 == refused.status  # not authenticated, so not recorded
        load.is_over.set()  # from here on connections may be refused, and reset before they are read
        status = gateway.stop(signal.SIGTERM)
        load.stop()

    assert 0 == status
    check(load, written(database_url))


def test_a_killed_gateway_loses_its_last_moment_only(load_upstream: DemoUpstream, database_url: str) -> None:
    """What ended before the last flush is there, and the database is sound."""
    with gateway_for(load_upstream, database_url) as gateway:
        load = Load(gateway.url)
        run_for(SECONDS, load)
        load.is_over.set()
        killed_at = time.monotonic()
        os.killpg(gateway.process.pid, signal.SIGKILL)
        load.stop()

    # NOTE: half a second is promised; a machine that is busy with four workers and their clients may take longer.
    check(load, written(database_url), killed_at - 2)
    if database_url.startswith("sqlite"):
        connection = sqlite3.connect(database_url.removeprefix("sqlite:///"))
        assert [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()
        connection.close()


def test_a_postgres_restart_under_load_loses_nothing(load_upstream: DemoUpstream, postgres: PostgreSQL) -> None:
    """Records wait while the server is away, and are written once when it is back."""
    database_url = postgres.database()
    with gateway_for(load_upstream, database_url) as gateway:
        load = Load(gateway.url)
        run_for(1, load)
        for mode in ("immediate", "fast"):
            postgres.stop(mode)
            before = len(load.asked)
            wait_until(lambda before=before: len(load.asked) > before + 60, what="requests without a database")
            postgres.start()
        load.stop()
        gateway.stop(signal.SIGTERM)

    assert all(asked.is_sure for asked in load.asked)
    check(load, written(database_url))


def state(gateway: GunicornGateway) -> Any:
    """Ask how the writing of records goes."""
    with request("GET", f"{gateway.url}/v1/ready") as response:
        return response.json()["store"]


def test_a_database_that_is_away_at_the_start_is_written_to_later(
    load_upstream: DemoUpstream, postgres: PostgreSQL
) -> None:
    """A wrong password is said in the log and by the probe; streams go on; put right, everything is written."""
    database_url = postgres.database()
    postgres.execute("postgres", "CREATE ROLE writer LOGIN SUPERUSER PASSWORD 'other'")
    url = database_url.replace("sluice:", "writer:")
    with gateway_for(load_upstream, url, WEB_CONCURRENCY="1") as gateway:
        for number in range(20):
            headers = {**KEY, "X-Request-Id": f"early-{number}"}
            with open_stream(gateway.chat_url, {"messages": [{"role": "user", "content": "x"}]}, headers) as response:
                assert 200 == response.status
                response.read()
        wait_until(lambda: {"state": "failing", "waiting": 20, "dropped": 0} == state(gateway))
        gateway.wait_for_log("records cannot be written .*password authentication failed")
        assert "other" not in gateway.log() and database_url.rpartition("@")[2] not in gateway.log()
        postgres.execute("postgres", f"ALTER ROLE writer PASSWORD '{url.split(':')[2].partition('@')[0]}'")
        wait_until(lambda: {"state": "ok", "waiting": 0, "dropped": 0} == state(gateway))

    assert {f"early-{number}": ["completed"] for number in range(20)} == written(database_url)


def test_streams_go_on_while_the_file_is_locked(load_upstream: DemoUpstream, tmp_path: Path) -> None:
    """For longer than the writer's patience, with questions of the operator on top; then all is written."""
    database_url = f"sqlite:///{tmp_path}/records.db"
    with gateway_for(load_upstream, database_url) as gateway:
        load = Load(gateway.url, threads=4)
        run_for(1, load)
        other = sqlite3.connect(tmp_path / "records.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        before, end = len(load.asked), time.monotonic() + 4
        question = threading.Thread(
            target=lambda: request(
                "GET", f"{gateway.url}/v1/metadata/stats", None, {"Authorization": "Bearer operator"}
            ).close()
        )
        question.start()
        wait_until(lambda: len(load.asked) > before + 60 and time.monotonic() > end)
        other.execute("COMMIT")
        other.close()
        question.join(PATIENCE)
        load.stop()
        gateway.stop(signal.SIGTERM)

    check(load, written(database_url))


def test_a_request_without_room_is_recorded(load_upstream: DemoUpstream, tmp_path: Path) -> None:
    """A request that finds no room is refused and recorded like any other."""
    database_url = f"sqlite:///{tmp_path}/records.db"
    quiet = {"model": "demo/script", "stream": True, "messages": [{"role": "user", "content": '[{"silence": true}]'}]}
    with gateway_for(load_upstream, database_url, WEB_CONCURRENCY="1", SLUICE_MAX_STREAMS="2") as gateway:
        streams = [open_stream(gateway.chat_url, quiet, KEY) for _ in range(2)]
        for stream in streams:
            stream.next_event()
        with open_stream(gateway.chat_url, quiet, KEY) as refused:
            assert 503 == refused.status
        gateway.stop(signal.SIGTERM)
        for stream in streams:
            stream.close()

    store = Store(database_url)
    query = text("SELECT end_reason, status, error_code FROM sluice_records")
    found = Counter(tuple(row) for row in store.read(lambda connection: connection.execute(query).all()))
    store.close()
    assert {("draining", 200, "draining"): 2, ("rejected", 503, "overloaded"): 1} == found


def test_a_worker_ticks_on_whatever_its_database_does(load_upstream: DemoUpstream, database_url: str) -> None:
    """While it is locked, while it thinks, and while statistics are read, streams are served."""
    environ = {"WEB_CONCURRENCY": "1", "SLUICE_API_KEYS": None, "SLUICE_METADATA_KEY": None, "SLUICE_OPEN": "on"}
    with gateway_for(load_upstream, database_url, app="tests.ticking:app", **environ) as gateway:

        def asked(path: str) -> Any:
            with request("GET", f"{gateway.url}{path}") as response:
                assert 200 == response.status
                return response.json()

        load = Load(gateway.url, threads=2)
        load.start()
        wait_until(lambda: len(load.asked) > 10)
        wait_until(lambda: asked("/v1/metadata/events")["data"], 30)  # there is a table to lock
        asked("/slip")
        with locked(database_url):
            before = len(load.asked)
            wait_until(lambda: len(load.asked) > before + 20)
        took = asked("/query")["seconds"]
        asked("/v1/metadata/stats?by=model,period")
        slip = asked("/slip")["ms"]
        load.stop()

    assert took > 0.3
    # NOTE: the benchmark holds it to 100 ms; on a machine that is busy with other tests a tick is late by itself. A
    # worker that waited for its database would be late by the whole question.
    assert slip < took * 1000


@contextmanager
def locked(database_url: str) -> Iterator[None]:
    """Hold the lock that keeps others from writing."""
    engine = create_engine(database_url.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool)
    with engine.connect() as connection:
        statement = "LOCK TABLE sluice_records" if engine.dialect.name == "postgresql" else "BEGIN EXCLUSIVE"
        connection.execute(text(statement))
        yield
        connection.rollback()
