"""A client that sees bytes: what the upstream wrote, in the pieces it was written in."""

from __future__ import annotations

import json
import socket
import zlib
from dataclasses import dataclass, field
from typing import Any

from app.demo import DemoUpstream
from tests.clock import PATIENCE

__all__ = ["Answer", "ask", "connect", "events", "send"]


@dataclass
class Answer:
    """One response as it came: `reads` are the pieces the socket gave, `reset` tells a RST from a FIN."""

    reads: list[bytes] = field(default_factory=list)
    reset: bool = False

    @property
    def wire(self) -> bytes:
        """All bytes."""
        return b"".join(self.reads)

    @property
    def head(self) -> str:
        """The head, without its empty line."""
        return self.wire.partition(b"\r\n\r\n")[0].decode("latin-1")

    @property
    def status(self) -> int:
        """The status code."""
        return int(self.head.split(" ")[1])

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Header names in lower case, with their values."""
        lines = [line.partition(": ") for line in self.head.split("\r\n")[1:]]
        return [(name.lower(), value) for name, _, value in lines]

    @property
    def chunks(self) -> list[bytes]:
        """The HTTP chunks that came whole; the last, empty one included."""
        rest, found = self.wire.partition(b"\r\n\r\n")[2], []
        while b"\r\n" in rest:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size, 16)
            if len(rest) < length + 2:
                break
            found.append(rest[:length])
            rest = rest[length + 2 :]
        return found

    @property
    def body(self) -> bytes:
        """The body, out of its framing and compression."""
        headers = dict(self.headers)
        chunked = "transfer-encoding" in headers
        body = b"".join(self.chunks) if chunked else self.wire.partition(b"\r\n\r\n")[2]
        return zlib.decompress(body, wbits=31) if headers.get("content-encoding") == "gzip" else body

    @property
    def events(self) -> list[Any]:
        """The data of all events, parsed where it is JSON."""
        return events(self.body)


def events(body: bytes) -> list[Any]:
    """The data of the events in a body with LF line ends."""
    blocks = [block.split(b"\n") for block in body.split(b"\n\n")]
    data = [b"\n".join(line[6:] for line in lines if line.startswith(b"data: ")) for lines in blocks]
    return [
        json.loads(text) if text[:1] in (b"{", b"[") and text != b"[DONE]" else text.decode() for text in data if text
    ]


def connect(upstream: DemoUpstream) -> socket.socket:
    """Open a connection."""
    connection = socket.create_connection(("127.0.0.1", upstream.port), timeout=PATIENCE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def send(connection: socket.socket, method: str = "POST", path: str = "/api/v1/chat/completions", **body: Any) -> None:
    """Send a request; with `close` true it asks for the connection to be closed after it."""
    close = body.pop("close", True)
    data = json.dumps(body).encode() if body else b""
    head = f"{method} {path} HTTP/1.1\r\nHost: demo\r\nContent-Length: {len(data)}\r\n"
    connection.sendall(f"{head}{'Connection: close' + chr(13) + chr(10) if close else ''}\r\n".encode() + data)


def ask(upstream: DemoUpstream, method: str = "POST", path: str = "/api/v1/chat/completions", **body: Any) -> Answer:
    """Ask on a connection of its own and read until it ends."""
    with connect(upstream) as connection:
        send(connection, method, path, **body)
        answer = Answer()
        try:
            while data := connection.recv(65536):
                answer.reads.append(data)
        except ConnectionResetError:
            answer.reset = True
    return answer
