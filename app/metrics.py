"""The figures for Prometheus, made of finished records.

Nothing on a stream's way counts into a metric, each of which has a lock: finished records wait in a deque, the ticker
adds them up, and the metrics get the sums. A stream that goes on for minutes hands its gaps over now and then.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from .record import Record
from .ticker import Ticker

__all__ = ["Metrics", "Queue"]

_REPORT_EVERY = 5.0
"""Seconds between two looks at the gaps of open streams."""
_LARGEST = 2**31
_MOST = 10_000
"""Finished records that may wait for the ticker."""
_END_REASONS = frozenset(
    """completed length tool_calls content_filter upstream_error upstream_cut upstream_timeout upstream_empty deadline
    client_disconnected client_stalled rejected draining internal_error""".split()
)


class Queue(Protocol):
    """What is shown of the records' writer."""

    dropped: int

    def __len__(self) -> int:
        """How many records wait."""


class Metrics:
    """One gateway's figures.

    Args:
        ticker: adds up what has come.
        open_streams: tells how many requests are under way in this process.
        is_model: tells whether upstream's list, as far as it is known, has a model: others are not told apart,
            or anyone could make up labels without end.
    """

    def __init__(self, ticker: Ticker, open_streams: Callable[[], int], is_model: Callable[[str], bool]) -> None:
        from .instruments import CONTENT_TYPE, instruments  # late: see there

        self.instruments, self.content_type = instruments(), CONTENT_TYPE
        self._ticker, self._open_streams, self._is_model = ticker, open_streams, is_model
        self._queue: Queue | None = None
        self._finished: deque[Record] = deque()
        self._answered: deque[tuple[str, int]] = deque()
        self._open: dict[str, Record] = {}
        self._adding = threading.Lock()
        self._reported_at = -math.inf
        self._shown = Counter[str]()  # what the two gauges and the drops stand at, as far as this gateway made them

    def show_queue(self, queue: Queue) -> None:
        """Show how *queue* stands from now on."""
        self._queue = queue

    def opened(self, record: Record) -> None:
        """Look at the gaps of a stream that may go on for long."""
        self._open[record.record_id] = record
        self._ticker.add(self)

    def __call__(self, record: Record) -> None:
        """Take a finished record; never waits."""
        self._open.pop(record.record_id, None)
        self._finished.append(record)
        self._ticker.add(self)
        if len(self._finished) >= _MOST and self._adding.acquire(blocking=False):
            # The ticker does not come, for want of a thread say, and what waits must not fill the memory.
            try:
                self._add(_drain(self._finished))
            finally:
                self._adding.release()

    def answered(self, route: str, status: int) -> None:
        """Count a request that has no record."""
        self._answered.append((route, status))
        self._ticker.add(self)

    def settled(self, usage: Mapping[str, Any]) -> None:
        """Count the final figures of a record whose usage was an estimate."""
        with self._adding:
            for kind in ("prompt", "completion"):
                self.instruments.tokens.labels(kind).inc(_figure(usage.get(f"{kind}_tokens")))
            self.instruments.cost.inc(_figure(usage.get("cost")))

    def render(self) -> bytes:
        """Give the text for Prometheus, up to date as far as this process goes."""
        self.flush()
        return self.instruments.render()

    def check(self, now: float) -> None:
        """Add up what has come; the ticker's turn."""
        if now - self._reported_at >= _REPORT_EVERY:
            self._reported_at = now
            self._report(list(self._open.values()))
        self.flush()
        if not (self._finished or self._answered or self._shown["open"] or self._shown["queue"]):
            self._ticker.remove(self)
            if self._finished or self._answered:
                self._ticker.add(self)  # it came between the two lines

    def flush(self) -> None:
        """Add up what has come."""
        with self._adding:
            self._add(_drain(self._finished))
            for (route, status), count in Counter(_drain(self._answered)).items():
                reason = "completed" if status < 400 else "rejected" if status < 500 else "internal_error"
                self.instruments.requests.labels(route, "none", reason).inc(count)
            self._show()

    def _show(self) -> None:
        queue, shown, found = self._queue, self._shown, self.instruments
        # By differences: gateways of one process share the metrics where several processes do.
        for name, metric, value in (
            ("open", found.open_streams, self._open_streams()),
            ("queue", found.record_queue, len(queue) if queue is not None else 0),
            ("dropped", found.records_dropped, queue.dropped if queue is not None else 0),
        ):
            if value != shown[name]:
                metric.inc(value - shown[name])
                shown[name] = value

    def _report(self, records: Iterable[Record]) -> None:
        with self._adding:
            gaps = _Sums(self.instruments.gap.bounds)
            for record in records:
                gaps.take(*record.gaps.take())
            gaps.give(self.instruments.gap)

    def _add(self, records: Sequence[Record]) -> None:
        if not records:
            return
        found = self.instruments
        requests, attempts = Counter[tuple[str, str, str]](), Counter[str]()
        tokens: dict[str, float] = {}
        first, gaps, total = (_Sums(each.bounds) for each in (found.first_chunk, found.gap, found.request))
        cost = heartbeats = 0.0
        for record in records:
            requests[record.endpoint, self._model(record), _reason(record)] += 1
            attempts.update(_outcome(attempt) for attempt in record.attempts)
            if record.end_reason != "rejected":
                first.note(record.first_chunk_ms)
                total.note(record.total_ms)
            gaps.take(*record.gaps.take())
            heartbeats += record.heartbeats
            for kind, count in _tokens(record):
                tokens[kind] = tokens.get(kind, 0) + count
            cost += _figure((record.usage or {}).get("cost"))
        for outcome, number in attempts.items():
            found.attempts.labels(outcome).inc(number)
        for kind, count in tokens.items():
            found.tokens.labels(kind).inc(count)
        for labels, count in requests.items():
            found.requests.labels(*labels).inc(count)
        first.give(found.first_chunk)
        gaps.give(found.gap)
        total.give(found.request)
        found.heartbeats.inc(heartbeats)
        found.cost.inc(cost)

    def _model(self, record: Record) -> str:
        for model in (record.requested_model, record.served_model):
            if model is not None and self._is_model(model):
                return model
        return "other"


