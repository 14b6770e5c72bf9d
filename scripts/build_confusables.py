"""Write app/text/confusables.json from the confusables table that the package confusable-homoglyphs ships.

The package carries Unicode's own tables (confusables.txt of UTS #39, Scripts.txt) as JSON. Of each class of confusable
characters this keeps, for every letter, the single letters of other scripts that have the same case.

    pip install confusable-homoglyphs==3.3.1
    python scripts/build_confusables.py            # write the file
    python scripts/build_confusables.py --check    # exit 1 if the file is not what would be written
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_right
from collections import defaultdict
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from unicodedata import category

PACKAGE = "confusable-homoglyphs"
TARGET = Path(__file__).parents[1] / "app" / "text" / "confusables.json"
CASES = ("Ll", "Lu", "Lo")
NO_SCRIPTS = ("COMMON", "INHERITED", "")


def load(name: str) -> Any:
    """Read one of the package's tables, without importing the package."""
    path = distribution(PACKAGE).locate_file(f"confusable_homoglyphs/{name}")
    return json.loads(Path(str(path)).read_text(encoding="utf-8"))


def classes(table: dict[str, list[dict[str, str]]]) -> list[list[str]]:
    """Join the table's pairs of single characters to classes."""
    parent: dict[str, str] = {}

    def root(char: str) -> str:
        while parent.setdefault(char, char) != char:
            char = parent[char]
        return char

    for char, others in table.items():
        for other in (entry["c"] for entry in others):
            if len(char) == len(other) == 1:
                parent[root(other)] = root(char)
    found = defaultdict(list)
    for char in sorted(parent):
        found[root(char)].append(char)
    return list(found.values())


class Scripts:
    """The script of a character."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.names = table["iso_15924_aliases"]
        self.ranges = sorted((first, last, script) for first, last, script, _ in table["code_points_ranges"])

    def of(self, char: str) -> str:
        """Give the script's name, empty for a character that has none."""
        at = bisect_right(self.ranges, (ord(char), sys.maxunicode + 1, 0)) - 1
        first, last, script = self.ranges[at]
        return str(self.names[script]) if first <= ord(char) <= last else ""


def build() -> str:
    """Give the file's text: one letter a line, ASCII only, so that look-alikes can be told apart in a diff."""
    scripts = Scripts(load("categories.json"))
    letters: dict[str, str] = {}
    for members in classes(load("confusables.json")):
        known = [(char, category(char), scripts.of(char)) for char in members]
        known = [(char, case, script) for char, case, script in known if case in CASES and script not in NO_SCRIPTS]
        for char, case, script in known:
            others = [other for other, its_case, its in known if its_case == case and its != script]
            if others:
                letters[char] = "".join(others)
    source = f"Unicode's confusables.txt (UTS #39) as shipped in {PACKAGE} {distribution(PACKAGE).version}, modified"
    data = {"source": source, "licence": "Unicode License V3, see confusables.LICENSE", "letters": letters}
    return json.dumps(data, indent=0, sort_keys=True, ensure_ascii=True) + "\n"


def main() -> int:
    """Write or check the file."""
    text = build()
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.read_text(encoding="ascii") == text else 1
    TARGET.write_text(text, encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
