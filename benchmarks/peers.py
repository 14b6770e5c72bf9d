"""Other gateways that Sluice is compared with, started from the folder they are installed in, one worker each."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.servers import PATH, Server, free_port, running

__all__ = ["KNOWN", "Peer"]

_START_SECONDS = 300
"""LiteLLM imports for long; on a busy machine for minutes."""


class Peer(NamedTuple):
    """A gateway that the benchmark starts itself.

    Attributes:
        folder: where it is installed, as docs/performance.md says.
        version: what is installed there.
    """

    name: str
    folder: Path
    version: str

    @classmethod
    def installed(cls, name: str, folder: str) -> Peer:
        """Find a known peer in a folder.

        Raises:
            ValueError: it is not known, or not installed there.
        """
        if name not in KNOWN:
            raise ValueError(f"expected one of {', '.join(KNOWN)}, or NAME=PID=URL for another peer; got {name!r}")
        place = Path(folder).expanduser().resolve()
        try:
            return cls(name, place, _VERSIONS[name](place))
        except (OSError, subprocess.CalledProcessError) as error:
            raise ValueError(f"{name} is not installed in {place} ({error}): see docs/performance.md") from None

    def start(self, upstream: str) -> contextlib.AbstractContextManager[Server]:
        """Run it in front of *upstream* until the block ends."""
        return KNOWN[self.name](self.folder, upstream)


def _surroundings(**settings: str) -> dict[str, str]:
    """Give an environment without keys and proxies, which peers read there of their own accord."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ} | settings


@contextlib.contextmanager
def _litellm(folder: Path, upstream: str) -> Iterator[Server]:
    """Run LiteLLM's proxy with a key and no database; prices come from its package, not from the network."""
    port, key = free_port(), "sk-bench"
    config = {
        "model_list": [
            {
                "model_name": "pace/one",
                "litellm_params": {"model": "openai/pace-one", "api_base": f"{upstream}/v1", "api_key": "none"},
            }
        ],
        "general_settings": {"master_key": key},
    }
    env = _surroundings(LITELLM_LOCAL_MODEL_COST_MAP="True", DISABLE_ADMIN_UI="True")
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "config.yaml")
        path.write_text(json.dumps(config))  # JSON is YAML
        command = [str(folder / "bin" / "litellm"), "--config", str(path), "--host", "127.0.0.1"]
        command += ["--port", str(port), "--num_workers", "1", "--telemetry", "False"]
        with running(command, port, env, limit=_START_SECONDS) as pid:
            yield Server("litellm", pid, f"http://127.0.0.1:{port}{PATH}", key)


@contextlib.contextmanager
def _portkey(folder: Path, upstream: str) -> Iterator[Server]:
    """Run Portkey's gateway, one Node process; each request tells it where upstream is."""
    port = free_port()
    program = folder / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    headers = ("x-portkey-provider: openai", f"x-portkey-custom-host: {upstream}/v1")
    env = _surroundings(TRUSTED_CUSTOM_HOSTS="127.0.0.1")
    with running(["node", str(program), "--headless", f"--port={port}"], port, env, limit=_START_SECONDS) as pid:
        yield Server("portkey", pid, f"http://127.0.0.1:{port}{PATH}", "none", headers)


def _litellm_version(folder: Path) -> str:
    code = "from importlib.metadata import version as v; import platform as p; print(v('litellm'), p.python_version())"
    version, python = _output(str(folder / "bin" / "python"), "-c", code).split()
    return f"{version} (Python {python})"


def _portkey_version(folder: Path) -> str:
    about = json.loads((folder / "node_modules" / "@portkey-ai" / "gateway" / "package.json").read_text())
    return f"{about['version']} (Node {_output('node', '--version').removeprefix('v')})"


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


KNOWN: dict[str, Callable[[Path, str], contextlib.AbstractContextManager[Server]]] = {
    "litellm": _litellm,
    "portkey": _portkey,
}
_VERSIONS = {"litellm": _litellm_version, "portkey": _portkey_version}
