"""An application whose worker has something else to do all the time, in turns of fifty milliseconds."""

from __future__ import annotations

import threading
import time

from flask import Flask

from app import create_blueprint

__all__ = ["app"]


def _work() -> None:
    while True:
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
            pass
        time.sleep(1e-9)


def _begin() -> str:
    threading.Thread(target=_work, daemon=True).start()
    return "begun"


app = Flask("host")
app.add_url_rule("/work", "work", _begin)
app.register_blueprint(create_blueprint(app.config))
