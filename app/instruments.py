"""Every metric there is: names, labels, buckets, and the text that Prometheus reads.

This module imports prometheus_client, which decides there and then how it counts: in this process, or, where
``PROMETHEUS_MULTIPROC_DIR`` is set, in files that all workers of a server share. So it is imported as late as can be.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest, values
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from . import multiprocess
from .errors import ConfigurationError
from .gaps import GAP_BOUNDS

__all__ = ["CONTENT_TYPE", "PREFIX", "Instruments", "instruments"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
PREFIX = "sluice_"

_FIRST_CHUNK_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120)
_REQUEST_BOUNDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 900)


class BulkHistogram(Histogram):
    """A histogram that takes many observations at once, already counted by bucket.

    NOTE: prometheus_client has no public way to do so; the two names used here are the ones it observes with itself.
    """

    _type = "histogram"

    def add(self, counts: Sequence[int], seconds: float) -> None:
        """Add *counts* observations, bucket by bucket, which sum up to *seconds*."""
        self._sum.inc(max(seconds, 0.0))
        for bucket, count in zip(self._buckets, counts, strict=True):
            if count:
                bucket.inc(count)

    @property
    def bounds(self) -> tuple[float, ...]:
        """The finite upper bounds."""
        return tuple(self._upper_bounds[:-1])


class Instruments:
    """One set of metrics in a registry of its own, so that a host's are left alone."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "sluice_requests_total",
            "Answered requests; what has no record (a probe, a refused key) has the model `none`.",
            ["route", "model", "end_reason"],
            registry=registry,
        )
        self.open_streams = Gauge(
            "sluice_open_streams",
            "Chat completions under way, streamed or whole.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.first_chunk = BulkHistogram(
            "sluice_first_chunk_seconds",
            "From the request to the first chunk that says something.",
            buckets=_FIRST_CHUNK_BOUNDS,
            registry=registry,
        )
        self.gap = BulkHistogram(
            "sluice_chunk_gap_seconds",
            "Between two chunks of one answer, as upstream sent them.",
            buckets=GAP_BOUNDS,
            registry=registry,
        )
        self.request = BulkHistogram(
            "sluice_request_seconds",
            "The whole of a chat completion, rejected ones left out.",
            buckets=_REQUEST_BOUNDS,
            registry=registry,
        )
        self.tokens = Counter(
            "sluice_tokens_total",
            "Tokens as upstream counted them: `prompt`, `completion`; `completion_estimate` where it did not.",
            ["kind"],
            registry=registry,
        )
        self.cost = Counter("sluice_cost_total", "Cost in US dollars as upstream reported it.", registry=registry)
        self.attempts = Counter(
            "sluice_upstream_attempts_total",
            "Attempts of upstream calls by what came: a status, or what failed.",
            ["outcome"],
            registry=registry,
        )
        self.heartbeats = Counter(
            "sluice_heartbeats_total", "Comments sent to clients while there was nothing to say.", registry=registry
        )
        self.record_queue = Gauge(
            "sluice_record_queue",
            "Finished records that wait to be written.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.records_dropped = Counter(
            "sluice_records_dropped_total", "Records lost because none could be written.", registry=registry
        )

    def render(self) -> bytes:
        """Give the text for Prometheus: of this process, or of all workers that count together."""
        folder = multiprocess.folder()
        if folder is None or not _is_shared() or not os.path.isdir(folder):
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        registry.register(_Shared(folder))
        return generate_latest(registry)


class _Shared(Collector):
    """Reads what the workers have counted; a host's own metrics may lie in the same folder and are left out."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def collect(self) -> Iterable[Metric]:
        return [metric for metric in multiprocess.collect(self._folder) if metric.name.startswith(PREFIX)]


def _is_shared() -> bool:
    return values.ValueClass is not values.MutexValue


@cache
def _shared_instruments() -> Instruments:
    return Instruments()


def instruments() -> Instruments:
    """Give the metrics of a new gateway.

    Within one process two sets would overwrite each other's values in the shared files, so there is one for all.

    Raises:
        ConfigurationError: the files cannot be written.
    """
    folder = multiprocess.folder()
    if folder is None or not _is_shared():
        return Instruments()
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return _shared_instruments()
    except OSError as error:
        raise ConfigurationError(
            f"PROMETHEUS_MULTIPROC_DIR: expected a folder that can be written to, got {folder!r} ({error.strerror})"
        ) from None
