"""Real clients against a gateway under gunicorn: nothing is lost, errors arrive as errors, who leaves is let go."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from app.demo import DemoUpstream
from tests.clients.clients import CLIENTS, Bystander, Client, Trial, playing
from tests.clients.environments import prepare
from tests.clock import PATIENCE, granted
from tests.servers import GunicornGateway, open_stream

TEXT = 'Zürich — “façade”,\t\\back\\ "quoted" 日本語 👩‍👩‍👧 at\u2028last.\n\n  I think it is perhaps enough.\nEnd'
CORRECTED = TEXT.replace("I think it is perhaps enough", "It is enough")
THOUGHT = "Let me see."
CALLS = [
    {"id": "call_a", "name": "get_weather", "arguments": {"city": 'Zürich "HB"', "days": 3}},
    {"id": "call_b", "name": "get_weather", "arguments": {"city": "Łódź\n", "days": 12}},
]
USAGE = {"prompt_tokens": 23, "completion_tokens": 17, "total_tokens": 40}
DETAILS = {"cached_tokens": 5, "reasoning_tokens": 7, "cost": 0.00125}
USAGE_SENT = {
    **USAGE,
    "cost": DETAILS["cost"],
    "is_byok": False,
    "cost_details": {"upstream_inference_cost": None},
    "prompt_tokens_details": {"cached_tokens": DETAILS["cached_tokens"]},
    "completion_tokens_details": {"reasoning_tokens": DETAILS["reasoning_tokens"]},
}
BEFORE = "Insufficient credits: this account has none left."
AFTER = "The provider fell over."
SLOW_DOWN = "Slow down, please."
HALF = "Half of an answer, then "
RETRIES = 1

ENDING: list[dict[str, Any]] = [{"finish": "stop"}, {"usage": {"form": "empty", "usage": USAGE_SENT}}]
# As upstream does at its worst: comments, `role` in each chunk, items without index, ids and names again and again.
ANSWER: list[dict[str, Any]] = [{"comment": None}, {"reasoning": {"content": THOUGHT, "index": False}}]
ANSWER += [{"text": TEXT}, {"comment": None}, *ENDING]
SENT_CALLS = [{**call, "arguments": json.dumps(call["arguments"]), "repeat": True, "pieces": 5} for call in CALLS]
AFTER_TOOLS: list[dict[str, Any]] = [{"text": "It will rain."}]
SCRIPTS: dict[str, list[list[dict[str, Any]]]] = {
    "stream": [ANSWER],
    "abort": [[{"text": "one two three four five six seven eight nine ten"}, {"silence": True}]],
    "blocking": [[{"text": "All of it at once: Zürich 日本語"}, *ENDING]],
    "tools": [[{"tool_calls": {"calls": SENT_CALLS, "order": "sequence"}}], AFTER_TOOLS],
    "tools_interleaved": [[{"tool_calls": {"calls": SENT_CALLS, "order": "interleaved"}}], AFTER_TOOLS],
    "usage_on": [ANSWER],
    "usage_off": [ANSWER],
    "error_before": [[{"answer": {"status": 402, "json": {"error": {"code": 402, "message": BEFORE}}}}]],
    "error_after": [[{"text": HALF}, {"error": {"message": AFTER}}]],
    "error_status": [[{"answer": {"status": 429, "json": {"error": {"code": 429, "message": SLOW_DOWN}}}}]],
}


@pytest.fixture(scope="module")
def upstream() -> Iterator[DemoUpstream]:
    """Give the upstream of all clients."""
    with DemoUpstream() as server:
        yield server


@pytest.fixture(scope="module")
def gateways(upstream: DemoUpstream) -> Iterator[dict[str, GunicornGateway]]:
    """Give two gateways: one as shipped, one that tells early failures by HTTP status."""
    shipped = {"OPENROUTER_BASE_URL": upstream.base_url, "SLUICE_RETRIES": str(RETRIES), "SLUICE_RETRY_BACKOFF": "0.05"}
    with ExitStack() as stack:
        event = stack.enter_context(GunicornGateway(shipped))
        status = stack.enter_context(GunicornGateway({**shipped, "SLUICE_STREAM_ERRORS": "status"}))
        yield {"event": event, "status": status}


@pytest.fixture(scope="module")
def bystander(upstream: DemoUpstream, gateways: dict[str, GunicornGateway]) -> Iterator[Bystander]:
    """Give a client whose stream goes on all the time."""
    upstream.play(Bystander.SCRIPT)
    question = {"stream": True, "messages": [{"role": "user", "content": "Count."}]}
    with closing(Bystander(open_stream(gateways["event"].chat_url, question))) as listener:
        listener.check(since=0)
        yield listener


@pytest.fixture(scope="module")
def trial(
    request: pytest.FixtureRequest,
    upstream: DemoUpstream,
    gateways: dict[str, GunicornGateway],
    bystander: Bystander,
) -> Iterator[Trial]:
    """Give the trial, with those clients under way that the selected tests name."""
    named = {client.name for item in request.session.items if (client := client_of(item)) is not None}
    chosen = [client for client in CLIENTS if client.name in named]
    prepare(sorted({client.environment for client in chosen if client.environment is not None}))
    addresses = {"": f"{gateways['event'].url}/v1", "error_status": f"{gateways['status'].url}/v1"}
    with closing(Trial(upstream, addresses, SCRIPTS)) as found:
        found.begin(chosen)
        yield found


def client_of(item: pytest.Item) -> Client | None:
    """Give the client that a collected test is about, if it is one of this module's."""
    call = getattr(item, "callspec", None) if item.path == Path(__file__) else None
    return call.params["client"] if call is not None else None


