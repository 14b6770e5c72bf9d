"""Measure what the record and the metrics cost, beside a gateway without them, and write the figures down.

Usage: recording.py [--runs N] [--no-write]

CPU time of one gateway under the same load, with the two switched on and off by turns, and the parts alone in this
process. Medians go to ``benchmarks/RECORDING.md``, with the range of the shares that single pairs of loads gave: where
it is wide, as it is on virtual machines, the median says little.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from app.gaps import Gaps
from app.journal import Journal
from app.metrics import Metrics
from app.record import Record
from app.stores import RecordTable, Store
from app.ticker import Ticker
from benchmarks import report, servers
from benchmarks.bench import WARM_UP, WORKLOADS, measure
from benchmarks.gauge import cpu_seconds

HERE = Path(__file__).resolve().parent
BUDGET = {"short": 0.10, "paced": 0.02}
"""What recording and metrics may add to a request of ``short`` and to a chunk of ``paced``."""
_BATCH = 500


def loads(runs: int) -> dict[str, dict[str, list[float]]]:
    """Give the CPU times per request of ``short`` and per chunk of ``paced``, with and without, in microseconds."""
    found: dict[str, dict[str, list[float]]] = {name: {"on": [], "off": []} for name in BUDGET}
    # One process, since two of the same program differ by up to a tenth for as long as they live.
    with servers.pace() as upstream, servers.gateway(upstream, app="benchmarks.switched:app") as server:
        measure(server, WARM_UP, "chunks")
        for number, (name, by) in itertools.product(range(runs), found.items()):
            for state in sorted(by, reverse=bool(number % 2)):
                by[state].append(_load(server, name, state))
                print(name, state, by[state][-1], file=sys.stderr, flush=True)
    return found


def _load(server: servers.Server, name: str, state: str) -> float:
    """Put a load on *server* and wait until its records are written; give its CPU time, a unit, in microseconds."""
    switch = f"/switch/{state}"
    servers.get(server, switch)
    began, work = cpu_seconds(server.pid), WORKLOADS[name]
    done = measure(server, work.options, work.per)[work.per]
    servers.get(server, switch)
    return (cpu_seconds(server.pid) - began) / done * 1e6


def _cost(work: Callable[[], None], count: int, tries: int = 7) -> float:
    """Give the least CPU time of *work* over several tries, in microseconds for each of its *count* steps."""
    best = float("inf")
    for _ in range(tries):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best / count * 1e6


def _record(number: int) -> Record:
    record = Record(
        completion_id=f"chatcmpl-{number}",
        generation_id=f"gen-{number}",
        requested_model="pace/one",
        served_model="pace/one",
        key_label="bench",
        request_id=f"req-{number}",
        pipeline={"autotune": {"detected_context": "code", "confidence": 0.9, "strategy": "adaptive"}},
        params_used={"temperature": 0.2, "top_p": 0.9, "top_k": 25, "max_tokens": 4096},
        attempts=[{"status": 200}],
        first_chunk_ms=12.0,
        usage={"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6, "cost": 0.001},
    )
    record.close("completed")
    return record


def parts() -> dict[str, float]:
    """Give what each part costs by itself: of a chunk, and of a request, in microseconds."""
    gaps, metrics = Gaps(), Metrics(Ticker(3600.0), lambda: 0, lambda model: True)

    def note() -> None:
        for number in range(100_000):
            gaps.note(number * 0.05)

    def observe() -> None:
        for record in batch:
            metrics(record)
        metrics.flush()

    batch = [_record(number) for number in range(_BATCH)]
    found = {"a chunk's gap": _cost(note, 100_000), "a request's metrics": _cost(observe, _BATCH)}
    with tempfile.TemporaryDirectory() as folder:
        store = Store(f"sqlite:///{folder}/records.db")
        journal = Journal(RecordTable(store), interval=3600.0)
        numbers = itertools.count()

        def keep() -> None:
            for record in batch:
                record.record_id = f"{next(numbers):032x}"
                journal(record)
            journal.flush()

        found["a request's record, written"] = _cost(keep, _BATCH)
        store.close()
    return found


def markdown(found: dict[str, Any]) -> str:
    """Give the page."""
    lines = [
        "# What the record and the metrics cost",
        "",
        f"CPU microseconds, on {', '.join(map(str, found['machine'].values()))}.",
        "",
    ]
    lines += ["| under load | with | without | share | of single pairs | budget |", "|---|---|---|---|---|---|"]
    for name, by in found["loads"].items():
        unit = "request" if WORKLOADS[name].per == "done" else "chunk"
        pairs = [more / less - 1 for more, less in zip(by["on"], by["off"], strict=True)]
        lines.append(
            f"| {name}, a {unit} | {median(by['on']):.1f} | {median(by['off']):.1f} | {median(pairs):+.1%}"
            f" | {min(pairs):+.1%} to {max(pairs):+.1%} | {BUDGET[name]:.0%} |"
        )
    chunk, metrics, record = found["parts"].values()
    of = {name: median(by["off"]) for name, by in found["loads"].items()}
    shares = {
        "a chunk's gap": (chunk, chunk / of["paced"], BUDGET["paced"]),
        "a request's record and metrics": (metrics + record, (metrics + record) / of["short"], BUDGET["short"]),
    }
    lines += ["", "| by itself | cost | share of the above without | budget |", "|---|---|---|---|"]
    lines += [f"| {name} | {cost:.2f} | {share:.2%} | {most:.0%} |" for name, (cost, share, most) in shares.items()]
    lines += ["", f"Of a request the metrics are {metrics:.2f}, and the record, written to SQLite, {record:.2f}.", ""]
    return "\n".join(lines)


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    page = markdown({"machine": report.machine(), "parts": parts(), "loads": loads(options.runs)})
    print(page)
    if not options.no_write:
        (HERE / "RECORDING.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
