"""What a host's name stands for, asked once a second at most, and connections to it.

Under gevent each look-up goes through a thread, even that of a number, and ten threads look up for all: a hundred
streams that come at once would wait for one another before the first byte goes upstream.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable
from typing import Any

from urllib3.util.connection import allowed_gai_family

__all__ = ["Addresses"]

_KEPT = 1.0
"""Seconds for which an answer counts: a burst is spared, and a change is seen."""

Found = list[tuple[Any, ...]]


class Addresses:
    """The addresses of upstream, shared by all its connections."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, int], tuple[float, Found | OSError]] = {}

    def of(self, host: str, port: int) -> Found:
        """Give the addresses of *host* as ``getaddrinfo`` does; who comes while they are looked up waits for them.

        Raises:
            OSError: they cannot be found.
        """
        with self._lock:
            until, found = self._known.get((host, port), (0.0, []))
            if time.monotonic() > until:
                found = _looked_up(host, port)
                self._known[host, port] = time.monotonic() + _KEPT, found
        if isinstance(found, OSError):
            raise type(found)(*found.args)  # anew: each raise would lengthen the traceback of one that is kept
        return found

    def connect(
        self, host: str, port: int, *, timeout: float | None, source: Any, options: Iterable[Any] | None
    ) -> socket.socket:
        """Connect to the first address of *host* that takes the connection, within *timeout* seconds each.

        Raises:
            OSError: none does.
        """
        failure: OSError = OSError("no address is known")
        for family, kind, protocol, _, address in self.of(host, port):
            sock = socket.socket(family, kind, protocol)
            try:
                for option in options or ():
                    sock.setsockopt(*option)
                sock.settimeout(timeout)
                if source:
                    sock.bind(source)
                sock.connect(address)
                return sock
            except OSError as error:
                sock.close()
                failure = error
        try:
            raise failure
        finally:
            del failure  # its traceback holds this frame


def _looked_up(host: str, port: int) -> Found | OSError:
    try:
        return socket.getaddrinfo(host.strip("[]"), port, allowed_gai_family(), socket.SOCK_STREAM)
    except UnicodeError:
        return socket.gaierror(socket.EAI_NONAME, "a part of the name is empty or too long")
    except OSError as error:
        return error
