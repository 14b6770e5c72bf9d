"""Many mixed streams for a long time, with faults, aborts and stalled readers: nothing may grow, nothing may be lost.

Runs a real gunicorn gevent worker before the demo upstream, both as processes. Prints a table and a verdict, and writes
benchmarks/SOAK.md when told to keep it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import platform
import re
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.scenarios import Scenario, body_of, pick
from tests.servers import GunicornGateway, clean_environ, request, wait_until

REPORT = ROOT / "benchmarks" / "SOAK.md"
SETTINGS = {
    "SLUICE_PIPELINE": "on",
    "SLUICE_HEARTBEAT": "2",
    "SLUICE_RETRY_BACKOFF": "0.2",
    "SLUICE_RETRIES": "2",
    "SLUICE_FIRST_TOKEN_TIMEOUT": "8",
    "SLUICE_IDLE_TIMEOUT": "8",
    "SLUICE_CLIENT_STALL_TIMEOUT": "8",
}
DRIFT = 0.02
"""Most that resident memory may rise over the last half, as a part of it."""
SPARE = 10
"""File descriptors and threads that may be more in the end than before the first stream."""
_END = re.compile(rb"0\r\n\r\n\Z")


class Sample(NamedTuple):
    """The worker at one moment."""

    seconds: float
    resident: float
    files: int
    threads: int
    done: int
    wrong: int


class Soak:
    """One run: *streams* clients, each asking for one thing after another."""

    def __init__(self, url: str, worker: int, streams: int, seconds: float, seed: int) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._worker, self._streams, self._seconds, self._seed = worker, streams, seconds, seed
        self._number = 0
        self.expected: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.samples: list[Sample] = []

    async def run(self) -> None:
        """Keep all clients busy until the time is over, and let them finish."""
        self._began = time.monotonic()
        watch = asyncio.create_task(self._watch())
        await asyncio.gather(*(self._client(place) for place in range(self._streams)))
        watch.cancel()

    async def _client(self, place: int) -> None:
        await asyncio.sleep(place / self._streams * 5)  # not all at the same moment
        while time.monotonic() - self._began < self._seconds:
            self._number += 1
            number, scenario = self._number, pick(self._number, self._seed)
            try:
                async with asyncio.timeout(90):
                    fault = await self._ask(scenario, f"{self._seed}-{number}")
            except TimeoutError:
                fault = "no end within 90 s"
            except OSError as error:
                fault = repr(error)
            self.kinds[scenario.name] += 1
            self.expected[scenario.reason] += 1
            if fault is not None:
                self.wrong[f"{scenario.name}: {fault}"] += 1

    async def _ask(self, scenario: Scenario, key: str) -> str | None:
        """Do what the scenario's client does; give what was not as it must be."""
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=2**16)
        try:
            body = body_of(scenario, key)
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"{head}Content-Type: application/json\r\nConnection: close\r\n\r\n".encode() + body)
            await writer.drain()
            if scenario.leaves is None:
                return _judged(scenario, await _tail(reader))
            await self._leave(scenario.leaves, reader)
            return None
        finally:
            writer.transport.abort()

    @staticmethod
    async def _leave(how: str, reader: asyncio.StreamReader) -> None:
        """Stay until it is time to leave."""
        if how == "head":
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(0.5)
        elif how == "chunk":
            await reader.readuntil(b"word3 ")
        else:
            await asyncio.sleep(float(SETTINGS["SLUICE_CLIENT_STALL_TIMEOUT"]) + 15)

    async def _watch(self) -> None:
        while True:
            self.samples.append(self.sample())
            await asyncio.sleep(2)

    def sample(self) -> Sample:
        """Look at the worker."""
        folder = Path("/proc", str(self._worker))
        pages = int((folder / "statm").read_text().split()[1])
        return Sample(
            time.monotonic() - self._began,
            pages * resource.getpagesize() / 1e6,
            len(os.listdir(folder / "fd")),
            len(os.listdir(folder / "task")),
            sum(self.kinds.values()),
            sum(self.wrong.values()),
        )


async def _tail(reader: asyncio.StreamReader) -> bytes:
    """Read to the end and give the head and the last bytes."""
    head, tail = await reader.readuntil(b"\r\n\r\n"), b""
    while piece := await reader.read(65536):
        tail = (tail + piece)[-4000:]
    return head + tail


def _judged(scenario: Scenario, answer: bytes) -> str | None:
    streams = b"text/event-stream" in answer[:1000]
    if streams and not (b"data: [DONE]\n\n" in answer and _END.search(answer)):
        return f"no proper end: {answer[-120:]!r}"
    if scenario.code is not None and f'"code":"{scenario.code}"'.encode() not in answer.replace(b'": "', b'":"'):
        return f"not told {scenario.code}: {answer[-200:]!r}"
    if scenario.code is None and b'"error"' in answer:
        return f"an error: {answer[-300:]!r}"
    return None


@contextlib.contextmanager
def demo() -> Iterator[str]:
    """Run the demo upstream; give its base URL."""
    command = [sys.executable, "-m", "app.demo", "--port", "0", "--pace", "0", "--first-token", "0", "--quiet"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=clean_environ({}))
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait(10)


