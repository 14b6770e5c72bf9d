"""The same gateway under each server and worker class, with nothing patched where threads are meant."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.demo import DemoUpstream
from tests.clock import PATIENCE, granted
from tests.servers import GunicornGateway, RawStream, StartError, open_stream, request, wait_until
from tests.test_streaming import texts

WORKERS = ["gevent", "gthread", "sync"]


@pytest.fixture
def environ(upstream: DemoUpstream, tmp_path: Path) -> dict[str, str]:
    """Give the settings of a gateway in front of ``upstream``."""
    return {
        "OPENROUTER_BASE_URL": upstream.base_url,
        "SLUICE_PIPELINE": "off",
        "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/records.db",
        "SLUICE_HEARTBEAT": "0.5",
    }


@pytest.fixture(params=WORKERS)
def gateway(request: pytest.FixtureRequest, environ: dict[str, str]) -> Iterator[GunicornGateway]:
    """Give a gateway under gunicorn with each worker class."""
    with GunicornGateway(environ, request.param) as running:
        yield running


def ask(gateway: GunicornGateway, **body: Any) -> RawStream:
    """Send a streamed request."""
    return open_stream(gateway.chat_url, {"stream": True, "messages": [{"role": "user", "content": "x"}], **body})


def test_it_streams(gateway: GunicornGateway, upstream: DemoUpstream) -> None:
    """The first chunk comes while upstream is silent behind it, heartbeats follow, and the end is clean."""
    upstream.play([{"text": "first"}, {"wait": 1.2}, {"text": " last"}])

    with ask(gateway) as stream:
        assert ": keep-alive" == stream.next_event()
        first = stream.next_data()
        assert first is not None and '"first"' in first
        assert not upstream.requests[0].ended.is_set()
        blocks = stream.events()

    assert 2 <= blocks.count(": keep-alive") <= 3
    assert "data: [DONE]" == blocks[-1]


def test_it_answers_whole(gateway: GunicornGateway, upstream: DemoUpstream) -> None:
    """A blocking request gets its JSON."""
    upstream.play([{"text": "whole"}])

    with ask(gateway, stream=False) as response:
        assert "whole" == response.json()["choices"][0]["message"]["content"]


def test_http_1_0_gets_a_body_that_ends_with_the_connection(gateway: GunicornGateway, upstream: DemoUpstream) -> None:
    """Old clients get the same events without chunked framing."""
    upstream.play([{"text": "old"}])
    body = '{"stream": true, "messages": [{"role": "user", "content": "x"}]}'

    with request("POST", gateway.chat_url, body, version="HTTP/1.0") as stream:
        assert "transfer-encoding" not in stream.headers
        data = stream.data()

    assert ["old", "[DONE]"] == [texts(data), data[-1]]


@pytest.mark.parametrize("silent", [True, False], ids=["silent", "talking"])
def test_a_client_that_leaves_closes_upstream(gateway: GunicornGateway, upstream: DemoUpstream, silent: bool) -> None:
    """Within a second, whether upstream talks or not."""
    upstream.play([{"text": "a"}, {"silence": True}] if silent else [{"text": {"content": ["a "] * 500, "pace": 20}}])
    stream = ask(gateway)
    stream.next_data()

    stream.close()
    left_at = time.monotonic()

    assert upstream.requests[0].closed.wait(PATIENCE)
    assert granted(left_at, upstream.requests[0].closed_at) < 1


def test_a_cut_stream_ends_properly(gateway: GunicornGateway, upstream: DemoUpstream) -> None:
    """A fault gives the ending, not a broken body."""
    upstream.play([{"text": "a"}, {"cut": "rst"}])

    with ask(gateway) as stream:
        data = stream.data()

    assert [["error"], "[DONE]"] == [list(data[-2]), data[-1]]


def test_sync_says_so_at_start(environ: dict[str, str]) -> None:
    """The worker class that serves one stream at a time is warned of."""
    with GunicornGateway(environ, "sync") as gateway:
        gateway.wait_for_log("serves one stream at a time")


@pytest.mark.parametrize("worker", ["gthread", "sync"])
def test_threads_are_not_patched(environ: dict[str, str], worker: str, tmp_path: Path) -> None:
    """With thread workers gevent is not even imported."""
    app = tmp_path / "probe.py"
    app.write_text(
        "import sys\n"
        "from app import create_app\n"
        "app = create_app()\n"
        "app.add_url_rule('/patched', 'patched', lambda: str('gevent' in sys.modules))\n"
    )
    env = {**environ, "PYTHONPATH": f"{tmp_path}:{os.getcwd()}"}
    with GunicornGateway(env, worker, app="probe:app") as gateway, request("GET", gateway.url + "/patched") as answer:
        assert b"False" == answer.read()


def test_preloading_is_safe_with_gevent(environ: dict[str, str], upstream: DemoUpstream) -> None:
    """The shipped configuration patches before anything is imported, so a preloaded application streams."""
    with GunicornGateway(environ, "gevent", args=["--preload"]) as gateway:
        with ask(gateway) as stream:
            assert "[DONE]" == stream.data()[-1]
        assert "MonkeyPatchWarning" not in gateway.log()


def test_patching_too_late_is_told(environ: dict[str, str], tmp_path: Path) -> None:
    """An application that was imported before gevent patched answers with what to change."""
    config = tmp_path / "late.py"
    config.write_text("worker_class = 'gevent'\npreload_app = True\n")
    with GunicornGateway(environ, "gevent", config=config) as gateway, ask(gateway) as response:
        assert 500 == response.status
        assert "first line of gunicorn.conf.py" in response.json()["error"]["message"]


def test_missing_drain_hooks_are_told(environ: dict[str, str], tmp_path: Path) -> None:
    """A host's own configuration without our hooks is warned of."""
    config = tmp_path / "bare.py"
    config.write_text("worker_class = 'gevent'\n")
    with GunicornGateway(environ, "gevent", config=config) as gateway:
        ask(gateway).close()
        gateway.wait_for_log("runs without the drain hooks")


