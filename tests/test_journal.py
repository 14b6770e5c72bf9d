"""The background writer: whatever a record holds, and whatever the database does, the others are written."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from app import wire
from app.journal import Journal
from app.record import Record
from app.stores import RecordTable, Row, Store, StoreError, ValueRefused, row_of, size_of
from tests.clock import PATIENCE
from tests.servers import ROOT, clean_environ, wait_until


def record(name: str = "good", **facts: Any) -> Record:
    """Make a finished record."""
    made = Record(completion_id=name, **facts)
    made.close("completed")
    return made


def written(path: Path, columns: str = "completion_id") -> list[Any]:
    """Read the records of a database, in the order of their names."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute(f"select {columns} from sluice_records order by completion_id").fetchall()
    except sqlite3.OperationalError:
        return []  # not made yet
    finally:
        connection.close()


ODD: dict[str, dict[str, Any]] = {
    "half a surrogate pair": {"requested_model": "a\ud800", "provider": "\udfff", "generation_id": "\ud83d"},
    "NUL": {"requested_model": "a\0b", "error_code": "\0"},
    "a cost past all floats": {"usage": {"cost": 10**400, "prompt_tokens": 10**400}},
    "infinite figures": {"usage": wire.loads(b'{"cost":1e400,"prompt_tokens":-1e400}')},
    "figures of other types": {"usage": {"cost": "free", "prompt_tokens": None, "total_tokens": True}},
    "infinite parameters": {"params_used": wire.loads(b'{"temperature":1e400,"top_k":123456789012345678901234567890}')},
    "text in parameters": {"params_used": {"temperature": "\ud800\0", "seed": {"a": ["\ud800"]}}},
}


@pytest.mark.parametrize("name", ODD)
def test_what_no_database_takes_is_no_obstacle(tmp_path: Path, name: str) -> None:
    """A record with it is written without it, and so are those behind."""
    journal = Journal(RecordTable(Store(f"sqlite:///{tmp_path}/r.db")), interval=60)
    journal(record("1 odd", **ODD[name]))
    journal(record("2 good"))

    assert journal.flush(PATIENCE)

    assert [("1 odd",), ("2 good",)] == written(tmp_path / "r.db")
    assert (0, None) == (journal.dropped, journal.failure)
    for text in written(tmp_path / "r.db", "requested_model, params_used")[0]:
        assert text is None or not {"\0", "\ud800"} & set(text)
        assert "Infinity" not in (text or "")
    journal.close()


class Table:
    """Takes records, but for those whose name says otherwise."""

    def __init__(self) -> None:
        self.away = False
        self.taken: list[str | None] = []

    def add(self, batch: Sequence[Row]) -> int:
        """Take a batch."""
        if self.away:
            raise StoreError("away")
        if any(row["completion_id"] == "poison" for row in batch):
            raise ValueRefused("DataError")
        self.taken += [row["completion_id"] for row in batch]
        return len(batch)

    def count_uncounted(self) -> int:
        """Have nothing to do."""
        if self.away:
            raise StoreError("away")
        return 0

    def forget_before(self, moment: float) -> int:
        """Have nothing to do."""
        return 0


def test_a_record_that_cannot_be_written_costs_itself_only(caplog: pytest.LogCaptureFixture) -> None:
    """It is dropped, counted and told by its id; the others are written."""
    table = Table()
    journal = Journal(table, interval=60)  # type: ignore[arg-type]
    records = [record("1"), record("poison"), record("2")]
    for one in records:
        journal(one)

    assert journal.flush(PATIENCE)

    assert (["1", "2"], 1, None) == (table.taken, journal.dropped, journal.failure)
    assert records[1].record_id in caplog.text
    journal.close()


def test_records_wait_for_a_database_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """They are neither lost nor written twice."""
    table = Table()
    journal = Journal(table, interval=60)  # type: ignore[arg-type]
    table.away = True
    journal(record("1"))
    assert not journal.flush(0.1)
    assert "away" == journal.failure

    table.away = False
    journal(record("2"))

    assert journal.flush(PATIENCE)
    assert (["1", "2"], 0, None) == (table.taken, journal.dropped, journal.failure)
    journal.close()


def test_the_queue_is_bounded_by_number(caplog: pytest.LogCaptureFixture) -> None:
    """Records past the bound are dropped, counted and said; those that wait are written when the database is back."""
    table = Table()
    table.away = True
    journal = Journal(table, limit=3, interval=60)  # type: ignore[arg-type]
    for number in range(5):
        journal(record(str(number)))

    assert not journal.flush(0.05)
    assert {"state": "failing", "waiting": 3, "dropped": 2} == journal.state()
    assert "2 records were dropped so far" in caplog.text

    table.away = False
    assert journal.flush(PATIENCE)
    assert (["0", "1", "2"], 0) == (table.taken, journal.waiting_bytes)
    assert {"state": "ok", "waiting": 0, "dropped": 2} == journal.state()
    journal.close()


def test_the_queue_is_bounded_by_memory() -> None:
    """Records with much in them are fewer; and none is larger than so much."""
    table = Table()
    table.away = True
    journal = Journal(table, interval=60, limit_bytes=100_000)  # type: ignore[arg-type]
    for number in range(100):
        journal(record(str(number), pipeline={"a stage": "x" * 10_000}))
    assert 4 <= len(journal) <= 10
    assert 100 - len(journal) == journal.dropped

    table.away = False
    assert journal.flush(PATIENCE)
    assert 0 == journal.waiting_bytes
    assert size_of(row_of(record("large", pipeline={"a stage": "x" * 10_000_000}))) < 10_000
    journal.close()


