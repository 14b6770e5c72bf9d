"""What the relay tells of a request to whoever traces it; a request that nobody traces has none of this."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

__all__ = ["Trace"]


class Trace(Protocol):
    """One request's trace. Its methods never raise; attempts come one after another, from the reader's thread."""

    trace_id: str

    def run(self, function: Callable[[], None]) -> None:
        """Call *function* as a part of the request, in whatever thread this is."""

    def attempt_began(self) -> None:
        """Note that an attempt to call upstream began."""

    def headers(self) -> Mapping[str, str]:
        """Give the headers by which upstream can continue the current attempt's trace."""

    def attempt_failed(self, attempt: Mapping[str, Any]) -> None:
        """Note what the current attempt failed with."""

    def ended(self, record: Any) -> None:
        """Note that the request is over, whatever it came to; *record* tells."""
