"""Runs the real command: piped, or on a terminal of its own."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

from tests.clock import PATIENCE
from tests.servers import ROOT, clean_environ

__all__ = ["Done", "Terminal", "run", "visible"]

COMMAND = (sys.executable, "-m", "app")


class Done(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


def _environ(env: Mapping[str, str | None] | None) -> dict[str, str]:
    return clean_environ({"NO_COLOR": None, "TERM": "xterm", "PYTHONPATH": str(ROOT), **(env or {})})


def run(*arguments: str, env: Mapping[str, str | None] | None = None, given: str = "", cwd: Path = ROOT) -> Done:
    """Run a command to its end with *given* on standard input, nothing being a terminal."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        env=_environ(env),
        input=given,
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,
        cwd=cwd,
    )
    return Done(done.returncode, done.stdout, done.stderr)


class Terminal:
    """A command on a pseudo-terminal; what it writes there is collected as bytes."""

    def __init__(self, *arguments: str, env: Mapping[str, str | None] | None = None, cwd: Path = ROOT) -> None:
        self._fd, inner = pty.openpty()
        self.popen = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env=_environ(env),
            cwd=cwd,
            start_new_session=True,
        )
        os.close(inner)
        self.data = b""

    @property
    def text(self) -> str:
        """What it has written."""
        return self.data.decode(errors="replace")

    def wait_for(self, pattern: str, timeout: float = PATIENCE) -> re.Match[str]:
        """Read until the output matches."""
        end = time.monotonic() + timeout
        while (found := re.search(pattern, self.text)) is None:
            if time.monotonic() > end or not self._read(end):
                raise TimeoutError(f"no {pattern!r} in {self.text!r}")
        return found

    def type(self, text: str) -> None:
        """Type on its keyboard."""
        os.write(self._fd, text.encode())

    def interrupt(self) -> None:
        """Send what Ctrl-C sends."""
        self.popen.send_signal(signal.SIGINT)

    def wait(self, timeout: float = PATIENCE) -> int:
        """Read to the end; give the exit status."""
        end = time.monotonic() + timeout
        while self._read(end):
            pass
        return self.popen.wait(max(end - time.monotonic(), 0.1))

    def _read(self, end: float) -> bool:
        watched = select.poll()  # select() takes no descriptor above 1023
        watched.register(self._fd, select.POLLIN)
        if not watched.poll(max(end - time.monotonic(), 0.0) * 1000):
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # Linux says so when the other end is closed
            return False
        self.data += data
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        os.close(self._fd)


def visible(text: str) -> str:
    """Take our own colours and the terminal's line ends out."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r\n", "\n")
