"""How much each caller may take: requests per time, requests at once, and US dollars."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import LimitsUnavailable, TooManyStreams
from ..record import Record
from ..settings import Settings
from .budget import Budgets, BudgetsUnknown, Spending
from .caller import Caller
from .key import Key
from .lease import Lease, MemoryLeases, SharedLeases
from .rate import Rates, read_rates
from .shared import SharedAway, open_shared

__all__ = ["Place", "Quotas"]

log = logging.getLogger("sluice")

T = TypeVar("T")

_MONTH_DAYS = 31


class Place:
    """One request's share of what its caller may take; given back once."""

    def __init__(self, quotas: Quotas, caller: Caller, record: Record, lease: Lease | None) -> None:
        self._quotas, self._caller, self._record, self._lease = quotas, caller, record, lease
        self._lock = threading.Lock()
        self._is_left = False

    def leave(self, usage: dict[str, Any] | None = None) -> None:
        """Give the place back, and note what the request has cost by upstream's *usage*. Idempotent, never raises.

        To be called before the client can know that its request is over, or its next one may be refused for this one.
        """
        with self._lock:
            if self._is_left:
                return
            self._is_left = True
        try:
            self._quotas.settle(self._caller, self._record, usage)
        except Exception:
            log.exception("the cost of record %s cannot be noted", self._record.record_id)
        try:
            if self._lease is not None:
                self._lease.release()
        except Exception:
            log.exception("the place of record %s cannot be given back", self._record.record_id)


class Quotas:
    """Counts what callers take.

    Args:
        settings: the limits of everyone; a key's own go over them.
        own_limits: whether keys have any.

    Raises:
        ConfigurationError: a limit is unreadable.
    """

    def __init__(self, settings: Settings, *, own_limits: bool = False) -> None:
        self._settings = settings
        self._rate = read_rates(settings.rate_limit, "SLUICE_RATE_LIMIT") if settings.rate_limit else ()
        self._shared = open_shared(settings.limit_storage)
        self._rates = Rates(self._shared)
        self._leases = MemoryLeases() if self._shared is None else SharedLeases(self._shared)
        self._budgets: Budgets | None = None
        self._has_warned = False
        if self._shared is None and (settings.rate_limit or settings.streams_per_key or own_limits):
            log.warning("limits count in each worker alone: SLUICE_LIMIT_STORAGE=redis://... makes them one count")

    @property
    def is_away(self) -> bool:
        """Whether Redis could not be asked when last tried."""
        return self._shared is not None and self._shared.is_away

    def watch(self, spending: Spending) -> None:
        """Hold budgets against the record from now on."""
        self._budgets = Budgets(spending, self._shared)

    def count(self, caller: Caller) -> dict[str, str]:
        """Count a request of *caller*; give the headers that tell how it stands.

        Raises:
            RateLimited: it is one too many.
            LimitsUnavailable: nobody knows, and SLUICE_LIMIT_ON_FAILURE is ``refuse``.
        """
        own = caller.key.rates if caller.key is not None else None
        rates = self._rate if own is None else own
        standing = self._or_policy(lambda: self._rates.count(caller.subject, rates), lambda: None)
        return {} if standing is None else standing.to_headers()

    def enter(self, caller: Caller, record: Record) -> Place:
        """Take *caller*'s place for a request that goes upstream.

        Raises:
            BudgetExceeded: its key has spent what it may.
            TooManyStreams: it has as many requests under way as it may have.
            LimitsUnavailable: as ``count``.
        """
        key = caller.key
        if key is not None and key.budget is not None and self._budgets is not None:
            budgets = self._budgets
            self._warn_of_retention(key)
            self._or_policy(lambda: budgets.check(key), lambda: None)
        own = key.streams if key is not None else None
        limit = own or self._settings.streams_per_key
        return Place(self, caller, record, self._lease(caller.subject, limit) if limit else None)

    def _warn_of_retention(self, key: Key) -> None:
        if key.period == "month" and 0 < self._settings.retention_days < _MONTH_DAYS and not self._has_warned:
            self._has_warned = True
            log.warning(
                "%r has a budget a month, but records are kept for %g days: set SLUICE_RETENTION_DAYS to %d or more",
                key.label,
                self._settings.retention_days,
                _MONTH_DAYS,
            )

    def settle(self, caller: Caller, record: Record, usage: dict[str, Any] | None) -> None:
        """Note what a request has cost."""
        cost = (usage or {}).get("cost")
        if caller.key is None or self._budgets is None or isinstance(cost, bool) or not isinstance(cost, (int, float)):
            return
        self._budgets.settle(caller.key, record.record_id, record.created_at, float(cost))

    def _lease(self, subject: str, limit: int) -> Lease:
        leases = self._leases
        found = self._or_policy(
            lambda: leases.acquire(subject, limit),
            lambda: leases.hold(subject) if isinstance(leases, SharedLeases) else None,
        )
        if found is None:
            raise TooManyStreams(
                f"you have {limit} requests under way, as many as you may: wait for one to end", retry_after="1"
            )
        return found

    def _or_policy(self, ask: Callable[[], T], otherwise: Callable[[], T]) -> T:
        """Give what *ask* gives, or while nobody can tell what *otherwise* does, if the operator lets that pass.

        Raises:
            LimitsUnavailable: the operator does not.
        """
        try:
            return ask()
        except (SharedAway, BudgetsUnknown):
            if self._settings.limit_on_failure == "refuse":
                raise LimitsUnavailable(
                    "limits cannot be counted at the moment: try again in a moment", retry_after="1"
                ) from None
            return otherwise()
