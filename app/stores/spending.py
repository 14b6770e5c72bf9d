"""What callers have spent, summed from the table of records."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, func, select

from .schema import records
from .store import Store

__all__ = ["SpendingTable"]


class SpendingTable:
    """Sums of recorded costs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def spent(self, key_label: str, since: float, without: Collection[str] = ()) -> float:
        """Sum the US dollars of requests that came at *since* (Unix seconds) or later, leaving out some record ids.

        What upstream pays back, a negative cost, does not make room for more.

        Raises:
            StoreError: the database cannot be asked.
        """
        query = select(func.coalesce(func.sum(records.c.cost), 0.0)).where(
            records.c.key_label == key_label,
            records.c.created_at >= since,
            records.c.cost > 0,
            records.c.record_id.not_in(without),
        )

        def work(connection: Connection) -> float:
            return float(connection.execute(query).scalar_one())

        return self._store.read(work)
