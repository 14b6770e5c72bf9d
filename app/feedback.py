"""Ratings of answers: who may give which, what is kept, and what AutoTune learns from them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from . import wire
from .errors import NotFound, RequestError, StoreAway
from .journal import Journal
from .learning import NEUTRAL, adjustment, weight
from .shape import NUMBER, STRING, ascii_of, object_of, one_of, or_null
from .stores import FeedbackTable, RecordTable, StoreError

__all__ = ["CONTEXTS", "TAKES", "Feedback"]

log = logging.getLogger("sluice")

CONTEXTS = ("code", "creative", "analytical", "conversational", "chaotic")
_BOUNDS = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "top_k": (1.0, 100.0),
    "frequency_penalty": (-2.0, 2.0),
    "presence_penalty": (-2.0, 2.0),
    "repetition_penalty": (0.0, 2.0),
}
_MAX_ID = 128
TAKES = object_of(
    {
        "message_id": ascii_of(" -~", _MAX_ID, description="The completion's id."),
        "context_type": one_of(CONTEXTS),
        "rating": {"enum": [1, -1]},
        "params": or_null(
            object_of(
                {name: {**NUMBER, "minimum": low, "maximum": high} for name, (low, high) in _BOUNDS.items()},
                (),
                additionalProperties=False,
            )
        ),
        "model": or_null(STRING),
        "response_text": or_null(STRING),
    },
    ["message_id", "context_type", "rating"],
)
"""What a rating holds, as a JSON Schema."""
_REFRESH = 3.0
"""Seconds for which what was learned is not read anew."""
_FIRST_READ = 1.0
"""Seconds for which a process' first request waits for what was learned before."""


class Feedback:
    """The feedback of one gateway.

    Args:
        ratings: where ratings are kept.
        records: finished requests.
        journal: requests that are finished but not written yet.
    """

    def __init__(self, ratings: FeedbackTable, records: RecordTable, journal: Journal) -> None:
        self._ratings, self._records, self._journal = ratings, records, journal
        self._lock = threading.Lock()
        self._learned: dict[str, dict[str, float]] = {}
        self._next_read = 0.0
        self._has_read, self._is_known = threading.Event(), False

    def submit(self, body: Mapping[str, Any], label: str | None, *, may_give_params: bool) -> dict[str, Any]:
        """Keep one rating.

        Args:
            label: of the caller; only a completion of the same one can be rated.
            may_give_params: the caller may rate parameters of a completion that is not recorded.

        Raises:
            RequestError: a field is wrong; nothing is changed.
            NotFound: the completion is not one of the caller's.
            StoreAway: it cannot be kept now.
        """
        message_id, context, rating, model = _fields(body)
        given = _params(body.get("params"))
        known = self._completion(message_id, label)
        if known is not None:
            params = {name: value for name, value in known.items() if _is_valid(name, value)}
        elif may_give_params and given:
            params = given
        else:
            raise _unknown(message_id)
        self._kept(message_id, label, context, rating, params, model)
        self._learned = self._asked(self._read)
        counts = self._asked(self._ratings.counts)
        return {
            "accepted": True,
            "total_feedback": sum(sum(kinds.values()) for kinds in counts.values()),
            "context_type": context,
            "learned": bool(self.learned(context)),
        }

    def stats(self) -> dict[str, Any]:
        """Give totals, the share of positive ratings (0 to 1, None without any), and both by context.

        Raises:
            StoreAway: the database cannot be asked.
        """
        self._learned = self._asked(self._read)
        counts = self._asked(self._ratings.counts)
        contexts = {}
        for context, kinds in sorted(counts.items()):
            contexts[context] = _summary(kinds) | {"adjustments": self.learned(context)}
        totals = {rating: sum(kinds.get(rating, 0) for kinds in counts.values()) for rating in (1, -1)}
        found = _summary(totals)
        return {"total_feedback": found.pop("total"), **found, "contexts": contexts}

    def learned(self, context: str) -> dict[str, float]:
        """Give what to add to each parameter for *context*; read anew every few seconds, in the background."""
        if time.monotonic() >= self._next_read and self._lock.acquire(blocking=False):
            self._next_read = time.monotonic() + _REFRESH
            self._refresh()
        if not self._is_known:
            self._has_read.wait(_FIRST_READ)
            self._is_known = True
        return self._learned.get(context, {})

    def _refresh(self) -> None:
        """Read what was learned, in a thread that releases the lock: no request waits for a database that is away."""
        try:
            threading.Thread(target=self._reread, name="sluice-feedback", daemon=True).start()
        except RuntimeError:
            self._lock.release()  # no thread to be had; the next request tries again

    def _reread(self) -> None:
        try:
            self._learned = self._read()
        except StoreError as error:
            log.warning("feedback cannot be read (%s); what was learned before goes on", error)
        finally:
            self._has_read.set()
            self._lock.release()

    def _read(self) -> dict[str, dict[str, float]]:
        found = {}
        for context, kinds in self._ratings.counts().items():
            share = weight(sum(kinds.values()))
            if not share:
                continue
            liked, disliked = self._ratings.recent(context, 1), self._ratings.recent(context, -1)
            added = adjustment([*liked], [*disliked])
            found[context] = {name: value * share for name, value in added.items()}
        return found

    def _completion(self, message_id: str, label: str | None) -> dict[str, Any] | None:
        """Give the parameters of a recorded completion, or None where there is none.

        Raises:
            NotFound: it is somebody else's, which is not told apart from none.
        """
        waiting = self._journal.find(message_id)
        if waiting is not None:
            owner, params = waiting["key_label"], wire.loads(waiting["params_used"].encode())
        else:
            row = self._asked(self._records.completion, message_id)
            if row is None:
                return None
            owner, params = row["key_label"], row["params_used"]
        if owner != label:
            raise _unknown(message_id)
        return dict(params)

    def _kept(self, message_id: str, label: str | None, context: str, rating: int, params: Any, model: Any) -> None:
        def put() -> None:
            self._ratings.put(
                message_id, key_label=label, context_type=context, rating=rating, params=params, model=model
            )

        self._asked(put)

    @staticmethod
    def _asked(question: Any, *args: Any) -> Any:
        try:
            return question(*args)
        except StoreError as error:
            raise StoreAway(f"the record cannot be reached ({error}): look at SLUICE_DATABASE_URL") from error


