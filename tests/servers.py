"""Real servers and raw clients for tests: a gunicorn gateway in a process of its own, and streams read off the socket.

Nothing here waits by sleeping alone: every wait looks at a condition and has a deadline.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.clock import PATIENCE

__all__ = [
    "ROOT",
    "BodyCut",
    "GunicornGateway",
    "Process",
    "RawStream",
    "StartError",
    "children",
    "clean_environ",
    "free_port",
    "open_stream",
    "request",
    "wait_until",
]

ROOT = Path(__file__).resolve().parent.parent

START_TIMEOUT = 2 * PATIENCE
"""Seconds a process may take to come up; generous, for machines that are busy."""

_OWN_NAMES = re.compile(
    r"(SLUICE|OPENROUTER|GUNICORN|FLASK|PROMETHEUS)_.*|BIND|WEB_CONCURRENCY|(HTTPS?|ALL|NO)_PROXY", re.I
)


class StartError(RuntimeError):
    """A process ended, or stayed silent, instead of coming up; its log is the message."""


class BodyCut(ConnectionError):
    """A response body ended before its framing said so."""


def wait_until(condition: Callable[[], Any], timeout: float = PATIENCE, what: str = "the condition") -> Any:
    """Look at *condition* until it holds, and give what it gave.

    Raises:
        TimeoutError: it did not within *timeout* seconds.
    """
    end = time.monotonic() + timeout
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come true within {timeout:g} s")
        time.sleep(0.01)
    return found


def free_port() -> int:
    """Find a port that nothing listens on, for programs that cannot be told to choose one themselves.

    It is none of those that the system gives to sockets that ask for any, so that none of them takes it meanwhile.
    """
    for port in random.sample(range(12_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("a hundred ports were taken")


def clean_environ(env: Mapping[str, str | None]) -> dict[str, str]:
    """Give this process' environment without any setting of ours, and with *env*; None takes a name out."""
    kept: dict[str, str | None] = {k: v for k, v in os.environ.items() if not _OWN_NAMES.fullmatch(k)}
    return {name: value for name, value in (kept | dict(env)).items() if value is not None}


