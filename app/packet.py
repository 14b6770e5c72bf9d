"""Bytes into a socket, in one packet wherever they fit."""

from __future__ import annotations

from typing import Any

__all__ = ["send"]


def send(sock: Any, data: bytes) -> None:
    """Send all of *data*.

    Raises:
        OSError: as the socket's own ``sendall``, which under gevent is four calls around this one.
    """
    sent = sock.send(data)
    if sent < len(data):
        sock.sendall(memoryview(data)[sent:])
