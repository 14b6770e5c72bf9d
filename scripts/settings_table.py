"""Write the settings table of the README from the code; ``--check`` only tells whether it is up to date."""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from app.settings import Settings

README = Path(__file__).resolve().parent.parent / "README.md"


def table() -> str:
    """Give the table in Markdown."""
    rows = ["| name | default | meaning |", "|---|---|---|"]
    for spec in fields(Settings):
        name, meaning = spec.metadata["name"], spec.metadata["meaning"]
        rows += [f"| `{name}` | {_shown(spec.default)} | {meaning} |"]
    return "\n".join(rows)


def _shown(value: object) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def main() -> int:
    """Rewrite or check the README."""
    text = README.read_text()
    new = re.sub(
        r"(<!-- settings -->\n).*?(<!-- /settings -->)", lambda m: f"{m[1]}{table()}\n{m[2]}", text, flags=re.DOTALL
    )
    if "--check" in sys.argv:
        return int(new != text)
    README.write_text(new)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
