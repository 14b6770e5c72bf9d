"""The upstream for tests: a server in a thread of its own, with scripts to queue and requests to look at."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from types import TracebackType

from .exchange import Exchange
from .script import Script
from .server import Options, Server

__all__ = ["DemoUpstream"]


class DemoUpstream:
    """The upstream in a thread, as a context manager; by default it never waits on its own.

    Leaving the context closes every connection and raises the first ScriptError that a script met while playing.
    """

    def __init__(
        self,
        *,
        pace: float = 0.0,
        first_token: float = 0.0,
        usage_form: str = "empty",
        host: str = "127.0.0.1",
        port: int = 0,
        ssl_context: ssl.SSLContext | None = None,
        record: bool = True,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self._server = Server(Options(pace, first_token, usage_form, record, log))
        self._host, self._context = host, ssl_context
        self.port = port
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="demo-upstream", daemon=True)
        self._ready: threading.Event = threading.Event()
        self._failure: OSError | None = None

    @property
    def base_url(self) -> str:
        """What a client takes as OpenRouter's address."""
        scheme = "http" if self._context is None else "https"
        return f"{scheme}://{self._host}:{self.port}/api/v1"

    @property
    def requests(self) -> list[Exchange]:
        """The requests received so far, oldest first."""
        return self._server.requests

    @property
    def failures(self) -> list[Exception]:
        """What went wrong while playing; the first of them is raised when the context is left."""
        return self._server.failures

    @property
    def connects(self) -> int:
        """How many connections were accepted so far, refused ones included."""
        return self._server.connects

    @property
    def connections_open(self) -> int:
        """How many connections are open now."""
        return len(self._server.connections)

    def play(self, steps: Script, *, times: int | None = 1, path: str | None = "/chat/completions") -> None:
        """Queue a script for the next request whose path ends so; `times` None is for ever, `path` None any path.

        Raises ScriptError.
        """
        self._server.enqueue(steps, times, path)

    def play_attempts(self, scripts: list[Script], *, path: str | None = "/chat/completions") -> None:
        """Queue one script for each of the next requests.

        Raises ScriptError.
        """
        for script in scripts:
            self.play(script, path=path)

    def release(self) -> None:
        """Let all answers that are held go on, those to come as well."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._server.released.set)

    def clear(self) -> None:
        """Forget the queued scripts."""
        self._server.clear()

    def wait_for_request(self, number: int = 1, timeout: float = 60.0) -> Exchange:
        """Wait for the request with this number, counted from 1.

        Raises TimeoutError.
        """
        self._wait(lambda: len(self.requests) >= number, timeout, f"no request number {number}")
        return self.requests[number - 1]

    def wait_for_connections(self, count: int = 0, timeout: float = 60.0) -> None:
        """Wait until just so many connections are open.

        Raises TimeoutError.
        """
        self._wait(lambda: self.connections_open == count, timeout, f"never {count} open connections")

    def _wait(self, condition: Callable[[], bool], timeout: float, complaint: str) -> None:
        with self._server.changed:
            if not self._server.changed.wait_for(condition, timeout):
                raise TimeoutError(f"{complaint} within {timeout} s")

    def start(self) -> DemoUpstream:
        """Listen.

        Raises OSError.
        """
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def stop(self) -> None:
        """Close everything; harmless when done twice."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def __enter__(self) -> DemoUpstream:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        if exc is None and self.failures:
            raise self.failures[0]

    def _run(self) -> None:
        loop = self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            self.port = loop.run_until_complete(self._server.start(self._host, self.port, self._context))
        except OSError as exc:
            self._failure = exc
        self._ready.set()
        if self._failure is None:
            loop.run_forever()
            loop.run_until_complete(self._server.stop())
        asyncio.set_event_loop(None)
        loop.close()
