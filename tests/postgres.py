"""A PostgreSQL server of the tests' own, in a folder that is thrown away."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import psycopg

from tests.servers import free_port, wait_until

__all__ = ["PASSWORD", "PROGRAMS", "PostgreSQL"]

PROGRAMS = ":".join(str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))
"""Where Debian keeps the server's programs, as a search path."""
PASSWORD = "password-of-the-database"


class PostgreSQL:
    """One cluster on a free loopback port; use it as a context manager."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        # The server refuses to run as root; whoever runs it must be able to reach its folder.
        self._user = next((name for name in ("postgres", "nobody") if _exists(name)), "") if os.getuid() == 0 else ""
        self._folder = Path(tempfile.mkdtemp(prefix="sluice-postgres-"))
        self.port = free_port()

    def start(self) -> Self:
        """Start the server; the first time on a new cluster."""
        if not (self._folder / "data").exists():
            self._make()
        # No synchronous writes to disk: a crash of the machine is none of these tests' business.
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        self._run(
            ["pg_ctl", "-D", "data", "-l", "log", "-w", "-o", options, "start"], stdin=subprocess.DEVNULL, quiet=True
        )
        wait_until(self._answers, what="the PostgreSQL server")
        return self

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: *mode* is pg_ctl's, ``immediate`` being a crash."""
        self._run(["pg_ctl", "-D", "data", "-w", "-m", mode, "stop"], quiet=True)

    def database(self) -> str:
        """Make a new, empty database and give its URL."""
        name = f"records_{next(self._numbers)}"
        self.execute("postgres", f"CREATE DATABASE {name}")
        return self.url(name)

    def url(self, name: str, password: str = PASSWORD) -> str:
        """Give the URL of a database."""
        return f"postgresql://sluice:{password}@127.0.0.1:{self.port}/{name}"

    def execute(self, name: str, statement: str) -> list[Any]:
        """Run a statement in a database; give its rows, if it has any."""
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[call-overload]
            return list(cursor) if cursor.description else []

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop("immediate")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make(self) -> None:
        (self._folder / "password").write_text(PASSWORD)
        if self._user:
            entry = pwd.getpwnam(self._user)
            for path in (self._folder, self._folder / "password"):
                os.chown(path, entry.pw_uid, entry.pw_gid)
        self._run(
            ["initdb", "-D", "data", "-U", "sluice", "-A", "scram-sha-256", "--pwfile=password", "-E", "UTF8", "-N"]
        )

    def _answers(self) -> bool:
        try:
            self.execute("postgres", "SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, command: Sequence[str], *, quiet: bool = False, stdin: int | None = None) -> None:
        path = f"{PROGRAMS}:{os.environ.get('PATH', '')}"
        program = shutil.which(command[0], path=path) or command[0]
        user: dict[str, Any] = {}
        if self._user:
            entry = pwd.getpwnam(self._user)
            user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        output = subprocess.DEVNULL if quiet else subprocess.PIPE  # a server keeps an inherited pipe open
        subprocess.run(
            [program, *command[1:]], cwd=self._folder, check=True, stdin=stdin, stdout=output, stderr=output, **user
        )


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
