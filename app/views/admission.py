"""Letting a request in: who sends it, and whether that one may send another."""

from __future__ import annotations

from flask import Response, g, request

from ..access import Caller
from ..gateway import Gateway

__all__ = ["admit", "count", "show_standing"]


def admit(gateway: Gateway) -> Caller:
    """Give the caller of the current request, which is counted.

    Raises:
        AuthenticationError, PermissionDenied: it is not let in.
        RateLimited, LimitsUnavailable: it may send no more for now.
    """
    caller = gateway.gate.admit(request)
    count(gateway, caller)
    return caller


def count(gateway: Gateway, caller: Caller) -> None:
    """Count the current request, and let its response tell how the caller stands.

    Raises:
        RateLimited, LimitsUnavailable: as ``admit``.
    """
    g.sluice_standing = gateway.quotas.count(caller)


def show_standing(response: Response) -> Response:
    """Tell with *response* how its caller stands with its rate, if it has one."""
    for name, value in g.get("sluice_standing", {}).items():
        response.headers.setdefault(name, value)  # a refusal has its own
    return response
