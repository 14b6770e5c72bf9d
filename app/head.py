"""The heads of HTTP/1.1 messages: one written for a request, fields read of a response (RFC 9112, sections 3 to 5)."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPException, LineTooLong
from typing import Any

from urllib3 import HTTPHeaderDict

__all__ = ["read_fields", "request_head"]

_MAX_LINE = 65536
_MAX_FIELDS = 100
_ENDS = (b"\r\n", b"\n", b"")


def request_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """Write a request's head.

    Raises:
        ValueError: a header holds a line break, or what is not Latin-1.
    """
    lines = [f"{method} {target} HTTP/1.1", *map(": ".join, headers.items())]
    head = "\r\n".join(lines)
    if head.count("\r") != len(headers) or head.count("\n") != len(headers) or not target.isprintable():
        raise ValueError("a header holds a line break")
    return f"{head}\r\n\r\n".encode("latin-1")


def read_fields(file: Any) -> HTTPHeaderDict:
    """Read a response's header fields, up to the empty line that ends them.

    A line without a colon is passed over; one that is folded belongs to the field before it (section 5.2).

    Raises:
        http.client.HTTPException: a line is longer than 65,536 bytes, or there are more than 100.
    """
    fields: list[tuple[str, str]] = []
    for _ in range(_MAX_FIELDS + 1):
        line = file.readline(_MAX_LINE + 1)
        if line in _ENDS:
            return HTTPHeaderDict(fields)
        if len(line) > _MAX_LINE:
            raise LineTooLong("header line")
        text = line.decode("latin-1")
        name, colon, value = text.partition(":")
        if fields and text[0] in " \t":
            name, before = fields.pop()
            fields.append((name, f"{before} {text.strip()}"))
        elif colon:
            fields.append((name.strip(), value.strip()))
    raise HTTPException(f"got more than {_MAX_FIELDS} headers")
