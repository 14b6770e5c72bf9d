"""`sluice key`: what it prints is what the gateway takes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli import main
from tests.conftest import Served
from tests.servers import request


def asked(served: Served, key: str) -> int:
    """Ask for the feedback's figures with *key*; give the status."""
    with request("GET", f"{served.url}/v1/models", headers={"Authorization": f"Bearer {key}"}) as response:
        return response.status


def test_a_made_key_is_taken_in_both_places(serve: Callable[..., Served], tmp_path: Path) -> None:
    """The entry works as SLUICE_API_KEYS, the table as a key file, and the key is as long as it should be."""
    made = CliRunner().invoke(main, ["key", "ann b."]).stdout.splitlines()
    key, entry = made[1], made[4]
    file = tmp_path / "keys.toml"
    file.write_text("\n".join(made[7:]) + "\n")

    by_entry = serve(SLUICE_OPEN=None, SLUICE_API_KEYS=entry)
    by_file = serve(SLUICE_OPEN=None, SLUICE_API_KEYS_FILE=str(file))

    assert re.fullmatch(r"sluice-[\w-]{43}", key)
    assert [200, 401, 200, 401] == [
        asked(by_entry, key),
        asked(by_entry, key[:-1]),
        asked(by_file, key),
        asked(by_file, key[:-1]),
    ]


def test_every_key_is_another_one() -> None:
    """Two runs give two keys."""
    assert CliRunner().invoke(main, ["key"]).stdout != CliRunner().invoke(main, ["key"]).stdout


def test_a_key_of_ones_own_is_hashed_and_not_repeated() -> None:
    """With --stdin the key stays out of the output."""
    done = CliRunner().invoke(main, ["key", "bob", "--stdin"], input="my-own-secret\n")

    assert 0 == done.exit_code
    assert f"bob:sha256:{hashlib.sha256(b'my-own-secret').hexdigest()}" in done.stdout
    assert "my-own-secret" not in done.output


@pytest.mark.parametrize(
    ("arguments", "given", "told"),
    [
        (["a,b"], "", "no comma and no colon"),
        (["bob", "--stdin"], "\n", "expected a key on standard input"),
        (["bob", "--stdin"], "sk-or-v1-x\n", "sk-or-"),
        (["x" * 101], "", "SLUICE_API_KEYS"),
    ],
)
def test_what_the_gateway_would_refuse_is_refused(arguments: list[str], given: str, told: str) -> None:
    """A label or key that would stop the start is not printed."""
    done = CliRunner().invoke(main, ["key", *arguments], input=given)

    assert done.exit_code in (1, 2)
    assert told in done.stderr
    assert "" == done.stdout
