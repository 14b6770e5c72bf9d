"""Ratings of answers."""

from __future__ import annotations

from flask import Response, request

from ..chat import parse_object
from ..errors import AuthenticationError
from ..gateway import Gateway
from ..payload import read_body
from ..reply import json_reply
from .admission import admit
from .route import Route

__all__ = ["routes"]


def routes(gateway: Gateway) -> list[Route]:
    """Give the routes of feedback; none where no stage learns from it."""

    def give() -> Response:
        """Keep a rating of an answer."""
        label = _label(gateway)
        assert gateway.feedback is not None
        may_give_params = gateway.gate.is_open or gateway.gate.is_operator(request)
        body = parse_object(read_body(gateway))
        return json_reply(gateway.feedback.submit(body, label, may_give_params=may_give_params))

    def stats() -> Response:
        """Sum the ratings up."""
        _label(gateway)
        assert gateway.feedback is not None
        return json_reply(gateway.feedback.stats())

    if not gateway.pipeline.stages:
        return []
    return [Route("POST", "/feedback", give), Route("GET", "/feedback/stats", stats)]


def _label(gateway: Gateway) -> str | None:
    """Give the caller's label; the operator, who comes with the metadata key, has none."""
    try:
        return admit(gateway).label
    except AuthenticationError:
        if not gateway.gate.is_operator(request):
            raise
        return None
