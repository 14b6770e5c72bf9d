"""What one blueprint serves with: settings, upstream client, pipeline, gate, and the open streams of this process."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import stages as shipped_stages
from .access import Quotas
from .chat import OWN_FIELDS
from .descriptors import RESERVE, affordable, descriptor_limit
from .errors import ConfigurationError, Overloaded
from .feedback import Feedback
from .gate import Authenticate, Gate, UpstreamKey
from .generations import Generations
from .journal import Journal
from .logs import log_record
from .mailbox import Mailbox
from .metrics import Metrics
from .models import ModelList
from .pipeline import Pipeline, Stage
from .record import Record, Recorder, new_completion_id
from .settings import Settings
from .stores import Events, FeedbackTable, RecordTable, SpendingTable, Statistics, Store
from .ticker import Ticker
from .upstream import UpstreamClient

if TYPE_CHECKING:
    from .tracing import Tracing

__all__ = ["Gateway"]

QUEUE_BYTES = 131_072
"""Most encoded bytes of one stream that wait for its client; then upstream is not read."""


def _warn_of_descriptors(wanted: int, places: int) -> None:
    logging.getLogger("sluice").warning(
        "SLUICE_MAX_STREAMS is %d, but this process may open only %s files, enough for %d streams, which is the limit"
        " now: allow it %d (ulimit -n, LimitNOFILE of systemd, ulimits of compose)",
        wanted,
        descriptor_limit(),
        places,
        2 * wanted + RESERVE,
    )


def _tracing(settings: Settings) -> Tracing:
    try:
        from .tracing import Tracing
    except ImportError:
        raise ConfigurationError(
            "SLUICE_TRACING is on, and OpenTelemetry is not installed: install flask-sluice[otel], or switch it off"
        ) from None
    return Tracing(settings)


class Gateway:
    """See the module. It is complete once ``keep_in`` has said where records are kept.

    Args:
        settings: validated settings.
        stages: further stages, beside those that ship.
        authenticate: a host's own check instead of keys.
        recorder: takes each finished record, beside the store.

    Raises:
        ConfigurationError: the settings do not fit together.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        stages: Iterable[Stage] = (),
        authenticate: Authenticate | None = None,
        recorder: Recorder = log_record,
    ) -> None:
        self.settings = settings
        self.gate = Gate(settings, authenticate)
        self.quotas = Quotas(settings, own_limits=self.gate.keys.is_limited)
        self.ticker = Ticker(settings.tick)
        self.upstream = UpstreamClient(settings, self.ticker)
        self.models = ModelList(self.upstream, settings.models_ttl)
        self.pipeline = Pipeline([*shipped_stages.shipped(settings), *stages] if settings.pipeline else ())
        self.own_fields = OWN_FIELDS | self.pipeline.fields | {name for stage in stages for name in stage.fields}
        self.metrics = Metrics(self.ticker, lambda: self._open, self.models.known)
        self._tracing = _tracing(settings) if settings.tracing else None
        self._recorder = recorder
        self.journal: Journal | None = None
        self.generations: Generations | None = None
        self.feedback: Feedback | None = None
        self.places = affordable(settings.max_streams, descriptor_limit())
        """How many requests may be under way at once in this process."""
        if self.places < settings.max_streams:
            _warn_of_descriptors(settings.max_streams, self.places)
        self._open = 0
        self._lock = threading.Lock()

    def keep_in(self, folder: str) -> None:
        """Open the store: the database of the settings, or a SQLite file in *folder*. Nothing is connected yet."""
        store = Store(self.settings.database_url or f"sqlite:///{os.path.join(folder, 'sluice.db')}")
        records = RecordTable(store)
        self.events, self.statistics = Events(store), Statistics(store)
        self.quotas.watch(SpendingTable(store))
        self.journal = Journal(records, retention_days=self.settings.retention_days)
        self.feedback = Feedback(FeedbackTable(store), records, self.journal)
        for stage in self.pipeline.stages:
            stage.learn_from(self.feedback.learned)
        if self.settings.fetch_generations:
            self.generations = Generations(self.upstream, records, self.metrics.settled)
        atexit.register(store.close)  # after the journal's, which is registered later
        atexit.register(self.journal.close)
        self.metrics.show_queue(self.journal)
        atexit.register(self.metrics.flush)

    @property
    def open_streams(self) -> int:
        """How many requests are under way in this process."""
        return self._open

    def enter(self, record: Record) -> None:
        """Take a place among the open streams for the request of *record*.

        Raises:
            Overloaded: all are taken.
        """
        with self._lock:
            if self._open >= self.places:
                raise Overloaded(
                    f"this worker has {self._open} open requests, the most it may have (SLUICE_MAX_STREAMS)",
                    retry_after="1",
                )
            self._open += 1
        self.metrics.opened(record)

    def settle(self, record: Record, key: UpstreamKey) -> None:
        """See to the final figures of a finished record, if they are to be fetched; *key* is that of its call."""
        if self.generations is not None:
            self.generations.want(record, None if key.own else key.key)

    def leave(self) -> None:
        """Give the place back."""
        with self._lock:
            self._open -= 1

    def new_record(self) -> Record:
        """Start the record of a request."""
        return Record(recorder=self._keep, completion_id=new_completion_id())

    def trace(self, record: Record, headers: Any) -> None:
        """Trace the request of *record*, which came with *headers*, if tracing is on."""
        if self._tracing is not None:
            record.trace = self._tracing.start(record, headers)

    def _keep(self, record: Record) -> None:
        if record.trace is not None:
            record.trace.ended(record)
        if self.journal is not None:
            self.journal(record)
        self.metrics(record)
        self._recorder(record)

    def new_mailbox(self) -> Mailbox:
        """Make the mailbox of one stream."""
        return Mailbox(QUEUE_BYTES)
