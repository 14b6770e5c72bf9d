"""Hold running gateways against their own OpenAPI document for longer than the suite does; writes CONTRACT.md.

The requests are Schemathesis': made up from the document, valid and broken, by cases, at random and in sequences.
"""

from __future__ import annotations

import argparse
import platform
import random
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.contract import ACCESS, Verdict, gateway_for, hold

REPORT = ROOT / "benchmarks" / "CONTRACT.md"


def main() -> int:
    """Hold a gateway of each kind of access; 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=100, help="for each operation, beside the cases")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", action="store_true", help="write the report")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    started, found = datetime.now(UTC), {}
    for access in ACCESS:
        began = time.monotonic()
        with gateway_for(access) as gateway:
            verdict = hold(gateway, access, seed, "--max-examples", str(options.examples))
            if "Traceback" in gateway.log():
                verdict = verdict._replace(passed=False, report=verdict.report + gateway.log())
        found[access] = (verdict, time.monotonic() - began)
        if not verdict.passed:
            print(verdict.report, file=sys.stderr)
    text = report(found, seed, started, options.examples)
    print(text)
    if options.keep:
        REPORT.write_text(text)
    return int(not all(verdict.passed for verdict, _ in found.values()))


def report(found: dict[str, tuple[Verdict, float]], seed: int, started: datetime, examples: int) -> str:
    """Write the log of a run."""
    rows = [
        f"| {access} | {verdict.cases:,} | {seconds / 60:.1f} | {'none' if verdict.passed else 'FAILED'} |"
        for access, (verdict, seconds) in found.items()
    ]
    return "\n".join(
        [
            "# The contract",
            "",
            "Made by `make contract` (`benchmarks/contract.py`): a gateway under gunicorn, every stage on, against its",
            "own `/openapi.json`. No answer may be a server error, have a status, a header, a content type or a form",
            "that is not described, refuse what is valid or take what is not, or let somebody in without a key.",
            "",
            f"- started {started:%Y-%m-%d %H:%M} UTC, seed {seed}, {examples} examples an operation and phase",
            f"- Python {platform.python_version()}, Schemathesis {version('schemathesis')}",
            "",
            "| access | requests | minutes | failures |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
