"""How gunicorn puts an answer on the wire: in fewer packets than it would by itself."""

from __future__ import annotations

from typing import Any

from gunicorn.http import wsgi

from .body import LastBlock
from .packet import send

__all__ = ["Response", "send_together"]


class Response(wsgi.Response):  # type: ignore[misc]
    """Sends the head of a chunked answer with its first block, and its end with the last one (RFC 9112, section 7.1).

    Each packet costs as much as a dozen chunks' parsing. What is held is sent by whatever comes next.
    """

    headers_sent: bool
    _held = b""

    def write(self, arg: Any) -> None:
        """Send a block of the body, the head before the first."""
        if not self.headers_sent and self.chunked and type(arg) is bytes and arg:
            lines = [*self.default_headers(), *map("%s: %s\r\n".__mod__, self.headers), "\r\n"]
            self._held = "".join(lines).encode("latin-1")
            self.headers_sent = True
        super().write(arg)

    def close(self) -> None:
        """Send the end of the body."""
        if self._held:
            held, self._held = self._held, b""
            send(self.sock, held + b"0\r\n\r\n")
        else:
            super().close()

    def _emit_body(self, data: bytes) -> None:
        if not self.chunked:
            super()._emit_body(data)
            return
        block = b"%s%X\r\n%s\r\n" % (self._held, len(data), data)
        if type(data) is LastBlock:
            self._held = block
            return
        self._held = b""
        send(self.sock, block)


def send_together() -> None:
    """Let this process' gunicorn make its responses so."""
    wsgi.Response = Response
