"""The time limits of one stream, looked at from outside: a socket's own time-out would end its response as if whole."""

from __future__ import annotations

import time

from .errors import DeadlineExceeded, GatewayError, UpstreamTimeout
from .intake import Intake
from .settings import Settings

__all__ = ["Limits"]


class Limits:
    """Watches one stream's clock, which starts now.

    Before upstream's first event only the first-token limit counts, for each attempt from the moment its request was
    sent; from then on silence is limited, and so is an event that has begun and does not end.
    """

    def __init__(self, settings: Settings, intake: Intake) -> None:
        self._settings, self._intake = settings, intake
        self._began_at = time.monotonic()
        # A twentieth late at the most: to look at each tick would cost a thousand quiet streams more than their chunks.
        self._pause = min(settings.deadline, settings.first_token_timeout, settings.idle_timeout) / 20
        self.next_look = 0.0
        """Monotonic time before which ``passed`` finds nothing."""
        self._unfinished: tuple[float, float] | None = None  # the event before an unfinished one, and since when

    def passed(self, now: float, *, sent_at: float | None, taken_at: float, is_full: bool) -> GatewayError | None:
        """Give the error of the limit that has passed, or None.

        Args:
            now: monotonic time, as all others.
            sent_at: when the current attempt was sent, None while none is.
            taken_at: when the consumer last took something.
            is_full: the consumer is behind, so upstream is not being read.
        """
        if now < self.next_look:
            return None
        self.next_look = now + self._pause
        limits, event_at = self._settings, self._intake.event_at
        if now - self._began_at > limits.deadline:
            return DeadlineExceeded(f"the request took longer than {limits.deadline:g} s (SLUICE_DEADLINE)")
        if event_at is None:
            if sent_at is not None and now - sent_at > limits.first_token_timeout:
                return _timeout("sent no event within", limits.first_token_timeout, "FIRST_TOKEN")
            return None
        if is_full:
            return None  # back-pressure is no silence
        if now - max(self._intake.read_at, taken_at) > limits.idle_timeout:
            return _timeout("fell silent for", limits.idle_timeout, "IDLE")
        if self._unfinished_since(now, event_at, taken_at) > limits.first_token_timeout:
            return _timeout("did not finish an event within", limits.first_token_timeout, "FIRST_TOKEN")
        return None

    def _unfinished_since(self, now: float, event_at: float, taken_at: float) -> float:
        """Give the seconds for which the same event has been unfinished, though bytes keep coming."""
        if not self._intake.is_in_event:
            self._unfinished = None
        elif self._unfinished is None or self._unfinished[0] != event_at:
            self._unfinished = (event_at, now)
        return now - max(self._unfinished[1], taken_at) if self._unfinished is not None else 0.0


def _timeout(what: str, seconds: float, name: str) -> UpstreamTimeout:
    return UpstreamTimeout(f"upstream {what} {seconds:g} s (SLUICE_{name}_TIMEOUT)")
