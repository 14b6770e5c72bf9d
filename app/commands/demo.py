"""``sluice demo``: the demo upstream by itself."""

from __future__ import annotations

import click

from ..demo.__main__ import main as serve_demo

__all__ = ["demo"]


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=0, show_default=True, type=click.IntRange(0, 65535), help="0 picks a free one.")
@click.option(
    "--pace", default=25.0, show_default=True, type=click.FloatRange(0), help="Tokens per second; 0: at once."
)
@click.option("--first-token", default=0.4, show_default=True, type=click.FloatRange(0), help="Seconds until it comes.")
def demo(host: str, port: int, pace: float, first_token: float) -> None:
    """Serve the demo upstream alone, which speaks OpenRouter's API offline, until Ctrl-C.

    Its address is what OPENROUTER_BASE_URL takes.
    """
    arguments = ["--host", host, "--port", str(port), "--pace", str(pace), "--first-token", str(first_token)]
    serve_demo(arguments)
