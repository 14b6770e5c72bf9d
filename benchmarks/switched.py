"""The gateway as it ships, with a switch for record and metrics: ``gunicorn benchmarks.switched:app``.

``/switch/on`` and ``/switch/off`` throw it and answer once no record waits, so that what follows is not charged with
what was before.
"""

from __future__ import annotations

import time
from typing import Any

from app import create_app
from app.gaps import Gaps
from app.journal import Journal
from app.metrics import Metrics

__all__ = ["app"]

_PLACES = [(Journal, "__call__"), (Metrics, "__call__"), (Metrics, "opened"), (Metrics, "answered"), (Gaps, "note")]
_SHIPPED = [getattr(kind, name) for kind, name in _PLACES]


def _nothing(self: Any, *values: Any) -> None:
    """Do nothing."""


def _switch(state: str) -> str:
    (gateway,) = app.extensions["sluice"].values()
    while gateway.journal:
        time.sleep(0.05)
    for (kind, name), shipped in zip(_PLACES, _SHIPPED, strict=True):
        setattr(kind, name, shipped if state == "on" else _nothing)
    return state


app = create_app()
app.add_url_rule("/switch/<state>", view_func=_switch)
