"""The background writer: finished records wait here, within bounds, and go to the store in batches.

No stream ever waits for a database. While it is away the queue fills, then new records are dropped and counted; when
it is back, writing goes on. Between batches the writer does the store's upkeep: what an older version wrote is counted
in, and what is older than the retention is removed, a few hundred rows at a time.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from .drain import drain
from .faults import told
from .record import Record
from .stores import RecordTable, Row, StoreError, ValueRefused, row_of, size_of

__all__ = ["Journal"]

log = logging.getLogger("sluice")

_LIMIT = 10_000
_LIMIT_BYTES = 64 << 20
_BATCH = 500
_INTERVAL = 0.5
_PAUSE_MAX = 5.0
_UPKEEP = 60.0
_DAY = 86_400
_LAST = 1.0
"""Seconds that the writer may take to come to its end."""


class Journal:
    """One process' writer.

    Args:
        table: where records go.
        limit: most records that wait. *limit_bytes*: most memory that they take, about.
        interval: seconds a record waits at the most before it is written, all being well.
        retention_days: age at which records are removed; 0: never.
    """

    def __init__(
        self,
        table: RecordTable,
        limit: int = _LIMIT,
        interval: float = _INTERVAL,
        *,
        limit_bytes: int = _LIMIT_BYTES,
        retention_days: float = 0,
    ) -> None:
        self._table, self._limit, self._interval = table, limit, interval
        self._limit_bytes, self._retention = limit_bytes, retention_days * _DAY
        self._queue: deque[Row] = deque()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._pid = os.getpid()
        self._is_running = False
        self._is_closing = False
        self._writer: threading.Thread | None = None
        self._dropped_told = 0
        self.waiting_bytes = 0
        """About how much memory the waiting records take."""
        self.dropped = 0
        """Records lost, because the queue was full or no database takes them."""
        self.failure: str | None = None
        """What the last try to write failed with; None while writing goes well."""

    def __len__(self) -> int:
        return len(self._queue)

    def __call__(self, record: Record) -> None:
        """Take a finished record; never waits."""
        if not self._is_running or self._pid != os.getpid():
            self.start()
        row = row_of(record)
        size = size_of(row)
        if len(self._queue) >= self._limit or self.waiting_bytes + size > self._limit_bytes:
            self.dropped += 1
            return
        self.waiting_bytes += size
        self._queue.append(row)
        if len(self._queue) in (1, _BATCH):
            self._wake.set()

    def state(self) -> dict[str, Any]:
        """Say how writing goes: ``state`` (ok or failing), and how many records wait and were dropped."""
        self.start()
        state = "ok" if self.failure is None else "failing"
        return {"state": state, "waiting": len(self._queue), "dropped": self.dropped}

    def find(self, completion_id: str) -> Row | None:
        """Give a record that still waits."""
        return next((row for row in tuple(self._queue) if row["completion_id"] == completion_id), None)

    def start(self) -> None:
        """Start the writer of this process, unless it runs; a forked child inherits none."""
        with self._lock:
            if self._pid != os.getpid():
                self._begin_anew()
            if self._is_running or self._is_closing:
                return
            writer = threading.Thread(target=self._run, name="sluice-journal", daemon=True)
            try:
                writer.start()
            except RuntimeError:
                log.error("no thread can be started to write records; the next record tries again")
            else:
                self._is_running, self._writer = True, writer

    def flush(self, seconds: float = 3.0) -> bool:
        """Write all that waits, for at most *seconds*; tell whether nothing is left."""
        until = time.monotonic() + seconds
        while self._queue and time.monotonic() < until:
            if not self._write():
                time.sleep(0.05)
        return not self._queue

    def close(self) -> None:
        """Write what waits and stop; harmless in a process that never took a record, and the second time."""
        self._is_closing = True
        self._wake.set()
        if self._pid != os.getpid():
            return
        if not self.flush():
            log.error("records lost at the end of the process: %d (%s)", self._give_up(), self.failure)
        if self._writer is not None:
            self._writer.join(_LAST)  # so that it leaves no connection open, nor works on while the process ends

    def _give_up(self) -> int:
        """Drop what waits, so that closing again neither waits for it nor tells of it; give how many they were."""
        with self._writing:
            lost = len(self._queue)
            self._queue.clear()
            self.waiting_bytes = 0
        self.dropped += lost
        return lost

    def _begin_anew(self) -> None:
        """Leave to the parent process what was its own when it forked."""
        self._pid, self._is_running, self._is_closing = os.getpid(), False, False
        self._queue, self._writer = deque(), None
        self._wake, self._writing = threading.Event(), threading.Lock()
        self.waiting_bytes = self.dropped = self._dropped_told = 0

    def _run(self) -> None:
        pause, next_upkeep = self._interval, 0.0
        while not self._is_closing:
            try:
                if time.monotonic() >= next_upkeep:
                    next_upkeep = time.monotonic() + (_UPKEEP if self._keep_up() else _PAUSE_MAX)
                if not self._queue:
                    self._wait(next_upkeep - time.monotonic())
                self._wake.clear()
                if self.failure is not None:
                    self._wait(pause)
                elif len(self._queue) < _BATCH and not drain.has_begun:
                    self._wait(self._interval)  # for more to write with it
                pause = self._interval if self._write() else min(pause * 2, _PAUSE_MAX)
            except Exception as error:
                log.error("the writer of records failed and goes on: %s", told(error))
                time.sleep(pause)

    def _wait(self, seconds: float) -> None:
        """Wait, but no longer than until a whole batch is there or the end has come."""
        if not self._is_closing:
            self._wake.wait(max(seconds, 0.0))

    def _write(self) -> bool:
        """Write what waits now, batch by batch; tell whether that went well.

        What comes meanwhile is left for the next time: a transaction for each few records would cost many times more.
        """
        with self._writing:  # one writer at a time: a batch leaves the queue only once it is written
            left = len(self._queue)
            while left > 0:
                batch = list(islice(self._queue, min(left, _BATCH)))
                left -= len(batch)
                try:
                    self._add(batch)
                except StoreError as error:
                    self._note(str(error))
                    return False
                for _ in batch:
                    self.waiting_bytes -= size_of(self._queue.popleft())
                self._note(None)
        return True

    def _add(self, batch: Sequence[Row]) -> None:
        """Write a batch; a record that no database takes must not keep the others from being written.

        Raises:
            StoreError: the database is away.
        """
        try:
            self._table.add(batch)
        except ValueRefused as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                self._add(batch[:middle])
                self._add(batch[middle:])
                return
            self.dropped += 1
            log.error("record %s cannot be written (%s) and is dropped", batch[0]["record_id"], error)

    def _keep_up(self) -> bool:
        """Do the upkeep, step by step, and write the records that come meanwhile; tell whether that went well."""
        steps: list[Callable[[], int]] = [self._table.count_uncounted]
        if self._retention:
            steps.append(lambda: self._table.forget_before(time.time() - self._retention))
        try:
            for step in steps:
                while step() and not self._is_closing:
                    self._write()
        except StoreError as error:
            self._note(str(error))
            return False
        self._note(None)
        return True

    def _note(self, failure: str | None) -> None:
        if self.dropped != self._dropped_told:
            self._dropped_told = self.dropped
            log.error("%d records were dropped so far", self.dropped)
        if failure == self.failure:
            return
        self.failure = failure
        if failure is None:
            log.warning("records are written again")
        else:
            log.error("records cannot be written (%s); %d wait, at most %d", failure, len(self._queue), self._limit)
