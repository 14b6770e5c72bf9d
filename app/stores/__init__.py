"""Where records and feedback are kept: SQLite or PostgreSQL, through SQLAlchemy Core.

``Store`` does the work where it blocks no stream, so callers need not know.
"""

from __future__ import annotations

from .events import Event, EventFilter, Events, Place
from .feedback import FeedbackTable
from .records import RecordTable
from .rows import Row, row_of, size_of
from .spending import SpendingTable
from .statistics import Question, Statistics
from .store import Store, StoreError, ValueRefused

__all__ = [
    "Event",
    "EventFilter",
    "Events",
    "FeedbackTable",
    "Place",
    "Question",
    "RecordTable",
    "Row",
    "SpendingTable",
    "Statistics",
    "Store",
    "StoreError",
    "ValueRefused",
    "row_of",
    "size_of",
]
