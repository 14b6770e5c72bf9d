"""Measure how long a stream waits while its worker works on the longest and worst texts of others.

One gunicorn worker with gevent serves a paced stream; beside it two others send the same long text through the
pipeline, one case after another. What is told of each: the longest gap between two chunks as the paced stream's client
received them, and in the worker the most CPU time between two turns, which a busy machine does not add to. A case whose
gap is over the budget is tried again, twice at most, and the shortest counts: what the gateway causes comes each time.

Run it by hand on a quiet machine: ``make turns``. It writes benchmarks/TURNS.md.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import report
from benchmarks.budgets import MB, NASTY, WORDS, prose
from benchmarks.servers import KEY, PATH, ROOT, Server, gateway, pace

GAP_MS = 10
BESIDE = 2
"""How many long texts are worked on at once."""
BUDGET_MS = 50
RUNS = 3
MODULES = ["hedge_reducer", "direct_mode", "casual_mode"]
TRIGGERS = [f"word{n}" for n in range(150)] + WORDS[:50]
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}


class Case(NamedTuple):
    """What is worked on beside the paced stream: *path* is asked with *body*, again and again."""

    name: str
    path: str
    body: Mapping[str, Any]


def asking(name: str, unit: str, cut: int, **fields: Any) -> Case:
    """Give the case of an answer of 1 MB in pieces of *cut* characters."""
    words = f"unit={unit.encode().hex()} chars={MB} cut={cut}"
    body = {"model": "m", "messages": [{"role": "user", "content": words}], "stm_modules": MODULES, **fields}
    return Case(f"{name}, 1 MB of {unit[:16]!r} in pieces of {cut:,}", PATH, body)


def cases() -> Iterator[Case]:
    """Give all cases: STM in its modes, then the work on long requests."""
    yield Case("nothing", "", {})
    for unit in ("It is a plain sentence and no more than that. ", *NASTY):
        for cut in (40, 100_000):
            for mode in ("live", "correct"):
                yield asking(f"STM {mode}", unit, cut, stream=True, stm_mode=mode)
        yield asking("STM, a whole answer", unit, 400, stream=False)
    for unit in NASTY:
        text = (unit * 50_000)[:50_000]
        yield Case(f"/v1/transform, 50,000 of {unit!r}", "/v1/transform", {"text": text, "modules": MODULES})
    yield from request_cases()


def request_cases() -> Iterator[Case]:
    """Give the cases of long requests, answered at once."""
    answer = {"role": "user", "content": "chunks=1"}
    for size in (100_000, MB - 100):
        long = {"role": "user", "content": prose(size)}
        fields = {"model": "m", "messages": [long, answer], "stream": True}
        asked = {"parseltongue": True, "parseltongue_triggers": TRIGGERS}
        yield Case(f"Parseltongue, 200 triggers in {size:,}", PATH, {**fields, **asked})
        yield Case(f"AutoTune, a message of {size:,}", PATH, {**fields, "messages": [long]})
        history = [{"role": "user", "content": prose(1000)} for _ in range(min(size // 1000, 499))]
        yield Case(f"AutoTune, {len(history)} messages of 1,000", PATH, {**fields, "messages": [*history, answer]})
    encode = {"text": prose(100_000), "custom_triggers": TRIGGERS}
    for technique in ("leetspeak", "unicode", "zwj", "mixedcase", "phonetic", "random"):
        yield Case(
            f"/v1/parseltongue/encode, {technique}", "/v1/parseltongue/encode", {**encode, "technique": technique}
        )
    yield Case("/v1/parseltongue/detect", "/v1/parseltongue/detect", encode)
    message = {"message": prose(MB), "conversation_history": [{"role": "user", "content": prose(1000)}] * 500}
    yield Case("/v1/autotune/analyze, 1 MB", "/v1/autotune/analyze", message)


def post(url: str, body: Mapping[str, Any]) -> http.client.HTTPResponse:
    """Send a request and give the response once its head is there."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=300)
    connection.request("POST", parts.path, json.dumps(body), HEADERS)
    return connection.getresponse()


