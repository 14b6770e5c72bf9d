"""What several worker processes count together: prometheus_client's files in one folder.

The folder is made when gunicorn's configuration is read, before any metric exists, and named in
``PROMETHEUS_MULTIPROC_DIR``. Each worker writes files of its own and every scrape sums them up. prometheus_client
never removes the counters of a worker that has ended, so where workers come and go scrapes get slower for ever; here
a scrape moves the counters of the dead into one file.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["clean", "collect", "folder", "hold", "mark_dead", "prepare", "remove"]

_NAME = "PROMETHEUS_MULTIPROC_DIR"
_PREFIX = "sluice-metrics-"
_LOCK = "lock"
_THE_DEAD = "0"
"""Stands in file names where a process id would: no process has it."""
_ABANDONED = 3600.0
"""Seconds after which a folder of ours that no process holds is removed."""


def folder() -> str | None:
    """Give the folder, or None where this process counts for itself."""
    return os.environ.get(_NAME) or None


def prepare() -> None:
    """Name the folder for this server's workers to inherit, unless the operator has named one.

    Called again in the same process, as at a reload, it leaves everything as it is. A server that another one starts
    to take its place (SIGUSR2) gets a folder of its own.
    """
    found = folder()
    if not found or (_is_ours(found) and _owner(found) != str(os.getpid())):
        base = _base() or tempfile.gettempdir()
        os.environ[_NAME] = os.path.join(base, f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}")


def clean() -> None:
    """Remove what earlier servers have left: in the operator's folder their files, elsewhere their folders."""
    found = folder()
    if found and not _is_ours(found) and "GUNICORN_PID" not in os.environ:  # else the old server's workers count there
        for path in glob.glob(os.path.join(found, "*.db")):
            os.remove(path)
    _sweep()


def remove() -> None:
    """Remove the folder that this server named; an operator's own stays."""
    found = folder()
    if found and _is_ours(found) and _owner(found) == str(os.getpid()):
        shutil.rmtree(found, ignore_errors=True)


def hold() -> None:
    """Note, for as long as this worker lives, that the folder is in use."""
    found = folder()
    if found:
        os.makedirs(found, mode=0o700, exist_ok=True)
        descriptor = os.open(os.path.join(found, "held"), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def mark_dead(pid: int) -> None:
    """Forget the gauges of a worker that has ended, however it did."""
    found = folder()
    if found and os.path.isdir(found):
        for path in glob.glob(os.path.join(found, f"gauge_live*_{pid}.db")):
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)


def collect(path: str) -> Iterable[Any]:
    """Sum up the metrics of all workers, dead ones included."""
    from prometheus_client.multiprocess import MultiProcessCollector

    merge: Any = MultiProcessCollector.merge

    _bury(path)
    with _locked(path, fcntl.LOCK_SH):
        files = glob.glob(os.path.join(path, "*.db"))
        try:
            return list(merge(files))
        except Exception:  # one torn file, of a worker killed in the middle of a write, must not hide the others
            return list(merge([file for file in files if _is_whole(file)]))


def _bury(path: str) -> None:
    """Move the counters of workers that are no more into one file, and remove their gauges."""
    dead = {pid for file in glob.glob(os.path.join(path, "*.db")) if not _is_alive(pid := _owner(file))}
    if not dead:
        return
    with contextlib.suppress(BlockingIOError), _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
        for pid in dead:
            mark_dead(int(pid))
            for kind in ("counter", "histogram"):
                _merge(os.path.join(path, f"{kind}_{pid}.db"), os.path.join(path, f"{kind}_{_THE_DEAD}.db"))


def _merge(source: str, target: str) -> None:
    from prometheus_client.mmap_dict import MmapedDict

    with contextlib.suppress(FileNotFoundError):  # another worker's scrape was first
        if _is_whole(source):
            total: Any = MmapedDict(target)  # type: ignore[no-untyped-call]
            for key, value, _, _ in MmapedDict.read_all_values_from_file(source):  # type: ignore[no-untyped-call]
                total.write_value(key, total.read_value(key)[0] + value, 0.0)
            total.close()
        os.remove(source)


def _is_whole(file: str) -> bool:
    from prometheus_client.mmap_dict import MmapedDict

    try:
        list(MmapedDict.read_all_values_from_file(file))  # type: ignore[no-untyped-call]
    except FileNotFoundError:
        raise
    except Exception:
        return False
    return True


@contextlib.contextmanager
def _locked(path: str, how: int) -> Iterator[None]:
    """Hold the folder's lock, so that no scrape sees a counter twice or not at all while it is moved.

    Raises:
        BlockingIOError: it is taken and *how* says not to wait.
    """
    descriptor = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


def _is_ours(path: str) -> bool:
    return os.path.basename(path).startswith(_PREFIX)


def _owner(path: str) -> str:
    """Give the process id in the name of a folder or file."""
    name = os.path.basename(path)
    return name.removeprefix(_PREFIX).partition("-")[0] if _is_ours(path) else name[:-3].rpartition("_")[2]


def _is_alive(pid: str) -> bool:
    if pid == _THE_DEAD or not pid.isdigit():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _base() -> str | None:
    # Where the files lie on a disk, a slow one can hold a worker up in the middle of a stream.
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _sweep() -> None:
    """Remove folders that servers killed outright have left."""
    for found in glob.glob(os.path.join(_base() or tempfile.gettempdir(), _PREFIX + "*")):
        with contextlib.suppress(OSError):
            if time.time() - os.stat(found).st_mtime < _ABANDONED or os.stat(found).st_uid != os.getuid():
                continue
            descriptor = os.open(os.path.join(found, "held"), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(found, ignore_errors=True)
            finally:
                os.close(descriptor)
