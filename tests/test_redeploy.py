"""A new version goes out under two hundred open streams: none is lost, no connection refused, each is recorded."""

from __future__ import annotations

import contextlib
import signal
import socket
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from app.demo import DemoUpstream
from app.worker import serve_the_last
from tests.servers import GunicornGateway, Process, RawStream, open_stream, request, wait_until
from tests.test_deploy import activated, asked

__all__ = ["activated", "asked"]  # fixtures

MANY = 200
ASK: dict[str, Any] = {"model": "demo/echo", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
HELD = [{"text": "first"}, {"hold": True}, {"text": " last"}]


class Knocking:
    """Asks for health again and again, each time on a new connection, and notes what does not answer."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self.answers: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._knock)

    def _knock(self) -> None:
        while not self._stop.wait(0.01):
            try:
                with request("GET", self._url) as answer:
                    self.answers[str(answer.status)] += 1
            except OSError as error:
                self.answers[type(error).__name__] += 1

    def __enter__(self) -> Knocking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@contextlib.contextmanager
def open_streams(url: str) -> Iterator[list[RawStream]]:
    """Open many streams and wait until each has said its first word."""
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(open_stream(url, ASK)) for _ in range(MANY)]
        for stream in streams:
            assert '"first"' in (stream.next_data() or "")
        yield streams


def reasons(database: Path) -> dict[str, int]:
    """Count the records by how they ended."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        try:
            return dict(connection.execute("SELECT end_reason, count(*) FROM sluice_records GROUP BY end_reason"))
        except sqlite3.OperationalError:
            return {}  # nothing was written yet


def environ(upstream: DemoUpstream, database: Path, **more: str) -> dict[str, str]:
    """Give the settings of a gateway with two workers."""
    return {
        "OPENROUTER_BASE_URL": upstream.base_url,
        "SLUICE_PIPELINE": "off",
        "WEB_CONCURRENCY": "2",
        "SLUICE_DATABASE_URL": f"sqlite:///{database}",
        **more,
    }


def test_a_reload_loses_nothing_and_refuses_nobody(upstream: DemoUpstream, tmp_path: Path) -> None:
    """SIGHUP with two workers: streams of the old ones end whole while the new ones answer."""
    upstream.play(HELD, times=None)
    database = tmp_path / "records.db"
    with (
        GunicornGateway(environ(upstream, database)) as gateway,
        open_streams(gateway.chat_url) as streams,
        Knocking(f"{gateway.url}/v1/health") as knocking,
    ):
        booted = gateway.log().count("Booting worker")
        gateway.process.send_signal(signal.SIGHUP)
        wait_until(lambda: gateway.log().count("Booting worker") == booted + 2, what="the new workers")
        before = knocking.answers["200"]
        wait_until(lambda: knocking.answers["200"] > before + 20, what="answers of the new workers")
        upstream.release()

        assert ["[DONE]"] * MANY == [stream.data()[-1] for stream in streams]
        wait_until(lambda: reasons(database) == {"completed": MANY}, what="the records")
    assert {"200"} == set(knocking.answers)


def test_a_connection_accepted_last_is_served() -> None:
    """A worker begins with it when its listener is closed already, and still knows the listener's name."""
    seen: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        name = listener.getsockname()
        worker = SimpleNamespace(sockets=[listener])
        worker.handle = lambda listener, client, address: seen.append((listener.getsockname(), client, address))
        serve_the_last(worker)
    worker.handle(listener, "client", "address")
    assert [(name, "client", "address")] == seen


def test_a_shutdown_ends_and_records_every_stream(upstream: DemoUpstream, tmp_path: Path) -> None:
    """SIGTERM: streams that go on past the grace get their error and [DONE], and each has its record."""
    upstream.play(HELD, times=None)
    database = tmp_path / "records.db"
    with (
        GunicornGateway(environ(upstream, database, SLUICE_GRACEFUL_TIMEOUT="5")) as gateway,
        open_streams(gateway.chat_url) as streams,
    ):
        gateway.process.send_signal(signal.SIGTERM)

        ends = [stream.data()[-2:] for stream in streams]

    assert {("draining", "[DONE]")} == {(error["error"]["code"], done) for error, done in ends}
    assert {"draining": MANY} == reasons(database)


def test_a_restart_under_systemds_socket_refuses_nobody(
    activated: tuple[socket.socket, Callable[[], Process]], asked: DemoUpstream
) -> None:
    """The service drains, connections wait in the socket that systemd holds, and its successor answers them all."""
    listener, start = activated
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    asked.play(HELD, times=None)
    first = start()
    first.wait_for_log("Listening at")
    with open_streams(f"{url}/v1/chat/completions") as streams, Knocking(f"{url}/v1/health") as knocking:
        wait_until(lambda: knocking.answers["200"] > 5, what="answers")
        stopping = threading.Thread(target=first.stop, args=(signal.SIGTERM, 60))
        stopping.start()
        first.wait_for_log("Handling signal: term")
        asked.release()
        assert ["[DONE]"] * MANY == [stream.data()[-1] for stream in streams]
        stopping.join()
        before = knocking.answers["200"]
        start().wait_for_log("Listening at")
        wait_until(lambda: knocking.answers["200"] > before + 20, what="answers of the successor")

    assert {"200"} == set(knocking.answers)
