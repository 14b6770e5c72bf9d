"""Upstream's models."""

from __future__ import annotations

from flask import Response, request

from ..gateway import Gateway
from ..reply import json_reply
from .route import Route

__all__ = ["routes"]


def routes(gateway: Gateway) -> list[Route]:
    """Give the routes of the model list."""

    def models() -> Response:
        """List upstream's models."""
        gateway.gate.admit(request)
        return json_reply(gateway.models.all())

    def model(model_id: str) -> Response:
        """Show one model."""
        gateway.gate.admit(request)
        return json_reply(gateway.models.one(model_id))

    return [Route("GET", "/models", models), Route("GET", "/models/<path:model_id>", model)]
