"""The client's connection as the server exposes it: whether the client is still there, and how to cut it off."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections.abc import Mapping
from typing import Any

__all__ = ["Peer"]

_TCP_CLOSE, _TCP_CLOSE_WAIT = 7, 8


class Peer:
    """The client of one request.

    A client that half-closes its connection after the request counts as gone: nothing tells the two apart.

    Args:
        environ: the WSGI environment; gunicorn's and Werkzeug's servers put their socket there.
    """

    def __init__(self, environ: Mapping[str, Any]) -> None:
        found = environ.get("gunicorn.socket") or environ.get("werkzeug.socket")
        self._socket: socket.socket | None = found if hasattr(found, "getsockopt") else None
        self._lock = threading.Lock()

    @property
    def descriptor(self) -> int:
        """The socket's file descriptor, -1 where there is none."""
        return self._socket.fileno() if self._socket is not None else -1

    def let_go(self) -> None:
        """Leave the connection alone from now on. The server may close it next, and its descriptor be another's.

        Comes back once a shutdown that another thread is in the middle of is done.
        """
        with self._lock:
            self._socket = None

    def is_gone(self) -> bool:
        """Whether the client has closed; False where the server shows no socket."""
        sock = self._socket
        if sock is None:
            return False
        try:
            # Right even when the client left bytes behind that nobody read, and costs no read (Linux tcp(7), TCP_INFO).
            return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in (_TCP_CLOSE, _TCP_CLOSE_WAIT)
        except (AttributeError, OSError):
            return self._is_at_end(sock)

    def limit_silence(self, seconds: float) -> None:
        """Let the kernel end the connection when the client acknowledges or takes nothing for *seconds*.

        That reaches where nothing of ours looks: an answer that is written in one piece, a client whose power failed.
        """
        if self._socket is not None:
            with contextlib.suppress(AttributeError, OSError, ValueError):  # not Linux, or a Unix socket
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))

    def cut(self) -> None:
        """Shut the connection down under a server that is stuck in a write to it."""
        self._shut(socket.SHUT_RDWR)

    def stop_reading(self) -> None:
        """End what comes in, under a server that waits for it; an answer can still go out."""
        self._shut(socket.SHUT_RD)

    def _shut(self, how: int) -> None:
        # A duplicate, so that the server's own socket object sees a plain broken pipe, which it treats as routine.
        with self._lock, contextlib.suppress(OSError, ValueError):
            if self._socket is None:
                return
            duplicate = socket.socket(fileno=os.dup(self._socket.fileno()))
            try:
                duplicate.shutdown(how)
            finally:
                duplicate.close()

    @staticmethod
    def _is_at_end(sock: socket.socket) -> bool:
        try:
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            return bool(poll.poll(0)) and sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except (OSError, ValueError):
            return True
