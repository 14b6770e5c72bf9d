"""The distribution as others get it: built once for a test run, and installed into an environment of its own."""

from __future__ import annotations

import functools
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

from tests.clock import PATIENCE

from .servers import ROOT

__all__ = ["Installed", "install"]

_NOT_COPIED = (".*", "__pycache__", "*.egg-info", "build", "dist", "instance")


class Installed(NamedTuple):
    """Where everything is. ``source`` is the copy that was built, so that nothing is left behind in the checkout."""

    source: Path
    sdist: Path
    wheel: Path
    python: Path


@functools.cache
def install(folder: Path) -> Installed:
    """Build sdist and wheel in *folder*, install the wheel into a new environment there.

    The environment sees the packages of the one that runs the tests, so that nothing is downloaded.
    """
    source, built = folder / "source", folder / "built"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    # Through the sdist, as a release is: what it lacks, the wheel lacks.
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(built), str(source))
    (sdist,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    python = _environment(folder / "environment")
    _run(sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    return Installed(source, sdist, wheel, python)


def _environment(folder: Path) -> Path:
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "test_environment.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return folder / "bin" / "python"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=20 * PATIENCE, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} gave {done.returncode}:\n{done.stdout}\n{done.stderr}")
