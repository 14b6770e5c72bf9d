"""Measure what single pieces of work cost, as process time, best of five, against their budgets.

Run it by hand on a quiet machine: ``make budgets``. It writes benchmarks/BUDGETS.md; nothing is asserted in tests,
where a busy machine would decide.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from app import wire
from app.sse import EventDecoder, LineBuffer, encode_data
from app.text.context import detect
from app.text.perturb import perturb_matches
from app.text.transducer import transform
from app.text.triggers import TriggerSet
from benchmarks import report

MB = 1_000_000
WORDS = (
    "the river kept a mill running and I think we should probably open the gate slowly because it is perhaps better"
    " to let water through than to hold it back however much of it there may be in spring"
).split()


NASTY = ("1. a\n", "a, I think, is ", "utilize ", "is probably ", "I think ", '"', "`", "$a ", "\n\n", "maybe maybe ")
"""Texts, repeated, that a rule could take long over."""


def of(piece: str) -> str:
    """Repeat *piece* to a million characters."""
    return piece * (MB // len(piece))


def best(work: Callable[[], object], runs: int = 5) -> float:
    """Give the least process time of *runs* runs, in seconds."""
    found = []
    for _ in range(runs):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def prose(size: int) -> str:
    """Give *size* characters of sentences."""
    choose = random.Random(1)
    parts: list[str] = []
    length = 0
    while length < size:
        sentence = " ".join(choose.choices(WORDS, k=12)).capitalize() + ". "
        parts.append(sentence)
        length += len(sentence)
    return "".join(parts)[:size]


def event(size: int) -> Callable[[], object]:
    """Give the work of one event of *size* bytes, read in packets of 1,400 bytes."""
    data = encode_data(wire.dumps({"choices": [{"index": 0, "delta": {"content": "x" * size}}]}))

    def work() -> None:
        lines, decoder = LineBuffer(size * 2), EventDecoder(size * 2)
        for start in range(0, len(data), 1400):
            for line in lines.feed(data[start : start + 1400]).splitlines():
                found = decoder.feed(line)
                if found is not None and not isinstance(found, bytes):
                    encode_data(wire.dumps(wire.loads(found.data)))

    return work


def main() -> None:
    """Print the table and write it down."""
    text = prose(MB)
    triggers = TriggerSet([f"word{n}" for n in range(150)] + WORDS[:50])
    message = prose(2000)

    def perturbed() -> None:
        part = text[:100_000]
        perturb_matches(part, triggers.find(part), "leetspeak", "medium", random.Random(1), lambda change: None)

    modules = ("hedge_reducer", "direct_mode", "casual_mode")
    detect(message)
    rows = [
        ("an event of 1 MB", best(event(MB)), None),
        ("an event of 4 MB", best(event(4 * MB)), None),
        ("AutoTune, a message of 2,000 characters", best(lambda: [detect(message) for _ in range(100)]) / 100, 200e-6),
        ("Parseltongue, 200 triggers in 100 KB", best(perturbed), 0.05),
        *(
            (f"STM, {size:,} characters", best(lambda size=size: transform(text[:size], modules)), None)
            for size in (10_000, 100_000)
        ),
        ("STM, 1,000,000 characters", best(lambda: transform(text, modules)), 1.0),
        *(
            (f"STM, a million characters of {piece!r}", best(lambda piece=piece: transform(of(piece), modules)), 1.0)
            for piece in NASTY
        ),
    ]
    lines = ["| work | CPU, best of 5 | budget |", "|---|---|---|"]
    for name, seconds, budget in rows:
        lines.append(f"| {name} | {seconds * 1000:.3g} ms | {f'{budget * 1000:g} ms' if budget else ''} |")
    where = report.machine()
    page = f"# What single pieces of work cost\n\nMade by `make budgets`, {where['date']}, {where['processor']}.\n\n"
    page += "\n".join(lines) + "\n"
    print(page)
    (Path(__file__).parent / "BUDGETS.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
