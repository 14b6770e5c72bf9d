"""An application with a stage and a recorder that fail with words they should not say, for the test of secrets."""

from __future__ import annotations

import os
from typing import Any

from app import Stage, Transform, create_app

__all__ = ["app"]


class Leaky(Stage):
    """Fails with what it works on, where the request's ``user`` says so."""

    name = "leaky"

    def prepare(self, request: Any, notes: Any) -> Any:
        """Fail with the messages."""
        if request.body.get("user") == "leak-prepare":
            raise ValueError(f"cannot work on {request.body['messages']}")
        return request

    def start(self, request: Any, notes: Any) -> Transform | None:
        """Give a transform that fails with the answer."""
        return _LeakyTransform() if request.body.get("user") == "leak-feed" else None


class _LeakyTransform(Transform):
    def feed(self, chunk: Any) -> Any:
        raise ValueError(f"cannot work on {chunk}")


def _record(record: Any) -> None:
    from app.logs import log_record

    log_record(record)
    if record.end_reason == "rejected":
        raise RuntimeError(f"cannot keep {os.environ['OPENROUTER_API_KEY']}")


app = create_app(stages=[Leaky()], recorder=_record)
