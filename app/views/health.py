"""What probes ask."""

from __future__ import annotations

from typing import Any

from flask import Response

from ..drain import drain
from ..gateway import Gateway
from ..reply import json_reply
from ..version import version
from .route import Route

__all__ = ["routes"]


def routes(gateway: Gateway) -> list[Route]:
    """Give the routes of the probes."""

    def health() -> Response:
        """Say that the process is up."""
        return json_reply({"status": "ok", "version": version()})

    def ready() -> Response:
        """Say whether new requests are welcome."""
        if drain.has_begun:
            return json_reply({"status": "draining"}, 503)
        assert gateway.journal is not None
        found: dict[str, Any] = {
            "status": "ready",
            "open_streams": gateway.open_streams,
            "store": gateway.journal.state(),
        }
        gateway.gate.keys.refresh()
        warnings = []
        # What exactly is wrong is the operator's business, and in the log.
        if gateway.gate.keys.failure is not None:
            warnings.append("SLUICE_API_KEYS_FILE cannot be read again: the keys read before stay in use")
        if gateway.quotas.is_away:
            warnings.append("SLUICE_LIMIT_STORAGE cannot be asked: SLUICE_LIMIT_ON_FAILURE decides")
        return json_reply(found | ({"warnings": warnings} if warnings else {}))

    return [Route("GET", "/health", health), Route("GET", "/ready", ready)]
