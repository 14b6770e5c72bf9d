"""The documents alone lead a new user to a streamed answer, a mounted blueprint and a stage of one's own."""

from __future__ import annotations

import subprocess
import sys

from tests.clock import PATIENCE
from tests.servers import ROOT


def test_everything_goes_as_documented() -> None:
    """scripts/new_user.py types what the documents show, in an empty folder, and sees what they promise."""
    command = [sys.executable, str(ROOT / "scripts" / "new_user.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30 * PATIENCE, check=False)

    assert 0 == done.returncode, done.stdout[-3000:] + done.stderr[-1000:]
    assert done.stdout.endswith("everything went as documented\n")
