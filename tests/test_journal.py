"""The background writer: whatever a record holds, and whatever the database does, the others are written."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from app import wire
from app.journal import Journal
from app.record import Record
from app.stores import RecordTable, Row, Store, StoreError, ValueRefused


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

    assert journal.flush()

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

    assert journal.flush()

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

    assert journal.flush()
    assert (["1", "2"], 0, None) == (table.taken, journal.dropped, journal.failure)
    journal.close()
