"""JSON answers, and the one face that every error has."""

from __future__ import annotations

from typing import Any

from flask import Response

from . import wire
from .errors import GatewayError

__all__ = ["error_reply", "json_reply"]


def json_reply(value: Any, status: int = 200) -> Response:
    """Make a response of JSON values."""
    return Response(wire.dumps(value), status, mimetype="application/json")


def error_reply(error: GatewayError, metadata: dict[str, Any] | None = None) -> Response:
    """Make the response that tells *error*, in OpenAI's shape; *metadata* goes beside it as ``x_g0dm0d3``."""
    body: dict[str, Any] = {"error": error.to_object()}
    if metadata is not None:
        body["x_g0dm0d3"] = metadata
    response = json_reply(body, error.status)
    response.headers.update(error.to_headers())
    return response
