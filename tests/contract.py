"""A running gateway held against its own OpenAPI document by Schemathesis."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from app.demo import DemoUpstream
from tests.servers import ROOT, GunicornGateway

__all__ = ["ACCESS", "Verdict", "gateway_for", "hold"]

_CONFIG = ROOT / "tests" / "data" / "schemathesis.toml"
_KEY = "a-key-of-the-gateway"
ACCESS: dict[str, dict[str, str | None]] = {
    "open": {},
    "keys": {"SLUICE_OPEN": None, "SLUICE_API_KEYS": f"caller:{_KEY}", "SLUICE_METADATA_KEY": _KEY},
}
"""Settings by who may call."""


class Verdict(NamedTuple):
    """What came of it: how many requests were made up, and Schemathesis' own words."""

    passed: bool
    cases: int
    report: str


@contextmanager
def gateway_for(access: str) -> Iterator[GunicornGateway]:
    """Give a gateway with every stage on, before an upstream that answers all alike."""
    # What the server refuses before there is an application is none of the document's business.
    args = ["--limit-request-line", "0", "--limit-request-field_size", "0"]
    stages = {"SLUICE_PARSELTONGUE": "on", "SLUICE_PARSELTONGUE_TRIGGERS": "quick", "SLUICE_FIRST_TOKEN_TIMEOUT": "600"}
    with DemoUpstream() as upstream:
        upstream.play([{"text": ["I think it ", "works."]}], times=None)
        settings = {"OPENROUTER_BASE_URL": upstream.base_url, **stages, **ACCESS[access]}
        with GunicornGateway(settings, args=args) as gateway:
            yield gateway


def hold(gateway: GunicornGateway, access: str, seed: int, *options: str) -> Verdict:
    """Make requests up from the document, good and bad ones, and check the answers against it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(_CONFIG), "run"]
        command += [f"{gateway.url}/openapi.json", "--seed", str(seed), *options]
        if access == "keys":
            command += ["--header", f"Authorization: Bearer {_KEY}"]
        environ = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": ""}
        done = subprocess.run(command, capture_output=True, text=True, cwd=Path(folder), env=environ, check=False)
    report = done.stdout + done.stderr
    found = re.search(r"^\s*(\d+) generated", report, re.MULTILINE)
    return Verdict(done.returncode == 0, int(found[1]) if found else 0, report)
