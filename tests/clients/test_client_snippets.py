"""What the documents tell users of client libraries, curl and the command to type works, against a real gateway."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.demo import DemoUpstream
from tests.blocks import DOCUMENTS, Block, blocks
from tests.clients.environments import NODE, environment
from tests.clock import PATIENCE
from tests.installed import install
from tests.servers import GunicornGateway, clean_environ
from tests.test_snippets import CLIENTS

ADDRESS = "http://127.0.0.1:8000"
"""What the documents say; each run talks to a gateway at another one."""

RUN = [block for document in DOCUMENTS for block in blocks(document) if block.reason is None]
LIBRARIES = [block for block in RUN if block.language == "javascript" or CLIENTS.search(block.code)]
SESSIONS = [block for block in RUN if block.language == "console"]


@pytest.fixture(scope="module")
def gateway() -> Iterator[GunicornGateway]:
    """Give a gateway as `make run` starts it, with a demo that does not dawdle."""
    with DemoUpstream() as upstream, GunicornGateway({"OPENROUTER_BASE_URL": upstream.base_url}) as started:
        yield started


def run(command: list[str], folder: Path, env: dict[str, str] | None = None) -> str:
    """Run a command to its end and give what it wrote to standard output."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=clean_environ(env or {}),
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,
        stdin=subprocess.DEVNULL,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("block", LIBRARIES, ids=lambda block: block.name)
def test_library_calls_print_the_answer(block: Block, gateway: GunicornGateway, tmp_path: Path) -> None:
    """Each example prints the demo's echo, with the library that it imports."""
    code = block.code.replace(ADDRESS, gateway.url)
    if block.language == "javascript":
        folder = environment(NODE)
        program = folder / f"snippet-{os.getpid()}.mjs"  # an ES module finds packages in folders above its own only
        program.write_text(code)
        try:
            out = run(["node", str(program)], folder)
        finally:
            program.unlink()
    else:
        name = "langchain" if "langchain" in code else "openai3"
        out = run([str(environment(name) / "bin" / "python"), "-c", code], tmp_path)

    assert "Hello, stream!" == out.strip()


def commands(block: Block) -> list[tuple[str, list[str]]]:
    """Take a session apart: each command with the lines it is said to print."""
    parts = re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]
    found = []
    for part in parts:
        command = re.match(r"(?:.*\\\n)*.*", part)
        assert command is not None
        found.append((command[0], part[command.end() :].strip().splitlines()))
    return found


@pytest.mark.parametrize("block", SESSIONS, ids=lambda block: block.name)
def test_sessions_go_as_written(
    block: Block, gateway: GunicornGateway, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each command ends well, and what it is said to print comes in that order; `...` stands for anything."""
    programs = [install(tmp_path_factory.getbasetemp() / "installed").python.parent, environment("llm") / "bin"]
    for model in (b for b in blocks(block.document) if b.code.startswith("# extra-openai-models.yaml")):
        (tmp_path / "extra-openai-models.yaml").write_text(model.code.replace(ADDRESS, gateway.url))
    env = {"PATH": ":".join([*map(str, programs), os.environ["PATH"]]), "LLM_USER_PATH": str(tmp_path)}

    for command, lines in commands(block):
        out = run(["bash", "-c", command.replace(ADDRESS, gateway.url)], tmp_path, env)
        pattern = ".*".join(re.escape(line) for line in lines).replace(re.escape("..."), ".*")
        assert re.search(pattern, out, re.DOTALL), out
