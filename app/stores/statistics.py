"""Statistics, read from the sums, counts and histograms by hour and by day."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, func, select

from ..record import SUCCESSES
from .histogram import percentile
from .rollup import DAY, HOUR
from .schema import COUNTED_COLUMNS, counts, histograms, sums
from .store import Store

__all__ = ["Question", "Statistics"]

_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_TIMES = ("first_chunk_ms", "total_ms")
_SUMS = (*COUNTED_COLUMNS, "cost")

Group = tuple[str | None, int | None]
"""A model and a period's start, each None where it does not group."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to sum up; ``since`` and ``until`` are Unix seconds on whole hours.

    Attributes:
        by_model: a row a model.
        period: a row an hour (3600) or a day (86400), None for neither.
    """

    since: int | None = None
    until: int | None = None
    model: str | None = None
    by_model: bool = True
    period: int | None = None


class _Piece(NamedTuple):
    """A time that rows of one span cover."""

    span: int
    since: int | None
    until: int | None


@dataclass(slots=True)
class _Sums:
    amounts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0))
    counts: dict[str, dict[str, int]] = field(default_factory=lambda: {"end_reason": {}, "context": {}})
    times: dict[str, dict[int, int]] = field(default_factory=lambda: {kind: {} for kind in _TIMES})

    def add(self, other: _Sums) -> None:
        for name, amount in other.amounts.items():
            self.amounts[name] += amount
        for mine, others in ((self.counts, other.counts), (self.times, other.times)):
            for kind, found in others.items():
                for item, amount in found.items():
                    _grow(mine[kind], item, amount)

    def to_row(self) -> dict[str, Any]:
        """Give the figures as they are shown."""
        amounts, reasons = self.amounts, self.counts["end_reason"]
        requests = int(amounts["requests"])
        successes = sum(reasons.get(reason, 0) for reason in SUCCESSES)
        times = {
            kind: {name: percentile(self.times[kind], share) for name, share in _SHARES.items()} for kind in _TIMES
        }
        return {
            "requests": requests,
            "end_reasons": dict(sorted(reasons.items())),
            "success_rate": round(successes / requests, 6) if requests else None,
            **times,
            **{name: int(amounts[name]) for name in ("prompt_tokens", "completion_tokens", "total_tokens")},
            "cost": round(amounts["cost"], 12),
            "retries": int(amounts["retries"]),
            "contexts": dict(sorted(self.counts["context"].items())),
            "stm_changed": int(amounts["stm_changed"]),
        }


class Statistics:
    """Sums up the records of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def answer(self, question: Question) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Give the totals, and a row for each group: the first one is the newest, then the one most asked for.

        Raises:
            StoreError: the database cannot be asked.
        """
        return self._store.read(lambda connection: _answer(connection, question))


def _answer(connection: Connection, question: Question) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    groups: dict[Group, _Sums] = {}
    for piece in _pieces(question):
        for group, *figures in _rows(connection, question, piece, sums, []):
            amounts = groups.setdefault(group, _Sums()).amounts
            for name, amount in zip(_SUMS, figures, strict=True):
                amounts[name] += float(amount or 0) if name == "cost" else int(amount or 0)
        for group, kind, item, amount in _rows(connection, question, piece, counts, ["kind", "item"]):
            _grow(groups.setdefault(group, _Sums()).counts[kind], item, int(amount))
        for group, kind, bucket, amount in _rows(connection, question, piece, histograms, ["kind", "bucket"]):
            _grow(groups.setdefault(group, _Sums()).times[kind], bucket, int(amount))
    totals = _Sums()
    for one in groups.values():
        totals.add(one)
    ordered = sorted(groups.items(), key=lambda pair: (-(pair[0][1] or 0), -pair[1].amounts["requests"], pair[0][0]))
    return totals.to_row(), [{**_named(question, group), **one.to_row()} for group, one in ordered]


def _pieces(question: Question) -> Iterator[_Piece]:
    """Cover the asked time by as few rows as can be: whole days, and hours at its ends."""
    since, until = question.since, question.until
    if question.period == HOUR:
        yield _Piece(HOUR, since, until)
        return
    first = math.ceil(since / DAY) * DAY if since is not None else None
    last = until // DAY * DAY if until is not None else None
    if first is not None and last is not None and first > last:
        yield _Piece(HOUR, since, until)
        return
    if since != first:
        yield _Piece(HOUR, since, first)
    if first is None or first != last:
        yield _Piece(DAY, first, last)
    if until != last:
        yield _Piece(HOUR, last, until)


def _rows(
    connection: Connection, question: Question, piece: _Piece, table: Table, keys: list[str]
) -> Iterator[tuple[Any, ...]]:
    """Give group, *keys* and sums of the rows of *table* in *piece*."""
    by: list[ColumnElement[Any]] = []
    if question.by_model:
        by.append(table.c.model)
    if question.period is not None:
        by.append(table.c.start - table.c.start % question.period)
    by += [table.c[key] for key in keys]
    chosen = [table.c.span == piece.span]
    if piece.since is not None:
        chosen.append(table.c.start >= piece.since)
    if piece.until is not None:
        chosen.append(table.c.start < piece.until)
    if question.model is not None:
        chosen.append(table.c.model == question.model)
    added = [column for column in table.c if not column.primary_key]
    query = select(*by, *(func.sum(column) for column in added)).where(*chosen).group_by(*by)
    for row in connection.execute(query):
        values = list(row)
        if values[-1] is None:
            continue  # the sum of nothing, where nothing groups
        model = values.pop(0) if question.by_model else None
        start = int(values.pop(0)) if question.period is not None else None
        yield ((model, start), *values)


def _named(question: Question, group: Group) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if question.by_model:
        found["model"] = group[0] or None
    if question.period is not None:
        found["start"] = group[1]
    return found


def _grow(amounts: dict[Any, int], item: Any, amount: int) -> None:
    amounts[item] = amounts.get(item, 0) + amount
