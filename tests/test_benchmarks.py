"""The tools that measure speed say what is so; the figures themselves come from a quiet machine, by hand."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from app.demo import DemoUpstream
from benchmarks import bench, report, servers
from benchmarks.gauge import cpu_seconds, memory_bytes
from tests.servers import ROOT


def load(url: str, *options: str) -> dict[str, Any]:
    """Run the load client and give what it found."""
    command = [sys.executable, str(ROOT / "benchmarks" / "load.py"), url, *options]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def test_the_load_client_sees_every_chunk_of_the_paced_upstream() -> None:
    """All chunks of all streams arrive, each with the time it took."""
    with servers.pace() as origin:
        found = load(origin + servers.PATH, "--streams", "4", "--total", "6", "--chunks", "30")

    assert (6, 0, 180) == (found["done"], found["failed"], found["chunks"])
    assert 0 < found["transit_ms"]["p50"] <= found["transit_ms"]["p99"]


def test_the_load_client_counts_a_stream_that_lacks_chunks_as_failed() -> None:
    """Figures of streams that were cut would flatter whoever cut them."""
    with DemoUpstream() as upstream:
        found = load(f"{upstream.base_url}/chat/completions", "--streams", "2", "--chunks", "30")

    assert (0, 2) == (found["done"], found["failed"])


def test_the_cost_of_streams_under_way_is_counted_between_marks() -> None:
    """What is counted lies between the moments at which every stream has had so many chunks."""
    with servers.pace() as origin, servers.nginx(origin) as floor:
        found = bench.stretches(floor, streams=5, gap_ms=5, marks=(4, 20, 40))

    assert [(4, 20), (20, 40)] == [(part["from"], part["at"]) for part in found]
    assert all(0 < part["cpu_us"] for part in found)
    assert 140 <= sum(part["counted"] for part in found) <= 220


def test_the_cost_of_streams_that_fail_is_not_given() -> None:
    """Chunks that never came would make those before them look dear or cheap."""
    with DemoUpstream() as upstream:
        server = servers.Server("demo", os.getpid(), f"{upstream.base_url}/chat/completions")
        with pytest.raises(RuntimeError, match="streams failed"):
            bench.stretches(server, streams=2, gap_ms=5, marks=(4, 20))


def test_the_gauge_reads_a_process_of_its_own() -> None:
    """CPU time grows with work, and a process takes memory."""
    work = "import sys\nwhile sys.stdin.readline(): sum(range(3_000_000)); print('done', flush=True)"
    command = [sys.executable, "-c", work]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        found = []
        for _ in range(2):
            print("work", file=process.stdin, flush=True)
            assert "done\n" == process.stdout.readline()
            found.append(cpu_seconds(process.pid))
        memory = memory_bytes(process.pid)
        process.stdin.close()

    assert 0 < found[0] < found[1]
    assert memory > 1_000_000


def test_the_gauge_counts_threads_and_children_that_have_ended() -> None:
    """A gateway that hands its work to short-lived threads or processes is measured in full."""
    work = (
        "import subprocess, sys, threading, time\n"
        "burn = 'import time\\nwhile time.process_time() < 0.3: pass'\n"
        "def spin():\n"
        "    while time.thread_time() < 0.3: pass\n"
        "thread = threading.Thread(target=spin); thread.start(); thread.join()\n"
        "print('thread', flush=True); sys.stdin.readline()\n"
        "subprocess.run([sys.executable, '-c', burn], check=True)\n"
        "print('child', flush=True); sys.stdin.readline()\n"
    )
    with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        assert b"thread\n" == process.stdout.readline()
        after_thread = cpu_seconds(process.pid)
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert b"child\n" == process.stdout.readline()
        after_child = cpu_seconds(process.pid)
        process.stdin.close()

    assert after_thread > 0.25
    assert after_child > 0.5


def test_the_report_gives_ratios_to_nginx() -> None:
    """What counts is how many times the floor's CPU time a server takes."""
    figures = dict.fromkeys(("first_p50_ms", "first_p99_ms", "transit_p50_ms", "transit_p99_ms"), 1.0)
    figures |= {"memory_kb_per_stream": 12.0, "runs": 5}
    workloads = {"paced": {"nginx": {**figures, "cpu_us": 10.0}, "sluice": {**figures, "cpu_us": 52.5}}}

    page = report.markdown({"machine": report.machine(), "workloads": workloads, "scaling": {}})

    assert "| paced | sluice | 52.5 | 5.25 | 6.0 |" in page


