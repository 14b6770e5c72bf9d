"""How many values a JSON text holds, told before anything is made of them.

Reading takes time and memory by the value, not by the byte: a megabyte of short numbers costs what gigabytes of plain
text do. The count is the structure's own (commas and openings outside texts), found by searches that run in C.
"""

from __future__ import annotations

__all__ = ["is_bulky"]


def is_bulky(data: bytes, limit: int) -> bool:
    """Tell whether the JSON text *data* holds more than *limit* values; what is no JSON may count as anything."""
    if len(data) < 2 * limit or _structure(data) < limit:  # the second look counts what stands in texts too
        return False
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > 4 * limit:
        return True  # every value has at most a key and a text
    return _structure(b"".join(plain.split(b'"')[::2])) >= limit


def _structure(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")
