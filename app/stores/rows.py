"""A finished record as the row it becomes: bounded, and of values that both databases take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from .. import wire
from ..record import Record

__all__ = ["Json", "Row", "row_of", "size_of", "usage_of"]

Row = dict[str, Any]

_LARGEST = 1e300
"""A number beyond it is no figure, and may be infinite or not fit a database's."""
_TEXT = 200
_JSON_BYTES = 16_384
_ROW_BYTES = 2_500
"""What a row takes in memory beside its long texts."""


class Json(str):
    """JSON text, which the engine writes as it is."""

    __slots__ = ()


def row_of(record: Record) -> Row:
    """Give the row of *record*."""
    autotune = record.pipeline.get("autotune") or {}
    return {
        "record_id": record.record_id,
        "completion_id": _text(record.completion_id, 64),
        "generation_id": _text(record.generation_id),
        "created_at": record.created_at,
        "endpoint": _text(record.endpoint, 64),
        "stream": record.stream,
        "requested_model": _text(record.requested_model),
        "served_model": _text(record.served_model),
        "provider": _text(record.provider),
        "key_label": _text(record.key_label),
        "request_id": _text(record.request_id, 128),
        "status": record.status,
        "end_reason": _text(record.end_reason, 32),
        "headers_ms": record.headers_ms,
        "first_chunk_ms": record.first_chunk_ms,
        "total_ms": record.total_ms,
        "chunks": record.chunks,
        "characters": record.characters,
        **usage_of(record.usage or {}),
        "is_estimate": record.is_estimate,
        "context": _text(autotune.get("detected_context") if isinstance(autotune, Mapping) else None, 32),
        "error_code": _text(record.error_code, 64),
        "error_type": _text(record.error_type, 64),
        "error_message": _text(record.error_message, 500),
        "params_used": _json({name: _figure(value) for name, value in record.params_used.items()}),
        "pipeline": _json(record.pipeline),
        "attempts": _json(record.attempts),
        "is_counted": True,
    }


def size_of(row: Row) -> int:
    """Give about how many bytes of memory *row* takes."""
    return _ROW_BYTES + len(row["pipeline"]) + len(row["attempts"]) + len(row["params_used"])


def usage_of(usage: Mapping[str, Any]) -> Row:
    """Give the figures of a usage object; zero is zero, and what is missing is null."""
    return {
        "prompt_tokens": _whole(usage.get("prompt_tokens")),
        "completion_tokens": _whole(usage.get("completion_tokens")),
        "total_tokens": _whole(usage.get("total_tokens")),
        "cost": _number(usage.get("cost")),
        "reasoning_tokens": _whole(_inside(usage, "completion_tokens_details", "reasoning_tokens")),
        "cached_tokens": _whole(_inside(usage, "prompt_tokens_details", "cached_tokens")),
        "is_byok": usage.get("is_byok") if isinstance(usage.get("is_byok"), bool) else None,
        "upstream_cost": _number(_inside(usage, "cost_details", "upstream_inference_cost")),
    }


def _inside(usage: Mapping[str, Any], name: str, item: str) -> Any:
    details = usage.get(name)
    return details.get(item) if isinstance(details, Mapping) else None


def _text(value: Any, most: int = _TEXT) -> str | None:
    """Give text without what a database refuses (half a surrogate pair, NUL), clipped."""
    if not isinstance(value, str):
        return None
    if value.isascii() and len(value) <= most and value.isprintable():
        return value
    return value[:most].encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _figure(value: Any) -> Any:
    """Give a parameter's value if it is a figure: text in its place is whatever a client wrote there."""
    return value if isinstance(value, bool) else _number(value) if not isinstance(value, int) else _kept(value)


def _json(value: Any) -> Json:
    try:
        text = orjson.dumps(value).decode()  # refuses most of what a database refuses
    except TypeError:
        text = ""
    if not text or "\\u0000" in text:
        text = wire.dumps(_kept(value)).decode()
    return Json(text if len(text) <= _JSON_BYTES else wire.dumps({"left_out_bytes": len(text)}).decode())


def _kept(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value, _JSON_BYTES)
    if isinstance(value, dict):
        return {_text(str(key)): _kept(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_kept(item) for item in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value if abs(value) < _LARGEST else None
    return value


def _number(value: Any) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < _LARGEST else None


def _whole(value: Any) -> int | None:
    """Give a token count that both databases can hold."""
    number = _number(value)
    return int(number) if number is not None and abs(number) < 2**31 else None
