"""The OpenAPI document of the routes that are served."""

from __future__ import annotations

from collections.abc import Iterable

from flask import Response, request

from ..gateway import Gateway
from ..openapi import make_document
from ..reply import json_reply
from .route import Route

__all__ = ["route"]

_PATH = "/openapi.json"


def route(gateway: Gateway, others: Iterable[Route]) -> Route:
    """Give the route of the document, which describes itself and the *others*."""

    def document() -> Response:
        """Give the OpenAPI document."""
        described = [(r.method, r.rule, (r.view.__doc__ or "").partition("\n")[0].strip(" .")) for r in [*others, own]]
        base = f"{request.script_root}{request.path}".removesuffix(_PATH)
        return json_reply(make_document(gateway, described, base))

    own = Route("GET", _PATH, document, below="")
    return own
