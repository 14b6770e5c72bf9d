"""The tools that measure speed say what is so; the figures themselves come from a quiet machine, by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from app.demo import DemoUpstream
from benchmarks import report, servers
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


def test_the_report_gives_ratios_to_nginx() -> None:
    """What counts is how many times the floor's CPU time a server takes."""
    figures = dict.fromkeys(("first_p50_ms", "first_p99_ms", "transit_p50_ms", "transit_p99_ms"), 1.0)
    figures |= {"memory_kb_per_stream": 12.0, "runs": 5}
    workloads = {"paced": {"nginx": {**figures, "cpu_us": 10.0}, "sluice": {**figures, "cpu_us": 52.5}}}

    page = report.markdown({"machine": report.machine(), "workloads": workloads, "scaling": {}})

    assert "| paced | sluice | 52.5 | 5.25 | 6.0 |" in page


def test_sluice_stands_in_the_line_up() -> None:
    """A gateway as the benchmark starts it relays the paced stream, its key asked for."""
    with servers.pace() as origin, servers.gateway(origin) as server:
        found = load(server.url, "--streams", "2", "--chunks", "20", "--key", server.key)
        refused = load(server.url, "--streams", "1", "--chunks", "20", "--key", "wrong")

    assert (2, 1) == (found["done"], refused["failed"])