def recorded(database: Path) -> Counter[str]:
    """Count the records by end reason."""
    with contextlib.closing(sqlite3.connect(database, timeout=10)) as connection:
        return Counter(dict(connection.execute("SELECT end_reason, count(*) FROM sluice_records GROUP BY end_reason")))


def drift(samples: list[Sample]) -> float:
    """Give the rise of resident memory over the last half, by least squares, as a part of its mean."""
    half = [sample for sample in samples if sample.seconds >= samples[-1].seconds / 2]
    middle = sum(sample.seconds for sample in half) / len(half)
    mean = sum(sample.resident for sample in half) / len(half)
    spread = sum((sample.seconds - middle) ** 2 for sample in half) or 1.0
    slope = sum((sample.seconds - middle) * (sample.resident - mean) for sample in half) / spread
    return slope * (half[-1].seconds - half[0].seconds) / mean


def main() -> int:
    """Run it; 1 if anything was not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help=f"write {REPORT.name}")
    options = parser.parse_args()
    wanted = 2 * options.streams + 500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    text, is_fine = soak(options.streams, options.minutes, options.seed)
    print(text)
    if options.keep:
        REPORT.write_text(text)
    return int(not is_fine)


def soak(streams: int, minutes: float, seed: int) -> tuple[str, bool]:
    """Run it; give the report, and whether all was as it must be."""
    started = datetime.now(UTC)
    with tempfile.TemporaryDirectory() as folder, demo() as upstream:
        database = Path(folder, "records.db")
        env = {
            **SETTINGS,
            "OPENROUTER_BASE_URL": upstream,
            "SLUICE_DATABASE_URL": f"sqlite:///{database}",
            "SLUICE_MAX_STREAMS": str(streams + 100),
        }
        with GunicornGateway(env) as gateway:
            children = Path(f"/proc/{gateway.process.pid}/task/{gateway.process.pid}/children")
            worker = int(wait_until(lambda: children.read_text().split())[0])
            run = Soak(gateway.url, worker, streams, minutes * 60, seed)
            run._began = time.monotonic()
            before = run.sample()
            asyncio.run(run.run())
            wait_until(lambda: _open(gateway) == 0, 30, "every place is free")
            expected = run.expected
            with contextlib.suppress(TimeoutError):
                wait_until(lambda: recorded(database) == expected, 15, "the records")
            found, log = recorded(database), gateway.log()
            with contextlib.suppress(TimeoutError):
                wait_until(lambda: run.sample().files <= before.files + SPARE, 90)  # idle connections are kept a while
            after = run.sample()
            alive = children.read_text().split() == [str(worker)]
    checks = {
        "no error outside the scripted ones": not run.wrong,
        "no traceback in the log": "Traceback" not in log,
        "the same worker from first to last": alive,
        f"resident memory rose {drift(run.samples):+.2%} over the last half (at most {DRIFT:.0%})": drift(run.samples)
        < DRIFT,
        f"file descriptors {before.files} before, {after.files} after": after.files <= before.files + SPARE,
        f"threads {before.threads} before, {after.threads} after": after.threads <= before.threads + SPARE,
        f"{sum(found.values()):,} records, each with the end it must have": found == expected,
    }
    lines = report(run, streams, minutes, seed, started, checks)
    if found != expected:
        lines.append(f"\nRecords found: {dict(found)}\n\nexpected: {dict(expected)}\n")
    if "Traceback" in log:
        lines.append(f"\n```\n{log[log.index('Traceback') - 500 :][:3000]}\n```\n")
    return "\n".join(lines), all(checks.values())


def _open(gateway: GunicornGateway) -> int:
    with request("GET", f"{gateway.url}/v1/ready") as response:
        return int(response.json()["open_streams"])


def report(run: Soak, streams: int, minutes: float, seed: int, started: datetime, checks: dict[str, bool]) -> list[str]:
    """Write the figures down."""
    end = run.samples[-1].seconds
    shown = [min(run.samples, key=lambda sample: abs(sample.seconds - end * part / 10)) for part in range(11)]
    rows = [
        f"| {sample.seconds / 60:.1f} | {sample.resident:.1f} | {sample.files} | {sample.threads} | {sample.done:,} |"
        f" {sample.wrong} |"
        for sample in shown
    ]
    return [
        "# Soak",
        "",
        "Made by `make soak` (`benchmarks/soak.py`): mixed streams with faults, aborts and stalled readers against one",
        "gunicorn gevent worker before the demo upstream, all on one machine.",
        "",
        f"- started {started:%Y-%m-%d %H:%M} UTC, {streams} streams at once for {minutes:g} minutes, seed {seed}",
        f"- Python {platform.python_version()}, {os.cpu_count()} cores, load average {os.getloadavg()[1]:.1f}",
        f"- **{'passed' if all(checks.values()) else 'FAILED'}**",
        "",
        *(f"- {'yes' if held else '**NO**'}: {what}" for what, held in checks.items()),
        "",
        "| minute | resident MB | file descriptors | threads | requests done | wrong |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        "| kind | requests |",
        "|---|---|",
        *(f"| {kind} | {count:,} |" for kind, count in sorted(run.kinds.items(), key=lambda pair: -pair[1])),
        "",
        *(f"- {count} times {what}" for what, count in run.wrong.most_common(20)),
    ]


if __name__ == "__main__":
    sys.exit(main())
