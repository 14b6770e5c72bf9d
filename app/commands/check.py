"""``sluice check``: whether what a gateway needs is there, and whether streams arrive unbuffered."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import click

from ..errors import ConfigurationError, GatewayError
from ..factory import create_app
from ..gateway import Gateway
from ..settings import Settings
from ..terminal import clean, styled
from .buffering import Timing, measure, suspects
from .client import EventResponse, GatewayClient
from .environment import read_dotenv

__all__ = ["check"]

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
_PROMPT = "Tell a short story of about 150 words."
_DEMO_MODEL = "demo/story"


class Finding(NamedTuple):
    """One thing that was looked at: ``ok``, ``warn`` or ``fail``, and what to know."""

    state: str
    subject: str
    told: str


@click.command()
@click.argument("url", required=False)
@click.option("--key", envvar="SLUICE_KEY", show_envvar=True, help="Key for the gateway at URL.")
@click.option("-m", "--model", help="Model for the stream; the demo's, or else the gateway's default.")
def check(url: str | None, key: str | None, model: str | None) -> None:
    """Look at settings, keys, upstream, database and Redis; with URL, at a running gateway's stream instead.

    With URL one short answer is streamed, and what arrived when is held against what the gateway says of itself. If
    something on the way holds bytes back, it is named. Exit status 1 if anything failed.
    """
    findings = _remote(url, key, model) if url else _local()
    failed = 0
    for finding in findings:
        mark = styled(f"{finding.state:<5}", sys.stdout, fg=_COLOURS[finding.state])
        click.echo(f"{mark} {finding.subject:<10} {clean(finding.told)}")
        failed += finding.state == "fail"
    sys.exit(1 if failed else 0)


def _local() -> Iterator[Finding]:
    read_dotenv()
    try:
        settings = Settings.from_env()
    except ConfigurationError as error:
        yield Finding("fail", "settings", error.message)
        return
    yield Finding("ok", "settings", "all known and within their bounds")
    values: dict[str, Any] = {"SLUICE_LOG_LEVEL": "error"}  # what fails is told here
    if not (settings.open or settings.api_keys or settings.api_keys_file):
        yield Finding(
            "warn", "callers", "neither keys nor SLUICE_OPEN: only `sluice serve` starts so, for this machine"
        )
        values["SLUICE_OPEN"] = "on"
    try:
        gateway: Gateway = create_app(values).extensions["sluice"]["sluice"]
    except ConfigurationError as error:
        yield Finding("fail", "settings", error.message)
        return
    if "SLUICE_OPEN" not in values:
        yield Finding("ok", "callers", _callers(gateway))
    for subject, look in _LOOKS.items():
        found = look(gateway)
        if found is not None:
            yield Finding(found[0], subject, found[1])


def _callers(gateway: Gateway) -> str:
    if gateway.gate.is_open:
        hosts = ", ".join(gateway.settings.allowed_hosts)
        return "open to everyone who can reach it, by Host localhost" + (f" and {hosts}" if hosts else "")
    return "by gateway key"


def _upstream_key(gateway: Gateway) -> tuple[str, str]:
    if gateway.settings.openrouter_api_key is None:
        return "warn", "no OPENROUTER_API_KEY: clients have to bring their own"
    try:
        gateway.upstream.get("/key")
    except GatewayError as error:
        if error.code == "upstream_auth" or error.status in (401, 403):
            return "fail", "upstream refuses OPENROUTER_API_KEY"
        return "warn", f"upstream does not tell about keys: {error.message}"
    return "ok", "upstream takes OPENROUTER_API_KEY"


def _upstream(gateway: Gateway) -> tuple[str, str]:
    started = time.monotonic()
    try:
        count = len(gateway.models.all()["data"])
    except GatewayError as error:
        return "fail", f"{gateway.upstream.host}: {error.message} ({error.code})"
    took = (time.monotonic() - started) * 1000
    return "ok", f"{gateway.upstream.host}: {count} models in {took:.0f} ms"


def _database(gateway: Gateway) -> tuple[str, str]:
    assert gateway.feedback is not None
    try:
        gateway.feedback.stats()
    except GatewayError as error:
        return "fail", error.message
    where = "SLUICE_DATABASE_URL" if gateway.settings.database_url else "a SQLite file in the instance folder"
    return "ok", f"{where}: open, its tables are there"


def _redis(gateway: Gateway) -> tuple[str, str] | None:
    where = str(getattr(gateway.settings, "limit_storage", None) or "")
    if not where.startswith(("redis", "valkey")):
        return None
    from limits.storage import storage_from_string

    try:
        is_there = storage_from_string(where).check()
    except Exception as error:
        return "fail", f"SLUICE_LIMIT_STORAGE: {type(error).__name__}"
    return ("ok", "SLUICE_LIMIT_STORAGE: answers") if is_there else ("fail", "SLUICE_LIMIT_STORAGE: no answer")


_LOOKS: dict[str, Callable[[Gateway], tuple[str, str] | None]] = {
    "key": _upstream_key,
    "upstream": _upstream,
    "database": _database,
    "redis": _redis,
}


def _remote(url: str, key: str | None, model: str | None) -> Iterator[Finding]:
    try:
        client = GatewayClient(url, key, timeout=60.0)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="URL") from None
    started = time.monotonic()
    try:
        health = client.get("/v1/health")
        round_trip = time.monotonic() - started
        yield Finding(
            "ok", "gateway", f"{client.url}: version {health.get('version')}, {round_trip * 1000:.0f} ms away"
        )
        listed = {entry.get("id") for entry in client.get("/v1/models").get("data", ())}
        yield Finding("ok", "models", f"{len(listed)} listed")
        chosen = model or (_DEMO_MODEL if _DEMO_MODEL in listed else None)
        body: dict[str, Any] = {"messages": [{"role": "user", "content": _PROMPT}], "max_tokens": 300}
        with client.stream(body | ({"model": chosen} if chosen else {}), encoding="gzip, deflate") as response:
            yield from _judged(response, measure(response, round_trip))
    except (GatewayError, ValueError, AttributeError) as error:
        told = f"{error.message} ({error.code})" if isinstance(error, GatewayError) else "answers, but not as a gateway"
        yield Finding("fail", "gateway", told)


def _judged(response: EventResponse, timing: Timing) -> Iterator[Finding]:
    if timing.error is not None:
        yield Finding("fail", "stream", f"upstream failed: {timing.error}")
        return
    if timing.first is None:
        yield Finding("fail", "stream", "it ended without a token")
        return
    comment = f"first comment after {timing.comment:.2f} s, " if timing.comment is not None else ""
    yield Finding("ok", "stream", f"{comment}first token after {timing.first:.2f} s, {timing.events} events")
    verdict = timing.verdict
    if verdict is None and timing.sent_over is None:
        yield Finding("warn", "buffering", "cannot tell: the server does not say when it sent what (x_g0dm0d3)")
    elif verdict is None and not timing.is_telling:
        yield Finding("warn", "buffering", f"cannot tell: the answer took only {timing.sent_over:.2f} s")
    elif verdict is None:
        yield Finding("ok", "buffering", f"none: bytes came as they were sent, over {timing.sent_over:.1f} s")
    else:
        yield Finding("fail", "buffering", verdict)
        named = suspects(response.headers)
        for suspect in named:
            yield Finding("fail", "held by", f"{suspect.name} ({suspect.shows}): {suspect.remedy}")
        if not named:
            yield Finding(
                "fail", "held by", "something that leaves no header: a proxy, or middleware of the application"
            )
