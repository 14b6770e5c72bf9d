"""A connection of the upstream: reads requests, plays answers, notices at once when the peer leaves."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from .exchange import Exchange, Headers, Outcome
from .framing import Framer
from .operations import Body, Close, End, Ending, Head, Hold, Limit, Operation, Raw, RawHead, Shape, Silence, Wait
from .script import ScriptError

if TYPE_CHECKING:
    from .server import Server

__all__ = ["Connection"]

_MAX_HEAD = 64 * 1024
_MAX_BODY = 64 * 1024 * 1024
_PACKETS_PER_TURN = 16  # after so many writes other connections get their turn


class _Head(NamedTuple):
    method: str
    target: str
    version: str
    headers: Headers

    @classmethod
    def parse(cls, data: bytes) -> _Head:
        """Read a request's head.

        Raises ValueError.
        """
        first, *lines = data.decode("latin-1").split("\r\n")
        method, target, version = first.split(" ")
        pairs = [line.split(":", 1) for line in lines]
        return cls(method, target, version, Headers([(name, value.strip()) for name, value in pairs]))


class Connection(asyncio.Protocol):
    """One accepted socket. Requests are answered one after the other."""

    _transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self._server = server
        self._buffer = bytearray()
        self._head: _Head | None = None
        self._exchange: Exchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._writes = 0
        self._closing = False
        self._peer_gone = False
        self.number = 0

    # What the event loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse the connection if a script says so, else wait for its request."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=1, low=0)  # a write counts as done when the kernel has it
        self.number = self._server.opened(self)
        refused = self._server.refusal()
        if refused is not None:
            self._close(refused)

    def data_received(self, data: bytes) -> None:
        """Collect requests."""
        self._buffer += data
        self._advance()

    def eof_received(self) -> bool:
        """The peer has said its last: it is gone, whatever it might still read."""
        self._leave()
        self._transport.abort()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is no more."""
        self._writable.set()
        if not self._closing:
            self._leave()
        self._server.lost(self)

    def pause_writing(self) -> None:
        """The kernel's buffer is full."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The kernel took everything."""
        self._writable.set()

    def abort(self) -> asyncio.Task[None] | None:
        """Stop whatever goes on here, and return what is to be awaited."""
        self._closing = True
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()
        return self._task

    def _leave(self) -> None:
        self._peer_gone = True
        if self._exchange is not None:
            self._exchange.peer_left()
        if self._task is not None:
            self._task.cancel()

    # Requests

    def _advance(self) -> None:
        if self._task is not None or self._closing or self._peer_gone:
            return
        try:
            request = self._take_request()
        except ValueError:
            self._transport.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self._close("fin")
            return
        if request is not None:
            self._exchange = exchange = self._receive(*request)
            self._task = asyncio.get_running_loop().create_task(self._answer(exchange))

    def _take_request(self) -> tuple[_Head, bytes] | None:
        if self._head is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > _MAX_HEAD:
                    raise ValueError("the head is too long")
                return None
            self._head = _Head.parse(bytes(self._buffer[:end]))
            del self._buffer[: end + 4]
            if self._head.headers.get("expect", "").lower() == "100-continue":
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        length = int(self._head.headers.get("content-length", "0"))
        if not 0 <= length <= _MAX_BODY or "transfer-encoding" in self._head.headers:
            raise ValueError("a body must come with its length")
        if len(self._buffer) < length:
            return None
        head, body, self._head = self._head, bytes(self._buffer[:length]), None
        del self._buffer[:length]
        return head, body

    def _receive(self, head: _Head, body: bytes) -> Exchange:
        target = urlsplit(head.target)
        query = dict(parse_qsl(target.query, keep_blank_values=True))
        http10 = head.version == "HTTP/1.0"
        exchange = Exchange(0, self.number, head.method, target.path, query, head.headers, body, http10)
        self._server.received(exchange)
        return exchange

    # Answers

    async def _answer(self, exchange: Exchange) -> None:
        close = "close" in exchange.headers.get("connection", "").lower()
        framer = Framer(http10=exchange.http10, persistent=not (exchange.http10 or close))
        outcome: Outcome = "failed"
        ending: Ending = "rst"
        try:
            ending = await self._play(self._server.answer(exchange), framer, exchange)
            outcome = "finished" if ending == "clean" else "cut"
        except ScriptError as exc:
            self._server.failed(exchange, exc)
            if not exchange.sent:
                ending = await self._play(self._server.explain(exc), framer, exchange)
        except asyncio.CancelledError:
            outcome = "closed" if self._peer_gone else "stopped"
        except Exception as exc:
            self._server.failed(exchange, exc)
        finally:
            self._task = None
            if ending == "clean" and framer.keep_alive and outcome == "finished":
                asyncio.get_running_loop().call_soon(self._advance)
            elif outcome not in ("closed", "stopped"):
                self._close("fin" if ending == "clean" else ending)
            exchange.end(outcome)

    async def _play(self, operations: Iterator[Operation], framer: Framer, exchange: Exchange) -> Ending:
        for operation in operations:
            await self._send(self._packets(operation, framer, exchange), framer, exchange)
            if framer.spent is not None:
                await self._send(framer.end() if framer.spent == "clean" else framer.flush(), framer, exchange)
                return framer.spent
            match operation:
                case Wait(seconds):
                    await asyncio.sleep(seconds)
                case Hold():
                    await self._server.released.wait()
                case Silence():
                    await asyncio.Event().wait()
                case End():
                    return "clean"
                case Close(how):
                    return how
        return "clean"

    def _packets(self, operation: Operation, framer: Framer, exchange: Exchange) -> Iterable[bytes]:
        match operation:
            case Body(data):
                return framer.body(data)
            case Head():
                self._server.told(exchange, operation.status)
                return framer.head(operation)
            case RawHead(data):
                return framer.raw_head(data)
            case Raw(data):
                return framer.raw(data)
            case Shape():
                return framer.reshape(operation)
            case Limit():
                return framer.limit(operation)
            case End():
                return framer.end()
        return framer.flush()

    async def _send(self, packets: Iterable[bytes], framer: Framer, exchange: Exchange) -> None:
        for packet in packets:
            if not packet:
                continue
            self._transport.write(packet)
            exchange.count(len(packet))
            self._writes += 1
            if not self._writable.is_set():
                await self._writable.wait()
            if framer.shape.delay:
                await asyncio.sleep(framer.shape.delay)
            elif self._writes % _PACKETS_PER_TURN == 0:
                await asyncio.sleep(0)

    def _close(self, how: Ending) -> None:
        self._closing = True
        if how == "rst":
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()
