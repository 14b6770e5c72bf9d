"""The server, within an event loop: accepts, records, decides what is played."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .answers import Answers
from .connection import Connection
from .exchange import Exchange
from .operations import Ending, Operation
from .script import Script, ScriptError, parse_attempts, parse_script, play_script
from .stream import Stream

__all__ = ["Options", "Server"]

_BACKLOG = 4096
_CLOSING_TURNS = 8
"""Turns of the loop in which transports that are closing get to close their sockets."""
_REMEMBERED_KEYS = 10_000


@dataclass(frozen=True, slots=True)
class Options:
    """How the upstream behaves towards humans. pace: tokens per second, 0 for no waiting. first_token: seconds."""

    pace: float = 0.0
    first_token: float = 0.0
    usage_form: str = "empty"
    record: bool = True
    log: Callable[[str], None] | None = None


@dataclass(slots=True)
class _Queued:
    script: Script
    times: int | None
    path: str | None


@dataclass
class Server:
    """Accepts, records, decides what is played. Methods may be called from any thread but for `start` and `stop`."""

    options: Options = field(default_factory=Options)
    requests: list[Exchange] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    connects: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.connections: set[Connection] = set()
        self._answers = Answers(self.options.pace, self.options.first_token, self.options.usage_form)
        self._queue: list[_Queued] = []
        self._attempts: dict[str, int] = {}
        self._received = 0
        self.released = asyncio.Event()
        """Set once the answers that are held may go on; from the loop's thread only."""
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int, context: ssl.SSLContext | None = None) -> int:
        """Listen, and return the port.

        Raises OSError.
        """
        loop = asyncio.get_running_loop()
        shutdown = None if context is None else 1.0
        self._server = await loop.create_server(
            lambda: Connection(self), host, port, ssl=context, backlog=_BACKLOG, ssl_shutdown_timeout=shutdown
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close everything, whatever it is doing."""
        if self._server is not None:
            self._server.close()
        tasks = [task for connection in list(self.connections) if (task := connection.abort()) is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        # A TLS connection is known to us only after its handshake; one that is in it, or just failed, ends here.
        pending = asyncio.all_tasks() - {asyncio.current_task()}
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        while self.connections:
            await asyncio.sleep(0)
        for _ in range(_CLOSING_TURNS):
            await asyncio.sleep(0)

    def enqueue(self, script: Script, times: int | None, path: str | None) -> None:
        """Play this script for the next requests."""
        with self.changed:
            self._queue.append(_Queued(parse_script(script), times, path))

    def clear(self) -> None:
        """Forget the queued scripts."""
        with self.changed:
            self._queue.clear()

    # What a connection tells and asks

    def opened(self, connection: Connection) -> int:
        """Count a new connection and return its number, from 1."""
        with self.changed:
            self.connections.add(connection)
            self.connects += 1
            self.changed.notify_all()
            return self.connects

    def lost(self, connection: Connection) -> None:
        """Forget a connection."""
        with self.changed:
            self.connections.discard(connection)
            self.changed.notify_all()

    def refusal(self) -> Ending | None:
        """How to refuse the connection just accepted, if the next script in the queue does so."""
        with self.changed:
            first = self._queue[0].script[:1] if self._queue else []
            if not first or "refuse" not in first[0]:
                return None
            self._use(self._queue[0])
        how: Ending = "fin" if first[0]["refuse"] == "fin" else "rst"
        return how

    def received(self, exchange: Exchange) -> None:
        """Number a request and keep it if it is to be kept."""
        if exchange.path.startswith("/_demo/"):
            return
        with self.changed:
            self._received += 1
            exchange.number = self._received
            if self.options.record:
                self.requests.append(exchange)
            self.changed.notify_all()

    def told(self, exchange: Exchange, status: int) -> None:
        """Log an answer; never what was asked in it."""
        if self.options.log is not None:
            self.options.log(f"{exchange.method} {exchange.path} {status}")

    def failed(self, exchange: Exchange, exc: Exception) -> None:
        """Keep what is wrong with a script."""
        if self.options.record:
            self.failures.append(exc)
        if self.options.log is not None:
            self.options.log(f"{exchange.method} {exchange.path} failed: {type(exc).__name__}")

    def answer(self, exchange: Exchange) -> Iterator[Operation]:
        """Find the script for a request.

        Raises ScriptError.
        """
        script, stream = self._choose(exchange)
        exchange.generation_id = stream.id
        return play_script(script, stream)

    def explain(self, exc: ScriptError) -> Iterator[Operation]:
        """Tell whoever sent a script what is wrong with it."""
        error = {"code": 400, "message": str(exc), "metadata": {"error_type": "invalid_request"}}
        return play_script([{"answer": {"status": 400, "json": {"error": error}}}], Stream())

    def _choose(self, exchange: Exchange) -> tuple[Script, Stream]:
        if exchange.path == "/_demo/log" and self.options.record:
            return [{"answer": {"json": self._log(exchange.query.get("key"))}}], Stream()
        body = exchange.body if isinstance(exchange.body, dict) else {}
        user = body.get("user")
        exchange.key = user if isinstance(user, str) else None
        queued = self._dequeue(exchange.path)
        if queued is not None:
            return queued, Stream(model=str(body.get("model") or "demo/script"))
        if exchange.method == "POST" and body.get("model") == "demo/script":
            return self._scripted(exchange), Stream()
        return self._answers.to(exchange)

    def _scripted(self, exchange: Exchange) -> Script:
        attempts = parse_attempts(self._answers.last_user_text(exchange.body))
        if attempts.key is not None:
            exchange.key = attempts.key
            exchange.attempt = self._attempts.pop(attempts.key, 0) + 1
            self._attempts[attempts.key] = exchange.attempt
            if len(self._attempts) > _REMEMBERED_KEYS:
                del self._attempts[next(iter(self._attempts))]
        return attempts.scripts[min(exchange.attempt, len(attempts.scripts)) - 1]

    def _dequeue(self, path: str) -> Script | None:
        with self.changed:
            for queued in self._queue:
                if queued.path is None or path.endswith(queued.path):
                    self._use(queued)
                    return queued.script
        return None

    def _use(self, queued: _Queued) -> None:
        if queued.times is not None:
            queued.times -= 1
            if queued.times <= 0:
                self._queue.remove(queued)

    def _log(self, key: str | None) -> dict[str, Any]:
        kept = [exchange for exchange in list(self.requests) if key is None or exchange.key == key]
        requests = [exchange.to_json() for exchange in kept]
        return {"connects": self.connects, "connections_open": len(self.connections), "requests": requests}
