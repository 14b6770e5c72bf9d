"""Where commands find their settings: the environment, and a file .env beside the checkout or in this folder."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import ConfigurationError
from ..settings import Settings

__all__ = ["ROOT", "read_dotenv", "read_settings"]

ROOT = Path(__file__).resolve().parents[2]
"""The checkout, if this is one."""


def read_dotenv() -> None:
    """Let .env fill in what the environment does not set; nothing where python-dotenv is not installed."""
    try:
        from dotenv import load_dotenv
    except ImportError:
        return
    for folder in (Path.cwd(), ROOT):
        if (folder / ".env").is_file():
            load_dotenv(folder / ".env")
            return


def read_settings() -> Settings:
    """Read the settings.

    Raises:
        ClickException: one of them is wrong.
    """
    try:
        return Settings.from_env()
    except ConfigurationError as error:
        raise click.ClickException(error.message) from None
