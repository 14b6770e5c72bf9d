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
        kept = self._known.get((host, port))
        if kept is None or time.monotonic() > kept[0]:
            with self._lock:
                kept = self._known.get((host, port))
                if kept is None or time.monotonic() > kept[0]:
                    found = _looked_up(host, port)
                    kept = self._known[host, port] = time.monotonic() + _KEPT, found
        if isinstance(kept[1], OSError):
            raise type(kept[1])(*kept[1].args)  # anew: each raise would lengthen the traceback of one that is kept
        return kept[1]

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
