"""The reference of the script language tells what there is."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

import app.demo
from app.demo.registry import STEPS
from app.demo.script import parse_script

README = (Path(app.demo.__file__).parent / "README.md").read_text()
ROWS = dict(re.findall(r"^\| `(\w+)`: (.*)$", README, re.MULTILINE))


def test_the_reference_has_every_step_and_no_other() -> None:
    """Each step has a row in a table of the README, and each row is a step."""
    assert {*STEPS, "repeat"} == set(ROWS)


@pytest.mark.parametrize("name", [name for name, step in STEPS.items() if not step.whole])
def test_the_reference_has_every_option(name: str) -> None:
    """The row of a step names all its options."""
    options = list(inspect.signature(STEPS[name].play).parameters.values())[1:]
    named = [option.name for option in options[1:] if option.kind is not inspect.Parameter.VAR_KEYWORD]

    assert [] == [option for option in named if not re.search(rf"\b{option}\b", ROWS[name])]


def test_the_examples_are_scripts() -> None:
    """Every example in the README can be played."""
    examples = re.findall(r"^\| .+ \| `(?:play_attempts\()?(\[.*\])\)?` \|$", README, re.MULTILINE)
    scripts = [json.loads(example.replace("\\\\", "\\")) for example in examples]

    assert 14 == len(scripts)
    for script in scripts:
        for part in script if isinstance(script[0], list) else [script]:
            assert part == parse_script(part)
