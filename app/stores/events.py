"""Records read back, newest first, a page at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, UnaryExpression, func, or_, select
from sqlalchemy.sql.operators import custom_op

from .schema import model_of, records
from .store import Store

__all__ = ["Event", "EventFilter", "Events", "Place"]

Event = dict[str, Any]
Equal = tuple[ColumnElement[Any], Any]
"""What must be, and the value it must have."""

_USAGE = ("prompt_tokens", "completion_tokens", "total_tokens", "cost", "is_estimate")
_USAGE_MORE = ("reasoning_tokens", "cached_tokens", "is_byok", "upstream_cost")
_ERROR = {"code": "error_code", "type": "error_type", "message": "error_message"}
_GROUPED = frozenset({*_USAGE, *_USAGE_MORE, *_ERROR.values(), "is_counted"})
_PLAIN = tuple(column.name for column in records.c if column.name not in _GROUPED)
_STEPS = (1_000, 20_000)
"""Matches up to which filters are compared: as few as it takes to find a rare one."""


class Place(NamedTuple):
    """Where a page ended."""

    created_at: float
    record_id: str


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which records to read; None does not choose. ``since`` is included, ``until`` is not (Unix seconds)."""

    since: float | None = None
    until: float | None = None
    model: str | None = None
    end_reason: str | None = None
    key_label: str | None = None
    status: int | None = None


class Events:
    """Reads the records of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def page(self, chosen: EventFilter, after: Place | None, limit: int) -> list[Event]:
        """Give the next *limit* events *after* a place, newest first; fewer at the end.

        Raises:
            StoreError: the database cannot be asked.
        """
        return self._store.read(lambda connection: self._page(connection, chosen, after, limit))

    def _page(self, connection: Connection, chosen: EventFilter, after: Place | None, limit: int) -> list[Event]:
        within, equal = _within(chosen, after), _equal(chosen)
        if len(equal) > 1 and self._store.kind == "sqlite":
            equal = _rarest_alone(connection, within, equal)
        query = select(records).where(*within, *(column == value for column, value in equal))
        query = query.order_by(records.c.created_at.desc(), records.c.record_id.desc()).limit(limit)
        return [_event(row) for row in connection.execute(query).mappings()]


def _within(chosen: EventFilter, after: Place | None) -> list[ColumnElement[bool]]:
    created_at, found = records.c.created_at, []
    if chosen.since is not None:
        found.append(created_at >= chosen.since)
    if chosen.until is not None:
        found.append(created_at < chosen.until)
    if after is not None:
        # The first part is for the index, the second one for records of the same moment.
        found.append(created_at <= after.created_at)
        found.append(or_(created_at < after.created_at, records.c.record_id < after.record_id))
    return found


def _equal(chosen: EventFilter) -> list[Equal]:
    columns: list[Equal] = [
        (model_of, chosen.model),
        (records.c.end_reason, chosen.end_reason),
        (records.c.key_label, chosen.key_label),
        (records.c.status, chosen.status),
    ]
    return [(column, value) for column, value in columns if value is not None]


def _rarest_alone(connection: Connection, within: list[ColumnElement[bool]], equal: list[Equal]) -> list[Equal]:
    """Leave SQLite the index of the rarest value only: it keeps no statistics of values and would take any."""

    def matches(one: Equal, most: int) -> int:
        some = select(records.c.created_at).where(*within, one[0] == one[1]).limit(most)
        return int(connection.execute(select(func.count()).select_from(some.subquery())).scalar_one())

    for most in _STEPS:
        found = [matches(one, most) for one in equal]
        if min(found) < most:
            break
    rarest = equal[found.index(min(found))]
    # A plus sign before a column keeps SQLite from using its index.
    return [one if one is rarest else (UnaryExpression(one[0], operator=custom_op("+")), one[1]) for one in equal]


def _event(row: Mapping[Any, Any]) -> Event:
    """Give one record as it is shown: usage and error grouped, everything else under its column's name."""
    error = {name: row[column] for name, column in _ERROR.items()}
    return {
        **{name: row[name] for name in _PLAIN},
        "usage": {name: row[name] for name in (*_USAGE, *_USAGE_MORE)},
        "error": error if error["code"] is not None else None,
    }
