"""What the server's worker must offer, checked once per process at its first request."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

from .drain import drain
from .errors import ConfigurationError

__all__ = ["check_worker"]

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
