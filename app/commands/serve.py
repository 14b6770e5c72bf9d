"""``sluice serve``: the gateway under gunicorn."""

from __future__ import annotations

import os
import subprocess
import sys

import click

from .environment import ROOT, read_dotenv

__all__ = ["serve"]


@click.command()
@click.option("--bind", help="Address and port; BIND, or 127.0.0.1:8000.")
def serve(bind: str | None) -> None:
    """Serve the gateway with gunicorn, from a checkout.

    Reads .env. Without OPENROUTER_API_KEY the embedded demo upstream answers, a process of its own. Without
    SLUICE_API_KEYS it serves without keys, to this machine only.
    """
    config = ROOT / "gunicorn.conf.py"
    if not config.exists():
        raise click.ClickException("serve needs a checkout: elsewhere run gunicorn with your own gunicorn.conf.py")
    read_dotenv()
    environ = os.environ
    if bind:
        environ["BIND"] = bind
    if not (environ.get("SLUICE_API_KEYS") or environ.get("SLUICE_API_KEYS_FILE") or environ.get("SLUICE_OPEN")):
        environ["SLUICE_OPEN"] = "on"
    if environ.get("OPENROUTER_API_KEY") or environ.get("OPENROUTER_BASE_URL"):
        click.echo("Sluice talks to " + (environ.get("OPENROUTER_BASE_URL") or "OpenRouter") + ".", err=True)
    else:
        _start_demo()
    sys.stderr.flush()
    os.chdir(ROOT)
    os.execv(sys.executable, [sys.executable, "-m", "gunicorn", "-c", str(config), "wsgi:app"])


def _start_demo() -> None:
    """Start the demo upstream and point the settings at it.

    It ends when its standard input does: the other end stays open in gunicorn and its workers for as long as any of
    them lives, however they end.
    """
    demo = subprocess.Popen(
        [sys.executable, "-m", f"{__package__.rpartition('.')[0]}.demo", "--port", "0", "--exit-on-stdin-eof"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert demo.stdin is not None and demo.stdout is not None
    address = demo.stdout.readline().split()[-1:]
    if not address:
        raise click.ClickException("the demo upstream did not start")
    os.set_inheritable(demo.stdin.fileno(), True)
    os.environ |= {"OPENROUTER_BASE_URL": address[0], "OPENROUTER_API_KEY": "demo", "SLUICE_DEMO": "on"}
    click.echo(
        "No OPENROUTER_API_KEY is set: the embedded DEMO upstream answers, nothing leaves this machine.", err=True
    )
