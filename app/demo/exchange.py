"""One request the upstream received and what became of it, seen from any thread."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

__all__ = ["Exchange", "Headers", "Outcome"]

Outcome = Literal["open", "finished", "cut", "closed", "failed", "stopped"]
"""finished: answered properly. cut: ended by its script. closed: the peer left first. failed: the script is wrong."""


class Headers(Mapping[str, str]):
    """Request headers; names in any case. `pairs` holds all of them as they came."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.pairs = pairs
        self._values = {name.lower(): value for name, value in pairs}

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._values


@dataclass(eq=False)
class Exchange:
    """A request and the state of its answer. Times are `time.monotonic()`, one clock for the whole machine.

    `started` is set with the first byte of the answer, `closed` when the peer has closed or reset the connection
    (during the answer or after it), `ended` when the answer is over in whatever way, which `outcome` names.
    """

    number: int
    connection: int
    method: str
    path: str
    query: dict[str, str]
    headers: Headers
    raw: bytes
    http10: bool = False
    time: float = field(default_factory=time.monotonic)
    key: str | None = None
    attempt: int = 1
    generation_id: str | None = None
    sent: int = 0
    outcome: Outcome = "open"
    started_at: float | None = None
    closed_at: float | None = None
    ended_at: float | None = None
    started: threading.Event = field(default_factory=threading.Event)
    closed: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    @cached_property
    def body(self) -> Any:
        """The JSON body; None if there is none."""
        try:
            return json.loads(self.raw)
        except ValueError:
            return None

    @property
    def finished(self) -> bool:
        """Whether the answer was sent to its proper end."""
        return self.outcome == "finished"

    def count(self, size: int) -> None:
        """Take note of bytes handed to the socket."""
        self.sent += size
        if self.started_at is None:
            self.started_at = time.monotonic()
            self.started.set()

    def peer_left(self) -> None:
        """Take note that the peer closed the connection."""
        if self.closed_at is None:
            self.closed_at = time.monotonic()
            self.closed.set()

    def end(self, outcome: Outcome) -> None:
        """Take note of how the answer ended."""
        self.outcome, self.ended_at = outcome, time.monotonic()
        self.ended.set()

    def to_json(self) -> dict[str, Any]:
        """The same facts as JSON values."""
        names = ("number", "connection", "method", "path", "query", "time", "key", "attempt", "generation_id")
        state = ("sent", "outcome", "finished", "started_at", "closed_at", "ended_at")
        facts = {name: getattr(self, name) for name in (*names, *state)}
        flags = {name: getattr(self, name).is_set() for name in ("started", "closed", "ended")}
        raw = self.raw.decode("utf-8", "replace")
        return facts | flags | {"headers": self.headers.pairs, "body": self.body, "raw": raw}
