"""The log: one line a request, as text for people or as JSON for machines; never a prompt, an answer, a key or an
address.

All loggers here are children of ``sluice``. An application of the gateway's own sets them up by its settings; an
application that mounts the blueprint has set up logging itself.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from .log_format import JsonFormatter, TextFormatter, plain
from .record import Record
from .settings import Settings

__all__ = ["log_answer", "log_record", "set_up"]

log = logging.getLogger("sluice.requests")

_QUIET = ("/v1/health", "/v1/ready", "/metrics", "/static/<state>/<path:name>")
_LONGEST = 200
_FACTS = (
    "request_id",
    "record_id",
    "completion_id",
    "generation_id",
    "stream",
    "requested_model",
    "served_model",
    "provider",
    "key_label",
    "status",
    "end_reason",
    "error_code",
    "headers_ms",
    "first_chunk_ms",
    "total_ms",
    "chunks",
    "is_estimate",
)
_facts_of = attrgetter(*_FACTS)
_USAGE = ("prompt_tokens", "completion_tokens", "cost")
_IN_TEXT = ("end_reason", "error_code", "requested_model", "key_label", "attempts", "first_chunk_ms", "total_ms")
_TEXT_ENDS = ("completion_tokens", "request_id", "record_id")


class _Line:
    """A request's line: ``str`` of it is the text, and only made when asked for."""

    def __init__(self, summary: str, facts: Mapping[str, Any], shown: tuple[str, ...]) -> None:
        self.summary, self._facts, self._shown = summary, facts, shown

    def __str__(self) -> str:
        pairs = ((name, self._facts.get(name)) for name in self._shown)
        return " ".join([self.summary, *(f"{name}={plain(value)}" for name, value in pairs if value is not None)])


def log_record(record: Record) -> None:
    """Write a finished record to the log, the recorder of an application that sets none."""
    if not log.isEnabledFor(logging.INFO):
        return
    usage = record.usage or {}
    facts = {"method": "POST", "route": record.endpoint, "attempts": len(record.attempts)}
    facts |= {
        name: value[:_LONGEST] if isinstance(value, str) else value
        for name, value in zip(_FACTS, _facts_of(record), strict=True)
    }
    facts["trace_id"] = record.trace.trace_id if record.trace is not None else None
    facts |= {name: value for name in _USAGE if isinstance(value := usage.get(name), (int, float))}
    line = _Line(f"POST {record.endpoint} {record.status}", facts, _IN_TEXT + _TEXT_ENDS)
    log.info(line, extra={"facts": facts})


def log_answer(request_id: str, method: str, route: str, status: int, seconds: float) -> None:
    """Write the line of a request without a record; of probes and the pages' files only where details are wanted."""
    level = logging.DEBUG if route.endswith(_QUIET) and status < 400 else logging.INFO
    if log.isEnabledFor(level):
        facts = {"request_id": request_id, "method": method, "route": route, "status": status}
        facts["total_ms"] = round(seconds * 1000, 1)
        log.log(level, _Line(f"{method} {route} {status}", facts, ("total_ms", "request_id")), extra={"facts": facts})


class _Handler(logging.StreamHandler[Any]):
    """Ours, to be told from those that others added."""


def set_up(settings: Settings) -> None:
    """Make the loggers write to standard error by the settings, unless the application has handlers already."""
    logger = logging.getLogger("sluice")
    logger.setLevel(settings.log_level.upper())
    for handler in [handler for handler in logger.handlers if isinstance(handler, _Handler)]:
        logger.removeHandler(handler)
    if not logger.hasHandlers():
        handler = _Handler(sys.stderr)
        handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
        logger.addHandler(handler)
        # No line names a thread, and under gevent an object is made for each greenlet that is asked for its name.
        logging.logThreads = logging.logMultiprocessing = False
