"""What the tests share: a scripted upstream, and gateways in this process that serve real sockets."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from hypothesis import HealthCheck, settings
from werkzeug.serving import make_server

from app import create_app, create_blueprint
from app.demo import DemoUpstream
from app.gateway import Gateway
from app.record import Record
from tests.postgres import PROGRAMS, PostgreSQL
from tests.servers import RawStream, open_stream, wait_until

Change = Callable[[Flask], None]
"""What a test does to a host application."""

QUESTION = {"model": "test/model", "messages": [{"role": "user", "content": "Say something."}]}


# Whoever runs the tests in the background has Ctrl-C ignored, and what the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow machine is no fault. What CI checks is the same every time; a developer's machine looks for new examples.
settings.register_profile(
    "sluice", deadline=None, derandomize="CI" in os.environ, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("sluice")

NEEDS = {
    "nginx": lambda item: "nginx" in item.name or "nginx" in getattr(item, "fixturenames", ()),
    "openssl": lambda item: "tls" in item.name or "certificate" in getattr(item, "fixturenames", ()),
    "redis-server": lambda item: "redis" in getattr(item, "fixturenames", ()),
    "node": lambda item: "clients" in item.path.parts or "snippet" in item.name,
    "npm": lambda item: "clients" in item.path.parts or "snippet" in item.name,
    "curl": lambda item: "clients" in item.path.parts or "snippet" in item.name,
    "chromium": lambda item: "browser" in getattr(item, "fixturenames", ()),
    "postgres": lambda item: "postgres" in item.name,
}
"""Programs that some tests need: where one is missing they are skipped and say so; a checking machine has them all."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests whose programs are not on this machine."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin:{PROGRAMS}"
    missing = [tool for tool in NEEDS if shutil.which(tool, path=path) is None]
    for item in items:
        for tool in missing:
            if NEEDS[tool](item):
                item.add_marker(pytest.mark.skip(reason=f"needs {tool}"))


class Served:
    """A gateway that listens; ``records`` are those finished so far."""

    def __init__(self, app: Any, records: list[Record]) -> None:
        self.app, self.records = app, records
        self._server = make_server("127.0.0.1", 0, app, threaded=True)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def chat_url(self) -> str:
        """Where chat completions go."""
        return f"{self.url}/v1/chat/completions"

    @property
    def gateway(self) -> Gateway:
        """The gateway behind the application."""
        found: Gateway = self.app.extensions["sluice"]["sluice"]
        return found

    def ask(self, *, headers: dict[str, str] | None = None, **body: Any) -> RawStream:
        """Send a request, streamed unless told otherwise."""
        return open_stream(self.chat_url, {**QUESTION, "stream": True, **body}, headers or {})

    def record(self, number: int = 1) -> Record:
        """Wait for the record with this number, counted from 1, and give it."""
        wait_until(lambda: len(self.records) >= number, what=f"record {number}")
        return self.records[number - 1]

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.gateway.upstream.close()
        if self.gateway.journal is not None:
            self.gateway.journal.close()  # before its database's folder is removed
            atexit.unregister(self.gateway.journal.close)  # a request that is still open ends into a closed journal
            self.gateway.events._store.close()


@pytest.fixture
def upstream() -> Iterator[DemoUpstream]:
    """Give a scripted upstream that never waits on its own."""
    with DemoUpstream() as server:
        yield server


@pytest.fixture
def serve(upstream: DemoUpstream, tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Give a function that starts a gateway in front of ``upstream``, with settings by name."""
    started: list[Served] = []

    def start(*, options: dict[str, Any] | None = None, **settings: Any) -> Served:
        records: list[Record] = []
        values = {
            "SLUICE_OPEN": "on",
            "SLUICE_PIPELINE": "off",
            "OPENROUTER_API_KEY": "sk-or-v1-operator",
            "OPENROUTER_BASE_URL": upstream.base_url,
            "SLUICE_RETRY_BACKOFF": "0.05",
            "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/records.db",
            **settings,
        }
        served = Served(create_app(values, recorder=records.append, **(options or {})), records)
        started.append(served)
        return served

    yield start
    for served in started:
        served.stop()


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    """Give a gateway with the shipped settings, the pipeline off."""
    return serve()


@pytest.fixture
def host(upstream: DemoUpstream, tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Give a function that serves a host application, changed as it is told, with the gateway in front of upstream.

    Options are those of the blueprint, and settings by name.
    """
    started: list[Served] = []

    def start(change: Change, app: Flask | None = None, **options: Any) -> Served:
        records: list[Record] = []
        app = app or Flask("host")
        settings = {
            "SLUICE_OPEN": "on",
            "SLUICE_PIPELINE": "off",
            "OPENROUTER_API_KEY": "sk-or-v1-operator",
            "OPENROUTER_BASE_URL": upstream.base_url,
            "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/records.db",
        }
        settings |= {name: options.pop(name) for name in tuple(options) if name.isupper()}
        app.register_blueprint(create_blueprint(settings, recorder=records.append, **options))
        change(app)
        started.append(Served(app, records))
        return started[-1]

    yield start
    for served in started:
        served.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgreSQL]:
    """Give a PostgreSQL server, made when it is first asked for."""
    with PostgreSQL() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of an empty database, of each kind that records can be kept in."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/records.db"
    server: PostgreSQL = request.getfixturevalue("postgres")
    return server.database()
