"""JSON Schema in a few words, for what is said to clients about requests and answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["BOOLEAN", "COUNT", "NUMBER", "STRING", "array_of", "ascii_of", "object_of", "one_of", "or_null"]

STRING: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}


def object_of(properties: Mapping[str, Any], required: Iterable[str] | None = None, **more: Any) -> dict[str, Any]:
    """Describe an object; all of its *properties* are *required* unless told otherwise."""
    needed = [*(properties if required is None else required)]
    return {"type": "object", "required": needed, "properties": dict(properties), **more}


def array_of(items: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Describe a list."""
    return {"type": "array", "items": dict(items), **more}


def ascii_of(characters: str, most: int | None = None, **more: Any) -> dict[str, Any]:
    """Describe text of *characters*, a range as in a pattern; at least one, at most *most*."""
    # NOTE: in Python's dialect $ also stands before a line end that is the last character.
    count = "+" if most is None else f"{{1,{most}}}"
    end = {"type": "string", "pattern": r"\n"}
    return {"type": "string", "pattern": f"^[{characters}]{count}$", "not": end, **more}


def one_of(words: Iterable[str | None], **more: Any) -> dict[str, Any]:
    """Describe one of *words*; a None among them is null."""
    return {"enum": [*words], **more}


def or_null(schema: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Let a described value be null too."""
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None], **more}
    return {**schema, "type": [schema["type"], "null"], **more}
