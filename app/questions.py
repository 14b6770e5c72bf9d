"""What operators ask of the record, read from a query: checked here, answered by the stores."""

from __future__ import annotations

import base64
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .errors import RequestError
from .record import END_REASONS
from .stores import EventFilter, Place, Question

__all__ = ["EVENTS", "STATS", "EventQuery", "StatsQuery", "read_event_query", "read_stats_query", "write_cursor"]

EVENTS = ("since", "until", "model", "end_reason", "key_label", "status", "limit", "cursor", "format")
"""What ``/v1/metadata/events`` takes."""
STATS = ("since", "until", "model", "by", "period")
"""What ``/v1/metadata/stats`` takes."""

_LIMIT, _LIMIT_MAX = 100, 1000
_FORMATS = ("json", "ndjson")
_BY = ("model", "period", "model,period")
_PERIODS = {"hour": 3600, "day": 86_400}
_DAYS = {("hour", False): 31, ("hour", True): 7, ("day", False): 3660, ("day", True): 366}
"""The most days that may be asked for, by period and whether models are told apart: what one answer can hold."""

Arguments = Mapping[str, Sequence[str]]
"""A query's values by name."""


@dataclass(frozen=True, slots=True)
class EventQuery:
    """A page of events; ``format`` is None where the Accept header decides, ``limit`` None for all there are."""

    chosen: EventFilter
    after: Place | None
    limit: int | None
    format: str | None


@dataclass(frozen=True, slots=True)
class StatsQuery:
    """A question to the statistics, and how its answer names what was asked."""

    question: Question
    by: str
    period: str | None


def read_event_query(arguments: Arguments) -> EventQuery:
    """Read the query of ``/v1/metadata/events``.

    Raises:
        RequestError: a value is not what it should be, or a name is unknown.
    """
    given = _given(arguments, EVENTS)
    chosen = EventFilter(
        **_times(given),
        model=_text(given, "model"),
        end_reason=_word(given, "end_reason", END_REASONS),
        key_label=_text(given, "key_label"),
        status=_whole(given, "status", 100, 599),
    )
    form = _word(given, "format", _FORMATS)
    limit: int | None = None
    if given.get("limit") != "all":
        limit = _whole(given, "limit", 1, _LIMIT_MAX, " or, with format=ndjson, all") or _LIMIT
    elif form != "ndjson":
        raise _expected("limit", f"1 to {_LIMIT_MAX} or, with format=ndjson, all")
    return EventQuery(chosen, _cursor(given), limit, form)


def read_stats_query(arguments: Arguments, now: float | None = None) -> StatsQuery:
    """Read the query of ``/v1/metadata/stats``; times go out to whole hours.

    Raises:
        RequestError: a value is not what it should be, a name is unknown, or the time is too long for the periods.
    """
    given = _given(arguments, STATS)
    by = _word(given, "by", _BY) or "model"
    period = _word(given, "period", tuple(_PERIODS))
    if "period" not in by:
        if period is not None:
            raise _expected("period", "by=period or by=model,period with it")
    else:
        period = period or "hour"
    times = _times(given)
    since = math.floor(times["since"] / 3600) * 3600 if times["since"] is not None else None
    until = math.ceil(times["until"] / 3600) * 3600 if times["until"] is not None else None
    if period is not None:
        since = _bounded(since, until, period, "model" in by, time.time() if now is None else now)
    question = Question(
        since, until, _text(given, "model"), "model" in by, _PERIODS[period] if period is not None else None
    )
    return StatsQuery(question, by, period)


def write_cursor(place: Place) -> str:
    """Give the text that stands for *place*."""
    return base64.urlsafe_b64encode(f"{place.created_at!r} {place.record_id}".encode()).decode().rstrip("=")


def _bounded(since: int | None, until: int | None, period: str, by_model: bool, now: float) -> int:
    days = _DAYS[period, by_model]
    end = until if until is not None else math.ceil(now / 3600) * 3600
    if since is None:
        return end - days * 86_400
    if end - since > days * 86_400:
        raise _expected("since", f"at most {days} days before until with this by and period={period}")
    return since


def _given(arguments: Arguments, known: Iterable[str]) -> dict[str, str]:
    found = {}
    for name, values in arguments.items():
        if name not in known:
            raise RequestError(f"unknown query parameter: expected any of {', '.join(known)}, got {name[:40]!r}")
        if len(values) > 1:
            raise _expected(name, "one value")
        if values[0] != "":
            found[name] = values[0]
    return found


def _times(given: Mapping[str, str]) -> dict[str, float | None]:
    times = {name: _time(given, name) for name in ("since", "until")}
    if times["since"] is not None and times["until"] is not None and times["since"] > times["until"]:
        raise _expected("since", "a time before until")
    return times


def _time(given: Mapping[str, str], name: str) -> float | None:
    text = given.get(name)
    if text is None:
        return None
    words = "Unix seconds or an ISO 8601 time, as in 2026-01-31T12:00:00Z"
    try:
        if re.fullmatch(r"-?[0-9]{1,12}(\.[0-9]{1,9})?", text):
            found = float(text)
        else:
            # A plus sign that was not escaped in the query has become a blank.
            moment = datetime.fromisoformat(re.sub(r"(T.*) (\d\d:?\d\d)$", r"\1+\2", text))
            found = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise _expected(name, words) from None
    if not 0 <= found < 1e11:
        raise _expected(name, words)
    return found


def _text(given: Mapping[str, str], name: str) -> str | None:
    text = given.get(name)
    if text is not None and not (text.isprintable() and len(text) <= 200):
        raise _expected(name, "at most 200 printable characters")
    return text


def _word(given: Mapping[str, str], name: str, words: Sequence[str]) -> str | None:
    text = given.get(name)
    if text is not None and text not in words:
        raise _expected(name, f"one of {', '.join(words)}")
    return text


def _whole(given: Mapping[str, str], name: str, low: int, high: int, more: str = "") -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not re.fullmatch("[0-9]{1,9}", text) or not low <= int(text) <= high:
        raise _expected(name, f"{low} to {high}{more}")
    return int(text)


def _cursor(given: Mapping[str, str]) -> Place | None:
    text = given.get("cursor")
    if text is None:
        return None
    try:
        moment, record_id = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii").split(" ")
        found = float(moment)
    except ValueError:
        raise _expected("cursor", "a next_cursor of an earlier page") from None
    if not math.isfinite(found) or not re.fullmatch("[0-9a-f]{1,32}", record_id):
        raise _expected("cursor", "a next_cursor of an earlier page")
    return Place(found, record_id)


def _expected(name: str, words: Any) -> RequestError:
    return RequestError(f"{name}: expected {words}", param=name)
