"""Does what a new user does who follows the documents to the letter, in an empty folder, and prints what is seen.

From a clone of this checkout: `make run` without a key and the README's curl; an application that mounts the blueprint,
as docs/mounting.md has it; a stage of one's own, as docs/writing-a-stage.md has it. Commands and code are taken out of
the documents. The one liberty: ports are free ones instead of 8000, 8010 and 5000. Takes a minute or two; needs git,
make, curl and a package index.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_SETTINGS = re.compile(r"(SLUICE|OPENROUTER|FLASK|GUNICORN)_.*|BIND|WEB_CONCURRENCY|VIRTUAL_ENV|PYTHONPATH")
_START_SECONDS = 240.0


class Surprise(Exception):
    """Something did not go as the documents say."""


class User:
    """Someone with a shell in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {name: value for name, value in os.environ.items() if not _SETTINGS.fullmatch(name)}
        self.ports = {port: _free_port() for port in ("8000", "8010", "5000")}

    def block(self, document: str, start: str, language: str = "console") -> str:
        """Read a block of the clone's documents: the first of its language that begins with *start*."""
        text = (self.folder / "sluice" / document).read_text()
        found = [
            code for code in re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S) if code.startswith(start)
        ]
        if not found:
            raise Surprise(f"{document} has no {language} block that begins with {start!r}")
        return re.sub(r"127\.0\.0\.1:(8000|8010|5000)", lambda m: f"127.0.0.1:{self.ports[m[1]]}", found[0])

    def commands(self, document: str, start: str) -> list[str]:
        """Read the commands of such a block."""
        session = self.block(document, start)
        return [found[2:] for found in re.findall(r"^\$ (?:.*\\\n)*.*", session, re.M)]

    def run(self, command: str, where: str = "", *, expect: str) -> str:
        """Type a command, wait for its end, and see *expect* in what it prints."""
        print(f"$ {command}", flush=True)
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder / where,
            env=self.env,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_START_SECONDS,
        )
        print(_clipped(done.stdout), flush=True)
        if done.returncode or not re.search(expect, done.stdout, re.DOTALL):
            raise Surprise(f"status {done.returncode}, expected output like {expect!r}")
        return done.stdout

    @contextmanager
    def running(self, command: str, where: str = "", *, expect: str) -> Iterator[str]:
        """Type a command that goes on in its terminal, and wait until it prints *expect*."""
        print(f"$ {command}", flush=True)
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.folder / where,
            env=self.env,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        timer = threading.Timer(_START_SECONDS, _end, [process])
        timer.start()
        try:
            yield _wait_for(process, expect)
        finally:
            timer.cancel()
            _end(process)
            process.wait()


def _wait_for(process: subprocess.Popen[str], expect: str) -> str:
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        seen += line
        if re.search(expect, seen):
            threading.Thread(target=process.stdout.read, daemon=True).start()  # so that it can go on printing
            return seen
    raise Surprise(f"it ended before it printed {expect!r}")


def _end(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)
    except ProcessLookupError:
        pass
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _clipped(text: str, lines: int = 8) -> str:
    found = [line[:160] for line in text.splitlines() if line]
    return "\n".join(found if len(found) <= lines else [*found[: lines // 2], "...", *found[-lines // 2 :]])


def try_it(user: User) -> None:
    """README, "Try it": a stream without a key."""
    user.run(f"git clone --quiet {ROOT} sluice", expect="")
    (start,) = user.commands("README.md", "$ make run")
    user.env["BIND"] = f"127.0.0.1:{user.ports['8000']}"
    with user.running(start, "sluice", expect="Listening at") as log:
        if "DEMO upstream answers" not in log:
            raise Surprise("it did not say that the demo answers")
        (ask,) = user.commands("README.md", "$ curl -N")
        user.run(ask, expect=r": keep-alive.*chat\.completion\.chunk.*x_g0dm0d3.*data: \[DONE\]")
    del user.env["BIND"]


def mount_it(user: User) -> None:
    """docs/mounting.md: the blueprint in an application of one's own, and a stage of docs/writing-a-stage.md."""
    user.run(f"{sys.executable} -m venv mine && mine/bin/pip install --quiet ./sluice", expect="")
    user.env["PATH"] = f"{user.folder}/mine/bin:{user.env['PATH']}"
    user.env["FLASK_RUN_PORT"] = str(user.ports["5000"])
    demo, serve = (
        command.replace("8010", str(user.ports["8010"]))
        for command in user.commands("docs/mounting.md", "$ sluice demo")
    )
    (user.folder / "myapp.py").write_text(user.block("docs/mounting.md", "from flask import Flask", "python"))
    (ask,) = user.commands("docs/mounting.md", "$ curl -N")
    with user.running(demo, expect="listening on"):
        with user.running(serve, expect="Running on"):
            user.run(ask, expect=r": keep-alive.*chat\.completion\.chunk.*data: \[DONE\]")
            user.run(ask.replace("my-token", "other"), expect="invalid_api_key")
        write_a_stage(user, serve)


def write_a_stage(user: User, serve: str) -> None:
    """docs/writing-a-stage.md: its example, as it stands there."""
    page = "docs/writing-a-stage.md"
    code = [user.block(page, start, "python") for start in ('"""Masks', "from flask import Flask")]
    (user.folder / "mystage.py").write_text("\n\n".join(code))
    start, ask = user.commands(page, "$ flask --app mystage")
    with user.running(f"{serve.partition(' ')[0]} {start}", expect="Running on"):
        out = user.run(ask, expect=r"\[e-mail\].*\"mask_emails\":\{\"masked\":1\}.*data: \[DONE\]")
        if "example.org" in out:
            raise Surprise("the address was not masked")


def main() -> int:
    """Play it all; 0 if everything went as the documents say."""
    with tempfile.TemporaryDirectory(prefix="new-user-") as folder:
        user = User(Path(folder))
        try:
            try_it(user)
            mount_it(user)
        except Surprise as error:
            print(f"not as documented: {error}", flush=True)
            return 1
    print("everything went as documented", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
