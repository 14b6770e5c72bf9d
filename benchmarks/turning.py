"""The application with a meter in its worker: for how long at a time it worked on one thing while others waited.

``GET /turns`` gives what was found since it was asked last, in milliseconds: ``cpu``, the most CPU time that went by
between two turns of a greenlet that always wants one, and ``wall``, the longest it waited for its turn.
"""

from __future__ import annotations

import threading
import time

from flask import Flask, jsonify
from flask.typing import ResponseReturnValue

from app import create_app

__all__ = ["app"]

PERIOD = 0.001


class Meter:
    """Wants a turn every millisecond, in a thread, which is a greenlet where gevent has patched."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0
        self._is_running = False

    def start(self) -> None:
        """Begin, in the worker; the second time nothing."""
        if not self._is_running:
            self._is_running = True
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            cpu, wall = time.thread_time(), time.monotonic()
            time.sleep(PERIOD)
            self.cpu = max(self.cpu, time.thread_time() - cpu)
            self.wall = max(self.wall, time.monotonic() - wall - PERIOD)


def make_app() -> Flask:
    """Make the application."""
    app, meter = create_app(), Meter()

    @app.get("/turns")
    def turns() -> ResponseReturnValue:
        meter.start()
        found = {"cpu": meter.cpu * 1000, "wall": meter.wall * 1000}
        meter.cpu = meter.wall = 0.0
        return jsonify(found)

    return app


app = make_app()
