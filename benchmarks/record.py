"""What the record costs and how fast it is read back: ``python benchmarks/record.py [--rows N] [--database URL]``.

Fills a database (a SQLite file that is thrown away, unless told otherwise) with records of thirty days, then times
writing, pages at every depth with every filter, statistics, and how late a worker's ticker is while its database is
locked and busy. Prints Markdown; RECORD.md holds the figures of one such run.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import random
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from app.demo import DemoUpstream
from app.questions import read_stats_query
from app.record import Record
from app.stores import EventFilter, Events, Place, RecordTable, Statistics, Store, row_of
from tests.load import Load
from tests.servers import GunicornGateway, request, wait_until

DAYS = 30
BATCH = 500
REASONS = {
    "completed": 800,
    "length": 60,
    "tool_calls": 60,
    "client_disconnected": 40,
    "upstream_error": 25,
    "rejected": 10,
    "upstream_timeout": 5,
}
MODELS = [f"vendor-{number % 7}/model-{number}" for number in range(20)]
PIPELINE = {
    "autotune": {"detected_context": "code", "confidence": 0.8, "strategy": "adaptive"},
    "parseltongue": None,
    "stm": {"modules_applied": ["hedge_reducer", "direct_mode"], "mode": "correct", "changed": False},
}


def made(number: int, created_at: float, chance: random.Random) -> Record:
    """Make a finished record as a busy gateway has them."""
    reason = chance.choices(list(REASONS), list(REASONS.values()))[0]
    model = MODELS[min(int(chance.paretovariate(0.7)) - 1, len(MODELS) - 1)]
    record = Record(created_at=created_at, stream=True, requested_model=model, provider="Provider")
    record.completion_id, record.request_id = f"chatcmpl-{number:024x}", f"req-{number:024x}"
    record.key_label = f"key-{min(int(chance.paretovariate(0.8)), 100)}"
    record.status = {"rejected": 400, "upstream_error": chance.choice([200, 502])}.get(reason, 200)
    record.served_model = model if record.status == 200 else None
    record.headers_ms = round(chance.lognormvariate(5, 0.6), 1)
    record.first_chunk_ms = round(chance.lognormvariate(6, 0.7), 1)
    record.usage = {"prompt_tokens": 900, "completion_tokens": 300, "total_tokens": 1200, "cost": 0.0012}
    record.params_used = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 4096}
    record.pipeline, record.attempts = PIPELINE, [{"status": 200}]
    record.close(reason)
    record.total_ms = round(chance.lognormvariate(8, 0.9), 1)
    return record


def fill(table: RecordTable, rows: int) -> Iterator[str]:
    """Write *rows* records; tell what that cost."""
    chance, spent, began = random.Random(1), 0.0, time.time() - DAYS * 86_400
    for first in range(0, rows, BATCH):
        batch = [made(n, began + n * DAYS * 86_400 / rows, chance) for n in range(first, min(first + BATCH, rows))]
        before = time.process_time()
        table.add([row_of(record) for record in batch])
        spent += time.process_time() - before
    yield f"| CPU to write a record, in batches of {BATCH} | {spent / rows * 1e6:.0f} µs |"


def costs(folder: Path) -> Iterator[str]:
    """Tell the CPU that a record takes, by the size of its batch, in a database of its own."""
    store, chance = Store(f"sqlite:///{folder}/costs.db"), random.Random(2)
    table = RecordTable(store)
    table.add([row_of(made(0, time.time(), chance))])
    for size in (500, 50, 5):
        batches = [[made(1 + n, time.time(), chance) for n in range(size)] for _ in range(2000 // size)]
        began = time.process_time()
        rows = [[row_of(record) for record in batch] for batch in batches]
        between = time.process_time()
        for batch in rows:
            table.add(batch)
        made_in, written_in = (between - began) / 2000 * 1e6, (time.process_time() - between) / 2000 * 1e6
        figures = f"{made_in:.0f} µs to make its row, {written_in:.0f} to write it"
        yield f"| CPU of a record, in batches of {size} | {figures} |"
    store.close()


def timed(work: Callable[[], Any], times: int = 7) -> tuple[float, float]:
    """Give the median and the longest of some runs, in milliseconds."""
    found = []
    for _ in range(times):
        before = time.perf_counter()
        work()
        found.append((time.perf_counter() - before) * 1000)
    return sorted(found)[times // 2], max(found)


def pages(store: Store) -> Iterator[str]:
    """Time pages of 100 with every filter, alone and together, at three depths; tell the slowest of each kind."""
    events, now = Events(store), time.time()
    values: dict[str, list[Any]] = {
        "model": [MODELS[0], MODELS[-1], "no/such"],
        "end_reason": ["completed", "upstream_timeout", "rejected"],
        "key_label": ["key-1", "key-90"],
        "status": [200, 502, 404],
    }
    for count in range(len(values) + 1):
        slowest: tuple[float, float, str] = (0.0, 0.0, "")
        for names in itertools.combinations(values, count):
            for chosen in itertools.product(*(values[name] for name in names)):
                for depth in (0.0, 0.5, 0.97):
                    after = Place(now - DAYS * 86_400 * depth, "f")
                    where = EventFilter(**dict(zip(names, chosen, strict=True)))
                    median, longest = timed(lambda where=where, after=after: events.page(where, after, 101), 3)
                    slowest = max(slowest, (median, longest, f"{chosen} at {depth:.0%}"))
        yield f"| slowest page of 100 with {count} filters: {slowest[2]} | {slowest[0]:.1f} ms |"


def statistics(store: Store) -> Iterator[str]:
    """Time questions of every form."""
    answers = Statistics(store)
    since = time.time() - 9.3 * 86_400
    for query in (
        {},
        {"model": [MODELS[0]]},
        {"since": [f"{since:.0f}"]},
        {"by": ["period"], "period": ["day"]},
        {"by": ["model,period"], "period": ["day"]},
        {"by": ["period"], "period": ["hour"]},
        {"by": ["model,period"], "period": ["hour"]},
    ):
        question = read_stats_query(query).question
        median, longest = timed(lambda question=question: answers.answer(question), 5)
        words = "&".join(f"{name}={value[0]}" for name, value in query.items()) or "no parameters"
        yield f"| statistics, {words} | {median:.0f} ms, at most {longest:.0f} |"


def slips(path: Path) -> Iterator[str]:
    """Time a ticker in a gevent worker under load, with the file locked and with long questions."""
    environ = {
        "SLUICE_DATABASE_URL": f"sqlite:///{path}",
        "SLUICE_RETENTION_DAYS": "0",
        "PYTHONPATH": str(ROOT),
    }
    with DemoUpstream(record=False) as upstream:
        environ["OPENROUTER_BASE_URL"] = upstream.base_url
        with GunicornGateway(environ, app="tests.ticking:app") as gateway:
            load = Load(gateway.url, threads=2)
            load.start()
            for words, work in _TROUBLES.items():
                ask(gateway, "/slip")
                work(gateway, path)
                yield f"| a 100 ms tick is late by at most, {words} | {ask(gateway, '/slip')['ms']:.0f} ms |"
            load.stop()


def ask(gateway: GunicornGateway, path: str) -> Any:
    """Ask for JSON."""
    with request("GET", f"{gateway.url}{path}", timeout=60) as response:
        return response.json()


def _locked(gateway: GunicornGateway, path: Path, work: Callable[[], Any] = lambda: None) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    end = time.monotonic() + 3
    work()
    wait_until(lambda: time.monotonic() > end, 30)
    other.execute("COMMIT")
    other.close()


def _asking(gateway: GunicornGateway, path: Path) -> None:
    threads = [threading.Thread(target=ask, args=(gateway, "/query")) for _ in range(2)]
    for thread in threads:
        thread.start()
    ask(gateway, "/v1/metadata/stats?by=period")
    for thread in threads:
        thread.join()


_TROUBLES: dict[str, Callable[[GunicornGateway, Path], None]] = {
    "with nothing amiss": lambda gateway, path: time.sleep(3),
    "while the file is locked for 3 s": _locked,
    "while two questions of a second and statistics run": _asking,
}


def main() -> int:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--database", help="a database URL to fill, or one that this has filled, to read it again")
    parser.add_argument("--filled", action="store_true", help="the database is filled")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-record-") as folder:
        url = options.database or f"sqlite:///{folder}/records.db"
        store = Store(url)
        print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {sys.version.split()[0]},")
        print(f"{store.kind}, {options.rows:,} records, load average {os.getloadavg()[0]:.1f}\n")
        print("| what | figure |\n|---|---|")
        parts: list[Iterator[str]] = [] if options.filled else [fill(RecordTable(store), options.rows)]
        parts += [costs(Path(folder)), pages(store), statistics(store)]
        if store.kind == "sqlite":
            parts.append(slips(Path(url.removeprefix("sqlite:///"))))
        for part in parts:
            for line in part:
                print(line, flush=True)
        store.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
