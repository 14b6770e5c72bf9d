"""Measure what streaming through Sluice costs, as ratios to nginx in the same run, and write the figures down.

Usage: bench.py [--runs N] [--only WORKLOAD ...] [--peer NAME=... ...] [--light NAME ...] [--no-scaling] [--no-write]

A peer is ``litellm=FOLDER`` or ``portkey=FOLDER``, installed in that folder and started here, or any OpenAI-compatible
gateway that runs already, ``NAME=PID=URL[=KEY[=HEADERS]]``, its upstream pointed at ``--upstream`` (a port that this
command's own upstream then uses). Slow ones are named in ``--light`` too: they get fewer answers of the same kind.
Medians of all runs go to ``benchmarks/RESULTS.md`` and ``results.json``, plots to ``docs/``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import report, servers
from benchmarks.gauge import Gauge, cpu_seconds
from benchmarks.peers import Peer
from benchmarks.servers import Server

HERE = Path(__file__).resolve().parent
_STREAMS = (10, 100, 500, 1000, 2000)
_SETTLE_MS = 5000
"""How long streams run before they are looked at, their start long over."""
_LOOK_MS = 10_000
_SCALING_RUNS = 3
_STRAGGLERS_MS = 6000
"""How much later than the first the last stream may have begun."""
STAGES_ON = {
    "SLUICE_STM_MODE": "live",
    "SLUICE_STM_MODULES": "hedge_reducer,direct_mode,casual_mode",
    "SLUICE_PARSELTONGUE": "on",
    "SLUICE_PARSELTONGUE_TRIGGERS": "alpha,beta",
}


@dataclass(frozen=True)
class Workload:
    """What the load client does; ``per`` is what the CPU time is divided by, ``light`` the load of slow peers."""

    name: str
    options: tuple[str, ...]
    per: str = "chunks"
    light: tuple[str, ...] | None = None
    is_fresh: bool = False
    tls: bool = False
    settings: tuple[tuple[str, str], ...] = ()


PACED = ("--streams", "100", "--chunks", "100", "--gap-ms", "50")
FIREHOSE = ("--streams", "50", "--total", "200", "--chunks", "400")
WARM_UP = ("--streams", "10", "--chunks", "20")
"""Imports and first-time caches are no part of the cost of a stream."""
WORKLOADS = {
    work.name: work
    for work in (
        Workload("firehose", FIREHOSE, light=("--streams", "50", "--total", "50", "--chunks", "400")),
        Workload("paced", PACED),
        Workload(
            "hold",
            ("--streams", "1000", "--chunks", "15", "--gap-ms", "1000"),
            light=("--streams", "200", "--chunks", "15", "--gap-ms", "1000"),
            is_fresh=True,
        ),
        Workload(
            "short",
            ("--streams", "20", "--total", "1000", "--chunks", "1"),
            light=("--streams", "20", "--total", "200", "--chunks", "1"),
            per="done",
        ),
        Workload("tls", FIREHOSE, tls=True),
        Workload("pipeline", PACED, settings=tuple(STAGES_ON.items())),
    )
}


def measure(server: Server, options: tuple[str, ...], per: str) -> dict[str, Any]:
    """Put one load on one server; give what the client and the gauge saw.

    Raises:
        RuntimeError: a stream failed: such figures count for nothing.
    """
    headers = [word for header in server.headers for word in ("--header", header)]
    command = [sys.executable, str(HERE / "load.py"), server.url, "--key", server.key, *headers, *options]
    with Gauge(server.pid) as gauge:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(output)
    if found["failed"]:
        raise RuntimeError(f"{server.name}: {found['failed']} streams failed: {found['failures']}")
    found["cpu_us"] = round(gauge.cpu / found[per] * 1e6, 2)
    found["memory_kb_per_stream"] = round((gauge.peak - gauge.memory) / 1024 / int(options[1]), 1)
    return found


class Lineup:
    """The servers that run for the whole sitting, and fresh ones where a workload wants them."""

    def __init__(self, stack: contextlib.ExitStack, peers: list[Server | Peer], port: int | None) -> None:
        self._peers = peers
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._stack = stack
        self._pair = servers.certificate(folder)
        self.plain = stack.enter_context(servers.pace(port=port))
        self.secure = stack.enter_context(servers.pace(self._pair))
        self._standing: dict[str, list[Server]] = {}

    @contextlib.contextmanager
    def servers_for(self, work: Workload) -> Iterator[list[Server]]:
        """Give nginx, Sluice and, for what peers can do too, the peers."""
        if work.is_fresh:
            with contextlib.ExitStack() as stack:
                yield self._start(work, stack)
            return
        kind = "tls" if work.tls else repr(work.settings)
        if kind not in self._standing:
            self._standing[kind] = self._start(work, self._stack)
        yield self._standing[kind]

    def _start(self, work: Workload, stack: contextlib.ExitStack) -> list[Server]:
        upstream = self.secure if work.tls else self.plain
        settings = dict(work.settings) | ({"SLUICE_CA_BUNDLE": str(self._pair[0])} if work.tls else {})
        floor = stack.enter_context(servers.nginx(upstream))
        started = [floor, stack.enter_context(servers.gateway(upstream, **settings))]
        others = [] if work.tls or work.settings else self._peers
        peers = [stack.enter_context(peer.start(upstream)) if isinstance(peer, Peer) else peer for peer in others]
        for server in [
            *([] if work.is_fresh else started),
            *peers,
        ]:  # peers always: some load much at the first request
            measure(server, WARM_UP, "chunks")
        return [*started, *peers]


def sitting(
    names: list[str], runs: int, peers: list[Server | Peer], port: int | None, light: list[str]
) -> dict[str, dict[str, list[Any]]]:
    """Run every workload *runs* times against every server; give the findings by workload and server."""
    found: dict[str, dict[str, list[Any]]] = {name: {} for name in names}
    with contextlib.ExitStack() as stack:
        lineup = Lineup(stack, peers, port)
        direct = Server("direct", 1, f"{lineup.plain}{servers.PATH}")
        for run in range(runs):
            for name in names:
                work = WORKLOADS[name]
                with lineup.servers_for(work) as started:
                    for server in [*started, *([direct] if name == "paced" else [])]:
                        load = work.light if work.light and server.name in light else work.options
                        try:
                            figures = measure(server, load, work.per)
                        except RuntimeError as error:
                            if server.name not in {peer.name for peer in peers}:
                                raise
                            print(run + 1, name, f"left out: {error}", file=sys.stderr, flush=True)
                            continue
                        found[name].setdefault(server.name, []).append(figures)
                        print(run + 1, name, server.name, json.dumps(figures), file=sys.stderr, flush=True)
    return found


def stretches(server: Server, streams: int, gap_ms: int, marks: Sequence[int]) -> list[dict[str, Any]]:
    """Let paced *streams* run; give the CPU time of a chunk between each two *marks*, chunks that every stream has had.

    What a stream's start costs is in none of them, as every stream has begun by the first mark.
    """
    chunks = marks[-1] + max(10, _STRAGGLERS_MS // gap_ms)
    command = [sys.executable, str(HERE / "load.py"), server.url, "--key", server.key, "--limit", "600"]
    command += ["--streams", str(streams), "--chunks", str(chunks), "--gap-ms", str(gap_ms), "--mark", *map(str, marks)]
    found: list[dict[str, Any]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        before: dict[str, Any] | None = None
        for line in process.stdout:
            told = json.loads(line)
            if "mark" not in told:
                break
            now = {**told, "cpu": cpu_seconds(server.pid)}
            if before is not None:
                count = now["chunks"] - before["chunks"]
                cost = (now["cpu"] - before["cpu"]) / count * 1e6
                found.append({"from": before["mark"], "at": now["mark"], "counted": count, "cpu_us": round(cost, 2)})
            before = now
    if told.get("failed") or len(found) != len(marks) - 1:
        raise RuntimeError(f"{server.name}: streams failed: {told}")
    return found


def scaling(runs: int) -> dict[str, list[dict[str, Any]]]:
    """Measure CPU per chunk over numbers of streams and of chunks, and one answer of 200,000 chunks.

    The first two are asked of streams under way, a thousand chunks a second in all whatever the number of streams: so
    only what is asked about differs.
    """
    found: dict[str, list[dict[str, Any]]] = {"streams": [], "chunks": [], "answers": [], "long": []}
    with servers.pace() as upstream:
        for streams in _STREAMS:
            first = max(3, _SETTLE_MS // streams)
            marks = (first, first + _LOOK_MS // streams)
            parts, floors = [], []
            for _ in range(runs):
                with servers.gateway(upstream) as server, servers.nginx(upstream) as floor:
                    parts += stretches(server, streams, streams, marks)
                    floors += stretches(floor, streams, streams, marks)
            found["streams"].append({**_middle(parts), "at": streams, "floor_us": _middle(floors)["cpu_us"]})
        with servers.gateway(upstream) as server:
            found["chunks"] = stretches(server, 10, 10, (3, 10, 100, 1000, 10_000))
        for chunks in (10, 100, 1000, 10_000):
            total = max(10, 20_000 // chunks)
            options = ("--streams", "10", "--total", str(total), "--chunks", str(chunks))
            with servers.gateway(upstream) as server:
                measure(server, WARM_UP, "chunks")
                found["answers"].append({"at": chunks, "streams": 10, **measure(server, options, "chunks")})
        with servers.gateway(upstream) as server:
            measure(server, ("--streams", "1", "--chunks", "20000"), "chunks")
            found["long"].append({"at": 200_000, **measure(server, ("--streams", "1", "--chunks", "200000"), "chunks")})
    return found


def _middle(found: list[dict[str, Any]]) -> dict[str, Any]:
    return sorted(found, key=lambda one: float(one["cpu_us"]))[len(found) // 2]


def medians(found: dict[str, dict[str, list[Any]]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Give each figure's median over the runs."""

    def of(runs: list[Any], *path: str) -> float:
        values = []
        for run in runs:
            for name in path:
                run = run[name]
            values.append(run)
        return round(median(values), 2)

    return {
        name: {
            server: {
                "cpu_us": of(runs, "cpu_us"),
                "memory_kb_per_stream": of(runs, "memory_kb_per_stream"),
                "first_p50_ms": of(runs, "first_ms", "p50"),
                "first_p99_ms": of(runs, "first_ms", "p99"),
                "transit_p50_ms": of(runs, "transit_ms", "p50"),
                "transit_p99_ms": of(runs, "transit_ms", "p99"),
                "answers": int(of(runs, "done")),
                "chunks": int(of(runs, "chunks")),
                "runs": len(runs),
            }
            for server, runs in by_server.items()
        }
        for name, by_server in found.items()
    }


