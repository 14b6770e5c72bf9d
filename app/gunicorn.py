"""Hooks for gunicorn.conf.py: ``from flask_sluice.gunicorn import *``.

They tell each worker's streams of a shutdown, so that every one of them gets its ending before gunicorn's
``graceful_timeout`` is over, let all workers count into the same metrics, answer what gunicorn cannot read by an error
in OpenAI's shape, and keep Python's search for garbage away from what stays anyway. gevent's patching, if used,
belongs before this import.

NOTE: this module runs in gunicorn's master process too, so what it imports at its top a reload may not load anew.
"""

from __future__ import annotations

import gc
from typing import Any

from . import multiprocess

__all__ = ["child_exit", "on_exit", "on_starting", "post_worker_init"]

multiprocess.prepare()


def on_starting(server: Any) -> None:
    """Remove what servers that were killed have left of their workers' figures."""
    multiprocess.clean()


def post_worker_init(worker: Any) -> None:
    """Follow a worker that is ready; warn of what its class cannot do."""
    from .drain import drain
    from .framing import send_together
    from .refusal import refuse_in_json
    from .worker import accept_singly, serve_the_last

    # What has been loaded by now stays. Searched for garbage again and again it would hold every stream up for a while.
    gc.collect()
    gc.freeze()
    drain.watch(worker, float(worker.cfg.graceful_timeout))
    multiprocess.hold()
    refuse_in_json(worker)
    send_together()
    kind = worker.cfg.worker_class_str
    if kind == "gevent":
        accept_singly()
        serve_the_last(worker)
    if kind == "sync":
        worker.log.warning("worker class sync serves one stream at a time: use gevent, or gthread with many threads")
    if kind in ("sync", "gthread"):
        worker.log.warning(
            "worker class %s waits for a request's headers for as long as a client likes: keep it behind a proxy that"
            " does not, such as nginx (gevent gives them gunicorn's keepalive seconds)",
            kind,
        )


def child_exit(server: Any, worker: Any) -> None:
    """Forget the gauges of a worker that has ended, however it did."""
    multiprocess.mark_dead(worker.pid)


def on_exit(server: Any) -> None:
    """Remove the folder that the workers counted in."""
    multiprocess.remove()
