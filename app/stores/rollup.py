"""What statistics are read from: figures by hour and by day, kept beside the records.

They grow in the transaction that writes the records they count, by those alone that it has newly written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select, tuple_, update

from .. import wire
from .histogram import bucket_of
from .schema import COUNTED, insert_into, periods

__all__ = ["AMOUNTS", "DAY", "HOUR", "TALLIES", "Figures", "correct", "count", "forget_before"]

HOUR, DAY = 3600, 86_400
TALLIES = ("end_reason", "context", "first_chunk_ms", "total_ms")
AMOUNTS = ("prompt_tokens", "completion_tokens", "total_tokens", "cost")
"""What may be estimated at first."""
_TIMES = ("first_chunk_ms", "total_ms")
_AMOUNTS = (*COUNTED, "cost")
_ONE, _NONE = '[{"status":200}]', "[]"
_CHANGED = '"changed":true'
_STEP = 200
"""Rows that one statement locks: SQLite takes so many parameters."""

Key = tuple[int, int, str]
"""``span``, ``start`` and ``model``."""


@dataclass(slots=True)
class Figures:
    """Sums and tallies of some requests."""

    amounts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_AMOUNTS, 0))
    tallies: dict[str, dict[str, int]] = field(default_factory=lambda: {name: {} for name in TALLIES})

    def take(self, row: Mapping[str, Any]) -> None:
        """Add one record."""
        amounts = self.amounts
        amounts["requests"] += 1
        amounts["retries"] += _retries(row["attempts"])
        amounts["stm_changed"] += _is_changed(row["pipeline"])
        for name in AMOUNTS:
            amounts[name] += row[name] or 0
        for name in TALLIES:
            value = row[name]
            if value is not None:
                item = str(bucket_of(value)) if name in _TIMES else value
                self.tallies[name][item] = self.tallies[name].get(item, 0) + 1

    def add(self, amounts: Mapping[Any, Any], tallies: Mapping[str, Mapping[str, int]]) -> None:
        """Add other figures."""
        for name in _AMOUNTS:
            self.amounts[name] += amounts[name]
        for name, mine in self.tallies.items():
            for item, amount in tallies[name].items():
                mine[item] = mine.get(item, 0) + amount


def count(connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add *rows* to the figures, inside the caller's transaction."""
    added = _by_period(rows)
    keys = sorted(added)  # in one order everywhere, or two writers could wait for each other
    for place in range(0, len(keys), _STEP):
        step = keys[place : place + _STEP]
        _make(connection, step)
        for row in _locked(connection, step):
            added[row["span"], row["start"], row["model"]].add(row, row["tallies"])
    if keys:
        _write(connection, [(key, added[key]) for key in keys])


def correct(connection: Connection, row: Mapping[Any, Any], changes: Mapping[str, float]) -> None:
    """Add *changes* to the figures in which the record *row* is counted, inside the caller's transaction."""
    if not changes:
        return
    moment, model = int(row["created_at"]), row["served_model"] or row["requested_model"] or ""
    for span in (HOUR, DAY):
        columns = periods.c
        found = (columns.span == span) & (columns.start == moment // span * span) & (columns.model == model)
        values = {columns[name]: columns[name] + change for name, change in changes.items()}
        connection.execute(update(periods).where(found).values(values))


def forget_before(connection: Connection, moment: float) -> bool:
    """Remove the oldest hour or day that ended before *moment*; tell whether there was one."""
    for span in (HOUR, DAY):
        found = connection.execute(select(func.min(periods.c.start)).where(periods.c.span == span)).scalar()
        if found is not None and found + span <= moment:
            connection.execute(delete(periods).where(periods.c.span == span, periods.c.start == found))
            return True
    return False


def _by_period(rows: Iterable[Mapping[str, Any]]) -> dict[Key, Figures]:
    found: dict[Key, Figures] = {}
    for row in rows:
        moment, model = int(row["created_at"]), row["served_model"] or row["requested_model"] or ""
        found.setdefault((HOUR, moment // HOUR * HOUR, model), Figures()).take(row)
    for (_, start, model), figures in tuple(found.items()):
        day = found.setdefault((DAY, start // DAY * DAY, model), Figures())
        day.add(figures.amounts, figures.tallies)
    return found


def _make(connection: Connection, keys: list[Key]) -> None:
    """Make the rows of *keys* that are not there yet, so that they can be locked."""
    empty = Figures()
    new = {**empty.amounts, "tallies": empty.tallies}
    rows = [{"span": span, "start": start, "model": model, **new} for span, start, model in keys]
    connection.execute(insert_into(connection, periods).on_conflict_do_nothing(), rows)


def _locked(connection: Connection, keys: list[Key]) -> Iterable[Mapping[Any, Any]]:
    columns = periods.c
    query = select(periods).where(tuple_(columns.span, columns.start, columns.model).in_(keys))
    query = query.order_by(columns.span, columns.start, columns.model).with_for_update()
    return connection.execute(query).mappings()


def _write(connection: Connection, figures: list[tuple[Key, Figures]]) -> None:
    statement = update(periods).where(
        periods.c.span == bindparam("span_"),
        periods.c.start == bindparam("start_"),
        periods.c.model == bindparam("model_"),
    )
    rows = [
        {"span_": span, "start_": start, "model_": model, **found.amounts, "tallies": found.tallies}
        for (span, start, model), found in figures
    ]
    connection.execute(statement, rows)


def _retries(attempts: Any) -> int:
    """Count the attempts after the first; *attempts* is a list, or that as JSON."""
    if attempts in (_ONE, _NONE):
        return 0
    return max(len(_loaded(attempts)) - 1, 0)


def _is_changed(pipeline: Any) -> int:
    if isinstance(pipeline, str) and _CHANGED not in pipeline:
        return 0
    found = _loaded(pipeline)
    stm = found.get("stm") if isinstance(found, dict) else None
    return int(isinstance(stm, dict) and stm.get("changed") is True)


def _loaded(value: Any) -> Any:
    return wire.loads(value.encode()) if isinstance(value, str) else value
