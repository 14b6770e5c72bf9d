"""Upstream's models."""

from __future__ import annotations

from flask import Response

from ..errors import PermissionDenied
from ..gateway import Gateway
from ..reply import json_reply
from .admission import admit
from .route import Route

__all__ = ["routes"]


def routes(gateway: Gateway) -> list[Route]:
    """Give the routes of the model list."""

    def models() -> Response:
        """List upstream's models: those that the caller may use."""
        caller = admit(gateway)
        found = gateway.models.all()
        if caller.key is not None and caller.key.models is not None:
            found["data"] = [model for model in found["data"] if caller.key.allows(model["id"])]
        return json_reply(found)

    def model(model_id: str) -> Response:
        """Show one model."""
        caller = admit(gateway)
        if caller.key is not None and not caller.key.allows(model_id):
            raise PermissionDenied(f"this key may not use {model_id[:100]!r}", code="model_not_allowed")
        return json_reply(gateway.models.one(model_id))

    return [Route("GET", "/models", models), Route("GET", "/models/<path:model_id>", model)]
