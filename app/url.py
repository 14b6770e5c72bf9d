"""Addresses that settings and commands are given; any of them may hold a password."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

__all__ = ["taken_apart"]


def taken_apart(url: str) -> SplitResult | None:
    """Give the parts of *url*, or None where it has no host or a port that is none; nothing ever repeats it."""
    try:
        parts = urlsplit(url)
        return parts if parts.hostname and parts.port != 0 else None
    except ValueError:
        return None
