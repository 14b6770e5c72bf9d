"""The application with a meter in its worker: for how long at a time it worked on one thing while others waited.

``GET /turns`` gives what was found since it was asked last, in milliseconds: ``cpu``, the most CPU time that went by
between two turns of a greenlet that always wants one, and ``wall``, the longest it waited for its turn.
"""

from __future__ import annotations

from flask import Flask, jsonify
from flask.typing import ResponseReturnValue

from app import create_app
from tests.meter import Meter

__all__ = ["app"]

PERIOD = 0.001


def make_app() -> Flask:
    """Make the application."""
    app, meter = create_app(), Meter(PERIOD)

    @app.get("/turns")
    def turns() -> ResponseReturnValue:
        meter.start()
        found = {"cpu": meter.cpu * 1000, "wall": meter.wall * 1000}
        meter.cpu = meter.wall = 0.0
        return jsonify(found)

    return app


app = make_app()
