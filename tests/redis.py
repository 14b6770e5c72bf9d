"""A Redis server of our own, on a free port, for tests; it can be killed and started again."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any, Self

import redis

from tests.clock import PATIENCE
from tests.servers import Process, clean_environ, free_port

__all__ = ["RedisServer"]


class RedisServer:
    """Use it as a context manager.

    Args:
        folder: where it runs and, stopped in good order, keeps its data.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self.port = folder, free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.client: Any = redis.Redis(port=self.port, socket_timeout=PATIENCE)
        self._process: Process | None = None

    def start(self) -> Self:
        """Start it, or start it again on the same port, and wait until it answers."""
        program = shutil.which("redis-server")
        assert program is not None
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = Process([program, *options, "--dir", str(self._folder)], env=clean_environ({}))
        self._process.wait_for_log("Ready to accept connections")
        return self

    def stop(self) -> None:
        """Stop it; what it held is lost."""
        assert self._process is not None
        self._process.stop(signal.SIGKILL)

    def pause(self) -> None:
        """Let it hang: connections are taken, and nothing is answered."""
        assert self._process is not None
        self._process.popen.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.popen.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.client.close()
        self.stop()