def through(scenario: str) -> pytest.MarkDecorator:
    """Run a test for each client that plays a scenario."""
    clients = playing(scenario)
    return pytest.mark.parametrize("client", clients, ids=[client.name for client in clients])


def assert_finished(client: Client, report: dict[str, Any], reason: str) -> None:
    """Check that the client saw no error, and the reason why the answer ended."""
    assert report["error"] is None
    if "finish_reason" not in client.hides:
        assert reason == report["finish_reason"].replace("-", "_")


def assert_told(report: dict[str, Any], message: str, kind: str) -> None:
    """Check that the client was told of a failure in its own way, in upstream's words."""
    error = report["error"]
    assert error is not None
    assert kind == error["class"]
    assert message in error["message"]


@through("stream")
def test_a_stream_arrives_whole(trial: Trial, client: Client) -> None:
    """Every character that upstream sent arrives, in pieces, with the reasoning before it, and the answer ends well."""
    report = trial.report(client, "stream")

    assert TEXT == report["text"]
    assert report["whole"] in (None, TEXT)
    assert report["role"] in (None, "assistant")
    assert "chunks" in client.hides or report["chunks"] > 5
    assert ("" if "reasoning" in client.hides else THOUGHT) == report["reasoning"]
    assert_finished(client, report, "stop")
    assert ["finished"] == [exchange.outcome for exchange in trial.exchanges(client, "stream")]


@through("blocking")
def test_a_whole_answer_arrives(trial: Trial, client: Client) -> None:
    """An answer that is asked for in one piece comes in one, with its usage."""
    report = trial.report(client, "blocking")

    assert "All of it at once: Zürich 日本語" == report["whole"]
    assert_usage(report["usage"])
    assert_finished(client, report, "stop")


@through("tools")
def test_tool_calls_arrive_whole(trial: Trial, client: Client) -> None:
    """Tool calls arrive one after the other, with one id, one name and the whole JSON of their arguments."""
    assert_tool_calls(client, trial.report(client, "tools"))


@through("tools_interleaved")
def test_interleaved_tool_calls_keep_apart(trial: Trial, client: Client) -> None:
    """Tool calls whose fragments come in turns arrive as if they had come one after the other."""
    assert_tool_calls(client, trial.report(client, "tools_interleaved"))


def assert_tool_calls(client: Client, report: dict[str, Any]) -> None:
    """Check that upstream's calls arrived, and arguments that can be read."""
    found = [{**call, "arguments": json.loads(call["arguments"])} for call in report["tool_calls"]]
    assert CALLS == found
    assert_finished(client, report, "tool_calls")


@through("usage_on")
def test_usage_arrives_when_asked_for(trial: Trial, client: Client) -> None:
    """Who asks for usage is told upstream's numbers, and the text all the same."""
    report = trial.report(client, "usage_on")

    assert_usage(report["usage"])
    assert TEXT == report["text"]


