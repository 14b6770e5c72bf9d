"""Errors as pages. The gateway's own errors stay JSON: its blueprint answers for its routes."""

from __future__ import annotations

from flask import Flask, render_template
from werkzeug.exceptions import HTTPException

__all__ = ["init_app"]


def init_app(app: Flask) -> None:
    """Answer every HTTP error, and so every unexpected exception, with a page."""
    app.register_error_handler(HTTPException, _page)


def _page(error: HTTPException) -> tuple[str, int]:
    return render_template("error.html", error=error), error.code or 500
