"""Repeats of groups: the same in every Python that the text rules run under."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import app
from app.text.atomic import repeated

SOURCES = sorted(Path(app.__file__).parent.rglob("*.py"))
_POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{[0-9,{}]*\})\+[^\]]")


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"(?:a|[.])\n", ".\nt", ".\n"),
        (r"[^\\\n]++|\\(?!\))", r"a\) b", "a"),
        (r"a(?:b|c)d", "abdacdab", "abdacd"),
        (r"x", "y", ""),
    ],
)
def test_a_try_that_fails_leaves_no_trace(pattern: str, text: str, found: str) -> None:
    """The match ends behind the last whole repetition."""
    match = re.match(repeated(pattern), text)

    assert match is not None
    assert found == match.group()


def test_what_was_found_is_kept() -> None:
    """Nothing goes back into it to make what follows fit."""
    assert re.match(repeated("ab") + "ab", "ababab") is None


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_possessive_repeat_of_a_group_is_left(path: Path) -> None:
    """Python before 3.11.5 gets it wrong."""
    code = "\n".join(line for line in path.read_text().split("\n") if "regex.compile" not in line)

    found = [
        match.group() for match in _POSSESSIVE_GROUP.finditer(code) if "``" not in code[match.start() : match.end() + 2]
    ]

    assert [] == found
