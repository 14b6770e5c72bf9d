"""Final figures, fetched afterwards: what OpenRouter counted and billed for an answer that broke off.

An answer that its client left, or that upstream cut, ends without usage; its record then has an estimate, marked as
one. OpenRouter knows the figures a little later, under the generation's id. One thread a process asks for them, one
after the other, within bounds; what is not to be had leaves the estimate as it is.
"""

from __future__ import annotations

import heapq
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

from .errors import GatewayError, UpstreamError
from .faults import told
from .offload import offload
from .record import Record
from .stores import StoreError

__all__ = ["Generations"]

log = logging.getLogger("sluice")

_DELAYS = (2.0, 10.0, 60.0, 300.0)
"""Seconds to wait before each try: OpenRouter takes a while, and an outage may."""
_LIMIT = 1000
_LINGER = 10.0
_FINAL = frozenset({400, 401, 402, 403})
"""Statuses that asking again does not change."""


class Client(Protocol):
    """Asks upstream."""

    def get(self, path: str, key: str | None = None) -> Any:
        """Fetch a JSON document with *key*, or with the operator's."""


class Table(Protocol):
    """Where records lie."""

    def settle(self, record_id: str, usage: Mapping[str, Any]) -> bool:
        """Put *usage* in the place of an estimate; tell whether the record is there."""


@dataclass(order=True, slots=True)
class _Wanted:
    due: float
    record_id: str
    generation_id: str = field(compare=False)
    key: str | None = field(compare=False, repr=False)
    tries: int = field(default=0, compare=False)
    usage: dict[str, Any] | None = field(default=None, compare=False)


class Generations:
    """One process' fetching.

    Args:
        client: asks upstream.
        table: is told the figures.
        on_settled: is told them too.
        delays: seconds to wait before each try.
        limit: most generations that wait; more are not asked for.
    """

    def __init__(
        self,
        client: Client,
        table: Table,
        on_settled: Callable[[Mapping[str, Any]], None],
        *,
        delays: tuple[float, ...] = _DELAYS,
        limit: int = _LIMIT,
    ) -> None:
        self._client, self._table, self._on_settled = client, table, on_settled
        self.delays, self._limit = delays, limit
        self._wanted: list[_Wanted] = []
        self._changed = threading.Condition()
        self._running_in: int | None = None
        self.passed_over = 0
        """Generations that were not asked for, because too many waited."""

    def __len__(self) -> int:
        return len(self._wanted)

    def want(self, record: Record, key: str | None) -> None:
        """Ask later for the figures of a finished record that has none; never waits.

        Args:
            key: the key of the call, held in memory until then; None is the operator's.
        """
        if not record.generation_id or not (record.is_estimate or record.usage is None):
            return
        with self._changed:
            if len(self._wanted) >= self._limit:
                self.passed_over += 1
                if self.passed_over == 1:
                    log.warning("more than %d generations wait to be fetched: further ones keep estimates", self._limit)
                return
            due = time.monotonic() + self.delays[0]
            heapq.heappush(self._wanted, _Wanted(due, record.record_id, record.generation_id[:200], key))
            if self._running_in != os.getpid():
                self._start()
            self._changed.notify()

    def _start(self) -> None:
        try:
            threading.Thread(target=self._run, name="sluice-generations", daemon=True).start()
        except RuntimeError:
            log.error("no thread can be started to fetch generations; the next one tries again")
        else:
            self._running_in = os.getpid()

    def _run(self) -> None:
        while (wanted := self._next()) is not None:
            try:
                is_done = self._fetch(wanted)
            except Exception as error:
                log.error("the figures of record %s cannot be fetched: %s", wanted.record_id, told(error))
                is_done = True
            if not is_done:
                self._put_back(wanted)

    def _next(self) -> _Wanted | None:
        """Wait for one that is due; None ends the thread, which has had nothing to do for a while."""
        with self._changed:
            while True:
                now = time.monotonic()
                if self._wanted and self._wanted[0].due <= now:
                    return heapq.heappop(self._wanted)
                wait = self._wanted[0].due - now if self._wanted else _LINGER
                if not self._changed.wait(wait) and not self._wanted:
                    self._running_in = None
                    return None

    def _put_back(self, wanted: _Wanted) -> None:
        wanted.tries += 1
        if wanted.tries >= len(self.delays):
            log.info("upstream does not tell the figures of record %s; it keeps its estimate", wanted.record_id)
            return
        wanted.due = time.monotonic() + self.delays[wanted.tries]
        with self._changed:
            heapq.heappush(self._wanted, wanted)

    def _fetch(self, wanted: _Wanted) -> bool:
        """Try once; tell whether there is nothing more to do."""
        try:
            if wanted.usage is None:
                path = f"/generation?id={quote(wanted.generation_id, safe='')}"
                wanted.usage = _usage(self._client.get(path, wanted.key))
            if wanted.usage is None or not offload(self._table.settle, wanted.record_id, wanted.usage):
                return False
        except UpstreamError as error:
            return error.status in _FINAL
        except (GatewayError, StoreError):
            return False
        self._on_settled(wanted.usage)
        return True


def _usage(answer: Any) -> dict[str, Any] | None:
    """Give the figures of a generation as a usage object; None where it has none yet."""
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, dict):
        return None
    # The provider's own count is what a chat completion's usage has, and what is billed.
    prompt, completion = (_first(data, f"native_tokens_{kind}", f"tokens_{kind}") for kind in ("prompt", "completion"))
    if prompt is None and completion is None:
        return None
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": (prompt or 0) + (completion or 0),
        "cost": _first(data, "total_cost", "usage"),
        "is_byok": data.get("is_byok"),
        "completion_tokens_details": {"reasoning_tokens": data.get("native_tokens_reasoning")},
        "prompt_tokens_details": {"cached_tokens": data.get("native_tokens_cached")},
        "cost_details": {"upstream_inference_cost": data.get("upstream_inference_cost")},
    }


def _first(data: Mapping[str, Any], *names: str) -> Any:
    for name in names:
        value = data.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
    return None
