"""Calls that block the process, run elsewhere under gevent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from app.offload import offload
from tests.servers import ROOT, clean_environ

PATCHED = """
from gevent import monkey
monkey.patch_all()
import threading
from gevent.monkey import get_original
from app.offload import offload

here = get_original("_thread", "get_ident")
assert here() != offload(here)
assert 5 == offload(lambda one, *, other: one + other, 2, other=3)
for kind in (ValueError, SystemExit):
    def fail():
        raise kind("secret words")
    try:
        offload(fail)
    except kind as error:
        assert ("secret words",) == error.args
    else:
        raise AssertionError("nothing was raised")
"""


def test_what_a_call_raises_is_the_callers_alone_under_gevent() -> None:
    """It runs on another thread; its value and its exception come back, and nothing of them is printed."""
    command = [sys.executable, "-c", PATCHED]
    done = subprocess.run(command, cwd=ROOT, env=clean_environ({}), capture_output=True, text=True)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


def test_it_is_a_plain_call_elsewhere() -> None:
    """Without gevent the function runs where it is called."""
    assert 5 == offload(lambda one, *, other: one + other, 2, other=3)
    with pytest.raises(ZeroDivisionError):
        offload(lambda: 1 / 0)
