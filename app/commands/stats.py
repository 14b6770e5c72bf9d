"""``sluice stats``: what the record comes to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from .records import asked, print_json, print_table, reading_options

__all__ = ["stats"]

_HEADS = ("requests", "success", "first p50", "p95", "total p50", "p95", "tokens", "cost", "retries")


@click.command()
@reading_options
@click.option(
    "--by", type=click.Choice(["model", "period", "model,period"]), default="model", show_default=True, help="Rows."
)
@click.option("--period", type=click.Choice(["hour", "day"]), help="Length of a period; hour if left out.")
def stats(url: str | None, key: str | None, as_json: bool, **query: Any) -> None:
    """Sum the requests up, by model or over time, from the database or from a gateway.

    Times are milliseconds: to the first token and in all, half and 95 % of the requests being faster.
    """
    found = asked(url, key, "/v1/metadata/stats", query)
    if as_json:
        print_json([found])
        return
    names = query["by"].split(",")
    rows = [[*(_name(row, name) for name in names), *_figures(row)] for row in found["data"]]
    print_table([*names, *_HEADS], [*rows, ["all", *[""] * (len(names) - 1), *_figures(found["totals"])]])


def _name(row: dict[str, Any], name: str) -> str:
    if name == "model":
        return row["model"] or "none"
    return datetime.fromtimestamp(row["start"], UTC).strftime("%Y-%m-%d %H:%MZ")


def _figures(row: dict[str, Any]) -> list[Any]:
    rate = None if row["success_rate"] is None else f"{row['success_rate']:.1%}"
    times = [row[name][part] for name in ("first_chunk_ms", "total_ms") for part in ("p50", "p95")]
    return [row["requests"], rate, *times, row["total_tokens"], row["cost"], row["retries"]]
