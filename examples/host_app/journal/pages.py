"""The one page."""

from __future__ import annotations

from flask import Blueprint, Flask, render_template, session

from .accounts import login_required

__all__ = ["init_app"]

bp = Blueprint("pages", __name__)


def init_app(app: Flask) -> None:
    """Add the page."""
    app.register_blueprint(bp)


@bp.get("/")
@login_required
def today() -> str:
    return render_template("today.html", user=session["user"])
