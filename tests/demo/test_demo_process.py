"""The upstream as a process of its own, and what it tells about its requests."""

from __future__ import annotations

import ast
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import app.demo
from app.demo import DemoUpstream, ScriptError
from tests.clock import PATIENCE
from tests.servers import ROOT

from .client import Answer, ask, connect, send

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Give a function that starts the process with these arguments, from a folder that holds nothing else of us."""
    (tmp_path / "demo").symlink_to(Path(app.demo.__file__).parent)
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str, module: str = "demo", cwd: Path = tmp_path, pass_fds: tuple[int, ...] = ()) -> Any:
        command = [sys.executable, "-m", module, "--pace", "0", "--first-token", "0", *arguments]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=cwd, pass_fds=pass_fds)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@contextmanager
def at(address: str) -> Iterator[DemoUpstream]:
    """Give an object that the client can ask, for a process that listens at an address."""
    upstream = DemoUpstream(port=int(address.rsplit(":", 1)[1].split("/")[0]))
    try:
        yield upstream
    finally:
        upstream.stop()


def address_of(process: subprocess.Popen[str]) -> str:
    """Read the line that tells the address."""
    assert process.stdout is not None
    return process.stdout.readline().split()[-1]


def test_one_line_tells_the_address(start: Start) -> None:
    """The process picks a port, prints its address once it listens, and answers there."""
    address = address_of(start(module="app.demo", cwd=ROOT))

    assert address.startswith("http://127.0.0.1:") and address.endswith("/api/v1")
    with urlopen(f"{address}/models", timeout=PATIENCE) as response:
        assert b"demo/story" in response.read()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(start: Start, number: signal.Signals) -> None:
    """On a signal it closes what is open and ends with status 0 and no traceback."""
    process = start("--quiet")
    with at(address_of(process)) as upstream, connect(upstream) as connection:
        send(connection, model="demo/script", messages=[{"role": "user", "content": '[{"comment": 0},{"silence":0}]'}])
        assert connection.recv(10)
        process.send_signal(number)
        assert 0 == process.wait(PATIENCE)

    assert process.stderr is not None and "" == process.stderr.read()


def test_it_ends_with_standard_input(start: Start) -> None:
    """With `--exit-on-stdin-eof` it lives as long as its parent holds the pipe."""
    process = start("--exit-on-stdin-eof")
    address_of(process)
    assert process.poll() is None and process.stdin is not None
    process.stdin.close()

    assert 0 == process.wait(PATIENCE)
    process.stdin = None


def test_it_ends_with_a_pipe(start: Start) -> None:
    """With `--exit-on-eof` it watches the descriptor it is given."""
    read, write = os.pipe()
    process = start("--exit-on-eof", str(read), pass_fds=(read,))
    os.close(read)
    address_of(process)
    os.close(write)

    assert 0 == process.wait(PATIENCE)


def test_a_taken_port_is_told_in_a_line(start: Start) -> None:
    """If it cannot listen, it says so and ends with an error."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = start("--port", str(taken.getsockname()[1]))
        _, complaint = process.communicate(timeout=PATIENCE)

    assert 1 == process.returncode and complaint.startswith("demo upstream: ") and "Traceback" not in complaint


def test_the_log_has_method_path_and_status_only(start: Start) -> None:
    """What was asked, with which key, does not reach the log; nor is it kept."""
    process = start()
    with at(address_of(process)) as upstream:
        ask(upstream, model="demo/echo", messages=[{"role": "user", "content": "my secret"}])
        ask(upstream, "GET", "/api/v1/generation?id=mine")
        assert 404 == ask(upstream, "GET", "/_demo/log").status
    process.terminate()
    _, log = process.communicate(timeout=PATIENCE)

    assert ["POST /api/v1/chat/completions 200", "GET /api/v1/generation 404", "GET /_demo/log 404"] == log.splitlines()


def test_the_record_can_be_read_over_http(start: Start) -> None:
    """With `--record` the facts about requests, by key, come as JSON."""
    with at(address_of(start("--record"))) as upstream:
        script = {"key": "k1", "attempts": [[{"data": "x"}, {"cut": "rst"}]]}
        ask(upstream, model="demo/script", messages=[{"role": "user", "content": json.dumps(script)}])
        ask(upstream, model="demo/echo", user="k2", messages=[{"role": "user", "content": "y"}])
        one, all_of_them = (json.loads(ask(upstream, "GET", f"/_demo/log{query}").body) for query in ("?key=k1", ""))

    (kept,) = one["requests"]
    assert ("k1", 1, "cut", False, "demo/script") == (
        kept["key"], kept["attempt"], kept["outcome"], kept["finished"], kept["body"]["model"],
    )  # fmt: skip
    assert ["k1", "k2"] == [kept["key"] for kept in all_of_them["requests"]]
    assert 4 == all_of_them["connects"] and 1 == all_of_them["connections_open"]


