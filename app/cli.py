"""The command line: ``sluice`` where the package is installed, ``python -m app`` in a checkout."""

from __future__ import annotations

import click

from .commands import COMMANDS
from .version import version

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version(), message="sluice %(version)s")
def main() -> None:
    """Sluice, an OpenRouter streaming gateway for Flask."""


for command in COMMANDS:
    main.add_command(command)
