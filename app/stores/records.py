"""The table of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from ..record import Record
from .schema import records
from .store import Store

__all__ = ["RecordTable"]

_LARGEST = 1e300
"""A number beyond it is no figure, and may be infinite or not fit a database's."""


class RecordTable:
    """Records, each once: the record id is the key, and one that is there already is left alone."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, batch: Sequence[Record]) -> None:
        """Write a batch.

        Raises:
            StoreError: none of it was written.
        """
        rows = [_row(record) for record in batch]

        def work(connection: Connection) -> None:
            dialect = postgresql if self._store.kind == "postgresql" else sqlite
            connection.execute(dialect.insert(records).on_conflict_do_nothing(), rows)

        self._store.run(work)

    def completion(self, completion_id: str) -> dict[str, Any] | None:
        """Find what feedback needs of a completion: ``key_label``, ``params_used``, ``context``, ``served_model``.

        Raises:
            StoreError: the database cannot be asked.
        """
        wanted = select(records.c.key_label, records.c.params_used, records.c.context, records.c.served_model)

        def work(connection: Connection) -> dict[str, Any] | None:
            row = connection.execute(wanted.where(records.c.completion_id == completion_id)).mappings().first()
            return dict(row) if row is not None else None

        return self._store.run(work)


def _row(record: Record) -> dict[str, Any]:
    usage = record.usage or {}
    autotune = record.pipeline.get("autotune") or {}
    facts = {column.name: _kept(getattr(record, column.name)) for column in records.c if hasattr(record, column.name)}
    return facts | {
        "prompt_tokens": _whole(usage.get("prompt_tokens")),
        "completion_tokens": _whole(usage.get("completion_tokens")),
        "total_tokens": _whole(usage.get("total_tokens")),
        "cost": _number(usage.get("cost")),
        "context": _kept(autotune.get("detected_context")),
    }


def _kept(value: Any) -> Any:
    """Give a fact as both databases take it: what clients and upstreams send may hold what neither does."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {_kept(str(key)): _kept(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_kept(item) for item in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value if abs(value) < _LARGEST else None
    return value


def _number(value: Any) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < _LARGEST else None


def _whole(value: Any) -> int | None:
    """Give a token count that both databases can hold; zero is zero, not missing."""
    number = _number(value)
    return int(number) if number is not None and abs(number) < 2**31 else None
