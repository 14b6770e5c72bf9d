"""Fuzz what reads foreign bytes first: lines, events, chunks, requests. Writes benchmarks/FUZZ.md and a corpus.

Each target of tests/fuzz/targets.py runs twice: under hypothesis with inputs put together from likely pieces, and under
atheris, which follows the code's branches (``pip install -r requirements-fuzz.txt``). All in one process at a time.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

CORPUS = ROOT / "tests" / "fuzz" / "corpus"
REPORT = ROOT / "benchmarks" / "FUZZ.md"
KEPT = 40
"""Inputs of a target that the suite replays."""
LONGEST = 400
"""Bytes of an input that is kept."""


class Run(NamedTuple):
    """One target's figures."""

    target: str
    by_pieces: int
    by_branches: int
    corpus: int
    failures: list[str]


def main() -> int:
    """Fuzz every target for its share of the time; 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=660, help="for all targets together")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", action="store_true", help="write the report and the corpus")
    parser.add_argument("--branches", nargs=3, metavar=("TARGET", "FOLDER", "SECONDS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    number = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    if options.branches:
        follow_branches(*options.branches, number)
    from tests.fuzz.targets import TARGETS

    began, started = time.monotonic(), datetime.now(UTC)
    runs = [fuzz(name, options.seconds / len(TARGETS), number, keep=options.keep) for name in TARGETS]
    text = report(runs, number, started, time.monotonic() - began)
    print(text)
    if options.keep:
        REPORT.write_text(text)
    return int(any(run.failures for run in runs))


def fuzz(name: str, seconds: float, number: int, *, keep: bool) -> Run:
    """Fuzz one target: a fifth of the time by pieces, the rest by branches."""
    with tempfile.TemporaryDirectory() as folder:
        pool = Path(folder) / "pool"
        pool.mkdir()
        for file in (CORPUS / name).glob("*"):
            shutil.copy(file, pool)
        tried, failures = by_pieces(name, seconds / 5, number, pool)
        executed, crash = by_branches(name, seconds * 4 / 5, number, pool)
        failures += crash
        if keep and not failures:
            keep_corpus(name, pool)
    size = len(list((CORPUS / name).glob("*")))
    print(f"{name}: {tried} + {executed} inputs, {size} kept, {len(failures)} failures", file=sys.stderr, flush=True)
    return Run(name, tried, executed, size, failures)


def by_pieces(name: str, seconds: float, number: int, pool: Path) -> tuple[int, list[str]]:
    """Run a target on hypothesis' inputs, and put some of them into the pool."""
    from tests.fuzz.inputs import INPUTS
    from tests.fuzz.targets import TARGETS

    ends_at, tried = time.monotonic() + seconds, 0
    while time.monotonic() < ends_at:

        @seed(number + tried)
        @settings(max_examples=500, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(st.one_of(INPUTS[name], st.binary(max_size=120)))
        def hold(data: bytes) -> None:
            nonlocal tried
            tried += 1
            if tried <= 300 and len(data) <= LONGEST:
                (pool / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)
            TARGETS[name](data)

        try:
            hold()
        except Exception as error:
            return tried, [f"by pieces: {type(error).__name__}: {str(error)[:200]}"]
    return tried, []


def by_branches(name: str, seconds: float, number: int, pool: Path) -> tuple[int, list[str]]:
    """Run a target under atheris, in a process of its own."""
    command = [sys.executable, str(Path(__file__)), "--seed", str(number), "--branches", name, str(pool), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=ROOT, check=False)
    found = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
    executed = int(found[1]) if found else 0
    return executed, [] if done.returncode == 0 and executed else [f"by branches: {done.stderr[-1500:]}"]


def follow_branches(name: str, folder: str, seconds: str, number: int) -> None:
    """Be the process that atheris fuzzes; never returns."""
    import atheris

    with atheris.instrument_imports(include=["app"], enable_loader_override=False):
        from tests.fuzz.targets import TARGETS
    options = [f"-max_total_time={float(seconds):.0f}", f"-seed={number}", f"-max_len={LONGEST}", "-timeout=10"]
    options += ["-print_final_stats=1", f"-artifact_prefix={folder}/../"]
    atheris.Setup([sys.argv[0], *options, folder], TARGETS[name])
    atheris.Fuzz()


def keep_corpus(name: str, pool: Path) -> None:
    """Keep a spread of the pool: what is small first, and of each size a few."""
    target = CORPUS / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    by_size: dict[int, list[Path]] = {}
    for file in sorted(pool.iterdir()):
        if file.stat().st_size <= LONGEST:
            by_size.setdefault(file.stat().st_size // 10, []).append(file)
    rounds = (group[turn] for turn in range(KEPT) for _, group in sorted(by_size.items()) if turn < len(group))
    for file, _ in zip(rounds, range(KEPT), strict=False):
        data = file.read_bytes()
        (target / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)


def report(runs: list[Run], number: int, started: datetime, seconds: float) -> str:
    """Write the log of a run."""
    rows = [
        f"| {run.target} | {run.by_pieces:,} | {run.by_branches:,} | {run.corpus} | {len(run.failures)} |"
        for run in runs
    ]
    total = sum(run.by_pieces + run.by_branches for run in runs)
    verdict = "no input failed" if not any(run.failures for run in runs) else "FAILED, see below"
    return "\n".join(
        [
            "# Fuzzing",
            "",
            "Made by `make fuzz` (`benchmarks/fuzz.py`). What each target holds to be true is in",
            "`tests/fuzz/targets.py`; the kept inputs are replayed by the suite.",
            "",
            f"- started {started:%Y-%m-%d %H:%M} UTC, {seconds / 60:.1f} minutes, seed {number}, one process at a time",
            f"- Python {platform.python_version()}, hypothesis by pieces and atheris by branches",
            f"- {total:,} inputs, {verdict}",
            "",
            "| target | inputs by pieces | inputs by branches | kept for the suite | failures |",
            "|---|---|---|---|---|",
            *rows,
            "",
            *(f"```\n{run.target}: {failure}\n```" for run in runs for failure in run.failures),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