class Paced:
    """A stream whose gaps are measured until the block ends."""

    def __init__(self, url: str) -> None:
        words = f"chunks=1000000 gap_ms={GAP_MS}"
        self._body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": words}]}
        self._url = url
        self._ends = threading.Event()
        self.longest = 0.0
        """Longest time between two chunks, in ms."""
        self.seen = 0

    def __enter__(self) -> Paced:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        while not self.seen and self._thread.is_alive():
            time.sleep(0.01)
        self.longest = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        response = post(self._url, self._body)
        last = time.monotonic()
        while not self._ends.is_set() and (line := response.readline()):
            if not line.startswith(b"data: {"):
                continue
            self.seen += 1
            now = time.monotonic()
            self.longest = max(self.longest, (now - last) * 1000)
            last = now
        response.close()


def turns(server: Server) -> dict[str, float]:
    """Ask the worker for its meter."""
    parts = urlsplit(server.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    connection.request("GET", "/turns")
    found: dict[str, float] = json.loads(connection.getresponse().read())
    return found


def ask(url: str, path: str) -> None:
    """Send the body on standard input and read the answer to its end; a process of its own, so that none waits here."""
    response = post(url + path, json.loads(sys.stdin.read()))
    if response.status != 200:
        raise SystemExit(f"{path} answered {response.status}: {response.read(300)!r}")
    while response.read(1 << 20):
        pass


def work(server: Server, case: Case) -> None:
    """Have the case's request answered, by several clients at once."""
    if not case.path:
        time.sleep(2)
        return
    command = [sys.executable, __file__, "ask", server.url.removesuffix(PATH), case.path]
    body = json.dumps(case.body).encode()
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT) for _ in range(BESIDE)]
    for process in started:
        assert process.stdin is not None
        process.stdin.write(body)
        process.stdin.close()
    if any(process.wait() for process in started):
        raise RuntimeError(f"{case.name} failed")


def measure(server: Server, case: Case) -> tuple[float, float, float]:
    """Give the longest gap at the client, the longest wait and the most CPU time between two turns, all in ms."""
    with Paced(server.url) as paced:
        turns(server)
        work(server, case)
        found = turns(server)
    return paced.longest, found["wall"], found["cpu"]


def best_of(server: Server, case: Case) -> tuple[float, float, float]:
    """Measure once, or up to ``RUNS`` times while the gap is over the budget; give the figures of the shortest gap."""
    found = measure(server, case)
    for _ in range(RUNS - 1):
        if found[0] > BUDGET_MS:
            found = min(found, measure(server, case))
    return found


def main(only: str = "") -> None:
    """Print the table and write it down."""
    lines = ["| beside the paced stream | longest gap at its client | longest wait in the worker | of it CPU |"]
    lines += ["|---|---|---|---|"]
    settings = {"SLUICE_MAX_EVENT_BYTES": "4000000", "SLUICE_MAX_BODY_BYTES": "20000000"}
    with pace() as origin, gateway(origin, app="benchmarks.turning:app", **settings) as server:
        for case in cases():
            if only in case.name:
                gap, wall, cpu = best_of(server, case)
                lines.append(f"| {case.name} | {gap:.1f} ms | {wall:.1f} ms | {cpu:.1f} ms |")
                print(lines[-1], flush=True)
    if only:
        return
    where = report.machine()
    page = (
        f"# How long a stream waits for others' work\n\nMade by `make turns`, {where['date']}, {where['processor']}.\n"
    )
    page += f"One worker, chunks {GAP_MS} ms apart, {BESIDE} requests at once beside them; budget {BUDGET_MS} ms.\n"
    page += f"Load average of the machine at the end: {os.getloadavg()[0]:.1f} on {where['cores']} cores.\n\n"
    (Path(__file__).parent / "TURNS.md").write_text(page + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["ask"]:
        ask(*sys.argv[2:])
    else:
        main(*sys.argv[1:2])