def test_a_record_is_written_within_the_interval() -> None:
    """Without anybody asking for it, also the first one after a pause."""
    table = Table()
    journal = Journal(table, interval=0.02)  # type: ignore[arg-type]
    for number in range(3):
        journal(record(str(number)))
        wait_until(lambda number=number: len(table.taken) == number + 1)
    journal.close()


def test_what_comes_while_a_batch_is_written_waits_for_the_next() -> None:
    """A transaction for each few records that came meanwhile would cost many times more."""
    interval, began = 0.2, []

    class Slow(Table):
        def add(self, batch: Sequence[Row]) -> int:
            began.append(time.monotonic())
            if len(began) < 4:
                journal(record(str(len(began))))
            return super().add(batch)

    table = Slow()
    journal = Journal(table, interval=interval)  # type: ignore[arg-type]
    journal(record("0"))
    wait_until(lambda: len(table.taken) == 4)
    journal.close()

    assert ["0", "1", "2", "3"] == table.taken
    assert all(later - earlier >= interval for earlier, later in pairwise(began))


def test_writing_goes_on_by_itself_when_the_database_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when no further record comes."""
    monkeypatch.setattr("app.journal._PAUSE_MAX", 0.05)
    table = Table()
    table.away = True
    journal = Journal(table, interval=0.02)  # type: ignore[arg-type]
    wait_until(lambda: journal.state()["state"] == "failing")
    journal(record("1"))
    table.away = False
    wait_until(lambda: (["1"], "ok") == (table.taken, journal.state()["state"]))
    journal.close()


def test_the_writer_survives_what_nobody_expected(caplog: pytest.LogCaptureFixture) -> None:
    """A fault of ours is logged; the record stays and is tried again."""

    class Faulty(Table):
        faults = 1

        def add(self, batch: Sequence[Row]) -> int:
            if self.faults:
                self.faults = 0
                raise ZeroDivisionError
            return super().add(batch)

    table = Faulty()
    journal = Journal(table, interval=0.02)  # type: ignore[arg-type]
    journal(record("1"))
    wait_until(lambda: table.taken == ["1"])
    assert "ZeroDivisionError" in caplog.text
    journal.close()


def test_a_forked_child_writes_its_own_records_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits in the parent is the parent's; the child has a writer of its own."""
    table = Table()
    journal = Journal(table, interval=60)  # type: ignore[arg-type]
    journal(record("parent"))
    monkeypatch.setattr("app.journal.os.getpid", lambda: -1)  # as if it had forked: no thread of the parent's is here

    journal(record("child"))

    assert 1 == len(journal)
    assert journal.flush(PATIENCE)
    assert ["child"] == table.taken
    journal.close()


def test_what_was_given_up_is_told_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing again, as at the end of a process, neither waits for it nor tells of it; what came later is told."""
    table = Table()
    table.away = True
    journal = Journal(table, interval=60)  # type: ignore[arg-type]
    monkeypatch.setattr(journal, "flush", lambda: Journal.flush(journal, 0.05))
    journal(record("1"))
    for _ in range(2):
        journal.close()
    assert (0, 1, 0) == (len(journal), journal.dropped, journal.waiting_bytes)

    for name in ("2", "3"):
        journal(record(name))
    journal.close()
    assert journal._writer is not None and not journal._writer.is_alive()
    told = [words for words in caplog.messages if "lost" in words]
    assert [f"records lost at the end of the process: {number} (away)" for number in (1, 2)] == told
    assert 3 == journal.dropped


def test_the_end_of_a_process_writes_what_waits(tmp_path: Path) -> None:
    """Without a server's help, in a process that just ends."""
    source = f"""
import os
from app import create_app
app = create_app({{"SLUICE_OPEN": "on", "SLUICE_DATABASE_URL": "sqlite:///{tmp_path}/r.db"}})
app.extensions["sluice"]["sluice"].new_record().close("completed")
"""
    subprocess.run([sys.executable, "-W", "error", "-c", source], cwd=ROOT, env=clean_environ({}), check=True)
    assert 1 == len(written(tmp_path / "r.db"))


def test_a_full_disk_is_waited_out(tmp_path: Path) -> None:
    """The file may not grow, then it may; nothing is lost, and the reason is told."""
    store = Store(f"sqlite:///{tmp_path}/r.db")
    table = RecordTable(store)
    table.add([row_of(record("first"))])
    pages = store.read(lambda connection: connection.exec_driver_sql("PRAGMA page_count").scalar())
    most = [pages]

    def limit(connection: Any, _record: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {most[0]}")

    event.listen(store._engine, "connect", limit)
    store.close()
    journal = Journal(table, interval=60)
    for number in range(300):
        journal(record(f"{number:03}"))
    assert not journal.flush(0.1)
    assert "OperationalError: database or disk is full" == journal.failure

    most[0] = 1_000_000
    assert journal.flush(PATIENCE)
    assert 301 == len(written(tmp_path / "r.db"))
    assert 0 == journal.dropped
    journal.close()
    store.close()


def test_the_writer_removes_what_is_older_than_the_retention(tmp_path: Path) -> None:
    """Soon after it has started, and nothing where everything is to be kept."""
    now = time.time()
    old, young = (record(name, created_at=now - days * 86_400) for name, days in (("old", 3), ("young", 1)))
    table = RecordTable(Store(f"sqlite:///{tmp_path}/r.db"))
    for days, left in ((0, [("old",), ("young",)]), (2.0, [("young",)])):
        journal = Journal(table, interval=0.01, retention_days=days)
        journal(old)
        journal(young)
        wait_until(lambda left=left: len(written(tmp_path / "r.db")) >= len(left))
        journal.close()
        journal = Journal(table, interval=0.01, retention_days=days)
        journal.start()
        wait_until(lambda left=left: left == written(tmp_path / "r.db"))
        journal.close()
