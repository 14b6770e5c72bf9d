"""What a host's stage has to keep to, checked: JSON, in the shape that the relay and client libraries can take.

A stage can give anything. What is no JSON would end the stream where it is written out, and what has another shape
would end it where it is looked into; so both are found here, where the stage can still be left out. Copies are given,
so that a stage which keeps what it gave cannot change it later. A refusal is never left out: of one that cannot be
sent as it is, the parts that can be sent are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from . import wire
from .errors import RequestError

__all__ = ["as_body", "as_chunks", "as_json", "as_refusal"]

_HEADER_NAME = re.compile(r"(?!content-|connection$|transfer-encoding$)[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.IGNORECASE)
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_TEXTS = ("reasoning", "reasoning_content", "refusal", "role")


def as_json(value: Any) -> Any:
    """Give a copy of *value*, made of what JSON can hold and nothing else.

    Raises:
        TypeError: it holds something else.
        ValueError: it holds a number that is none, or is nested too deeply.
    """
    copy = wire.loads(wire.dumps(value))
    if copy != value:  # NaN becomes null, a tuple a list, a date a text
        raise ValueError("written as JSON it becomes something else")
    return copy


def as_body(value: Any) -> dict[str, Any]:
    """Give a copy of a request's body; raises as ``as_json``, also where it holds no messages."""
    body = as_json(value)
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise TypeError("a body needs a list of messages")
    found: dict[str, Any] = body
    return found


def as_chunks(given: Any) -> list[dict[str, Any]]:
    """Give copies of the chunks that a transform gave; raises as ``as_json``, also where one is no chunk."""
    return [_as_chunk(chunk) for chunk in tuple(given)]


def as_refusal(error: RequestError, stage: str) -> RequestError:
    """Give the refusal that *error* of the stage called *stage* stands for, made of those of its parts that hold.

    It is of the class among ours that *error* is of. What is missing or cannot be sent gets that class's own value.
    """
    kind = next(found for found in type(error).__mro__ if found.__module__ == RequestError.__module__)
    headers = _part(error, "headers", lambda value: isinstance(value, dict))
    refusal: RequestError = kind(
        _part(error, "message", _is_text) or f"the stage {stage} refuses the request and gives no reason",
        param=_part(error, "param", _is_text),
        code=_part(error, "code", _is_text),
        status=_part(error, "status", lambda value: type(value) is int and 400 <= value <= 599),
        metadata=_part(error, "metadata", lambda value: as_json(value) is not None),
        retry_after=_part(error, "retry_after", _is_header_value),
        headers={name: value for name, value in (headers or {}).items() if _is_header(name, value)},
    )
    return refusal


def _part(error: RequestError, name: str, is_sound: Callable[[Any], bool]) -> Any:
    try:
        value = getattr(error, name)
        return value if is_sound(value) else None
    except Exception:  # a class of the host's own may do anything here
        return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_header(name: Any, value: Any) -> bool:
    return isinstance(name, str) and _HEADER_NAME.fullmatch(name) is not None and _is_header_value(value)


def _is_header_value(value: Any) -> bool:
    return isinstance(value, str) and _HEADER_VALUE.fullmatch(value) is not None


def _as_chunk(value: Any) -> dict[str, Any]:
    chunk = as_json(value)
    choices = chunk.get("choices") if isinstance(chunk, dict) else None
    if not isinstance(choices, list) or not all(map(_is_choice, choices)):
        raise TypeError("a chunk needs a list of choices, each with an index and a delta")
    if len(choices) > 1 and any(choice.get("finish_reason") is not None for choice in choices):
        raise TypeError("a chunk that ends a choice holds no other")
    found: dict[str, Any] = chunk
    return found


def _is_choice(choice: Any) -> bool:
    if not isinstance(choice, dict) or type(choice.get("index")) is not int or not 0 <= choice["index"] < 2**31:
        return False
    delta, calls = choice.get("delta"), None
    if isinstance(delta, dict):
        calls = delta.get("tool_calls")
    return (
        isinstance(delta, dict)
        and isinstance(choice.get("finish_reason"), str | None)
        and isinstance(delta.get("content"), str | list | None)
        and all(isinstance(delta.get(name), str | None) for name in _TEXTS)
        and (calls is None or (isinstance(calls, list) and all(isinstance(call, dict) for call in calls)))
    )
