"""Who calls: what the gate found out, and what limits and records need of it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from .key import Key

__all__ = ["Caller", "subject_of"]


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller who was let in.

    Attributes:
        label: what the record says; None in open mode.
        subject: whom limits count: the label, or in open mode a keyed hash of the client's address.
        key: the gateway key; None in open mode and with a host's own check.
    """

    label: str | None
    subject: str
    key: Key | None = None


def subject_of(label: str) -> str:
    """Name the caller with this *label* in plain ASCII, whatever it holds: a host's labels are its own."""
    return f"label:{quote(label, safe='', errors='backslashreplace')}"