class Process:
    """A child process in a session of its own, whose output is collected as it comes.

    Args:
        command: program and arguments.
        env: the whole environment.
        cwd: its folder.
        stdin: the file descriptor that is its standard input.
    """

    def __init__(
        self, command: Iterable[str], *, env: Mapping[str, str], cwd: Path = ROOT, stdin: int = subprocess.DEVNULL
    ) -> None:
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self.popen = subprocess.Popen(
            list(command),
            env=dict(env),
            cwd=cwd,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id, which is its group's as well."""
        return self.popen.pid

    def log(self) -> str:
        """Give what it wrote to standard output and standard error so far."""
        with self._changed:
            return "".join(self._lines)

    def wait_for_log(self, pattern: str, timeout: float = START_TIMEOUT) -> re.Match[str]:
        """Wait until the output matches *pattern*.

        Raises:
            StartError: it ended first, or *timeout* seconds went by.
        """
        found: re.Match[str] | None = None

        def has_come() -> bool:
            nonlocal found
            found = re.search(pattern, "".join(self._lines))
            return found is not None or self._ended

        with self._changed:
            self._changed.wait_for(has_come, timeout)
            if found is None:
                raise StartError(f"no {pattern!r} in the output of pid {self.pid}:\n{''.join(self._lines)}")
            return found

    def stop(self, sign: int = signal.SIGTERM, timeout: float = PATIENCE) -> int:
        """Send *sign*, wait, kill what is left of the group after *timeout* seconds; give the exit status."""
        if self.popen.poll() is None:
            self.popen.send_signal(sign)
            try:
                self.popen.wait(timeout)
            except subprocess.TimeoutExpired:
                pass
        # Also when the leader has gone: a worker may have outlived it, and would keep the pipe open.
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        status = self.popen.wait()
        self._reader.join(timeout)
        if self.popen.stdout is not None and not self._reader.is_alive():
            self.popen.stdout.close()
        return status

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def children(pid: int) -> list[int]:
    """Give the process ids of a process' children."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class GunicornGateway:
    """A gateway under gunicorn, as a deployment runs it; use it as a context manager.

    Args:
        env: goes over the defaults (open mode, an upstream key, a database that is thrown away); None takes a name out.
        worker_class: ``gevent`` or ``gthread``.
        config: gunicorn's config file; the repository's own when None.
        port: 0 lets the system choose.
        app: what gunicorn serves, found in *cwd*.
        args: further arguments for gunicorn.
        ready_path: is asked until it answers, whatever it answers; None does not wait.
        python: the interpreter, and with it the environment.
        before: what stands before gunicorn's command: a program that becomes it.
    """

    def __init__(
        self,
        env: Mapping[str, str | None] | None = None,
        worker_class: str = "gevent",
        config: str | Path | None = None,
        port: int = 0,
        *,
        app: str = "wsgi:app",
        cwd: Path = ROOT,
        args: Iterable[str] = (),
        ready_path: str | None = "/v1/health",
        python: str | Path = sys.executable,
        before: Iterable[str] = (),
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-")
        defaults: dict[str, str | None] = {
            "SLUICE_OPEN": "on",
            "SLUICE_DATABASE_URL": f"sqlite:///{self._folder.name}/records.db",
            "OPENROUTER_API_KEY": "sk-or-test",
            "SLUICE_WORKER_CLASS": worker_class,
            "PYTHONUNBUFFERED": "1",
        }
        self._env = clean_environ(defaults | dict(env or {}))
        self._command = [*before, str(python), "-m", "gunicorn", "-c", str(config or ROOT / "gunicorn.conf.py")]
        self._command += ["--bind", f"127.0.0.1:{port}", *args, app]
        self._cwd, self._ready_path = cwd, ready_path
        self._process: Process | None = None
        self.url = ""
        """Where it listens, without a slash at the end."""

    @property
    def process(self) -> subprocess.Popen[str]:
        """Gunicorn's master process."""
        assert self._process is not None
        return self._process.popen

    @property
    def chat_url(self) -> str:
        """Where ``create_app`` takes chat completions."""
        return f"{self.url}/v1/chat/completions"

    def start(self) -> Self:
        """Start it and wait until it answers.

        Raises:
            StartError: it did not come up; the log is in the message.
        """
        self._process = Process(self._command, env=self._env, cwd=self._cwd)
        try:
            self.url = self._process.wait_for_log(r"Listening at: (http://[\d.]+:\d+)")[1]
            if self._ready_path is not None:
                self._wait_until_ready(self.url + self._ready_path)
        except BaseException:
            self.stop(signal.SIGQUIT)
            raise
        return self

    def _wait_until_ready(self, url: str) -> None:
        end = time.monotonic() + START_TIMEOUT
        while self.process.poll() is None and time.monotonic() < end:
            try:
                request("GET", url, timeout=max(end - time.monotonic(), 0.1)).close()
                return
            except OSError:
                time.sleep(0.02)  # it listens before its worker runs; a worker that fails ends the master
        raise StartError(f"{url} gave no answer:\n{self.log()}")

    def log(self) -> str:
        """Give what the process wrote so far."""
        return self._process.log() if self._process else ""

    def wait_for_log(self, pattern: str, timeout: float = PATIENCE) -> re.Match[str]:
        """Wait until the log matches *pattern*.

        Raises:
            StartError: it does not within *timeout* seconds.
        """
        assert self._process is not None
        return self._process.wait_for_log(pattern, timeout)

    def stop(self, sign: int = signal.SIGTERM, timeout: float = PATIENCE) -> int:
        """Stop it by *sign*; SIGTERM lets open streams go on, SIGQUIT does not. Give the exit status."""
        try:
            return self._process.stop(sign, timeout) if self._process else 0
        finally:
            self._folder.cleanup()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop(signal.SIGQUIT)


class RawStream:
    """A response read straight off a socket, with its framing undone; made by ``open_stream`` and ``request``.

    Reading goes no further than asked: what is not taken stays in the socket's buffers. *before* is the response before
    it on the same connection, read to its end, which may have received the beginning of this one.
    """

    def __init__(self, sock: socket.socket, timeout: float, before: RawStream | None = None) -> None:
        self.sock = sock
        self._timeout = timeout
        self._wire, self._body = before._wire if before is not None else b"", b""
        self._is_at_end = False
        head = self._until(b"\r\n\r\n", time.monotonic() + timeout)
        status, _, fields = head.partition("\r\n")
        self.version, self.status = status.split(" ")[0], int(status.split(" ")[1])
        pairs = [line.partition(":") for line in fields.split("\r\n") if line]
        self.headers: dict[str, str] = {}
        """By lower-case name; values of a repeated one are joined by a comma."""
        for name, _, value in pairs:
            key = name.strip().lower()
            self.headers[key] = f"{self.headers[key]}, {value.strip()}" if key in self.headers else value.strip()
        self._is_chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        length = self.headers.get("content-length")
        self._left = int(length) if length is not None and not self._is_chunked else None

    def next_event(self, timeout: float = PATIENCE) -> str | None:
        """Give the next block of the event stream, without the blank line that ends it; None at the clean end.

        Raises:
            TimeoutError: none came within *timeout* seconds.
            BodyCut: the body ended inside a block or inside its framing.
        """
        end = time.monotonic() + timeout
        while b"\n\n" not in self._body:
            if not self._more(end):
                if self._body:
                    raise BodyCut(f"the body ended inside the block {self._body[-200:]!r}")
                return None
        block, _, self._body = self._body.partition(b"\n\n")
        return block.decode()

    def next_data(self, timeout: float = PATIENCE) -> str | None:
        """Give the data of the next block that has any, passing over comments; otherwise as ``next_event``."""
        end = time.monotonic() + timeout
        while (block := self.next_event(max(end - time.monotonic(), 0.0))) is not None:
            lines = [line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
            if lines:
                return "\n".join(lines)
        return None

    def events(self, timeout: float = PATIENCE) -> list[str]:
        """Give all further blocks until the clean end; raises as ``next_event``, *timeout* being for all of them."""
        end, found = time.monotonic() + timeout, []
        while (block := self.next_event(max(end - time.monotonic(), 0.0))) is not None:
            found.append(block)
        return found

    def data(self, timeout: float = PATIENCE) -> list[Any]:
        """Give all further data until the clean end, JSON read, ``[DONE]`` as that text; raises as ``events``."""
        end, found = time.monotonic() + timeout, []
        while (text := self.next_data(max(end - time.monotonic(), 0.0))) is not None:
            found.append(text if text == "[DONE]" else json.loads(text))
        return found

    def read(self, timeout: float = PATIENCE) -> bytes:
        """Give the rest of the body; raises as ``events``."""
        end = time.monotonic() + timeout
        while self._more(end):
            pass
        body, self._body = self._body, b""
        return body

    def read_some(self, timeout: float = PATIENCE) -> bytes:
        """Give the body's next piece, as soon as there is any; empty at the clean end. Raises as ``next_event``."""
        if not self._body:
            self._more(time.monotonic() + timeout)
        body, self._body = self._body, b""
        return body

    def json(self) -> Any:
        """Give the body as JSON."""
        return json.loads(self.read())

    def close(self, *, abrupt: bool = False) -> None:
        """Close the connection; *abrupt*: by a reset instead of a FIN. Idempotent."""
        if abrupt and self.sock.fileno() != -1:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _more(self, end: float) -> bool:
        """Read a piece of the body; False at its clean end."""
        if self._is_at_end:
            return False
        piece = self._chunk(end) if self._is_chunked else self._plain(end)
        self._is_at_end = not piece
        self._body += piece
        return bool(piece)

    def _chunk(self, end: float) -> bytes:
        size = int(self._until(b"\r\n", end).split(";")[0], 16)
        while len(self._wire) < size + 2:
            self._receive(end)
        piece, self._wire = self._wire[:size], self._wire[size + 2 :]
        return piece

    def _plain(self, end: float) -> bytes:
        if self._left == 0:
            return b""
        if not self._wire:
            try:
                self._receive(end)
            except BodyCut:
                if self._left is None:  # nothing but the end of the connection ends such a body
                    return b""
                raise
        piece, self._wire = self._wire, b""
        if self._left is not None:
            piece, self._wire = piece[: self._left], piece[self._left :]
            self._left -= len(piece)
        return piece

    def _until(self, mark: bytes, end: float) -> str:
        while mark not in self._wire:
            self._receive(end)
        found, _, self._wire = self._wire.partition(mark)
        return found.decode("latin-1")

    def _receive(self, end: float) -> None:
        self.sock.settimeout(max(end - time.monotonic(), 0.001))
        piece = self.sock.recv(65536)
        if not piece:
            raise BodyCut(f"the connection ended after {self._wire[-200:]!r}")
        self._wire += piece


def request(
    method: str,
    url: str,
    body: bytes | str | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    timeout: float = PATIENCE,
    version: str = "HTTP/1.1",
    tls: ssl.SSLContext | None = None,
) -> RawStream:
    """Send one request on a connection of its own, and give the response once its head is there.

    *headers* go over the defaults; an empty value takes a header out. *tls* is for an https address.

    Raises:
        OSError: no connection, no head within *timeout* seconds, or the connection ended before it.
    """
    parts = urlsplit(url)
    payload = body.encode() if isinstance(body, str) else body
    fields = {"Host": parts.netloc, "Connection": "close", "Accept": "*/*"}
    if payload is not None:
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(payload))}
    fields |= dict(headers or {})
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    host = parts.hostname or "127.0.0.1"
    sock = socket.create_connection((host, parts.port or (443 if tls else 80)), timeout)
    try:
        sock = tls.wrap_socket(sock, server_hostname=host) if tls else sock
        sock.sendall(f"{method} {target} {version}\r\n{head}\r\n".encode("latin-1") + (payload or b""))
        return RawStream(sock, timeout)
    except BaseException:
        sock.close()
        raise


def open_stream(
    url: str,
    body: Mapping[str, Any] | str | bytes,
    headers: Mapping[str, str] | None = None,
    *,
    timeout: float = PATIENCE,
    tls: ssl.SSLContext | None = None,
) -> RawStream:
    """POST *body*, an object as JSON, to *url*; give the response once its head is there.

    Raises:
        OSError: as ``request``.
    """
    payload = body if isinstance(body, (str, bytes)) else json.dumps(body)
    fields = {"Accept": "text/event-stream"} | dict(headers or {})
    return request("POST", url, payload, fields, timeout=timeout, tls=tls)
