"""The pages' files, read once: each with its type, and one name for the state of them all."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

__all__ = ["Asset", "assets", "digest"]

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "mjs": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_TEXT = "text/plain; charset=utf-8"


class Asset(NamedTuple):
    """One file below ``static``."""

    body: bytes
    content_type: str


@cache
def assets() -> dict[str, Asset]:
    """Give every file below ``static``, by its path there."""
    return dict(sorted(_walk(files(__package__) / "static", "")))


@cache
def digest() -> str:
    """Name the state of all files: 16 hex digits that change when any of them does."""
    found = hashlib.sha256()
    for path, asset in assets().items():
        found.update(f"{path}\0{len(asset.body)}\0".encode() + asset.body)
    return found.hexdigest()[:16]


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Asset]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        else:
            kind = _TYPES.get(entry.name.rpartition(".")[2], _TEXT)
            found.append((prefix + entry.name, Asset(entry.read_bytes(), kind)))
    return found
