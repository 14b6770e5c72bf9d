"""Every code block of the documents runs, or is at least what it says it is."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from app.access.key import read_file
from app.demo import DemoUpstream
from tests.blocks import DOCUMENTS, NOT_RUN, Block, blocks
from tests.clock import PATIENCE
from tests.installed import install
from tests.servers import ROOT, clean_environ

ALL = [block for document in DOCUMENTS for block in blocks(document)]
LANGUAGES = {"python", "javascript", "console", "sh", "toml", "yaml", "json", "text"}
CLIENTS = re.compile(r"^(from|import) (openai|langchain_openai)\b", re.MULTILINE)
"""Python that needs a client's library: run by tests/clients."""

EACH = pytest.mark.parametrize("block", ALL, ids=lambda block: block.name)


def own_python(document: str) -> list[Block]:
    """Give the Python blocks of a document that our own package runs."""
    found = [block for block in blocks(document) if block.language == "python" and block.reason is None]
    return [block for block in found if not CLIENTS.search(block.code)]


@EACH
def test_a_block_says_what_it_is(block: Block) -> None:
    """Its language is one that is checked; one that is not run says why, in words that are known here."""
    assert block.language in LANGUAGES
    assert block.reason is None or block.reason in NOT_RUN


def test_no_block_escapes() -> None:
    """As many blocks are found as documents have fences, and no document is left out."""
    fences = sum(len(re.findall(r"^ *```", Path(ROOT, document).read_text(), re.MULTILINE)) for document in DOCUMENTS)
    tracked = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    with_blocks = {name for name in tracked.stdout.split() if re.search(r"^ *```", (ROOT / name).read_text(), re.M)}

    assert 2 * len(ALL) == fences
    assert NOT_RUN == {block.reason for block in ALL} - {None}
    assert with_blocks <= set(DOCUMENTS)


@EACH
def test_a_block_can_be_read(block: Block) -> None:
    """It parses in its language, whether it is run or not; a key file is one that the gateway takes."""
    if block.language == "python":
        compile(block.code, block.name, "exec")
    elif block.language == "toml":
        assert "keys" not in tomllib.loads(block.code) or read_file(block.code.encode())
    elif block.language == "yaml":
        assert yaml.safe_load(block.code)
    elif block.language == "json":
        json.loads(block.code)
    elif block.language in ("console", "sh"):
        commands = (
            block.code if block.language == "sh" else "\n".join(re.findall(r"^\$ (.*(?:\\\n.*)*)", block.code, re.M))
        )
        assert commands
        checked = subprocess.run(["bash", "-n"], input=commands, capture_output=True, text=True)
        assert (0, "") == (checked.returncode, checked.stderr)


@pytest.fixture(scope="module")
def upstream() -> Iterator[DemoUpstream]:
    """Give an upstream that answers like the demo."""
    with DemoUpstream() as server:
        yield server


@pytest.mark.parametrize("document", [document for document in DOCUMENTS if own_python(document)])
def test_python_runs(
    document: str, upstream: DemoUpstream, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The blocks of a page run one after the other with the installed package, as a reader would type them in."""
    python = install(tmp_path_factory.getbasetemp() / "installed").python
    environ = {
        "OPENROUTER_API_KEY": "sk-or-test",
        "OPENROUTER_BASE_URL": upstream.base_url,
        "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/records.db",
    }
    lines = [f"exec(compile({block.code!r}, {block.name!r}, 'exec'))" for block in own_python(document)]
    program = tmp_path / "page.py"
    program.write_text("\n".join(lines))

    done = subprocess.run(
        [python, "-W", "error", program],
        env=clean_environ(environ),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,
    )

    assert (0, "") == (done.returncode, done.stderr)
