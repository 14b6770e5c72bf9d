"""Statistics, read from the figures by hour and by day."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, select

from ..record import SUCCESSES
from .histogram import percentile
from .rollup import DAY, HOUR, Figures
from .schema import periods
from .store import Store

__all__ = ["Question", "Statistics"]

_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Group = tuple[str | None, int | None]
"""A model and a period's start, each None where it does not group."""
Answer = tuple[dict[str, Any], list[dict[str, Any]]]


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


class Statistics:
    """Sums up the records of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def answer(self, question: Question) -> Answer:
        """Give the totals, and a row for each group: the newest first, then the one with the most requests.

        Raises:
            StoreError: the database cannot be asked.
        """
        return self._store.read(lambda connection: _answer(connection, question))


def _answer(connection: Connection, question: Question) -> Answer:
    totals, groups = Figures(), dict[Group, Figures]()
    for piece in _pieces(question):
        for row in connection.execute(select(periods).where(*_within(question, piece))).mappings():
            model = row["model"] if question.by_model else None
            start = row["start"] // question.period * question.period if question.period is not None else None
            groups.setdefault((model, start), Figures()).add(row, row["tallies"])
    for figures in groups.values():
        totals.add(figures.amounts, figures.tallies)
    ordered = sorted(groups.items(), key=lambda pair: (-(pair[0][1] or 0), -pair[1].amounts["requests"], pair[0][0]))
    return _shown(totals), [{**_named(question, group), **_shown(figures)} for group, figures in ordered]


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


def _within(question: Question, piece: _Piece) -> list[ColumnElement[bool]]:
    found = [periods.c.span == piece.span]
    if piece.since is not None:
        found.append(periods.c.start >= piece.since)
    if piece.until is not None:
        found.append(periods.c.start < piece.until)
    if question.model is not None:
        found.append(periods.c.model == question.model)
    return found


def _shown(figures: Figures) -> dict[str, Any]:
    amounts, tallies = figures.amounts, figures.tallies
    requests, reasons = int(amounts["requests"]), tallies["end_reason"]
    successes = sum(reasons.get(reason, 0) for reason in SUCCESSES)
    return {
        "requests": requests,
        "end_reasons": dict(sorted(reasons.items())),
        "success_rate": round(successes / requests, 6) if requests else None,
        "first_chunk_ms": _percentiles(tallies["first_chunk_ms"]),
        "total_ms": _percentiles(tallies["total_ms"]),
        **{name: int(amounts[name]) for name in ("prompt_tokens", "completion_tokens", "total_tokens")},
        "cost": round(amounts["cost"], 12),
        "retries": int(amounts["retries"]),
        "contexts": dict(sorted(tallies["context"].items())),
        "stm_changed": int(amounts["stm_changed"]),
    }


def _percentiles(buckets: dict[str, int]) -> dict[str, float | None]:
    ordered = sorted((int(bucket), amount) for bucket, amount in buckets.items())
    return {name: percentile(ordered, share) for name, share in _SHARES.items()}


def _named(question: Question, group: Group) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if question.by_model:
        found["model"] = group[0] or None
    if question.period is not None:
        found["start"] = group[1]
    return found
