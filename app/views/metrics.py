"""What Prometheus reads."""

from __future__ import annotations

from flask import Response, request

from ..gateway import Gateway
from .route import Route

__all__ = ["routes"]


def routes(gateway: Gateway) -> list[Route]:
    """Give the route of the metrics."""

    def metrics() -> Response:
        """Show the figures of all workers to Prometheus."""
        gateway.gate.admit_operator(request)
        gateway.models.refresh_soon()  # a model is told apart only once it is in the list
        return Response(gateway.metrics.render(), content_type=gateway.metrics.content_type)

    return [Route("GET", "/metrics", metrics, below="")]
