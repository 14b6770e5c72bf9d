"""The CPU time and memory of a process and its children, read from Linux' /proc."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Gauge", "cpu_seconds", "memory_bytes", "tree"]

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> Iterator[Path]:
    """Give the /proc folders of a process and all below it."""
    folder = Path("/proc", str(pid))
    try:
        children = [word for task in (folder / "task").iterdir() for word in (task / "children").read_text().split()]
    except OSError:
        return
    yield folder
    for child in children:
        yield from tree(int(child))


def cpu_seconds(pid: int) -> float:
    """Give the CPU time the tree has used, threads and children that have ended included.

    Live threads tell it to the nanosecond; what has ended is known in whole ticks, usually of 10 ms.
    """
    return sum(max(_of_threads(folder), _of_process(folder)) + _of_ended_children(folder) for folder in tree(pid))


def _of_threads(folder: Path) -> float:
    nanoseconds = 0
    for task in (folder / "task").glob("*/schedstat"):
        try:
            nanoseconds += int(task.read_text().split()[0])
        except OSError:
            continue  # the thread ended while we looked
    return nanoseconds / 1e9


def _of_process(folder: Path) -> float:
    return _ticks(folder, 11)


def _of_ended_children(folder: Path) -> float:
    return _ticks(folder, 13)


def _ticks(folder: Path, first: int) -> float:
    """Give a pair of user and system time in /proc's ``stat``, counted behind the name, which may hold blanks."""
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # the process ended while we looked
    return (int(fields[first]) + int(fields[first + 1])) / _TICKS_PER_SECOND


def memory_bytes(pid: int) -> int:
    """Give the tree's memory, shared pages by their share."""
    total = 0
    for folder in tree(pid):
        try:
            lines = (folder / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


class Gauge:
    """What a process used while the block ran: ``cpu`` in seconds, ``memory`` and ``peak`` in bytes."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()

    def __enter__(self) -> Gauge:
        self.memory = self.peak = memory_bytes(self._pid)
        self._watch = threading.Thread(target=self._look)
        self._watch.start()
        self._began = cpu_seconds(self._pid)
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu = cpu_seconds(self._pid) - self._began
        self._stop.set()
        self._watch.join()

    def _look(self) -> None:
        while not self._stop.wait(0.5):
            self.peak = max(self.peak, memory_bytes(self._pid))
