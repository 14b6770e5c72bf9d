"""Who calls: what the gate found out, and what limits and records need of it."""

from __future__ import annotations

from dataclasses import dataclass

from .key import Key

__all__ = ["Caller"]


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller who was let in.

    Attributes:
        label: what the record says; None in open mode.
        key: the gateway key; None in open mode and with a host's own check.
    """

    label: str | None
    key: Key | None = None
