"""Rates as people write them: ``60 per minute; 1000 per day``, in the syntax of the `limits` library."""

from __future__ import annotations

from typing import Any

from limits import RateLimitItem, parse_many

from ..errors import ConfigurationError

__all__ = ["read_rates"]


def read_rates(text: Any, where: str) -> tuple[RateLimitItem, ...]:
    """Read rates, several separated by ``;``; the shortest window comes first.

    Raises:
        ConfigurationError: says *where*.
    """
    try:
        found = parse_many(text) if isinstance(text, str) else []
    except ValueError:
        found = []
    if not found or any(item.amount < 1 or item.get_expiry() < 1 for item in found):
        raise ConfigurationError(f"{where}: expected rates like `60 per minute; 1000 per day`, got {str(text)[:60]!r}")
    return tuple(sorted(found, key=lambda item: item.get_expiry()))
