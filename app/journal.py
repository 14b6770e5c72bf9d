"""The background writer: finished records wait here, within bounds, and go to the store in batches.

No stream ever waits for a database. While it is away the queue fills, then new records are dropped and counted; when
it is back, writing goes on.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Sequence

from .offload import offload
from .record import Record
from .stores import RecordTable, StoreError

__all__ = ["Journal"]

log = logging.getLogger("sluice")

_LIMIT = 10_000
_BATCH = 500
_INTERVAL = 0.5
_PAUSE_MAX = 10.0


class Journal:
    """One process' writer.

    Args:
        table: where records go.
        limit: most records that wait.
        interval: seconds a record waits at the most before it is written.
    """

    def __init__(self, table: RecordTable, limit: int = _LIMIT, interval: float = _INTERVAL) -> None:
        self._table, self._limit, self._interval = table, limit, interval
        self._queue: deque[Record] = deque()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._running_in: int | None = None
        self._is_closing = False
        self.dropped = 0
        """Records lost because the queue was full."""
        self.failure: str | None = None
        """What the last try to write failed with; None while writing goes well."""

    def __len__(self) -> int:
        return len(self._queue)

    def __call__(self, record: Record) -> None:
        """Take a finished record; never waits."""
        if len(self._queue) >= self._limit:
            self.dropped += 1
            return
        self._queue.append(record)
        if self._running_in != os.getpid():
            self._start()
        if len(self._queue) >= _BATCH:
            self._wake.set()

    def find(self, completion_id: str) -> Record | None:
        """Give a record that still waits."""
        return next((record for record in tuple(self._queue) if record.completion_id == completion_id), None)

    def flush(self, seconds: float = 5.0) -> bool:
        """Write all that waits, for at most *seconds*; tell whether nothing is left."""
        until = time.monotonic() + seconds
        while self._queue and time.monotonic() < until:
            if not self._write() and self._queue:
                time.sleep(0.05)
        return not self._queue

    def close(self) -> None:
        """Flush and stop the thread."""
        self._is_closing = True
        self._wake.set()
        self.flush()

    def _start(self) -> None:
        with self._lock:
            if self._running_in != os.getpid():
                threading.Thread(target=self._run, name="sluice-journal", daemon=True).start()
                self._running_in = os.getpid()

    def _run(self) -> None:
        pause = self._interval
        while not self._is_closing:
            self._wake.wait(pause)
            self._wake.clear()
            pause = self._interval if self._write() else min(pause * 2, _PAUSE_MAX)

    def _write(self) -> bool:
        """Write one batch after another until nothing waits; tell whether that went well."""
        with self._writing:  # one writer at a time: a batch leaves the queue only once it is written
            while self._queue:
                batch = tuple(self._queue)[:_BATCH]
                try:
                    self._add(batch)
                except StoreError as error:
                    self._note(str(error))
                    return False
                for _ in batch:
                    self._queue.popleft()
                self._note(None)
        return True

    def _add(self, batch: Sequence[Record]) -> None:
        """Write a batch; a record that no database takes must not keep the others from being written.

        Raises:
            StoreError: the database is away.
        """
        try:
            offload(self._table.add, batch)
        except StoreError:
            raise
        except Exception as error:
            if len(batch) > 1:
                for record in batch:
                    self._add([record])
                return
            self.dropped += 1
            log.error("record %s cannot be written (%s) and is dropped", batch[0].record_id, type(error).__name__)

    def _note(self, failure: str | None) -> None:
        if failure == self.failure:
            return
        self.failure = failure
        if failure is None:
            log.info("records are written again")
        else:
            log.error("records cannot be written (%s); %d wait, at most %d", failure, len(self._queue), self._limit)
