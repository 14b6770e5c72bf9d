"""A gateway key and its rules, as the key settings and the key file write them down.

The file is TOML. Plain keys are forgotten once read: what is kept is their hash.
"""

from __future__ import annotations

import hashlib
import math
import re
import tomllib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from limits import RateLimitItem

from ..errors import ConfigurationError
from .rate import read_rates

__all__ = ["PERIODS", "Key", "read_entries", "read_file"]

PERIODS = ("day", "month")
_UPSTREAM_PREFIX = "sk-or-"
_LABEL_MAX = 100


@dataclass(frozen=True, slots=True)
class Key:
    """One caller's key; None means no rule of its own.

    Attributes:
        label: names the caller in records and limits.
        hashes: SHA-256 of each of its keys, hex; several while one replaces another.
        models: model ids it may ask for, a trailing ``*`` standing for any rest.
        max_tokens: most tokens a request may ask for.
        budget: US dollars a ``period`` (UTC), counted from the record.
        rates: requests per time, instead of SLUICE_RATE_LIMIT.
        streams: requests under way at once, instead of SLUICE_STREAMS_PER_KEY.
    """

    label: str
    hashes: tuple[str, ...]
    models: tuple[str, ...] | None = None
    max_tokens: int | None = None
    budget: float | None = None
    period: str = "month"
    rates: tuple[RateLimitItem, ...] | None = None
    streams: int | None = None

    def allows(self, model: str) -> bool:
        """Tell whether this key may ask for *model*."""
        if self.models is None:
            return True
        return any(model.startswith(p[:-1]) if p.endswith("*") else model == p for p in self.models)


def read_entries(entries: Iterable[str]) -> list[Key]:
    """Read ``label:key`` and ``label:sha256:hex`` entries; one label may have several.

    Raises:
        ConfigurationError: an entry is neither.
    """
    where, hashes = "SLUICE_API_KEYS", dict[str, list[str]]()
    for entry in entries:
        label, colon, key = entry.partition(":")
        if not (label and colon and key):
            raise ConfigurationError(f"{where}: expected label:key or label:sha256:hex, got an entry without a label")
        label = _label(label, where)
        is_hash = key.startswith("sha256:")
        digest = _digest(key.removeprefix("sha256:"), label, where) if is_hash else _hash(key, label, where)
        hashes.setdefault(label, []).append(digest)
    return [Key(label, tuple(dict.fromkeys(found))) for label, found in hashes.items()]


def read_file(data: bytes) -> list[Key]:
    """Read a key file's bytes.

    Raises:
        ConfigurationError: says what is wrong and where, never showing a key.
    """
    where = "SLUICE_API_KEYS_FILE"
    try:
        found = tomllib.loads(data.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError:
        raise ConfigurationError(f"{where}: the file is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        # NOTE: the reader's own words may quote what is in the file, but for the place they end with.
        place = re.search(r"\((at [^()]*)\)$", str(error))
        raise ConfigurationError(f"{where}: the file is not TOML ({place[1] if place else 'no place given'})") from None
    tables = found.pop("keys", None)
    if found:
        raise ConfigurationError(f"{where}: expected [[keys]] tables only, got {_shown(min(found))}")
    # An empty file is more often one that is just being written than the wish to lock everyone out.
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigurationError(f"{where}: expected [[keys]] tables, or `keys = []` to let nobody in")
    return [_key(table, f"{where}: [[keys]] number {number}") for number, table in enumerate(tables, 1)]


def _key(table: dict[str, Any], where: str) -> Key:
    label = _label(table.pop("label", None), where)
    where = f"{where} ({label})"
    plain, hashed = _texts(table, "key", where), _texts(table, "sha256", where)
    if not plain and not hashed:
        raise ConfigurationError(f"{where}: expected key or sha256")
    hashes = [_hash(key, label, where) for key in plain] + [_digest(digest, label, where) for digest in hashed]
    budget, rate = _number(table, "budget", where), table.pop("rate_limit", None)
    period = table.pop("budget_period", PERIODS[1])
    if period not in PERIODS:
        raise ConfigurationError(f"{where}: budget_period: expected {' or '.join(PERIODS)}")
    key = Key(
        label=label,
        hashes=tuple(dict.fromkeys(hashes)),
        models=_models(table, where),
        max_tokens=_whole(table, "max_tokens", where),
        budget=budget,
        period=period,
        rates=None if rate is None else read_rates(rate, f"{where}: rate_limit"),
        streams=_whole(table, "streams", where),
    )
    if table:
        raise ConfigurationError(f"{where}: unknown field {_shown(min(table))}")
    return key


def _label(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > _LABEL_MAX or not value.isprintable():
        raise ConfigurationError(f"{where}: label: expected 1 to {_LABEL_MAX} printable characters")
    return unicodedata.normalize("NFC", value.strip())


def _texts(table: dict[str, Any], name: str, where: str) -> list[str]:
    value = table.pop(name, [])
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
        raise ConfigurationError(f"{where}: {name}: expected text or a list of texts")
    return values


def _hash(key: str, label: str, where: str) -> str:
    if key.startswith(_UPSTREAM_PREFIX):
        raise ConfigurationError(
            f"{where}: the key of {label!r} starts with {_UPSTREAM_PREFIX}, which marks OpenRouter's own keys"
        )
    if not key or not key.isprintable() or any(character.isspace() for character in key):
        raise ConfigurationError(f"{where}: the key of {label!r} is empty or holds what no bearer token can: a blank")
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def _digest(text: str, label: str, where: str) -> str:
    digest = text.strip().lower().removeprefix("sha256:")
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ConfigurationError(f"{where}: the hash of {label!r} is not 64 hex digits")
    return digest


def _models(table: dict[str, Any], where: str) -> tuple[str, ...] | None:
    if "models" not in table:
        return None
    found = _texts(table, "models", where)
    if not found or not all(model and "*" not in model[:-1] for model in found):
        raise ConfigurationError(f"{where}: models: expected model ids, with `*` at the end of one at most")
    return tuple(found)


def _number(table: dict[str, Any], name: str, where: str) -> float | None:
    value = table.pop(name, None)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ConfigurationError(f"{where}: {name}: expected a number from 0 up")
    return float(value)


def _whole(table: dict[str, Any], name: str, where: str) -> int | None:
    value = table.pop(name, None)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ConfigurationError(f"{where}: {name}: expected a whole number from 1 up")
    return value


def _shown(name: str) -> str:
    return repr(name[:40])