def peer(text: str) -> Server | Peer:
    """Read NAME=FOLDER or NAME=PID=URL[=KEY[=HEADER;HEADER...]]."""
    parts = text.split("=", 4)
    try:
        if len(parts) == 2:
            return Peer.installed(*parts)
        name, pid, url, key, headers = [*parts, "", ""][:5]
        return Server(name, int(pid), url, key or "none", tuple(filter(None, headers.split(";"))))
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no NAME=FOLDER or NAME=PID=URL[=KEY[=HEADERS]]: {error}"
        ) from None


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--peer", action="append", default=[], type=peer)
    parser.add_argument("--light", nargs="*", default=[], metavar="NAME", help="peers that get the smaller load")
    parser.add_argument("--upstream", type=int, help="port of the paced upstream, for peers that are set up already")
    parser.add_argument("--no-scaling", action="store_true")
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    found = medians(sitting(options.only, options.runs, options.peer, options.upstream, options.light))
    result = {
        "machine": report.machine(),
        "peers": {one.name: one.version if isinstance(one, Peer) else "" for one in options.peer},
        "workloads": found,
        "scaling": {} if options.no_scaling else scaling(min(options.runs, _SCALING_RUNS)),
    }
    print(report.markdown(result))
    if not options.no_write:
        report.write(result)


if __name__ == "__main__":
    main()
