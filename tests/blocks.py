"""The code blocks of the documents, and what is to be done with each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.servers import ROOT

__all__ = ["DOCUMENTS", "NOT_RUN", "Block", "blocks"]

DOCUMENTS = (
    "README.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")),
    "deploy/README.md",
    "examples/host_app/README.md",
    "app/demo/README.md",
)

NOT_RUN = frozenset(
    {
        "scripts/new_user.py does it",
        "it needs a key of OpenRouter's",
        "it is for gunicorn to read",
        "it is a pattern to fill in",
        "it installs other gateways",
        "it measures for minutes",
        "it serves until it is stopped",
    }
)
"""Reasons for which a block is only parsed. A comment `<!-- not run: REASON -->` before the block gives one."""

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]*) -->\n\n?)?^```(?P<language>[^\n]*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """One fenced block."""

    document: str
    line: int
    language: str
    code: str
    reason: str | None

    @property
    def name(self) -> str:
        """What a test's id says."""
        return f"{self.document}:{self.line}"


def blocks(document: str) -> list[Block]:
    """Give the blocks of a document, in order."""
    text = Path(ROOT, document).read_text()
    return [
        Block(
            document,
            text.count("\n", 0, found.start("code")) + 1,
            found["language"],
            found["code"],
            found["reason"],
        )
        for found in _BLOCK.finditer(text)
    ]
