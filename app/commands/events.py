"""``sluice events``: the latest records."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from .records import asked, print_json, print_table, reading_options

__all__ = ["events"]

_HEADS = ("time", "status", "end", "model", "key", "first ms", "total ms", "tokens", "cost", "error")


@click.command()
@reading_options
@click.option("--end-reason", help="Only what ended so, such as completed or upstream_cut.")
@click.option("--key-label", help="Only of this caller.")
@click.option("--status", type=int, help="Only with this HTTP status.")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
def events(url: str | None, key: str | None, as_json: bool, **query: Any) -> None:
    """List the latest requests, newest first, from the database or from a gateway."""
    found = asked(url, key, "/v1/metadata/events", query)["data"]
    if as_json:
        print_json(found)
    elif found:
        print_table(_HEADS, [_row(event) for event in found])
    else:
        click.echo("no records", err=True)


def _row(event: dict[str, Any]) -> list[Any]:
    moment = datetime.fromtimestamp(event["created_at"]).strftime("%Y-%m-%d %H:%M:%S")
    usage, error = event["usage"], event["error"] or {}
    model = event["served_model"] or event["requested_model"]
    times = [event["first_chunk_ms"], event["total_ms"]]
    figures = [usage["total_tokens"], usage["cost"]]
    return [
        moment,
        event["status"],
        event["end_reason"],
        model,
        event["key_label"],
        *times,
        *figures,
        error.get("code"),
    ]
