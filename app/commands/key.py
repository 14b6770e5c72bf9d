"""``sluice key``: a new gateway key, and what to write down for it."""

from __future__ import annotations

import hashlib
import json
import secrets
import sys

import click

from ..access.key import read_entries, read_file
from ..errors import ConfigurationError
from ..terminal import is_terminal

__all__ = ["key"]


@click.command()
@click.argument("label", default="key-1")
@click.option("--stdin", "is_given", is_flag=True, help="Take a key that you have from standard input.")
def key(label: str, is_given: bool) -> None:
    """Make a gateway key for LABEL, which is what records call its holder.

    Prints the key, once, and its SHA-256 as SLUICE_API_KEYS and as the key file take it. Nothing is kept.
    """
    if "," in label or ":" in label:
        raise click.BadParameter("expected no comma and no colon", param_hint="LABEL")
    made = _read_key() if is_given else f"sluice-{secrets.token_urlsafe(32)}"
    digest = hashlib.sha256(made.encode()).hexdigest()
    entry, table = f"{label}:sha256:{digest}", f'[[keys]]\nlabel = {json.dumps(label)}\nsha256 = "{digest}"\n'
    try:  # as the gateway will
        read_entries([f"{label}:{made}", entry])
        read_file(table.encode())
    except ConfigurationError as error:
        raise click.ClickException(error.message) from None
    if not is_given:
        click.echo(f"# For {label}, to be sent as a bearer token; it is shown this once.\n{made}\n")
    click.echo(f"# In SLUICE_API_KEYS, after a comma if there are others:\n{entry}\n")
    click.echo(f"# Or in the file of SLUICE_API_KEYS_FILE:\n{table}", nl=False)


def _read_key() -> str:
    if is_terminal(sys.stdin):
        return str(click.prompt("Key", hide_input=True, err=True))
    found = sys.stdin.read().strip()
    if not found:
        raise click.ClickException("expected a key on standard input, got nothing")
    return found
