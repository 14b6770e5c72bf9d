"""The figures of a benchmark as a page, as data and as plots."""

from __future__ import annotations

import json
import platform
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

__all__ = ["machine", "markdown", "write"]

ROOT = Path(__file__).resolve().parent.parent
LIMITS = {"firehose": 3.0, "paced": 6.0, "hold": 8.0, "short": 19.0}
"""The most that Sluice's CPU time may be, as a multiple of nginx'."""
PEERS_LEAST = {
    "portkey": {"firehose": 1.3, "paced": 1.6, "hold": 1.8, "short": 1.8},
    "litellm": {"firehose": 18.0, "paced": 9.0, "short": 20.0},
}
"""The least that a peer's CPU time has to be, as a multiple of Sluice's."""
PEERS = """## Beside other gateways

In the same sitting, in front of the same upstream, one worker each, all threads and processes of the peer counted. CPU
time is for each chunk, in `short` for each request: a peer that is many times slower may be given fewer answers than
Sluice (`make bench` with `--light`), of the same length, so that a sitting ends; what each got is in the table.
"""
SCALING = """## How the cost grows

The first two tables are of streams under way: paced, a thousand chunks a second in all however many the streams are
(the middle of three runs), and ten streams by how many chunks each has had. The third is of whole answers as
fast as they go, ten at once; the longest runs alone.
"""
INTRODUCTION = """# What streaming costs

Made by `make bench`. CPU time of the whole process tree, one worker each, divided by the chunks (in `short`: by the
requests) that it relayed; ratios are to nginx, which passes bytes on and parses nothing, in the same run. Only figures
of one sitting are compared. Sluice runs as it ships: keys, record, metrics and the default pipeline on; in `pipeline`
with every stage on and STM live.

| workload | what |
|---|---|
| firehose | 200 answers of 400 chunks, 50 at once, as fast as they go |
| paced | 100 streams at once, 100 chunks each, 20 a second |
| hold | 1,000 streams at once, 15 chunks each, one a second, in fresh processes |
| short | 1,000 answers of one chunk, 20 at once |
| tls | firehose, with TLS to upstream |
| pipeline | paced, with every stage on and STM live |
"""


