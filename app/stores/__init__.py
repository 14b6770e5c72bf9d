"""Where records and feedback are kept: SQLite or PostgreSQL, through SQLAlchemy Core.

Everything here blocks; callers go through ``offload``.
"""

from __future__ import annotations

from .feedback import FeedbackTable
from .records import RecordTable
from .store import Store, StoreError

__all__ = ["FeedbackTable", "RecordTable", "Store", "StoreError"]
