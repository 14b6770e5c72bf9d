"""A journal: an application with a login, pages and habits of its own, in which the gateway is mounted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Flask

from . import accounts, assistant, errors, pages, timing

__all__ = ["create_app"]


def create_app(config: Mapping[str, Any] | None = None) -> Flask:
    """Make the application; settings come from JOURNAL_... in the environment, *config* goes over them."""
    app = Flask(__name__)
    app.config.from_prefixed_env("JOURNAL", loads=str)
    # Lax keeps other sites' forms and scripts from using the cookie of somebody who is logged in here.
    app.config.update(SESSION_COOKIE_SAMESITE="Lax", SESSION_COOKIE_HTTPONLY=True)
    app.config.update(config or {})
    if not app.config["SECRET_KEY"]:
        raise RuntimeError("set JOURNAL_SECRET_KEY: it signs the session cookie")
    for part in (accounts, errors, timing, pages, assistant):
        part.init_app(app)
    return app