def assert_usage(usage: dict[str, Any] | None) -> None:
    """Check upstream's numbers, as far as the client has a place for them."""
    assert usage is not None
    known = {name: number for name, number in usage.items() if number is not None}
    assert {"prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens"} <= known.keys()
    assert {name: (USAGE | DETAILS)[name] for name in known} == known


@through("usage_off")
def test_usage_is_absent_when_not_asked_for(trial: Trial, client: Client) -> None:
    """Who does not ask for usage is not told, and gets the text all the same."""
    report = trial.report(client, "usage_off")

    assert report["usage"] is None
    assert TEXT == report["text"]


@through("error_before")
def test_an_error_before_the_first_token_is_raised(trial: Trial, client: Client) -> None:
    """Upstream's refusal reaches the client as its own kind of error, inside the stream that had begun."""
    report = trial.report(client, "error_before")

    assert_told(report, BEFORE, client.errors["error_before"])
    assert "" == report["text"]
    assert 1 == len(trial.exchanges(client, "error_before"))


@through("error_after")
def test_an_error_after_the_first_token_is_raised(trial: Trial, client: Client) -> None:
    """Upstream's failure in mid stream reaches the client as its own kind of error, after the text before it."""
    report = trial.report(client, "error_after")

    assert_told(report, AFTER, client.errors["error_after"])
    assert HALF == report["text"]


@through("error_status")
def test_an_error_by_status_is_raised_and_not_tried_again(trial: Trial, client: Client) -> None:
    """A gateway that tells early failures by status makes the client raise that status' error and not try again."""
    report = trial.report(client, "error_status")

    assert_told(report, SLOW_DOWN, client.errors["error_status"])
    assert report["error"]["status"] in (None, 429)
    assert 1 + RETRIES == len(trial.exchanges(client, "error_status"))


@through("abort")
def test_upstream_is_closed_when_the_client_leaves(trial: Trial, bystander: Bystander, client: Client) -> None:
    """Upstream sees the close within a second of the client's leaving, and nobody else is disturbed."""
    report = trial.report(client, "abort")

    assert report["error"] is None or "abort" in report["error"]["class"].lower()
    assert report["text"].startswith("one two three")
    (exchange,) = trial.exchanges(client, "abort")
    assert exchange.closed.wait(PATIENCE)
    assert exchange.closed_at is not None
    assert granted(report["left_at"], exchange.closed_at) < 1
    bystander.check(since=exchange.closed_at)


@pytest.mark.parametrize("client", CLIENTS, ids=[client.name for client in CLIENTS])
def test_no_client_crashes_or_complains(trial: Trial, client: Client) -> None:
    """Each client plays all its scenarios to the end without a word of complaint."""
    run = trial.run(client)

    assert "" == run.complaints
    assert 0 == run.status
    assert client.scenarios() == list(run.reports)


@pytest.mark.parametrize("scenario", ["stream", "tools", "usage_on", "usage_off", "error_before", "error_after"])
@pytest.mark.parametrize("client", CLIENTS[-2:], ids=["1.1", "1.0"])
def test_curl_sees_a_proper_end(trial: Trial, client: Client, scenario: str) -> None:
    """Over either version of HTTP a stream ends with one [DONE] and properly, failed or not."""
    report = trial.report(client, scenario)

    assert 0 == report["extra"]["exit_code"]
    assert report["extra"]["ends_with_done"]
    assert 1 == report["extra"]["done_count"]
    head = [line.lower() for line in report["extra"]["head"]]
    assert "content-type: text/event-stream; charset=utf-8" in head
    assert ("1.1" in client.name) == ("transfer-encoding: chunked" in head)
    assert ("1.0" in client.name) == ("connection: close" in head)


@pytest.mark.parametrize("client", CLIENTS[-2:], ids=["1.1", "1.0"])
def test_curl_sees_the_correction(trial: Trial, client: Client) -> None:
    """The stream that all clients read whole has a chunk of the gateway's own in it, with the corrected text."""
    assert CORRECTED == trial.report(client, "stream")["extra"]["final_content"]


def test_the_gateway_has_nothing_to_complain_of(gateways: dict[str, GunicornGateway], bystander: Bystander) -> None:
    """After all that, the gateways have logged no traceback and still serve."""
    bystander.check(since=time.monotonic())

    for gateway in gateways.values():
        assert "" == gateway.log().partition("Traceback")[2]
