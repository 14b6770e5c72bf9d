"""JSON that comes back out as it went in.

``loads`` and ``dumps`` are orjson wherever orjson keeps every value, which one comparison proves per document; the
rest (integers past 64 bits, floats spelled in ways that do not survive, lone surrogates) takes a slower exact way.
Numbers read by that way remain numbers to whoever reads them and remember how they were spelled.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import orjson

__all__ = ["dumps", "loads"]

_OPTIONS = orjson.OPT_PASSTHROUGH_SUBCLASS
_DEEPEST = 254
"""Levels of nesting that orjson still writes."""
_MOST_DIGITS = 400


class _SpelledFloat(float):
    """A float that is written as it was read."""

    spelling: str


class _SpelledInt(int):
    """An integer past 64 bits, which orjson would refuse to write."""


def _read_float(spelling: str) -> float:
    value = float(spelling)
    if orjson.dumps(value) == spelling.encode():
        return value
    spelled = _SpelledFloat(value)
    spelled.spelling = spelling
    return spelled


def _read_int(spelling: str) -> int | float:
    # NOTE: int() takes time by the square of the digits, and refuses past 4,300; such a number is kept by its spelling.
    if spelling == "-0" or len(spelling) > _MOST_DIGITS:
        return _read_float(spelling)
    value = int(spelling)
    return value if -(2**63) <= value < 2**64 else _SpelledInt(value)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON (RFC 8259, section 6)")


_exact = json.JSONDecoder(parse_float=_read_float, parse_int=_read_int, parse_constant=_refuse)


def loads(data: bytes) -> Any:
    """Read one JSON text.

    Raises:
        ValueError: *data* is not JSON in UTF-8, or is nested too deeply.
    """
    try:
        value = orjson.loads(data)
        if orjson.dumps(value) == data:
            return value
    except ValueError:
        pass  # orjson refuses lone surrogates, which the exact way may still carry
    except TypeError:  # orjson reads deeper than it writes
        raise ValueError(f"nested too deeply, more than {_DEEPEST} levels") from None
    try:
        value = _exact.decode(data.decode())
    except RecursionError:
        raise ValueError(f"nested too deeply, more than {_DEEPEST} levels") from None
    _check_depth(value)
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_DEEPEST + 1):
        level = [
            item
            for holder in level
            if isinstance(holder, (dict, list))
            for item in (holder.values() if isinstance(holder, dict) else holder)
        ]
        if not level:
            return
    raise ValueError(f"nested too deeply, more than {_DEEPEST} levels")


def dumps(value: Any) -> bytes:
    """Write *value* as compact JSON in UTF-8, lone surrogates as escapes."""
    try:
        return orjson.dumps(value, _spell, _OPTIONS)
    except TypeError:
        return _write(value)


def _spell(value: Any) -> orjson.Fragment:
    if isinstance(value, _SpelledFloat):
        return orjson.Fragment(value.spelling)
    if isinstance(value, int):
        return orjson.Fragment(int.__repr__(value))
    if isinstance(value, float):
        return orjson.Fragment(orjson.dumps(float(value)))
    if isinstance(value, str):
        return orjson.Fragment(json.dumps(str(value)))
    raise TypeError(f"{type(value).__name__} is not JSON")


def _write(value: Any) -> bytes:
    """Write what orjson refuses: each container by hand, each leaf in the form that can hold it."""
    if isinstance(value, dict):
        return b"{%b}" % b",".join(_write_key(k) + b":" + _write(v) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return b"[%b]" % b",".join(map(_write, value))
    if isinstance(value, str):
        return json.dumps(value).encode()
    if type(value) is int:
        return int.__repr__(value).encode()  # past 64 bits: what came of reckoning with a number that was read so
    return orjson.dumps(value, _spell, _OPTIONS)


def _write_key(key: Any) -> bytes:
    if not isinstance(key, str):
        raise TypeError(f"a key that is {type(key).__name__} is not JSON")
    return json.dumps(key).encode()
