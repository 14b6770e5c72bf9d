"""The gateway as it ships but for record and metrics, to compare with: ``gunicorn benchmarks.unrecorded:app``."""

from __future__ import annotations

from typing import Any

from app.gaps import Gaps
from app.journal import Journal
from app.metrics import Metrics

__all__ = ["app"]


def _nothing(self: Any, *values: Any) -> None:
    """Do nothing."""


Journal.__call__ = Metrics.__call__ = Metrics.opened = Metrics.answered = Gaps.note = _nothing  # type: ignore

from app import create_app

app = create_app()