def _unknown(message_id: str) -> NotFound:
    return NotFound(f"message_id: no completion {message_id[:64]!r} of yours is recorded", param="message_id")


def _is_valid(name: str, value: Any) -> bool:
    if name not in NEUTRAL or isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    low, high = _BOUNDS[name]
    return low <= value <= high  # NaN is not; isfinite would fail at an integer that no float holds


def _summary(kinds: Mapping[int, int]) -> dict[str, Any]:
    liked, disliked = kinds.get(1, 0), kinds.get(-1, 0)
    total = liked + disliked
    rate = liked / total if total else None
    return {"total": total, "positive": liked, "negative": disliked, "positive_rate": rate}


def _fields(body: Mapping[str, Any]) -> tuple[str, str, int, str | None]:
    message_id, context, rating = body.get("message_id"), body.get("context_type"), body.get("rating")
    if not isinstance(message_id, str) or not 0 < len(message_id) <= _MAX_ID or not message_id.isprintable():
        raise RequestError(
            f"message_id: expected the id of a completion, at most {_MAX_ID} characters", param="message_id"
        )
    if context not in CONTEXTS:
        raise RequestError(f"context_type: expected one of {', '.join(CONTEXTS)}", param="context_type")
    if isinstance(rating, bool) or not isinstance(rating, int) or rating not in (1, -1):
        raise RequestError("rating: expected 1 or -1", param="rating")
    for name in ("model", "response_text"):
        if body.get(name) is not None and not isinstance(body[name], str):
            raise RequestError(f"{name}: expected text", param=name)
    model = body.get("model")
    # What is not printable (half a surrogate pair, NUL) no database takes.
    return message_id, context, rating, "".join(filter(str.isprintable, model))[:200] if model else None


def _params(value: Any) -> dict[str, float]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RequestError("params: expected an object of parameters", param="params")
    found = {}
    for name, given in value.items():
        if name not in NEUTRAL:
            raise RequestError(f"params: expected only {', '.join(NEUTRAL)}", param="params")
        if not _is_valid(name, given):
            low, high = _BOUNDS[name]
            raise RequestError(f"params.{name}: expected a number from {low:g} to {high:g}", param=f"params.{name}")
        found[name] = given
    return found
