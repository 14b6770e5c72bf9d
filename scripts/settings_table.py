"""Write the tables of settings in README and docs/settings.md from the code; ``--check`` only tells if they are so."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from app.settings import Settings

_KINDS = {"str": "text", "int": "whole number", "float": "number", "bool": "`on`, `off`", "tuple[str, ...]": "list"}


def short_table() -> str:
    """Give the README's table in Markdown."""
    rows = [f"| {_name(spec)} | {_shown(spec.default)} | {spec.metadata['meaning']} |" for spec in fields(Settings)]
    return "\n".join(["| name | default | meaning |", "|---|---|---|", *rows])


def full_table() -> str:
    """Give the table that says what a value may be, too."""
    rows = [
        f"| {_name(spec)} | {_allowed(spec)} | {_shown(spec.default)} | {spec.metadata['meaning']} |"
        for spec in fields(Settings)
    ]
    return "\n".join(["| name | value | default | meaning |", "|---|---|---|---|", *rows])


PAGES: dict[Path, Callable[[], str]] = {ROOT / "README.md": short_table, ROOT / "docs" / "settings.md": full_table}


def _name(spec: Field[Any]) -> str:
    return f"`{spec.metadata['name']}`"


def _allowed(spec: Field[Any]) -> str:
    metadata = spec.metadata
    if "choices" in metadata:
        return ", ".join(f"`{choice}`" for choice in metadata["choices"])
    kind = _KINDS[str(spec.type).removesuffix(" | None")]
    low, high = metadata["low"], metadata["high"]
    if low is None:
        return kind
    return f"{kind}, {_number(low)} or more" if high == math.inf else f"{kind}, {_number(low)} to {_number(high)}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:g}"


def _shown(value: object) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def main() -> int:
    """Rewrite or check the pages."""
    stale = 0
    for path, table in PAGES.items():
        text = path.read_text()
        head, mark, rest = text.partition("<!-- settings -->\n")
        new = head + mark + table() + "\n<!-- /settings -->" + rest.partition("<!-- /settings -->")[2]
        stale += new != text
        if "--check" not in sys.argv:
            path.write_text(new)
    return int("--check" in sys.argv and stale > 0)


if __name__ == "__main__":
    raise SystemExit(main())
