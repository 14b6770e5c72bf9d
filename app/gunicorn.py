"""Hooks for gunicorn.conf.py: ``from flask_sluice.gunicorn import *``.

They tell each worker's streams of a shutdown, so that every one of them gets its ending before gunicorn's
``graceful_timeout`` is over. gevent's patching, if used, belongs before this import.
"""

from __future__ import annotations

from typing import Any

from .drain import drain

__all__ = ["post_worker_init"]


def post_worker_init(worker: Any) -> None:
    """Follow a worker that is ready; warn where its class cannot hold streams open side by side."""
    drain.watch(worker, float(worker.cfg.graceful_timeout))
    if worker.cfg.worker_class_str == "sync":
        worker.log.warning("worker class sync serves one stream at a time: use gevent, or gthread with many threads")