class _Sums:
    """Observations of one histogram, counted by bucket."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._seconds = 0.0

    def note(self, milliseconds: float | None) -> None:
        if milliseconds is not None:
            self._seconds += milliseconds / 1000
            self._counts[bisect_left(self._bounds, milliseconds / 1000)] += 1

    def take(self, counts: Sequence[int], seconds: float) -> None:
        self._counts = [mine + more for mine, more in zip(self._counts, counts, strict=True)]
        self._seconds += seconds

    def give(self, histogram: Any) -> None:
        if any(self._counts):
            histogram.add(self._counts, self._seconds)


def _drain(items: deque[Any]) -> list[Any]:
    return [items.popleft() for _ in range(len(items))]


def _reason(record: Record) -> str:
    return record.end_reason if record.end_reason in _END_REASONS else "other"


def _outcome(attempt: dict[str, Any]) -> str:
    """Name what an attempt came to: its status, or the transport's words for what failed."""
    status = attempt.get("status")
    if isinstance(status, int) and 100 <= status <= 599:
        return str(status)
    return str(attempt.get("error") or "other").replace(" ", "_")


def _tokens(record: Record) -> Iterable[tuple[str, float]]:
    usage = record.usage or {}
    if record.is_estimate:
        return [("completion_estimate", _figure(usage.get("completion_tokens")))]
    return [(kind, _figure(usage.get(f"{kind}_tokens"))) for kind in ("prompt", "completion")]


def _figure(value: Any) -> float:
    """Give a count or cost as it can be added up: what upstream sends may be anything."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _LARGEST:
        return value
    return 0.0
