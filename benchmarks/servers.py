"""The servers a benchmark compares, each in a process of its own that is ended with the block."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

__all__ = ["KEY", "Server", "certificate", "free_port", "gateway", "get", "nginx", "pace", "running"]

ROOT = Path(__file__).resolve().parent.parent
KEY = "bench-key-0123456789"
PATH = "/v1/chat/completions"
_START_SECONDS = 30


class Server(NamedTuple):
    """A server under test: its name, the root of its process tree, and where chat completions go."""

    name: str
    pid: int
    url: str
    key: str = KEY
    headers: tuple[str, ...] = ()


def get(server: Server, path: str) -> None:
    """Ask *server* directly, whatever proxies the environment names, and wait for its answer.

    Raises:
        RuntimeError: it is no success.
    """
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=_START_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", path)
        status = connection.getresponse().status
    if status != 200:
        raise RuntimeError(f"{server.name} answered {path} with {status}")


def free_port() -> int:
    """Find a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def running(
    command: list[str], port: int, env: Mapping[str, str] | None = None, *, limit: float = _START_SECONDS
) -> Iterator[int]:
    """Run *command* until the block ends; give its process id once *port* takes connections.

    Raises:
        RuntimeError: it ended, or did not listen within *limit* seconds.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log)
        try:
            _wait_for(port, process, limit)
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], limit: float) -> None:
    until = time.monotonic() + limit
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args} did not come up on port {port}")


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 and its key."""
    made = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-out", str(made[0]), "-keyout", str(made[1])], check=True, capture_output=True)
    return made


@contextlib.contextmanager
def pace(tls: tuple[Path, Path] | None = None, port: int | None = None) -> Iterator[str]:
    """Run the paced upstream; give its origin."""
    port = port or free_port()
    command = [sys.executable, "benchmarks/pace.py", str(port), *map(str, tls or ())]
    with running(command, port):
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"


@contextlib.contextmanager
def nginx(upstream: str) -> Iterator[Server]:
    """Run nginx with one worker in front of *upstream*: the floor, bytes in, bytes out."""
    port = free_port()
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if program is None:
        raise RuntimeError("nginx is not installed: it is what everything is compared with")
    scheme, _, address = upstream.partition("://")
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "nginx.conf")
        config.write_text(
            f"worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/log;\n"
            "events { worker_connections 16384; }\n"
            "http { access_log off;\n"
            f"  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;\n"
            f"  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n"
            f"  upstream pace {{ server {address}; keepalive 256; }}\n"
            f"  server {{ listen 127.0.0.1:{port} backlog=4096;\n"
            f"    location / {{ proxy_pass {scheme}://pace; proxy_http_version 1.1; proxy_set_header Connection '';\n"
            "      proxy_buffering off; proxy_read_timeout 300s; } } }\n"
        )
        with running([program, "-c", str(config), "-p", folder], port) as pid:
            yield Server("nginx", pid, f"http://127.0.0.1:{port}{PATH}")


@contextlib.contextmanager
def gateway(upstream: str, name: str = "sluice", app: str = "wsgi:app", **settings: str) -> Iterator[Server]:
    """Run Sluice as it ships, one gevent worker, with keys and the record, in front of *upstream*."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLUICE_", "OPENROUTER_"))}
        env = kept | {
            "BIND": f"127.0.0.1:{port}",
            "WEB_CONCURRENCY": "1",
            "OPENROUTER_API_KEY": "sk-or-bench",
            "OPENROUTER_BASE_URL": f"{upstream}/v1",
            "SLUICE_API_KEYS": f"bench:{KEY}",
            "SLUICE_DATABASE_URL": f"sqlite:///{folder}/records.db",
            "SLUICE_MAX_STREAMS": "5000",
            "SLUICE_GRACEFUL_TIMEOUT": "5",
            **settings,
        }
        command = [sys.executable, "-m", "gunicorn", "--log-level", "warning", app]
        with running(command, port, env) as pid:
            # gunicorn listens before its worker is there, whose memory is read once it has loaded everything.
            server = Server(name, pid, f"http://127.0.0.1:{port}{PATH}")
            get(server, "/v1/health")
            yield server
