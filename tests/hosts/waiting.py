"""An application with a stage that waits at the second chunk of an answer until it is told to go on."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from flask import Flask

from app import Stage, Transform, create_blueprint
from app.pipeline import ChatRequest, Chunk, Notes

__all__ = ["app"]

_go = threading.Event()


class _Wait(Transform):
    def __init__(self) -> None:
        self._fed = 0

    def feed(self, chunk: Chunk) -> Iterable[Chunk]:
        self._fed += 1
        if self._fed > 1:
            _go.wait()
        return (chunk,)


class _Waiting(Stage):
    name = "waiting"

    def start(self, request: ChatRequest, notes: Notes) -> Transform:
        return _Wait()


def _let_go() -> Any:
    _go.set()
    return "gone"


app = Flask("host")
app.add_url_rule("/go", "go", _let_go)
app.register_blueprint(create_blueprint(app.config, stages=[_Waiting()]))