def machine() -> dict[str, Any]:
    """Say where and of what the figures are."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return {
        "date": date.today().isoformat(),
        "commit": commit.stdout.strip() or "unknown",
        "processor": names[0].partition(":")[2].strip() if names else platform.machine(),
        "cores": len(names),
        "python": platform.python_version(),
        "system": platform.release(),
    }


def markdown(result: dict[str, Any]) -> str:
    """Make the page."""
    where = result["machine"]
    parts = [
        INTRODUCTION,
        f"{where['date']}, commit {where['commit']}, {where['processor']}, {where['cores']} cores, Python"
        f" {where['python']}.\n",
        _table(result["workloads"]),
    ]
    if result.get("peers"):
        parts.append(_peers(result["workloads"], result["peers"]))
    if result["scaling"]:
        parts.append(_scaling(result["scaling"]))
    return "\n".join(parts)


def _table(workloads: dict[str, Any]) -> str:
    lines = [
        "| workload | server | CPU, µs | ratio | at most | first chunk p50 / p99, ms | transit p50 / p99, ms"
        " | KB a stream | runs |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, by_server in workloads.items():
        floor = by_server["nginx"]["cpu_us"]
        for server, figures in by_server.items():
            is_direct = server == "direct"
            limit = LIMITS.get(name, "") if server == "sluice" else ""
            cpu = "" if is_direct else f"{figures['cpu_us']:.1f}"
            ratio = "" if is_direct else f"{figures['cpu_us'] / floor:.2f}"
            memory = figures["memory_kb_per_stream"] if name == "hold" else ""
            lines.append(
                f"| {name} | {server} | {cpu} | {ratio} | {limit}"
                f" | {figures['first_p50_ms']:.1f} / {figures['first_p99_ms']:.1f}"
                f" | {figures['transit_p50_ms']:.2f} / {figures['transit_p99_ms']:.2f} | {memory} | {figures['runs']} |"
            )
    return "\n".join(lines) + "\n"


def _peers(workloads: dict[str, Any], versions: dict[str, str]) -> str:
    lines = [
        PEERS,
        f"Versions: {', '.join(f'{name} {version}'.strip() for name, version in versions.items())}.\n",
        "| workload | peer | CPU, µs | Sluice's, µs | peer / Sluice | at least | answers, chunks | Sluice's | runs |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, by_server in workloads.items():
        own = by_server["sluice"]
        for server in (server for server in versions if server in by_server):
            figures = by_server[server]
            lines.append(
                f"| {name} | {server} | {figures['cpu_us']:.1f} | {own['cpu_us']:.1f}"
                f" | {figures['cpu_us'] / own['cpu_us']:.2f} | {PEERS_LEAST.get(server, {}).get(name, '')}"
                f" | {figures['answers']:,}, {figures['chunks']:,} | {own['answers']:,}, {own['chunks']:,}"
                f" | {figures['runs']} |"
            )
    return "\n".join(lines) + "\n"


def _scaling(scaling: dict[str, list[dict[str, Any]]]) -> str:
    head = "| streams under way | counted chunks | CPU a chunk, µs | nginx', µs | ratio |"
    lines = [SCALING, head, "|---|---|---|---|---|"]
    for row in scaling["streams"]:
        ratio = row["cpu_us"] / row["floor_us"]
        lines.append(
            f"| {row['at']:,} | {row['counted']:,} | {row['cpu_us']:.1f} | {row['floor_us']:.1f} | {ratio:.2f} |"
        )
    lines += ["", "| chunk of a stream | counted chunks | CPU a chunk, µs |", "|---|---|---|"]
    for row in scaling["chunks"]:
        lines.append(f"| {row['from'] + 1:,} to {row['at']:,} | {row['counted']:,} | {row['cpu_us']:.1f} |")
    lines += ["", "| chunks an answer, with start | CPU a chunk, µs | memory above its start, KB |", "|---|---|---|"]
    for row in (*scaling["answers"], *scaling["long"]):
        memory = row["memory_kb_per_stream"] * row.get("streams", 1)
        lines.append(f"| {row['at']:,} | {row['cpu_us']:.1f} | {memory:,.0f} |")
    return "\n".join(lines) + "\n"


def write(result: dict[str, Any]) -> None:
    """Write the page, the data and the plots."""
    (ROOT / "benchmarks" / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    (ROOT / "benchmarks" / "RESULTS.md").write_text(markdown(result))
    _plot(result["workloads"])


_TALL = 100
"""Times nginx' CPU time above which a bar would leave the others without height on a plain scale."""


def _plot(workloads: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "sluice"
    from matplotlib import pyplot

    shown = [name for name in ("firehose", "paced", "hold", "short") if name in workloads]
    if not shown:
        return
    figure, axes = pyplot.subplots(1, len(shown), figsize=(3 * len(shown), 3.2))
    for axis, name in zip([axes] if len(shown) == 1 else axes, shown, strict=True):
        by_server = {server: figures for server, figures in workloads[name].items() if server != "direct"}
        floor = by_server["nginx"]["cpu_us"]
        bars = axis.bar(list(by_server), [figures["cpu_us"] / floor for figures in by_server.values()], color="#2f6f8f")
        axis.bar_label(bars, fmt="%.1f")
        axis.tick_params("x", labelsize=8)
        if max(bar.get_height() for bar in bars) > _TALL:
            axis.set_yscale("log")
        axis.set_title(name)
        axis.spines[["top", "right"]].set_visible(False)
    figure.supylabel("CPU time, nginx = 1")
    figure.tight_layout()
    figure.savefig(ROOT / "docs" / "speed.svg", metadata={"Date": None})
