"""What is written down of one request: facts and figures, never a prompt, an answer, a key or an address."""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .faults import told
from .gaps import Gaps
from .trace import Trace

__all__ = ["END_REASONS", "SUCCESSES", "Record", "Recorder", "ignore", "new_completion_id"]

SUCCESSES = ("completed", "length", "tool_calls", "content_filter")
"""The end reasons of answers that came whole."""
END_REASONS = (
    *SUCCESSES,
    "upstream_error",
    "upstream_cut",
    "upstream_timeout",
    "upstream_empty",
    "deadline",
    "client_disconnected",
    "client_stalled",
    "rejected",
    "draining",
    "internal_error",
)
_WORD = re.compile(r"[\w.:/-]{1,64}", re.ASCII)

log = logging.getLogger("sluice")

Recorder = Callable[["Record"], None]
"""Takes each finished record, once; must not block."""


def new_completion_id() -> str:
    """Make an id in OpenAI's form."""
    return f"chatcmpl-{secrets.token_hex(12)}"


def ignore(record: Record) -> None:
    """Keep nothing, as the library calls do."""


@dataclass(slots=True)
class Record:
    """One request, from its arrival to its end reason. Times are seconds, ``*_ms`` milliseconds."""

    recorder: Recorder = field(default=ignore, repr=False)
    record_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    completion_id: str | None = None
    generation_id: str | None = None
    created_at: float = field(default_factory=time.time)
    endpoint: str = "/v1/chat/completions"
    stream: bool = False
    requested_model: str | None = None
    served_model: str | None = None
    provider: str | None = None
    key_label: str | None = None
    request_id: str | None = None
    pipeline: dict[str, Any] = field(default_factory=dict)
    params_used: dict[str, Any] = field(default_factory=dict)
    attempts: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    end_reason: str | None = None
    headers_ms: float | None = None
    first_chunk_ms: float | None = None
    total_ms: float | None = None
    chunks: int = 0
    characters: int = 0
    heartbeats: int = 0
    usage: dict[str, Any] | None = None
    is_estimate: bool = False
    error_code: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    gaps: Gaps = field(default_factory=Gaps, repr=False)
    trace: Trace | None = field(default=None, repr=False)
    _started: float = field(default_factory=time.monotonic, repr=False)
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def elapsed_ms(self) -> float:
        """Give the milliseconds since the request came."""
        return round((time.monotonic() - self._started) * 1000, 1)

    def note_error(self, error: Any) -> None:
        """Note what went wrong, a ``GatewayError``: code, type and our own words, never upstream's."""
        # A code can be upstream's too: a word, or it is none.
        self.error_code = error.code if _WORD.fullmatch(error.code) else "upstream_error"
        self.error_type, self.error_message = error.type, error.own_words

    def close(self, end_reason: str) -> bool:
        """Write the record down with its *end_reason*; only the first call does, and is told so by True."""
        with self._lock:
            if self.end_reason is not None:
                return False
            self.end_reason = end_reason
        self.total_ms = self.elapsed_ms()
        try:
            self.recorder(self)
        except Exception as error:
            log.error("the recorder failed with %s; record %s is lost", told(error), self.record_id)
        return True

    def to_dict(self) -> dict[str, Any]:
        """Give the facts as JSON values."""
        found = {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name[0] != "_" and name not in ("recorder", "gaps", "trace")
        }
        return dict(found)
