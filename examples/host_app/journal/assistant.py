"""The language model: the gateway below /ai for the page's script and for programs, and one route of our own."""

from __future__ import annotations

from collections.abc import Iterator

from flask import Blueprint, Flask, Response, abort, request
from flask_sluice import GatewayError, create_blueprint, stream_message

from .accounts import caller, login_required

__all__ = ["init_app"]

bp = Blueprint("assistant", __name__)

INSTRUCTION = "Summarise the journal entry in two sentences, in its own language."


def init_app(app: Flask) -> None:
    """Mount both; the gateway's settings come from the environment."""
    app.register_blueprint(create_blueprint(url_prefix="/ai", authenticate=caller))
    app.register_blueprint(bp)


@bp.post("/summary")
@login_required
def summary() -> Response:
    """Stream a summary of the form's ``entry`` as plain text."""
    entry = request.form.get("entry", "").strip()
    if not entry:
        abort(400, "There is nothing to summarise.")
    messages = [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": entry}]
    response = Response(_told(messages), mimetype="text/plain")
    # Or nginx, unless told otherwise, would collect the text before it passes it on.
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _told(messages: list[dict[str, str]]) -> Iterator[str]:
    # `with` ends the call upstream also when the reader has left: the server closes this generator then, at the next
    # fragment. (The gateway's own routes need not wait for one.)
    with stream_message(messages, max_tokens=300) as fragments:
        try:
            yield from fragments
        except GatewayError as error:
            yield f"\n(No more than this: {error})"
