"""Which web pages of other origins may call (the CORS protocol of https://fetch.spec.whatwg.org/#http-cors-protocol).

Flask-Cors would do it as well, but knows neither routes without automatic OPTIONS nor that a host's own Flask-Cors has
been there already, and one header of the same name twice is refused by every browser.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable

from flask import Response, request
from flask.sansio.app import App

from .errors import ConfigurationError

__all__ = ["Cors"]

log = logging.getLogger("sluice")

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@*]+")
_DEFAULT_PORT = re.compile(r"^(http://.*):80$|^(https://.*):443$")
_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,2000}")
_METHODS = "GET, HEAD, POST, OPTIONS"
_EXPOSED = ", ".join(
    (
        "X-Request-Id",
        "Retry-After",
        "x-should-retry",
        "x-ratelimit-limit-requests",
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
        "RateLimit-Limit",
        "RateLimit-Remaining",
        "RateLimit-Reset",
    )
)
_MAX_AGE = "600"
"""Seconds for which a browser may remember a preflight's answer; its own limits are 600 to 7200."""


class Cors:
    """Lets the pages of some origins call.

    Cookies are never asked for: callers send bearer tokens.

    Args:
        origins: as browsers send them, ``https://app.example``, or ``*`` alone; none: this adds nothing anywhere.
        is_open: whether the gateway asks for no keys.

    Raises:
        ConfigurationError: one is no origin.
    """

    def __init__(self, origins: Iterable[str], *, is_open: bool = False) -> None:
        self._origins = frozenset(_origin(text) for text in origins)
        self._is_any = "*" in self._origins
        if self._is_any and len(self._origins) > 1:
            raise ConfigurationError("SLUICE_CORS_ORIGINS: expected * alone or a list of origins, got both")
        if self._is_any and is_open:
            log.warning("SLUICE_CORS_ORIGINS=* without keys: every web page that a browser here opens may call")

    def attend(self, app: App, is_ours: Callable[[], bool]) -> None:
        """See to the responses of *app* that are ours, whoever made them."""

        def hook(response: Response) -> Response:
            # A host's extension may have answered for its application as a whole.
            if is_ours() and "Access-Control-Allow-Origin" not in response.headers:
                self._see_to(response)
            return response

        if self._origins:
            # The first of the list runs last, behind the application's own.
            app.after_request_funcs.setdefault(None, []).insert(0, hook)

    def _see_to(self, response: Response) -> None:
        if not self._is_any:
            response.vary.add("Origin")
        origin = request.headers.get("Origin")
        if origin is None or not (self._is_any or origin.lower() in self._origins):
            return
        response.headers["Access-Control-Allow-Origin"] = "*" if self._is_any else origin
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            _answer_preflight(response)
        else:
            response.headers["Access-Control-Expose-Headers"] = _EXPOSED


def _answer_preflight(response: Response) -> None:
    """Allow the call, also of a route that there is not: the page shall read what we say to it."""
    headers = response.headers
    headers["Access-Control-Allow-Methods"] = headers.get("Allow") or _METHODS
    # Any header may be sent: those that mean nothing to us are not looked at. A star would not stand for Authorization.
    asked = request.headers.get("Access-Control-Request-Headers", "")
    if _HEADER_NAMES.fullmatch(asked):
        headers["Access-Control-Allow-Headers"] = asked
        response.vary.add("Access-Control-Request-Headers")
    headers["Access-Control-Max-Age"] = _MAX_AGE
    if response.status_code >= 400:
        response.set_data(b"")
        response.status_code = 204
        for name in ("Content-Type", "Content-Length"):
            headers.pop(name, None)


def _origin(text: str) -> str:
    found = text.lower()
    if found != "*" and not _ORIGIN.fullmatch(found):
        raise ConfigurationError(
            f"SLUICE_CORS_ORIGINS: expected * or origins like https://app.example, without a path, got {text[:100]!r}"
        )
    port = _DEFAULT_PORT.match(found)  # browsers leave it out
    return (port[1] or port[2]) if port else found