@pytest.mark.parametrize("worker", ["gevent", "gthread"])
def test_a_shutdown_lets_streams_finish(environ: dict[str, str], upstream: DemoUpstream, worker: str) -> None:
    """A stream that ends within the grace is not touched by SIGTERM."""
    upstream.play([{"text": {"content": ["a "] * 30, "pace": 20}}])
    with GunicornGateway(environ, worker) as gateway:
        stream = ask(gateway)
        stream.next_data()
        gateway.process.send_signal(signal.SIGTERM)

        data = stream.data()

        assert ["stop", "[DONE]"] == [data[-2]["choices"][0]["finish_reason"], data[-1]]
        stream.close()


@pytest.mark.parametrize("worker", ["gevent", "gthread"])
def test_a_shutdown_ends_streams_that_take_too_long(
    environ: dict[str, str], upstream: DemoUpstream, worker: str
) -> None:
    """Shortly before the grace is over each open stream gets its error event and [DONE]."""
    upstream.play([{"text": "a"}, {"silence": True}])
    with GunicornGateway({**environ, "SLUICE_GRACEFUL_TIMEOUT": "4"}, worker) as gateway:
        stream = ask(gateway)
        stream.next_data()
        gateway.process.send_signal(signal.SIGTERM)

        data = stream.data()

        assert ["draining", "[DONE]"] == [data[-2]["error"]["code"], data[-1]]
        stream.close()
        left_at = time.monotonic()
        assert upstream.requests[0].closed.wait(PATIENCE)
        assert granted(left_at, upstream.requests[0].closed_at) < 2


def test_streams_wait_for_each_other_only_under_sync(environ: dict[str, str], upstream: DemoUpstream) -> None:
    """Twenty streams are open at once under threads."""
    for _ in range(20):
        upstream.play([{"text": "a"}, {"silence": True}])
    with GunicornGateway(environ, "gthread") as gateway:
        streams = [ask(gateway) for _ in range(20)]
        assert all(stream.next_data() for stream in streams)
        for stream in streams:
            stream.close()


@pytest.mark.parametrize("worker_class", ["gevent", "gthread"])
def test_a_thousand_faults_leave_nothing_behind(
    environ: dict[str, str], upstream: DemoUpstream, worker_class: str
) -> None:
    """After 1,000 streams that ended in every way, threads and file descriptors are what they were."""
    scripts: list[list[Any]] = [
        [{"text": "fine"}],
        [{"text": "a"}, {"cut": "rst"}],
        [{"text": "a"}, {"end": True}],
        [{"text": "a"}, {"error": {}}],
        [{"answer": {"status": 400}}],
        [{"data": "{broken"}],
        [{"hangup": "fin"}],
        [{"text": "a"}, {"silence": True}],
    ]
    with GunicornGateway(environ, worker_class) as gateway:
        worker = wait_until(lambda: _children(gateway.process.pid))[0]
        _ask_many(gateway, upstream, scripts, 40)
        before = wait_until(lambda: _settled(worker))
        _ask_many(gateway, upstream, scripts, 1000)
        wait_until(lambda: (after := _settled(worker)) and after["fds"] <= before["fds"] + 5)
        after = wait_until(lambda: _settled(worker))

    # gunicorn's own pool of threads grows with its busiest moment and never shrinks; ours would grow with each stream.
    assert after["threads"] <= before["threads"] + 30, (before, after)


