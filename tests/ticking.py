"""The application with a ticker in its worker: how long streams could not go on while databases kept others waiting.

``GET /slip`` gives the longest delay of a tick, in milliseconds, since it was asked last; ``GET /query`` runs a
question of about a second on the record's database; ``GET /frozen`` tells how many objects garbage is not sought in.
"""

from __future__ import annotations

import gc
import time

from flask import Flask, jsonify
from flask.typing import ResponseReturnValue
from sqlalchemy import Connection, text

from app import create_app
from app.gateway import Gateway
from tests.meter import Meter

PERIOD = 0.1
_SECOND = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000000) SELECT sum(i) FROM n",
    "postgresql": "SELECT pg_sleep(1)",
}


def make_app() -> Flask:
    """Make the application."""
    app, meter = create_app(), Meter(PERIOD)
    gateway: Gateway = app.extensions["sluice"]["sluice"]

    @app.get("/slip")
    def slip() -> ResponseReturnValue:
        meter.start()
        found, meter.wall = meter.wall, 0.0
        return jsonify(ms=round(found * 1000, 1))

    @app.get("/frozen")
    def frozen() -> ResponseReturnValue:
        return jsonify(objects=gc.get_freeze_count())

    @app.get("/query")
    def query() -> ResponseReturnValue:
        store = gateway.events._store
        began = time.monotonic()

        def work(connection: Connection) -> None:
            connection.execute(text(_SECOND[store.kind])).scalar()

        store.read(work)
        return jsonify(seconds=round(time.monotonic() - began, 2))

    return app


app = make_app()
