"""What statistics are read from: sums, counts and histograms by hour and by day, kept beside the records.

They grow in the transaction that writes the records they count, by those alone that it has newly written.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Table, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from .histogram import bucket_of
from .schema import COUNTED_COLUMNS, counts, histograms, sums

__all__ = ["DAY", "HOUR", "add_up", "count", "forget_before"]

HOUR, DAY = 3600, 86_400
_TABLES = (sums, counts, histograms)
_TIMES = ("first_chunk_ms", "total_ms")

Tally = dict[Table, Counter[tuple[Any, ...]]]
"""By table: what to add, by the columns of the key and the name of the column that is added to."""


def count(connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add *rows* to the tables, inside the caller's transaction."""
    tally = add_up(rows)
    for table in _TABLES:
        _add(connection, table, tally[table])


def add_up(rows: Iterable[Mapping[str, Any]]) -> Tally:
    """Give what *rows* add to each table."""
    hours: Tally = {table: Counter() for table in _TABLES}
    for row in rows:
        _take(hours, row)
    both: Tally = {table: Counter(found) for table, found in hours.items()}
    for table, found in hours.items():
        for (_, start, *rest), amount in found.items():
            both[table][DAY, start // DAY * DAY, *rest] += amount
    return both


def forget_before(connection: Connection, moment: float) -> bool:
    """Remove the oldest hour or day that ended before *moment*; tell whether there was one."""
    for table in _TABLES:
        for span in (HOUR, DAY):
            found = connection.execute(select(func.min(table.c.start)).where(table.c.span == span)).scalar()
            if found is not None and found + span <= moment:
                connection.execute(delete(table).where(table.c.span == span, table.c.start == found))
                return True
    return False


def _take(tally: Tally, row: Mapping[str, Any]) -> None:
    key = (HOUR, int(row["created_at"]) // HOUR * HOUR, row["served_model"] or row["requested_model"] or "")
    figures = {
        **row,
        "requests": 1,
        "retries": max(len(_loaded(row["attempts"])) - 1, 0),
        "stm_changed": _is_changed(_loaded(row["pipeline"])),
    }
    for name in (*COUNTED_COLUMNS, "cost"):
        tally[sums][*key, name] += figures[name] or 0
    for kind in ("end_reason", "context"):
        if row[kind]:
            tally[counts][*key, kind, row[kind], "amount"] += 1
    for kind in _TIMES:
        if row[kind] is not None:
            tally[histograms][*key, kind, bucket_of(row[kind]), "amount"] += 1


def _loaded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _is_changed(pipeline: Any) -> int:
    stm = pipeline.get("stm") if isinstance(pipeline, dict) else None
    return int(isinstance(stm, dict) and stm.get("changed") is True)


def _add(connection: Connection, table: Table, tally: Counter[tuple[Any, ...]]) -> None:
    if not tally:
        return
    keys = [column.name for column in table.primary_key]
    added = [column.name for column in table.c if column.name not in keys]
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for (*key, name), amount in tally.items():
        row = rows.setdefault(tuple(key), {**dict(zip(keys, key, strict=True)), **dict.fromkeys(added, 0)})
        row[name] += amount
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table)
    grown = {name: table.c[name] + statement.excluded[name] for name in added}
    # In one order everywhere, or two writers could wait for each other.
    connection.execute(
        statement.on_conflict_do_update(index_elements=keys, set_=grown), [rows[key] for key in sorted(rows)]
    )