def _ask_many(gateway: GunicornGateway, upstream: DemoUpstream, scripts: list[list[Any]], count: int) -> None:
    for number in range(count):
        upstream.play(scripts[number % len(scripts)])
    lock = threading.Lock()
    left = iter(range(count))

    def work() -> None:
        while True:
            with lock:
                if next(left, None) is None:
                    return
            with ask(gateway) as stream:
                for _ in range(3):
                    block = stream.next_event()
                    if block is None or '"fine"' in block or "[DONE]" in block or '"a"' in block:
                        break

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def _count(pid: int) -> dict[str, int]:
    return {"threads": len(os.listdir(f"/proc/{pid}/task")), "fds": len(os.listdir(f"/proc/{pid}/fd"))}


def _settled(pid: int) -> dict[str, int] | None:
    """Give the counts once two looks in a row agree."""
    first = _count(pid)
    time.sleep(0.5)
    return first if first == _count(pid) else None


def test_unix_sockets_work(environ: dict[str, str], upstream: DemoUpstream, tmp_path: Path) -> None:
    """Behind a Unix socket, where TCP tells nothing, a client that leaves is found too."""
    upstream.play([{"text": "a"}, {"silence": True}])
    path = tmp_path / "gw.sock"
    with GunicornGateway(environ, "gevent", args=["--bind", f"unix:{path}"]) as _:
        client = socket.socket(socket.AF_UNIX)
        wait_until(path.exists)
        client.connect(str(path))
        body = b'{"stream": true, "messages": [{"role": "user", "content": "x"}]}'
        client.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        assert upstream.wait_for_request().started.wait(PATIENCE)

        client.close()
        left_at = time.monotonic()

        assert upstream.requests[0].closed.wait(PATIENCE)
        assert granted(left_at, upstream.requests[0].closed_at) < 2


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("SLUICE_OPEN", None, "nobody could call"),
        ("SLUICE_HEARTBEAT", "never", "SLUICE_HEARTBEAT: expected a number"),
        ("SLUICE_HEARTBEET", "1", "unknown setting SLUICE_HEARTBEET"),
        ("SLUICE_API_KEYS", "ann:sk-or-v1-x", "SLUICE_API_KEYS"),
        ("SLUICE_MAX_STREAMS", "many", "SLUICE_MAX_STREAMS: expected a whole number"),
    ],
)
def test_a_wrong_setting_stops_the_start_with_one_line(
    environ: dict[str, str], name: str, value: str | None, words: str
) -> None:
    """gunicorn ends, and the log says why in one line, without a traceback."""
    gateway = GunicornGateway({**environ, name: value})

    with pytest.raises(StartError) as caught:
        gateway.start()

    assert words in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_reload_loads_new_code(environ: dict[str, str], upstream: DemoUpstream, tmp_path: Path) -> None:
    """SIGHUP starts workers with the code and settings as they are now; an open stream goes on to its end."""
    site = tmp_path / "site"
    site.mkdir()
    app = site / "reloaded.py"
    source = "from app import create_app\napp = create_app()\napp.add_url_rule('/mark', 'mark', lambda: '{}')\n"
    app.write_text(source.format("old"))
    upstream.play([{"text": {"content": ["a "] * 30, "pace": 20}}])
    env = {**environ, "PYTHONPATH": f"{site}:{os.getcwd()}", "PYTHONDONTWRITEBYTECODE": "1"}
    with GunicornGateway(env, app="reloaded:app") as gateway:
        stream = ask(gateway)
        stream.next_data()
        app.write_text(source.format("new"))
        gateway.process.send_signal(signal.SIGHUP)

        wait_until(lambda: _mark(gateway) == b"new")

        assert "[DONE]" == stream.data()[-1]
        stream.close()


def _mark(gateway: GunicornGateway) -> bytes:
    with request("GET", gateway.url + "/mark") as response:
        return response.read()
