"""Who is who: a login with a session for people, tokens for programs."""

from __future__ import annotations

import functools
import hmac
from collections.abc import Callable
from typing import Any

from flask import Blueprint, Flask, Request, current_app, redirect, render_template, request, session, url_for
from werkzeug.security import check_password_hash, generate_password_hash

__all__ = ["caller", "init_app", "login_required"]

bp = Blueprint("accounts", __name__)


def init_app(app: Flask) -> None:
    """Read JOURNAL_USERS and JOURNAL_TOKENS, each ``name:secret``, comma-separated."""
    users = _pairs(app.config.get("USERS", ""))
    if not users:
        raise RuntimeError("set JOURNAL_USERS=name:password, or nobody could log in")
    app.extensions["users"] = {name: generate_password_hash(password) for name, password in users.items()}
    app.extensions["tokens"] = _pairs(app.config.get("TOKENS", ""))
    app.register_blueprint(bp)


def login_required(view: Callable[..., Any]) -> Callable[..., Any]:
    """Send those who are not logged in to the login page."""

    @functools.wraps(view)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if "user" not in session:
            return redirect(url_for("accounts.login"))
        return view(*args, **kwargs)

    return guarded


def caller(request: Request) -> str | None:
    """Tell the gateway who calls: somebody logged in, or a program with a token; None refuses."""
    if "user" in session:
        return f"user:{session['user']}"
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        for name, token in current_app.extensions["tokens"].items():
            if hmac.compare_digest(token.encode(), given.strip().encode()):
                return f"token:{name}"
    return None


@bp.get("/login")
def login() -> str:
    return render_template("login.html")


@bp.post("/login")
def log_in() -> Any:
    name, password = request.form.get("name", ""), request.form.get("password", "")
    known = current_app.extensions["users"].get(name)
    if known is None or not check_password_hash(known, password):
        return render_template("login.html", complaint="Wrong name or password."), 401
    session.clear()
    session["user"] = name
    return redirect(url_for("pages.today"))


@bp.post("/logout")
def log_out() -> Any:
    session.clear()
    return redirect(url_for("accounts.login"))


def _pairs(text: str) -> dict[str, str]:
    parts = (part.strip().partition(":") for part in text.split(","))
    return {name: secret for name, _, secret in parts if name and secret}
