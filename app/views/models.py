"""Upstream's models."""

from __future__ import annotations

from flask import Response

from ..gateway import Gateway
from ..reply import json_reply
from .admission import admit
from .route import Route

__all__ = ["routes"]


def routes(gateway: Gateway) -> list[Route]:
    """Give the routes of the model list."""

    def models() -> Response:
        """List upstream's models."""
        admit(gateway)
        return json_reply(gateway.models.all())

    def model(model_id: str) -> Response:
        """Show one model."""
        admit(gateway)
        return json_reply(gateway.models.one(model_id))

    return [Route("GET", "/models", models), Route("GET", "/models/<path:model_id>", model)]
