"""What the server's worker must offer, checked once per process at its first request, and what we add to it."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

from .drain import drain
from .errors import ConfigurationError

__all__ = ["accept_singly", "check_worker", "serve_the_last"]

log = logging.getLogger("sluice")

_made_at_import = threading.local()


def check_worker(server_software: str) -> None:
    """Check that gevent, if in use, patched before this package was imported, and that the drain is watched.

    Raises:
        ConfigurationError: it patched later, so greenlets would share what threads must not.
    """
    monkey: Any = sys.modules.get("gevent.monkey")
    is_patched = monkey is not None and monkey.is_module_patched("threading")
    if is_patched and type(_made_at_import) is not threading.local:
        raise ConfigurationError(
            "flask_sluice, requests or urllib3 was imported before gevent patched the process: put"
            " `from gevent import monkey; monkey.patch_all()` on the first line of gunicorn.conf.py, or do not preload"
        )
    if server_software.startswith("gunicorn") and not drain.is_watched:
        log.warning(
            "gunicorn runs without the drain hooks: add `from flask_sluice.gunicorn import *` to gunicorn.conf.py,"
            " or open streams are cut off at shutdown"
        )


def accept_singly() -> None:
    """Let a gevent worker begin with one connection before it takes the next, as several workers do by gunicorn's care.

    A burst that it takes all at once would go through every request before the first answer is looked at again.
    """
    server: Any = sys.modules["gevent.server"]
    server.StreamServer.max_accept = 1


class _Listener:
    """A listening socket whose name is known also when it is closed."""

    def __init__(self, listener: Any) -> None:
        self._listener, self._name = listener, listener.getsockname()

    def getsockname(self) -> Any:
        return self._name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)


def serve_the_last(worker: Any) -> None:
    """Let *worker* serve a connection that it accepted just before a shutdown closed its listener.

    NOTE: gunicorn asks the listener for its name when it begins with a connection, and resets it when that is closed.
    """
    handle = worker.handle
    known = {id(listener): _Listener(listener) for listener in worker.sockets}

    def handle_always(listener: Any, client: Any, address: Any) -> None:
        handle(known.get(id(listener), listener), client, address)

    worker.handle = handle_always
