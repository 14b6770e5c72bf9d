"""Where ``sluice events`` and ``sluice stats`` read: a running gateway, or the database of the settings."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

import click

from ..errors import ConfigurationError, GatewayError
from ..factory import create_app
from ..terminal import clean
from .client import GatewayClient
from .environment import read_dotenv, read_settings

__all__ = ["asked", "print_json", "print_table", "reading_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

_UNITS = {"m": 60, "h": 3600, "d": 86_400}


def reading_options(command: Command) -> Command:
    """Give a command the options of everything that reads records."""
    options = [
        click.option("--url", help="A gateway's address; without it the database of the settings is read."),
        click.option("--key", envvar="SLUICE_METADATA_KEY", show_envvar=True, help="The operator's key, with --url."),
        click.option("--since", help="From then on: Unix seconds, ISO 8601, or an age such as 30m, 12h, 7d."),
        click.option("--until", help="Up to then; as --since."),
        click.option("--model", help="Only of this model."),
        click.option("--json", "as_json", is_flag=True, help="JSON, one object a line."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def asked(url: str | None, key: str | None, path: str, query: Mapping[str, Any]) -> Any:
    """Ask the gateway at *url*, or the same code over the database, for what is at *path*.

    Raises:
        ClickException: it cannot be had.
    """
    given = {name: value for name, value in query.items() if value is not None}
    given |= {name: _moment(given[name]) for name in ("since", "until") if name in given}
    target = f"{path}?{urlencode(given)}" if given else path
    if url is None:
        return _from_database(target)
    try:
        return GatewayClient(url, key).get(target)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from None
    except GatewayError as error:
        raise click.ClickException(clean(f"{error.message} ({error.code})")) from None


def _from_database(target: str) -> Any:
    read_dotenv()
    key = secrets.token_hex(16)
    try:
        read_settings()
        app = create_app({"SLUICE_OPEN": "on", "SLUICE_METADATA_KEY": key, "SLUICE_LOG_LEVEL": "error"})
    except ConfigurationError as error:
        raise click.ClickException(error.message) from None
    response = app.test_client().get(target, headers={"Authorization": f"Bearer {key}"})
    found = response.get_json()
    if response.status_code != 200:
        raise click.ClickException(found["error"]["message"])
    return found


def _moment(text: str) -> str:
    """Turn an age into Unix seconds; anything else is read by the gateway."""
    age = re.fullmatch(r"(\d{1,9})([mhd])", text)
    return f"{time.time() - int(age[1]) * _UNITS[age[2]]:.3f}" if age else text


def print_json(rows: Iterable[Any]) -> None:
    """Print one object a line, in ASCII, so that nothing in it can act on a terminal."""
    for row in rows:
        click.echo(json.dumps(row))


def print_table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print columns: numbers to the right, None as a dash, text without what acts on a terminal."""
    cells = [[*heads], *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    is_number = [all(isinstance(row[column], (int, float, type(None))) for row in rows) for column in range(len(heads))]
    for row in cells:
        parts = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, is_number, strict=True)
        ]
        click.echo("  ".join(parts).rstrip())


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    return re.sub(r"\s+", " ", clean(str(value)))
