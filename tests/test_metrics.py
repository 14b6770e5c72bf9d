"""What Prometheus is told."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from prometheus_client import Counter, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from app import create_blueprint, multiprocess
from app.demo import DemoUpstream
from app.gaps import GAP_BOUNDS, Gaps
from app.instruments import Instruments
from tests.conftest import QUESTION, Served
from tests.servers import (
    ROOT,
    START_TIMEOUT,
    GunicornGateway,
    RawStream,
    children,
    open_stream,
    request,
    wait_until,
)

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
Serve = Callable[..., Served]
ROUTE = "/v1/chat/completions"


def scrape(url: str, **headers: str) -> Samples:
    """Read ``/metrics``: values by name and labels."""
    with request("GET", f"{url}/metrics", headers=headers) as response:
        body = response.read().decode()
        assert 200 == response.status
    families = text_string_to_metric_families(body)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(samples: Samples, name: str, **labels: str) -> float:
    """Give a sample's value; 0 where there is none."""
    return samples.get((name, frozenset(labels.items())), 0.0)


def until(url: str, name: str, expected: float, **labels: str) -> Samples:
    """Scrape until a sample has the value expected."""
    found: Samples = {}

    def look() -> bool:
        nonlocal found
        found = scrape(url)
        return value(found, name, **labels) == expected

    wait_until(look, what=f"{name} {labels} {expected}")
    return found


def whole(stream: RawStream) -> bytes:
    """Read to the end, and close."""
    with stream:
        return stream.read()


def status(stream: RawStream) -> int:
    """Give the status, and close."""
    with stream:
        return stream.status


def hear(stream: RawStream, word: bytes) -> None:
    """Read until *word* has come."""
    heard = b""
    while word not in heard:
        heard += stream.read_some()


def test_a_request_is_counted_by_route_model_and_end_reason(served: Served, upstream: DemoUpstream) -> None:
    """The model is told apart once upstream's list has it, and is ``other`` before and for any unknown one."""
    whole(served.ask(model="demo/echo"))
    served.record()
    served.gateway.metrics.flush()
    until(served.url, "sluice_requests_total", 1, route=ROUTE, model="other", end_reason="completed")
    wait_until(lambda: served.gateway.models.known("demo/echo"))
    whole(served.ask(model="demo/echo"))
    whole(served.ask(model="made/up"))
    until(served.url, "sluice_requests_total", 1, route=ROUTE, model="demo/echo", end_reason="completed")
    until(served.url, "sluice_requests_total", 2, route=ROUTE, model="other", end_reason="completed")


def test_labels_stay_bounded_whatever_clients_send(served: Served) -> None:
    """Paths, models and methods made up by a client make no label values of their own."""
    for number in range(5):
        whole(request("GET", f"{served.url}/v1/made/up/{number}"))
        whole(request("GET", f"{served.url}/v1/models/made/up{number}"))
        whole(served.ask(model=f"made/up{number}"))
    found = until(served.url, "sluice_requests_total", 5, route="unknown", model="none", end_reason="rejected")
    labels = [labels for name, labels in found if name == "sluice_requests_total"]
    assert not any("up" in text for pairs in labels for _, text in pairs)
    assert 5 == value(
        found, "sluice_requests_total", route="/v1/models/<path:model_id>", model="none", end_reason="rejected"
    )


def test_attempts_tokens_and_cost_are_added_up(served: Served, upstream: DemoUpstream) -> None:
    """Each attempt counts by what came; tokens and cost are upstream's own figures, zero included."""
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10, "cost": 0.25}
    upstream.play_attempts(
        [[{"answer": {"status": 429, "json": {}}}], [{"text": "Hi"}, {"usage": {"form": "empty", "usage": usage}}]]
    )
    whole(served.ask())
    found = until(served.url, "sluice_upstream_attempts_total", 1, outcome="429")
    assert 1 == value(found, "sluice_upstream_attempts_total", outcome="200")
    assert 7 == value(found, "sluice_tokens_total", kind="prompt")
    assert 3 == value(found, "sluice_tokens_total", kind="completion")
    assert 0.25 == value(found, "sluice_cost_total")


@pytest.mark.parametrize("odd", ["many", -5, 1e308, None, [1], True])
def test_odd_usage_is_not_added(served: Served, upstream: DemoUpstream, odd: Any) -> None:
    """What upstream calls a count may be anything, and must stop neither the request nor the scrape."""
    usage = {"prompt_tokens": odd, "completion_tokens": odd, "cost": odd}
    upstream.play([{"text": "Hi"}, {"usage": {"form": "empty", "usage": usage}}])
    whole(served.ask())
    found = until(served.url, "sluice_requests_total", 1, route=ROUTE, model="other", end_reason="completed")
    assert 0 == value(found, "sluice_tokens_total", kind="completion") == value(found, "sluice_cost_total")


