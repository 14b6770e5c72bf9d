"""How the routes of the record are described."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..record import END_REASONS
from ..shape import BOOLEAN, COUNT, NUMBER, STRING, array_of, object_of, one_of, or_null

__all__ = ["EVENT", "EVENT_PARAMETERS", "STATS", "STATS_PARAMETERS"]

_WHOLE = or_null(COUNT)
_FIGURE = or_null(NUMBER)
_WORDS = or_null(STRING)
_ANY_OBJECT = {"type": "object"}

EVENT = object_of(
    {
        "record_id": STRING,
        "completion_id": _WORDS,
        "generation_id": _WORDS,
        "created_at": NUMBER,
        "endpoint": STRING,
        "stream": BOOLEAN,
        "requested_model": _WORDS,
        "served_model": _WORDS,
        "provider": _WORDS,
        "key_label": _WORDS,
        "request_id": _WORDS,
        "status": COUNT,
        "end_reason": one_of(END_REASONS),
        "headers_ms": _FIGURE,
        "first_chunk_ms": _FIGURE,
        "total_ms": _FIGURE,
        "chunks": COUNT,
        "characters": COUNT,
        "context": _WORDS,
        "params_used": _ANY_OBJECT,
        "pipeline": _ANY_OBJECT,
        "attempts": array_of(_ANY_OBJECT),
        "usage": object_of(
            {
                "prompt_tokens": _WHOLE,
                "completion_tokens": _WHOLE,
                "total_tokens": _WHOLE,
                "cost": _FIGURE,
                "is_estimate": BOOLEAN,
                "reasoning_tokens": _WHOLE,
                "cached_tokens": _WHOLE,
                "is_byok": or_null(BOOLEAN),
                "upstream_cost": _FIGURE,
            }
        ),
        "error": or_null(object_of({"code": STRING, "type": _WORDS, "message": _WORDS})),
    }
)

_SHARES = object_of({"p50": _FIGURE, "p95": _FIGURE, "p99": _FIGURE})
_COUNTS = {"type": "object", "additionalProperties": COUNT}
_FIGURES = {
    "requests": COUNT,
    "end_reasons": _COUNTS,
    "success_rate": _FIGURE,
    "first_chunk_ms": _SHARES,
    "total_ms": _SHARES,
    "prompt_tokens": COUNT,
    "completion_tokens": COUNT,
    "total_tokens": COUNT,
    "cost": NUMBER,
    "retries": COUNT,
    "contexts": _COUNTS,
    "stm_changed": COUNT,
}
STATS = object_of(
    {
        "object": {"const": "stats"},
        "since": _WHOLE,
        "until": _WHOLE,
        "by": one_of(("model", "period", "model,period")),
        "period": one_of(("hour", "day", None)),
        "totals": object_of(_FIGURES),
        "data": array_of(object_of({"model": _WORDS, "start": COUNT, **_FIGURES}, [*_FIGURES])),
    }
)


def _parameter(name: str, words: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": words, "schema": dict(schema)}


_TIME = "Unix seconds, or ISO 8601."
_MOMENT = {
    "anyOf": [
        {"type": "string", "pattern": r"^[0-9]{1,10}(\.[0-9]{1,9})?$"},
        {"type": "string", "format": "date-time"},
        {"type": "string", "format": "date"},
    ]
}
_LIMIT = {"type": "string", "pattern": "^(0*([1-9][0-9]{0,2}|1000)|all)$"}
_SHARED = (
    _parameter("since", f"Not before this time. {_TIME}", _MOMENT),
    _parameter("until", f"Before this time. {_TIME}", _MOMENT),
    _parameter("model", "The model that answered, or the one asked for where none did.", STRING),
)
EVENT_PARAMETERS = (
    *_SHARED,
    _parameter("end_reason", "How the request ended.", one_of(END_REASONS)),
    _parameter("key_label", "The caller's label.", STRING),
    _parameter("status", "HTTP status.", {"type": "integer", "minimum": 100, "maximum": 599}),
    _parameter("limit", "1 to 1000, 100 if not given; `all` with `format=ndjson`.", _LIMIT),
    _parameter("cursor", "`next_cursor` of the page before, also sent as `X-Next-Cursor`.", STRING),
    _parameter("format", "Instead of the Accept header.", one_of(("json", "ndjson"))),
)
STATS_PARAMETERS = (
    *_SHARED,
    _parameter("by", "What a row is.", one_of(("model", "period", "model,period"))),
    _parameter("period", "With `by=period`.", one_of(("hour", "day"))),
)