def test_many_connections_at_once(start: Start) -> None:
    """Hundreds of open streams are served side by side, and all of them are seen to leave."""
    with at(address_of(start("--record", "--quiet"))) as upstream:
        connections = [connect(upstream) for _ in range(400)]
        for connection in connections:
            send(
                connection, model="demo/script", messages=[{"role": "user", "content": '[{"data":"x"},{"silence":0}]'}]
            )
        assert all(connection.recv(4) == b"HTTP" for connection in connections)
        for connection in connections:
            connection.close()
        log = json.loads(ask(upstream, "GET", "/_demo/log").body)

    assert 401 == log["connects"] and 1 == log["connections_open"]
    assert {("closed", True)} == {(kept["outcome"], kept["closed"]) for kept in log["requests"]}


def test_requests_are_kept_as_they_came(upstream: DemoUpstream) -> None:
    """Method, path, query, headers in any case, raw and parsed body, and the times in order."""
    answer = ask(
        upstream, path="/api/v1/chat/completions?a=b", model="demo/echo", messages=[{"role": "user", "content": "é"}]
    )

    (exchange,) = upstream.requests
    assert exchange.ended.wait(PATIENCE)
    assert ("POST", "/api/v1/chat/completions", {"a": "b"}) == (exchange.method, exchange.path, exchange.query)
    assert "demo" == exchange.headers["HOST"] == exchange.headers.get("host") and "Host" in exchange.headers
    assert exchange.body == json.loads(exchange.raw) and "é" == exchange.body["messages"][0]["content"]
    assert len(answer.wire) == exchange.sent and exchange.finished and exchange.started.is_set()
    assert exchange.started_at is not None and exchange.ended_at is not None
    assert exchange.time <= exchange.started_at <= exchange.ended_at


def test_a_client_that_leaves_in_the_middle_is_noticed(upstream: DemoUpstream) -> None:
    """While events go out, a closed connection ends the answer; it did not finish."""
    upstream.play([{"repeat": {"steps": [{"data": "x"}, {"wait": 0.01}]}}])
    with connect(upstream) as connection:
        send(connection, model="m", messages=[])
        assert connection.recv(10)

    exchange = upstream.wait_for_request()
    assert exchange.closed.wait(PATIENCE) and exchange.ended.wait(PATIENCE)
    assert "closed" == exchange.outcome and not exchange.finished
    upstream.wait_for_connections(0)


def test_a_client_that_leaves_after_the_answer_is_noticed(upstream: DemoUpstream) -> None:
    """An idle connection that the peer closes is told on its last request, which has finished all the same."""
    with connect(upstream) as connection:
        send(connection, "GET", "/api/v1/models", close=False)
        exchange = upstream.wait_for_request()
        assert exchange.ended.wait(PATIENCE) and not exchange.closed.is_set() and 1 == upstream.connections_open

    assert exchange.closed.wait(PATIENCE) and exchange.finished


def test_waiting_for_what_does_not_come_fails(upstream: DemoUpstream) -> None:
    """Requests and connections that do not come are a TimeoutError."""
    with pytest.raises(TimeoutError, match="no request number 1"):
        upstream.wait_for_request(timeout=0.01)
    with pytest.raises(TimeoutError, match="never 1 open"):
        upstream.wait_for_connections(1, timeout=0.01)


def test_queued_scripts_go_by_path_and_number(upstream: DemoUpstream) -> None:
    """A script plays for its path as often as asked, then the usual answers come back; others can be forgotten."""
    upstream.play([{"answer": 503}], times=2, path="/models")
    upstream.play([{"answer": 500}], times=None, path=None)

    statuses = [ask(upstream, "GET", "/api/v1/models").status for _ in range(3)]
    assert [503, 503, 500] == statuses and 500 == ask(upstream, "GET", "/api/v1/key").status
    upstream.clear()
    assert 200 == ask(upstream, "GET", "/api/v1/models").status


def test_leaving_ends_everything() -> None:
    """Open connections are closed, the thread ends, and stopping again does no harm."""
    before = threading.active_count()
    with DemoUpstream() as upstream:
        upstream.play([{"silence": True}])
        connection = connect(upstream)
        send(connection, model="m", messages=[])
        exchange = upstream.wait_for_request()
    upstream.stop()

    with connection:
        assert b"" == connection.recv(1)
    assert "stopped" == exchange.outcome and not exchange.closed.is_set()
    assert before == threading.active_count()


def test_a_broken_script_fails_its_test() -> None:
    """An error met while playing, after the head has gone, is raised when the context is left."""

    def play(upstream: DemoUpstream) -> Answer:
        upstream.play([{"text": "x"}, {"usage": "odd"}])
        return ask(upstream, model="m", messages=[])

    with pytest.raises(ScriptError, match="usage"), DemoUpstream() as upstream:
        answer = play(upstream)

    assert answer.reset and b"data: " in answer.wire


def test_a_taken_port_is_raised() -> None:
    """Starting on a port in use is an OSError."""
    with DemoUpstream() as upstream, pytest.raises(OSError, match="in use"):
        DemoUpstream(port=upstream.port).start()


def test_it_stands_alone() -> None:
    """Nothing outside this folder and the standard library is imported."""
    folder = Path(app.demo.__file__).parent
    imported = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level <= 1, path
                imported |= {node.module.split(".")[0]} if node.module and not node.level else set()

    assert imported <= sys.stdlib_module_names
