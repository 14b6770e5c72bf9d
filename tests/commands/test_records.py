"""`sluice events` and `sluice stats`: from the database and from a gateway."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.demo import DemoUpstream
from tests.commands.runner import Terminal, run
from tests.conftest import Served
from tests.servers import request, wait_until

KEY = "operator-key-1"
EVIL = "evil/\x1b[31m\u202emodel\x9b"


@pytest.fixture
def recorded(serve: Callable[..., Served], upstream: DemoUpstream) -> Served:
    """A gateway that has answered one request, failed in another, and written both down."""
    served = serve(SLUICE_OPEN=None, SLUICE_API_KEYS="ann:secret-key-1", SLUICE_METADATA_KEY=KEY)
    headers = {"Authorization": "Bearer secret-key-1"}
    upstream.play([{"text": ["Hello"]}])
    upstream.play([{"text": ["It "]}, {"error": {}}])
    for body in ({}, {"model": EVIL}):
        with served.ask(headers=headers, **body) as stream:
            stream.read()

    def is_written() -> bool:
        target = f"{served.url}/v1/metadata/events"
        with request("GET", target, headers={"Authorization": f"Bearer {KEY}"}) as response:
            return len(response.json()["data"]) == 2

    wait_until(is_written)
    return served


def invoke(served: Served, way: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    """Run a command against the gateway or against its database."""
    if way == "url":
        return CliRunner().invoke(main, [*arguments, "--url", served.url, "--key", KEY])
    monkeypatch.setenv("SLUICE_DATABASE_URL", served.gateway.settings.database_url or "")
    monkeypatch.setenv("SLUICE_API_KEYS", "ann:secret-key-1")
    return CliRunner().invoke(main, [*arguments])


WAYS = pytest.mark.parametrize("way", ["url", "database"])


@WAYS
def test_events_are_listed(recorded: Served, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest first, filtered as asked, as a table or one JSON object a line."""
    whole = invoke(recorded, way, monkeypatch, "events")
    one = invoke(recorded, way, monkeypatch, "events", "--end-reason", "completed", "--since", "1h", "--json")

    lines = whole.stdout.splitlines()
    assert 3 == len(lines), whole.output
    assert re.match(r"time +status +end +model +key +first ms", lines[0])
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +200 +completed +\S+ +ann +\d", lines[2])
    (event,) = map(json.loads, one.stdout.splitlines())
    assert ("completed", "ann") == (event["end_reason"], event["key_label"])


@WAYS
def test_stats_are_summed_up(recorded: Served, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each model and one for all; by period the rows are times; JSON is the answer itself."""
    table = invoke(recorded, way, monkeypatch, "stats").stdout.splitlines()
    periods = invoke(recorded, way, monkeypatch, "stats", "--by", "period").stdout.splitlines()
    found = json.loads(invoke(recorded, way, monkeypatch, "stats", "--json").stdout)

    assert re.match(r"model +requests +success", table[0])
    assert re.match(r"all +2 +50\.0%", table[-1])
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:00Z +2 +50\.0%", periods[1])
    assert ("stats", 2) == (found["object"], found["totals"]["requests"])


def test_a_record_does_not_act_on_a_terminal(recorded: Served) -> None:
    """A model id with escape sequences is shown without what makes them act, in JSON as escapes."""
    for more in ([], ["--json"]):
        with Terminal("events", "--url", recorded.url, *more, env={"SLUICE_METADATA_KEY": KEY}) as terminal:
            assert 0 == terminal.wait()
        assert "[31m" in terminal.text
        assert not re.search("[\x1b\x9b\u202e]", terminal.text)


def test_nothing_recorded_is_said(tmp_path: Path) -> None:
    """An empty database is no failure, and standard output stays empty."""
    done = run("events", env={"SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/new.db"})

    assert (0, "", "no records\n") == done


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["events", "--key", "wrong"], "Invalid API key (invalid_api_key)"),
        (["stats", "--key", KEY, "--since", "yesterday"], "since: expected Unix seconds or an ISO 8601 time"),
    ],
)
def test_what_cannot_be_read_is_said(recorded: Served, arguments: list[str], told: str) -> None:
    """The gateway's own words, and status 1."""
    done = CliRunner().invoke(main, [*arguments, "--url", recorded.url])

    assert (1, "") == (done.exit_code, done.stdout)
    assert told in done.stderr


def test_a_database_that_is_away_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that names the setting."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SLUICE_DATABASE_URL", f"sqlite:///{tmp_path}/file/x.db")
    done: Any = CliRunner().invoke(main, ["events"])

    assert 1 == done.exit_code
    assert "SLUICE_DATABASE_URL" in done.stderr
