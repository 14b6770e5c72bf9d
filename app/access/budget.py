"""US dollars a day or month, held against the record.

The record is written half a second late and read once a second, so what has just been spent is remembered beside it:
by this process, and in Redis by all. Each such entry is left out of the sum of the record, and so never counts twice.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from ..errors import BudgetExceeded
from ..stores import StoreError
from .key import Key
from .shared import Shared, SharedAway

__all__ = ["Budgets", "BudgetsUnknown", "Spending", "period_of"]

log = logging.getLogger("sluice")

_FRESH = 1.0
"""Seconds for which a sum of the record is used before it is read again."""
_RECENT = 15.0
"""Seconds for which an entry is remembered beside the record; far longer than the record is late."""
_RECENT_MAX = 5_000
"""Entries of one label that are looked at: the newest."""
_AGAIN = 2.0
"""Seconds after a failed read in which no other is tried."""
_TOLD_EACH = 10.0
"""Seconds without a failed read after which the next is news."""
_COST_MAX = 1e300
"""A cost beyond it is no figure; the record keeps none either."""
_LEAST = 1e-9
"""US dollars by which a sum may be short of what was spent: eight times 0.1 is less than 0.8 in binary fractions."""
_PREFIX = "sluice:spent:"


class BudgetsUnknown(Exception):
    """What was spent cannot be found out now, and never has been."""


class Spending(Protocol):
    """What is needed of the record."""

    def spent(self, key_label: str, since: float, without: Any = ()) -> float:
        """Sum the costs since then, leaving some records out."""


class _Entry(NamedTuple):
    created_at: float
    cost: float


class _Sum(NamedTuple):
    """What the record held when it was read: the costs since ``since``, without those of ``beside``."""

    since: float
    cost: float
    beside: dict[str, _Entry]
    read_at: float

    def is_fresh(self) -> bool:
        return time.monotonic() - self.read_at < _FRESH


@dataclass(slots=True)
class _Account:
    """What is known of one label."""

    lock: Any = field(default_factory=threading.Lock)
    sum: _Sum | None = None
    failed_at: float = -math.inf
    recent: dict[str, tuple[float, _Entry]] = field(default_factory=dict)  # of this process, with monotonic time


class Budgets:
    """Holds keys to their budgets.

    Args:
        spending: the record's sums.
        shared: Redis, or None; other workers' spending is then known when they have written it down.
    """

    def __init__(self, spending: Spending, shared: Shared | None = None) -> None:
        self._spending, self._shared = spending, shared
        self._accounts: defaultdict[str, _Account] = defaultdict(_Account)

    def check(self, key: Key) -> None:
        """Let a request of *key* pass if its budget has not been spent.

        Raises:
            BudgetExceeded: it has; says how much, and when the next period begins.
            BudgetsUnknown: the record cannot be read.
        """
        if key.budget is None:
            return
        begin, end = period_of(key.period, time.time())
        spent = self._spent(key.label, begin)
        if spent > key.budget - _LEAST:
            raise _refusal(key, key.budget, spent, begin, end)

    def settle(self, key: Key, record_id: str, created_at: float, cost: float) -> None:
        """Note what a request of *key* has cost, before its record is on its way."""
        if key.budget is None or not 0 < cost < _COST_MAX:
            return
        entry = _Entry(created_at, cost)
        self._accounts[key.label].recent[record_id] = (time.monotonic(), entry)
        if self._shared is not None:
            try:
                self._shared.call(self._publish, key.label, record_id, entry)
            except SharedAway:
                pass  # the others learn of it from the record

    def _spent(self, label: str, since: float) -> float:
        account = self._accounts[label]
        # Before the sum is read: an entry that comes later is not in the sum's blind spot.
        recent = self._recent(label, account)
        found = self._sum(label, account, since, recent)
        entries = {**found.beside, **recent}
        return found.cost + math.fsum(entry.cost for entry in entries.values() if entry.created_at >= since)

    def _sum(self, label: str, account: _Account, since: float, recent: dict[str, _Entry]) -> _Sum:
        """Give the record's sum, read again if it is not fresh; one caller reads, the others go on with the last one.

        Raises:
            BudgetsUnknown: it cannot be read, and never was for this period.
        """
        last = account.sum
        is_known = last is not None and last.since == since
        if last is not None and is_known and (last.is_fresh() or not account.lock.acquire(blocking=False)):
            return last
        if not is_known:
            account.lock.acquire()
        try:
            last = account.sum  # another may have read it while we waited
            if last is None or last.since != since or not last.is_fresh():
                self._read(label, account, since, recent)
                last = account.sum
        finally:
            account.lock.release()
        if last is None or last.since != since:
            raise BudgetsUnknown
        return last

    def _read(self, label: str, account: _Account, since: float, recent: dict[str, _Entry]) -> None:
        """Read the record's sum, unless that has just failed; a failure leaves the last one."""
        if time.monotonic() - account.failed_at < _AGAIN:
            return
        try:
            cost = self._spending.spent(label, since, list(recent))
        except StoreError as error:
            if time.monotonic() - account.failed_at > _TOLD_EACH:
                log.error("the record cannot be asked what %r has spent (%s): the last sum known counts", label, error)
            account.failed_at = time.monotonic()
            return
        account.sum = _Sum(since, cost, recent, time.monotonic())
        for record_id, (noted_at, _) in tuple(account.recent.items()):
            if time.monotonic() - noted_at > _RECENT:
                account.recent.pop(record_id, None)

    def _recent(self, label: str, account: _Account) -> dict[str, _Entry]:
        own = {record_id: entry for record_id, (_, entry) in tuple(account.recent.items())}
        if self._shared is not None:
            try:
                return self._shared.call(self._published, label) | own
            except SharedAway:
                pass
        return own

    def _publish(self, label: str, record_id: str, entry: _Entry) -> None:
        assert self._shared is not None
        name, now = _PREFIX + label, time.time()
        pipe = self._shared.client.pipeline(transaction=False)
        pipe.zadd(name, {f"{record_id} {entry.created_at!r} {entry.cost!r}": now})
        pipe.zremrangebyscore(name, "-inf", now - _RECENT)
        pipe.pexpire(name, round(_RECENT * 2000))
        pipe.execute()

    def _published(self, label: str) -> dict[str, _Entry]:
        assert self._shared is not None
        name, since = _PREFIX + label, time.time() - _RECENT
        members = self._shared.client.zrevrangebyscore(name, "+inf", since, start=0, num=_RECENT_MAX)
        parts = (member.decode().split(" ") for member in members)
        return {record_id: _Entry(float(created_at), float(cost)) for record_id, created_at, cost in parts}


def period_of(period: str, now: float) -> tuple[float, float]:
    """Give beginning and end, in Unix seconds, of the day or month (UTC) that *now* is in."""
    begin = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return begin.timestamp(), begin.timestamp() + 86_400
    begin = begin.replace(day=1)
    end = begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
    return begin.timestamp(), end.timestamp()


def _refusal(key: Key, budget: float, spent: float, begin: float, end: float) -> BudgetExceeded:
    since, until = (datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for at in (begin, end))
    return BudgetExceeded(
        f"this key has spent its budget: ${spent:.6g} of ${budget:.6g} for the {key.period} that began {since};"
        f" the next one begins {until}",
        metadata={"budget": budget, "spent": spent, "period": key.period, "since": since, "until": until},
    )
