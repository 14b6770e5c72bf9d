"""How a line of the log looks: text for people, or JSON for machines.

NOTE: gunicorn's master process loads this module for its own log: it imports as little as can be.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import orjson

from .faults import told

__all__ = ["JsonFormatter", "TextFormatter", "plain"]


class JsonFormatter(logging.Formatter):
    """One line of JSON: ``time`` (UTC), ``level``, ``logger``, ``message``, and a request's facts."""

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, Any] = {
            "time": _stamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": getattr(record.msg, "summary", None) or record.getMessage(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            found["exception"] = told(record.exc_info[1])
        facts = getattr(record, "facts", None)
        if isinstance(facts, dict):
            found |= {name: value for name, value in facts.items() if value is not None}
        try:
            return orjson.dumps(found, default=str).decode()
        except TypeError:  # text with lone surrogates, or a number that is too large, from an upstream that sends such
            return orjson.dumps({name: plain(value) for name, value in found.items()}).decode()


class TextFormatter(logging.Formatter):
    """A line for people: local time, level, message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%Y-%m-%d %H:%M:%S")
        self._second: tuple[int, str] = 0, ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """Give the local time, worked out once a second."""
        second = self._second
        if second[0] != int(record.created):
            second = self._second = int(record.created), super().formatTime(record, datefmt)
        return second[1]

    def formatException(self, ei: Any) -> str:
        """Say what kind and where; the words of an exception may hold what it was about."""
        return told(ei[1])

    def format(self, record: logging.LogRecord) -> str:
        # One line each: a name that a client or upstream made up must not begin a line of its own.
        return super().format(record).replace("\r", "\\r").replace("\n", "\\n")


def _stamp(seconds: float) -> str:
    whole = int(seconds)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{int((seconds - whole) * 1000):03d}Z"


def plain(value: Any) -> str:
    """Give a value as text without spaces and control characters."""
    text = str(value)
    return text if text.isascii() and text.isprintable() and " " not in text else ascii(text)