def test_open_streams_are_shown_while_they_are_open(served: Served, upstream: DemoUpstream) -> None:
    """The gauge follows, and goes back when a client leaves; what was not counted by upstream is an estimate."""
    upstream.play([{"text": "One two three"}, {"silence": True}])
    stream = served.ask()
    hear(stream, b"three")
    until(served.url, "sluice_open_streams", 1)
    stream.close()
    found = until(served.url, "sluice_open_streams", 0)
    assert 1 == value(found, "sluice_requests_total", route=ROUTE, model="other", end_reason="client_disconnected")
    assert 0 < value(found, "sluice_tokens_total", kind="completion_estimate")
    assert 0 == value(found, "sluice_tokens_total", kind="completion")


def test_times_are_histograms(served: Served, upstream: DemoUpstream) -> None:
    """First chunk, gaps and total are observed; a rejected request is no observation."""
    upstream.play([{"text": "a "}, {"wait": 1.1}, {"text": "b"}])
    began = time.monotonic()
    whole(served.ask())
    whole(served.ask(messages="none"))
    found = until(served.url, "sluice_requests_total", 1, route=ROUTE, model="other", end_reason="rejected")
    took = time.monotonic() - began
    assert 1 == value(found, "sluice_first_chunk_seconds_count") == value(found, "sluice_request_seconds_count")
    assert 1.1 <= value(found, "sluice_request_seconds_sum") <= took
    assert 2 <= value(found, "sluice_chunk_gap_seconds_count")
    slow = value(found, "sluice_chunk_gap_seconds_count") - value(found, "sluice_chunk_gap_seconds_bucket", le="1.0")
    assert 1 == slow


def test_heartbeats_are_counted(serve: Serve, upstream: DemoUpstream) -> None:
    """Each comment sent in silence counts; the greeting does not."""
    served = serve(SLUICE_HEARTBEAT="0.1")
    upstream.play([{"hold": True}, {"text": "Hi"}])
    with served.ask() as stream:
        first = [stream.next_event() for _ in range(4)]
        upstream.release()
        heard = first + stream.events()
    until(served.url, "sluice_heartbeats_total", heard.count(": keep-alive") - 1)
    assert [": keep-alive"] * 4 == first


def test_gaps_of_an_open_stream_are_taken_once() -> None:
    """What was taken is not taken again, and nothing that comes in between is lost."""
    gaps = Gaps()
    for at in (1.0, 1.004, 1.02):
        gaps.note(at)
    counts, seconds = gaps.take()
    assert [1, 0, 1] == counts[:3]
    assert 0.02 == pytest.approx(seconds)
    assert (0, 0.0) == (sum(gaps.take()[0]), gaps.take()[1])
    gaps.note(101.02)
    counts, seconds = gaps.take()
    assert 1 == counts[len(GAP_BOUNDS)]
    assert 100 == pytest.approx(seconds)


def test_the_record_queue_and_its_drops_are_shown(serve: Serve, tmp_path: Path) -> None:
    """While the database is away records wait, and what no longer fits is counted."""
    served = serve(SLUICE_DATABASE_URL=f"sqlite:///{tmp_path}/records.db/below-a-file.db")
    (tmp_path / "records.db").write_text("no folder")
    whole(served.ask())
    until(served.url, "sluice_record_queue", 1)
    assert served.gateway.journal is not None
    served.gateway.journal.dropped += 3
    whole(served.ask())
    until(served.url, "sluice_records_dropped_total", 3)


def test_a_refused_key_is_counted_without_a_model(serve: Serve) -> None:
    """There is no record of who was not let in, but the operator sees how many."""
    served = serve(SLUICE_OPEN="off", SLUICE_API_KEYS="ann:secret-key", SLUICE_METADATA_KEY="operator-key")
    whole(served.ask())
    found = scrape(served.url, Authorization="Bearer operator-key")
    assert 1 == value(found, "sluice_requests_total", route=ROUTE, model="none", end_reason="rejected")
    assert 401 == status(request("GET", f"{served.url}/metrics", headers={"Authorization": "Bearer secret-key"}))


def test_without_an_operator_key_there_is_no_route(serve: Serve) -> None:
    """Metrics tell about the clients, so that a gateway with keys shows them to nobody by default."""
    served = serve(SLUICE_OPEN="off", SLUICE_API_KEYS="ann:secret-key")
    assert 404 == status(request("GET", f"{served.url}/metrics"))


def test_a_host_has_its_own_metrics(upstream: DemoUpstream) -> None:
    """The blueprint serves none unless asked, and two gateways and a host's metric of a like name are no clash."""
    own = Counter("sluice_requests_total", "A host's own.")
    app = Flask(__name__)
    settings = {"SLUICE_OPEN": "on", "SLUICE_PIPELINE": "off", "OPENROUTER_BASE_URL": upstream.base_url}
    app.register_blueprint(create_blueprint(settings, url_prefix="/a", extras=["metrics"]))
    app.register_blueprint(create_blueprint(settings, name="second", url_prefix="/b"))
    own.inc(41)
    client = app.test_client()
    client.get("/a/v1/health")
    shown = client.get("/a/metrics").text
    assert 'sluice_requests_total{end_reason="completed",model="none",route="/a/v1/health"} 1.0' in shown
    assert " 41.0\n" not in shown
    assert 404 == client.get("/b/metrics").status_code == client.get("/metrics").status_code
    assert "sluice_requests_total 41.0" in generate_latest().decode()


