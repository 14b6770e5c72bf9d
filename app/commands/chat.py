"""``sluice chat``: a conversation in the terminal, through a gateway, or with upstream directly."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from io import TextIOWrapper
from typing import Any

import click

from ..errors import GatewayError
from ..library import stream_chunks
from ..settings import Settings
from ..terminal import clean, is_terminal, styled
from .answer import Printer
from .client import EventResponse, GatewayClient
from .environment import read_dotenv, read_settings

__all__ = ["chat"]

_CANCELLED = 130
"""Exit status of a program that Ctrl-C ended, by the shells' convention."""

Ask = Callable[[list[dict[str, Any]]], AbstractContextManager[Iterator[dict[str, Any]]]]
"""Takes a conversation and opens its answer; leaving the context cancels it."""


@click.command()
@click.argument("text", nargs=-1)
@click.option(
    "--url", help="A gateway's address, such as http://127.0.0.1:8000; without it upstream is asked directly."
)
@click.option("--key", envvar="SLUICE_KEY", show_envvar=True, help="Key for that gateway.")
@click.option("-m", "--model", help="Model id; the operator's default if left out.")
@click.option("-s", "--system", help="System message.")
@click.option("-p", "--param", "params", multiple=True, metavar="NAME=VALUE", help="A further field; VALUE as JSON.")
@click.option("--demo", is_flag=True, help="Let the embedded demo answer: no key, nothing leaves this machine.")
def chat(
    text: tuple[str, ...],
    url: str | None,
    key: str | None,
    model: str | None,
    system: str | None,
    params: tuple[str, ...],
    demo: bool,
) -> None:
    """Ask a model, and show the answer as it comes.

    With TEXT, or with standard input piped in, it asks once; otherwise it is a conversation, which Ctrl-D ends.
    Ctrl-C cancels the answer that is coming, upstream too. Without --url the settings are the gateway's own
    (OPENROUTER_API_KEY, .env), and no pipeline runs.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # what the terminal's encoding lacks costs no answer
    fields = {"model": model, **_read_params(params)}
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    question = _question(text)
    with ExitStack() as stack:
        ask = _gateway(url, key, fields) if url else _upstream(stack, fields, demo)
        if question is None:
            _converse(ask, messages)
        else:
            status = _turn(ask, messages, question)
            stack.close()
            sys.exit(status)


def _question(text: tuple[str, ...]) -> str | None:
    """Give what is to be asked once, or None for a conversation."""
    parts = [" ".join(text)] if text else []
    if not is_terminal(sys.stdin):
        parts += [sys.stdin.read().strip()]
    elif not text:
        return None
    found = "\n\n".join(part for part in parts if part)
    if not found:
        raise click.ClickException("expected a text as argument or on standard input, got nothing")
    return found


def _converse(ask: Ask, messages: list[dict[str, Any]]) -> None:
    try:
        import readline  # noqa: F401  (line editing, where there is any)
    except ImportError:
        pass
    while True:
        try:
            question = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            click.echo()
            return
        if question:
            _turn(ask, messages, question)


def _turn(ask: Ask, messages: list[dict[str, Any]], question: str) -> int:
    """Ask, show the answer, add both to *messages*; give an exit status."""
    messages.append({"role": "user", "content": question})
    printer, status = Printer(), 0
    try:
        with ask(messages) as chunks:
            for chunk in chunks:
                printer.show(chunk)
        printer.end()
    except KeyboardInterrupt:
        printer.end(note="cancelled")
        status = _CANCELLED
    except GatewayError as error:
        printer.end()
        click.echo(styled(f"Error: {clean(error.message)} ({clean(str(error.code))})", sys.stderr, fg="red"), err=True)
        status = 1
    if printer.text:
        messages.append({"role": "assistant", "content": printer.text})
    else:
        messages.pop()
    return status


def _gateway(url: str, key: str | None, fields: dict[str, Any]) -> Ask:
    try:
        client = GatewayClient(url, key)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from None
    given = {name: value for name, value in fields.items() if value is not None}

    def ask(messages: list[dict[str, Any]]) -> AbstractContextManager[Iterator[dict[str, Any]]]:
        return _Chunks(client.stream({**given, "messages": messages}))

    return ask


class _Chunks(AbstractContextManager[Iterator[dict[str, Any]]]):
    """A gateway's answer as a context of its chunks."""

    def __init__(self, response: EventResponse) -> None:
        self._response = response

    def __enter__(self) -> Iterator[dict[str, Any]]:
        return self._response.chunks()

    def __exit__(self, *exception: object) -> None:
        self._response.close()


def _upstream(stack: ExitStack, fields: dict[str, Any], demo: bool) -> Ask:
    settings = _demo_settings(stack) if demo else _own_settings()
    fields = {"model": "demo/echo" if demo else None, **{k: v for k, v in fields.items() if v is not None}}

    def ask(messages: list[dict[str, Any]]) -> AbstractContextManager[Iterator[dict[str, Any]]]:
        return closing(stream_chunks([*messages], settings=settings, **fields))

    return ask


def _own_settings() -> Settings:
    read_dotenv()
    settings = read_settings()
    if settings.openrouter_api_key is None and settings.openrouter_base_url.startswith("https://openrouter.ai/"):
        raise click.ClickException("expected OPENROUTER_API_KEY, or a gateway with --url, or --demo; got none of them")
    return settings


def _demo_settings(stack: ExitStack) -> Settings:
    from ..demo import DemoUpstream

    server = stack.enter_context(DemoUpstream(pace=25.0, first_token=0.4, record=False))
    return Settings.from_mapping({"OPENROUTER_BASE_URL": server.base_url, "OPENROUTER_API_KEY": "demo"})


def _read_params(params: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for param in params:
        name, equals, value = param.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"expected NAME=VALUE, got {param[:40]!r}", param_hint="--param")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
