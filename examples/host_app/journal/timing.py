"""How long requests take: until the headers, told to the client, and until the last byte, told to the log.

Flask's hooks are done when a streamed body begins, so the whole is measured around it, by a WSGI middleware.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask, Response, g
from werkzeug.wsgi import ClosingIterator

__all__ = ["init_app"]

log = logging.getLogger("journal.timing")


def init_app(app: Flask) -> None:
    """Measure every request."""
    log.setLevel(logging.INFO)
    log.addHandler(logging.StreamHandler())
    app.before_request(_start)
    app.after_request(_tell)
    app.wsgi_app = _Whole(app.wsgi_app)  # type: ignore[method-assign]


def _start() -> None:
    g.started = time.perf_counter()


def _tell(response: Response) -> Response:
    response.headers["Server-Timing"] = f"view;dur={(time.perf_counter() - g.started) * 1000:.1f}"
    return response


class _Whole:
    """Logs each request when its body is closed: sent, or given up by the client."""

    def __init__(self, wsgi_app: Callable[..., Iterable[bytes]]) -> None:
        self._wsgi_app = wsgi_app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        started = time.perf_counter()

        def tell() -> None:
            took = (time.perf_counter() - started) * 1000
            log.info("%s %s took %.0f ms", environ["REQUEST_METHOD"], environ["PATH_INFO"], took)

        # It forwards `close` to the body. A plain generator around it would not in every case, and the call upstream
        # would go on for a client that has left.
        return ClosingIterator(self._wsgi_app(environ, start_response), tell)