def metrics_folder(gateway: GunicornGateway) -> Path:
    """Give the folder that a gateway's workers count in."""

    def look() -> Path | None:
        maps = "".join(Path(f"/proc/{worker}/maps").read_text() for worker in children(gateway.process.pid)).split()
        return next((Path(word).parent for word in maps if word.endswith(".db") and "sluice-metrics" in word), None)

    found: Path = wait_until(look, START_TIMEOUT)
    return found


def test_all_workers_count_together(upstream: DemoUpstream) -> None:
    """A scrape shows all of them, whichever answers, through a worker's death, a torn file, and to the end.

    A killed worker's counters stay and its open streams go; what it leaves is not read for ever; nothing is left.
    """
    env = {"OPENROUTER_BASE_URL": upstream.base_url, "WEB_CONCURRENCY": "2", "SLUICE_PIPELINE": "off"}
    done = {"route": ROUTE, "model": "other", "end_reason": "completed"}
    with GunicornGateway(env) as gateway:
        folder = metrics_folder(gateway)
        wait_until(lambda: len(list(folder.glob("counter_*.db"))) == 2, START_TIMEOUT)
        for _ in range(20):
            whole(open_stream(gateway.chat_url, {**QUESTION, "stream": True}))
        for _ in range(5):
            until(gateway.url, "sluice_requests_total", 20, **done)
        upstream.play([{"text": "Hi"}, {"silence": True}], times=8)
        streams = [open_stream(gateway.chat_url, {**QUESTION, "stream": True}) for _ in range(8)]
        for stream in streams:
            hear(stream, b"Hi")
        until(gateway.url, "sluice_open_streams", 8)

        killed = children(gateway.process.pid)[0]
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: killed not in children(gateway.process.pid))
        for stream in streams:
            stream.close()
        found = until(gateway.url, "sluice_open_streams", 0)
        assert 20 == value(found, "sluice_requests_total", **done)
        assert not list(folder.glob(f"*_{killed}.db"))
        assert list(folder.glob("counter_0.db"))

        (folder / "counter_1.db").write_bytes(b"\xff\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00 torn")
        whole(open_stream(gateway.chat_url, {**QUESTION, "stream": True}))
        found = until(gateway.url, "sluice_requests_total", 21, **done)
        assert 21 <= value(found, "sluice_request_seconds_count")
        gateway.stop()
        assert not folder.exists()


def test_an_operators_folder_is_emptied_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of an earlier server would be added to the new one's; a server that replaces another leaves them."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    monkeypatch.setenv("GUNICORN_PID", "1")
    (tmp_path / "counter_7.db").touch()
    multiprocess.prepare()
    multiprocess.clean()
    assert (tmp_path / "counter_7.db").exists()
    monkeypatch.delenv("GUNICORN_PID")
    multiprocess.clean()
    assert [] == list(tmp_path.iterdir())
    multiprocess.remove()
    assert tmp_path.exists()


def test_a_folder_is_the_servers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reload keeps the folder; one that another server named is not taken over."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")  # noted as not there before, so that nothing is left of it
    multiprocess.prepare()
    first = multiprocess.folder()
    multiprocess.prepare()
    assert first == multiprocess.folder()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/dev/shm/sluice-metrics-1-0123456789abcdef")
    multiprocess.prepare()
    assert multiprocess.folder() not in (first, "/dev/shm/sluice-metrics-1-0123456789abcdef")
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR")


def exported() -> dict[str, Metric]:
    """Give every metric there is, by its name in the text."""
    return {metric.name + "_total" * (metric.type == "counter"): metric for metric in Instruments().registry.collect()}


def test_every_metric_is_documented() -> None:
    """The table has each with its type, labels and meaning, in the words of the text itself, and none beside."""
    found = Instruments()
    labels = {metric._name: metric._labelnames for metric in vars(found).values() if hasattr(metric, "_labelnames")}
    rows = [
        f"| `{name}` | {metric.type} | {', '.join(f'`{label}`' for label in labels[metric.name])} "
        f"| {metric.documentation} |".replace("|  |", "| |")
        for name, metric in exported().items()
    ]
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert rows == re.findall(r"^\| `sluice_.*", page, re.M)


def test_the_dashboard_shows_what_there_is() -> None:
    """Grafana's file parses, asks only for metrics and labels that exist, and leaves no metric out."""
    board = json.loads((ROOT / "deploy/grafana-dashboard.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    assert len(asked) > 15
    names = {re.sub("_(bucket|sum|count)$", "", name) for text in asked for name in re.findall(r"sluice_\w+", text)}
    assert set(exported()) == names
    labels = {
        label for text in asked for label in re.findall(r"[{,]\s*(\w+)[=!]|by \((\w+)\)", text) for label in label
    }
    assert labels - {""} <= {"route", "model", "end_reason", "kind", "outcome", "le"}
    assert [] == [panel["title"] for panel in board["panels"] if panel["type"] != "row" and not panel["targets"]]
