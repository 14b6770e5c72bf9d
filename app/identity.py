"""Who a request is and that it was answered: an id on every response, a count and a line for what has no record."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from typing import Protocol

from flask import Response, g, request
from flask.sansio.app import App

from .logs import log_answer

__all__ = ["HEADER", "attend", "note_arrival", "request_id"]

HEADER = "X-Request-Id"
_SANE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Counter(Protocol):
    """Counts the answers that have no record."""

    def answered(self, route: str, status: int) -> None:
        """Count one."""


def note_arrival() -> None:
    """Note when the current request came; a hook."""
    g.sluice_came_at = time.monotonic()


def request_id() -> str:
    """Give the current request's id: the client's own where it is sane, else one of ours."""
    found: str | None = g.get("sluice_request_id")
    if found is None:
        given = request.headers.get(HEADER, "")
        found = g.sluice_request_id = given if _SANE.fullmatch(given) else f"req-{secrets.token_hex(12)}"
    return found


def attend(app: App, counter: Counter, is_ours: Callable[[], bool]) -> None:
    """See to the responses of *app* that are ours, whoever made them."""

    def hook(response: Response) -> Response:
        if is_ours():
            response.headers[HEADER] = request_id()
            if not g.get("sluice_has_record"):
                _close(counter, response.status_code)
        return response

    # The first of the list runs last: a hook of the application may put a response of its own in the place of ours.
    app.after_request_funcs.setdefault(None, []).insert(0, hook)


def _close(counter: Counter, status: int) -> None:
    rule = request.url_rule.rule if request.url_rule is not None else "unknown"
    route = "unknown" if rule.endswith("<path:rest>") else rule
    method = request.method if request.method in _METHODS else "other"
    came_at = g.get("sluice_came_at")
    counter.answered(route, status)
    log_answer(request_id(), method, route, status, time.monotonic() - came_at if came_at is not None else 0.0)
