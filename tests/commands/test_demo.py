"""`sluice demo`, and what the command itself says."""

from __future__ import annotations

import signal
import sys

from click import Option
from click.testing import CliRunner

from app.cli import main
from tests.servers import Process, clean_environ, request


def test_the_demo_serves_until_ctrl_c() -> None:
    """It says where it listens, answers there, and ends well."""
    process = Process([sys.executable, "-m", "app", "demo", "--pace", "0"], env=clean_environ({}))
    try:
        address = process.wait_for_log(r"listening on (http://127\.0\.0\.1:\d+/api/v1)")[1]
        with request("GET", f"{address}/models") as response:
            assert any(model["id"] == "demo/story" for model in response.json()["data"])
    finally:
        assert 0 == process.stop(signal.SIGINT)


def test_every_command_has_help() -> None:
    """`--help` names each command, and each one explains itself."""
    listed = CliRunner().invoke(main, ["-h"]).stdout

    for name, command in main.commands.items():
        assert name in listed
        assert len(command.help or "") > 30
        assert all(option.help for option in command.params if isinstance(option, Option)), name