def test_the_report_gives_what_a_chunk_costs_as_streams_and_chunks_grow() -> None:
    """Each number of streams, each stretch of a stream and each length of an answer has its row."""
    answer = {"at": 10, "streams": 10, "cpu_us": 199.0, "memory_kb_per_stream": 1.5}
    scaling = {
        "streams": [{"at": 2000, "counted": 20_000, "cpu_us": 111.25, "floor_us": 22.25}],
        "chunks": [{"from": 10, "at": 100, "counted": 900, "cpu_us": 99.0}],
        "answers": [answer],
        "long": [{**answer, "at": 200_000}],
    }

    page = report.markdown({"machine": report.machine(), "workloads": {}, "scaling": scaling})

    assert "| 2,000 | 20,000 | 111.2 | 22.2 | 5.00 |" in page
    assert "| 11 to 100 | 900 | 99.0 |" in page
    assert "| 10 | 199.0 | 15 |" in page
    assert "| 200,000 | 199.0 | 15 |" in page


def test_the_report_gives_the_peers_cost_beside_sluice_and_what_is_asked() -> None:
    """A peer's figure is told as a multiple of Sluice's, with the load that it got."""
    figures = dict.fromkeys(("first_p50_ms", "first_p99_ms", "transit_p50_ms", "transit_p99_ms"), 1.0)
    figures |= {"memory_kb_per_stream": 12.0, "runs": 5, "chunks": 80_000, "answers": 200}
    light = {**figures, "chunks": 20_000, "answers": 50, "runs": 4}
    workloads = {
        "firehose": {
            "nginx": {**figures, "cpu_us": 5.0},
            "sluice": {**figures, "cpu_us": 10.0},
            "litellm": {**light, "cpu_us": 333.0},
        },
        "tls": {"nginx": {**figures, "cpu_us": 5.0}, "sluice": {**figures, "cpu_us": 10.0}},
    }
    result = {"machine": report.machine(), "peers": {"litellm": "9.9"}, "workloads": workloads, "scaling": {}}

    page = report.markdown(result)

    assert "Versions: litellm 9.9." in page
    assert "| firehose | litellm | 333.0 | 10.0 | 33.30 | 18.0 | 50, 20,000 | 200, 80,000 | 4 |" in page
    assert "| tls | litellm" not in page


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("curly=/nowhere", "expected one of litellm, portkey"),
        ("litellm=/nowhere", "not installed in /nowhere"),
        ("portkey=/nowhere", "not installed in /nowhere"),
        ("portkey=one=http://127.0.0.1:1/", "'one'"),
        ("portkey", "NAME=FOLDER"),
    ],
)
def test_a_peer_that_cannot_be_measured_is_told_before_the_run(text: str, told: str) -> None:
    """Half an hour of measuring is not spent to find that a name or a folder was wrong."""
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        bench.peer(text)

    assert told in str(refused.value)


def test_a_peer_that_runs_already_is_read_with_its_key_and_headers() -> None:
    """What follows the address may hold equals signs and colons."""
    found = bench.peer("mine=12=http://127.0.0.1:1/v1/chat/completions=sk=x-one: a=b;x-two: c")

    assert isinstance(found, servers.Server)
    assert (12, "sk", ("x-one: a=b", "x-two: c")) == (found.pid, found.key, found.headers)


def test_sluice_stands_in_the_line_up() -> None:
    """A gateway as the benchmark starts it relays the paced stream, its key asked for."""
    with servers.pace() as origin, servers.gateway(origin) as server:
        found = load(server.url, "--streams", "2", "--chunks", "20", "--key", server.key)
        refused = load(server.url, "--streams", "1", "--chunks", "20", "--key", "wrong")

    assert (2, 1) == (found["done"], refused["failed"])
