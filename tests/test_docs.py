"""The documents say what the code does: every setting, error code, route and stage has its place in them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from app import create_app, errors
from app.cli import main
from app.stages import stage_classes
from tests.servers import ROOT

README = (ROOT / "README.md").read_text()
PAGES = {path.name: path.read_text() for path in (ROOT / "docs").glob("*.md")}


def test_the_settings_table_is_written_from_the_code() -> None:
    """scripts/settings_table.py has nothing to change."""
    command = [sys.executable, str(ROOT / "scripts" / "settings_table.py"), "--check"]

    assert 0 == subprocess.run(command, check=False).returncode


def test_every_error_code_is_documented_with_its_status() -> None:
    """docs/errors.md has a row for each class's code."""
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    codes = {(c.code, c.status) for c in classes if issubclass(c, errors.GatewayError)}
    rows = set(re.findall(r"^\| `(\w+)` \| (\d+) \|", PAGES["errors.md"], re.MULTILINE))

    assert {(code, str(status)) for code, status in codes} <= rows


def test_every_code_in_the_sources_is_documented() -> None:
    """Codes given in place have their row too."""
    given = set()
    for path in (ROOT / "app").rglob("*.py"):
        if "demo" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "code" and isinstance(node.value, ast.Constant):
                given.add(node.value.value)

    assert given <= set(re.findall(r"^\| `(\w+)` \|", PAGES["errors.md"], re.MULTILINE))


def test_every_route_is_documented(tmp_path: Path) -> None:
    """Each route stands in the README's table."""
    app = create_app({"SLUICE_OPEN": "on", "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/x.db"})
    routes = {
        f"{'GET' if 'GET' in (rule.methods or ()) else 'POST'} {rule.rule}"
        for rule in app.url_map.iter_rules()
        if "rest" not in rule.arguments
    }
    documented = set(re.findall(r"`((?:GET|POST) /[^`]*)`", README))

    assert {
        route.replace("<path:model_id>", "{id}").replace("<state>/<path:name>", "{state}/{name}") for route in routes
    } <= documented


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_and_option_is_documented(name: str) -> None:
    """docs/command.md has a heading for each command, and each option under it."""
    section = re.search(rf"^## sluice {name}\n(.*?)(?=^## |\Z)", PAGES["command.md"], re.MULTILINE | re.DOTALL)
    assert section is not None
    options = [option for option in main.commands[name].params if isinstance(option, click.Option)]

    assert [] == [o.name for o in options if not any(f"`{word}`" in section[1] for word in o.opts)]


@pytest.mark.parametrize("stage", stage_classes(), ids=lambda stage: stage.name)
def test_every_stage_has_a_heading_and_a_test(stage: type) -> None:
    """A stage that ships is documented and tested."""
    headings = " ".join(re.findall(r"^#+ (.*)$", "\n".join([README, *PAGES.values()]), re.MULTILINE)).lower()
    name = stage.__module__.rpartition(".")[2]

    assert name in headings.replace(" ", "")
    assert (ROOT / "tests" / "stages" / f"test_{name}.py").exists()


def test_the_first_part_of_the_readme_is_short() -> None:
    """What a newcomer needs stands before the reference, on about two screens."""
    assert README.index("## Reference") < 6000


def test_the_project_speaks_of_itself_alone() -> None:
    """No document or source names issue numbers or places outside the repository."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in tracked:
        path = ROOT / name
        if path.suffix in (".py", ".md", ".toml", ".yaml", ".conf", ".service") and path.name != "test_docs.py":
            assert not re.search(r"/work/|\bissue #?\d|\bhelper-\d", path.read_text()), name
