"""The clients' own environments: a virtual environment for each Python client, an npm project for those in JavaScript.

They are made once, in `.clients/` of the checkout, and found again by a hash of what is pinned and of the interpreter.
Run as a program, this module makes all of them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NODE", "PYTHON", "EnvironmentFailure", "environment", "prepare"]

FOLDER = Path(__file__).resolve().parent
CACHE = FOLDER.parent.parent / ".clients"
PYTHON = ("openai3", "openai2", "openai1", "langchain", "llm")
"""The Python environments; each is pinned in `requirements-NAME.txt`."""
NODE = "node"
"""The npm project, pinned in `node/package-lock.json`."""


class EnvironmentFailure(RuntimeError):
    """A tool is missing or an installation failed; says which, and what it printed."""


def environment(name: str) -> Path:
    """Give an environment's folder, made first if need be. Safe from several threads and processes.

    Raises:
        EnvironmentFailure: it cannot be made.
    """
    return _node() if name == NODE else _python(name)


def prepare(names: Sequence[str]) -> None:
    """Make several environments at the same time.

    Raises:
        EnvironmentFailure: as ``environment``, once those begun have ended.
    """
    if names:
        with ThreadPoolExecutor(len(names)) as pool:
            list(pool.map(environment, names))


def _python(name: str) -> Path:
    requirements = FOLDER / f"requirements-{name}.txt"
    key = _key([requirements], f"{sys.version} {sys.base_prefix}")

    def build(target: Path) -> None:
        _run([sys.executable, "-m", "venv", "--without-pip", str(target)])
        pip = [sys.executable, "-m", "pip", "--python", str(target / "bin" / "python"), "install"]
        _run([*pip, "--quiet", "--no-input", "--disable-pip-version-check", "--requirement", str(requirements)])

    return _made_once(f"{name}-{key}", build)


def _node() -> Path:
    pins = [FOLDER / "node" / "package.json", FOLDER / "node" / "package-lock.json"]
    key = _key(pins, _run(["node", "--version"]))

    def build(target: Path) -> None:
        target.mkdir()
        for pin in pins:
            shutil.copy(pin, target)
        _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=target)

    target = _made_once(f"{NODE}-{key}", build)
    for program in (FOLDER / "node").glob("*.mjs"):
        _place(program, target)  # an ES module finds packages only in folders above its own
    return target


def _place(program: Path, folder: Path) -> None:
    """Copy a program so that one who runs it at this moment never sees half of it."""
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as copy:
        copy.write(program.read_bytes())
    os.replace(copy.name, folder / program.name)


def _made_once(name: str, build: Callable[[Path], None]) -> Path:
    target = CACHE / name
    complete = target / ".complete"
    CACHE.mkdir(exist_ok=True)
    with _locked(CACHE / f"{name}.lock"):
        if not complete.exists():
            shutil.rmtree(target, ignore_errors=True)  # an earlier attempt was interrupted
            build(target)
            complete.touch()
    return target


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _key(pins: Sequence[Path], tool: str) -> str:
    digest = hashlib.sha256(tool.encode())
    for pin in pins:
        digest.update(pin.read_bytes())
    return digest.hexdigest()[:16]


def _run(command: list[str], cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError as exc:
        raise EnvironmentFailure(f"{command[0]} is not installed") from exc
    if done.returncode:
        raise EnvironmentFailure(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    prepare([*PYTHON, NODE])
