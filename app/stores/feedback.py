"""The table of feedback, and what was learned from it."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import Connection, func, select

from .schema import feedback, insert_into
from .store import Store

__all__ = ["FeedbackTable"]

_DEPTH = 64
"""Ratings per context and sign that still tell: an average with alpha 0.3 has forgotten older ones to ten digits."""


class FeedbackTable:
    """Ratings, one per message; a second one for the same message replaces the first."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(
        self,
        message_id: str,
        *,
        key_label: str | None,
        context_type: str,
        rating: int,
        params: dict[str, Any],
        model: str | None,
    ) -> None:
        """Keep one rating.

        Raises:
            StoreError: it could not be kept.
        """
        row = {
            "message_id": message_id,
            "key_label": key_label,
            "created_at": time.time(),
            "context_type": context_type,
            "rating": rating,
            "params": params,
            "model": model,
        }
        changed = {key: value for key, value in row.items() if key != "message_id"}

        def work(connection: Connection) -> None:
            statement = insert_into(connection, feedback).values(row)
            connection.execute(statement.on_conflict_do_update(index_elements=["message_id"], set_=changed))

        self._store.write(work)

    def counts(self) -> dict[str, dict[int, int]]:
        """Count the ratings: by context, then by rating.

        Raises:
            StoreError: the database cannot be asked.
        """
        query = select(feedback.c.context_type, feedback.c.rating, func.count()).group_by(
            feedback.c.context_type, feedback.c.rating
        )

        def work(connection: Connection) -> dict[str, dict[int, int]]:
            found: dict[str, dict[int, int]] = {}
            for context, rating, count in connection.execute(query):
                found.setdefault(context, {})[rating] = count
            return found

        return self._store.read(work)

    def recent(self, context_type: str, rating: int) -> list[dict[str, Any]]:
        """Give the parameters of the newest ratings of one kind, oldest first.

        Raises:
            StoreError: the database cannot be asked.
        """
        query = (
            select(feedback.c.params)
            .where(feedback.c.context_type == context_type, feedback.c.rating == rating)
            .order_by(feedback.c.created_at.desc())
            .limit(_DEPTH)
        )

        def work(connection: Connection) -> list[dict[str, Any]]:
            return [row.params for row in connection.execute(query)][::-1]

        return self._store.read(work)
