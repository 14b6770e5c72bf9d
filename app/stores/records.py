"""The table of records, and its upkeep."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, delete, select, update
from sqlalchemy.exc import IntegrityError

from .rollup import AMOUNTS, correct, count, forget_before
from .rows import Row, usage_of
from .schema import insert_into, records
from .store import Store

__all__ = ["RecordTable"]

_STEP = 500
"""Rows of one transaction of the upkeep, few enough that nobody waits for it."""
_COUNTED = (
    "record_id",
    "created_at",
    "served_model",
    "requested_model",
    "end_reason",
    "context",
    "first_chunk_ms",
    "total_ms",
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "cost",
    "attempts",
    "pipeline",
)


class RecordTable:
    """Records, each once: the record id is the key, and one that is there already is left alone."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, batch: Sequence[Row]) -> int:
        """Write a batch and count it in; give how many of it were new.

        Raises:
            StoreError: it cannot be written now. Writing it again does no harm, whether it was written or not.
            ValueRefused: a row of it never can.
        """

        def work(connection: Connection) -> int:
            new = _insert(connection, batch)
            count(connection, new)
            return len(new)

        return self._store.write(work)

    def count_uncounted(self) -> int:
        """Count some of the records in that an older version wrote; give how many.

        Raises:
            StoreError: it cannot be done now.
        """
        query = select(*(records.c[name] for name in _COUNTED)).where(records.c.is_counted.is_(None)).limit(_STEP)
        query = query.with_for_update(skip_locked=True)

        def work(connection: Connection) -> int:
            rows = connection.execute(query).mappings().all()
            if rows:
                found = records.c.record_id.in_([row["record_id"] for row in rows])
                connection.execute(update(records).where(found).values(is_counted=True))
                count(connection, rows)  # type: ignore[arg-type]
            return len(rows)

        return self._store.write(work)

    def forget_before(self, moment: float) -> int:
        """Remove some of the records that came before *moment*, and what was counted then; give how many.

        Raises:
            StoreError: it cannot be done now.
        """
        query = select(records.c.record_id).where(records.c.created_at < moment).order_by(records.c.created_at)
        query = query.limit(_STEP).with_for_update(skip_locked=True)

        def work(connection: Connection) -> int:
            old = connection.execute(query).scalars().all()
            if old:
                connection.execute(delete(records).where(records.c.record_id.in_(old)))
            return len(old) + forget_before(connection, moment)

        return self._store.write(work)

    def settle(self, record_id: str, usage: Mapping[str, Any]) -> bool:
        """Put final figures in the place of an estimate, here and in what was counted; tell whether it is there.

        Raises:
            StoreError: it cannot be done now.
        """
        columns = (*_COUNTED, "is_estimate", "is_counted")
        query = select(*(records.c[name] for name in columns)).where(records.c.record_id == record_id).with_for_update()
        final = usage_of(usage)

        def work(connection: Connection) -> bool:
            row = connection.execute(query).mappings().first()
            if row is None:
                return False
            known = {name: value for name, value in final.items() if value is not None}
            change = update(records).where(records.c.record_id == record_id)
            connection.execute(change.values(is_estimate=False, **known))
            if row["is_counted"]:
                changes = {name: known[name] - (row[name] or 0) for name in AMOUNTS if name in known}
                correct(connection, row, changes)
            return True

        return self._store.write(work)

    def completion(self, completion_id: str) -> dict[str, Any] | None:
        """Find what feedback needs of a completion: ``key_label``, ``params_used``, ``context``, ``served_model``.

        Raises:
            StoreError: the database cannot be asked.
        """
        wanted = select(records.c.key_label, records.c.params_used, records.c.context, records.c.served_model)

        def work(connection: Connection) -> dict[str, Any] | None:
            row = connection.execute(wanted.where(records.c.completion_id == completion_id)).mappings().first()
            return dict(row) if row is not None else None

        return self._store.read(work)


_NAMES = tuple(records.c.keys())
_values = itemgetter(*_NAMES)


def _insert(connection: Connection, batch: Sequence[Row]) -> Sequence[Row]:
    """Insert the records that are not there yet, and give these."""
    if connection.dialect.name == "sqlite":
        # Some may be there already, which is rare; finding out which ones costs more.
        with contextlib.suppress(IntegrityError), connection.begin_nested():
            _insert_at_once(connection, batch)
            return batch
    statement = insert_into(connection, records).on_conflict_do_nothing().returning(records.c.record_id)
    written = set(connection.execute(statement, list(batch)).scalars())
    return [row for row in batch if row["record_id"] in written]


def _insert_at_once(connection: Connection, rows: Sequence[Row]) -> None:
    """Insert *rows*, all of them new, into SQLite.

    Its driver gives the interpreter away, and waits for it again, at each row that it takes or returns by itself. So
    there are many in a statement; their numbers are powers of two, or the driver would keep hundreds of statements.

    Raises:
        sqlalchemy.exc.IntegrityError: one is there already, or is refused.
    """
    place = 0
    while left := len(rows) - place:
        size = 1 << (left.bit_length() - 1)
        values = chain.from_iterable(map(_values, rows[place : place + size]))
        connection.exec_driver_sql(_insertion(size), tuple(values))
        place += size


def _insertion(size: int) -> str:
    row = f"({', '.join('?' * len(_NAMES))})"
    return f"INSERT INTO {records.name} ({', '.join(_NAMES)}) VALUES {', '.join([row] * size)}"
