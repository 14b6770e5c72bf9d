"""Traces: spans by the semantic conventions, continued from the caller and by upstream."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from app.demo import DemoUpstream
from tests.clock import PATIENCE
from tests.conftest import Served
from tests.servers import ROOT, wait_until

Serve = Callable[..., Served]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"

_exporter = InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def provider() -> None:
    """Make the SDK's provider, which keeps spans in memory, the process' own."""
    found = TracerProvider(shutdown_on_exit=False)
    found.add_span_processor(SimpleSpanProcessor(_exporter))
    trace.set_tracer_provider(found)


@pytest.fixture
def spans() -> Callable[[int], list[ReadableSpan]]:
    """Give a function that waits for so many spans, and gives them in the order of their starts."""
    _exporter.clear()

    def finished(count: int) -> list[ReadableSpan]:
        wait_until(lambda: len(_exporter.get_finished_spans()) >= count, what=f"{count} spans")
        return sorted(_exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    return finished


@pytest.fixture
def traced(serve: Serve) -> Served:
    """Give a gateway that traces."""
    return serve(SLUICE_TRACING="on")


def ask(served: Served, *, headers: dict[str, str] | None = None, **body: Any) -> bytes:
    """Ask and read to the end."""
    with served.ask(headers=headers, **body) as stream:
        return stream.read()


def told(span: ReadableSpan) -> dict[str, Any]:
    """Give a span's attributes."""
    return dict(span.attributes or {})


def test_a_request_and_its_attempt_are_spans(traced: Served, upstream: DemoUpstream, spans: Any) -> None:
    """Named by the conventions, one within the other, and both last until the stream has ended."""
    usage = {"prompt_tokens": 7, "completion_tokens": 0, "total_tokens": 7, "cost": 0.25}
    upstream.play([{"text": "Hi"}, {"wait": 0.2}, {"usage": {"form": "empty", "usage": usage}}])
    ask(traced, temperature=0.5, seed=7, headers={"X-Request-Id": "r-1"})
    request, attempt = spans(2)
    record = traced.record()
    facts = told(request)
    assert ("chat test/model", SpanKind.SERVER, StatusCode.UNSET) == (
        request.name,
        request.kind,
        request.status.status_code,
    )
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openrouter",
        "gen_ai.request.model": "test/model",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.seed": 7,
        "gen_ai.request.max_tokens": 4096,
        "gen_ai.response.model": record.served_model,
        "gen_ai.response.id": record.generation_id,
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 0,
        "server.address": "127.0.0.1",
        "server.port": upstream.port,
        "http.request.method": "POST",
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
        "sluice.record_id": record.record_id,
        "sluice.request_id": "r-1",
        "sluice.provider": record.provider,
        "sluice.end_reason": "completed",
        "sluice.attempts": 1,
        "sluice.cost": 0.25,
    }
    assert expected == {name: value for name, value in facts.items() if name != "gen_ai.response.time_to_first_chunk"}
    assert 0 < facts["gen_ai.response.time_to_first_chunk"] < 5
    assert ("POST", SpanKind.CLIENT) == (attempt.name, attempt.kind)
    assert attempt.parent == request.context
    assert {"http.response.status_code": 200, "server.port": upstream.port}.items() <= told(attempt).items()
    for span in (request, attempt):
        assert (span.end_time or 0) - (span.start_time or 0) >= 0.2e9


def test_the_callers_trace_is_continued_upstream(traced: Served, upstream: DemoUpstream, spans: Any) -> None:
    """``traceparent`` names the attempt as the parent, ``tracestate`` goes along, and baggage does not."""
    headers = {"traceparent": PARENT, "tracestate": "vendor=1", "baggage": "user=ann"}
    ask(traced, headers=headers)
    request, attempt = spans(2)
    sent = upstream.requests[0].headers
    assert TRACE == f"{request.context.trace_id:032x}" == f"{attempt.context.trace_id:032x}"
    assert 0x00F067AA0BA902B7 == request.parent.span_id
    assert f"00-{TRACE}-{attempt.context.span_id:016x}-01" == sent["traceparent"]
    assert "vendor=1" == sent["tracestate"]
    assert "baggage" not in sent


@pytest.mark.parametrize("given", ["", "junk", "00-0-0-00", PARENT + "-x", "00-" + "0" * 32 + "-00f067aa0ba902b7-01"])
def test_a_traceparent_that_is_none_starts_a_trace(
    traced: Served, upstream: DemoUpstream, spans: Any, given: str
) -> None:
    """What a client sends may be anything; upstream gets a sane header."""
    ask(traced, headers={"traceparent": given} if given else {})
    request, _ = spans(2)
    assert request.parent is None
    assert upstream.requests[0].headers["traceparent"].startswith(f"00-{request.context.trace_id:032x}-")


def test_each_attempt_has_its_span_and_its_own_header(traced: Served, upstream: DemoUpstream, spans: Any) -> None:
    """Those that failed say with what, and which repetition they were."""
    upstream.play_attempts(
        [[{"answer": {"status": 429, "json": {}}}], [{"answer": {"status": 503, "json": {}}}], [{"text": "x"}]]
    )
    ask(traced)
    request, *attempts = spans(4)
    assert [429, 503, 200] == [told(span)["http.response.status_code"] for span in attempts]
    assert ["429", "503", None] == [told(span).get("error.type") for span in attempts]
    assert [None, 1, 2] == [told(span).get("http.request.resend_count") for span in attempts]
    assert [StatusCode.ERROR] * 2 + [StatusCode.UNSET] == [span.status.status_code for span in attempts]
    sent = [exchange.headers["traceparent"].split("-")[2] for exchange in upstream.requests]
    assert [f"{span.context.span_id:016x}" for span in attempts] == sent
    assert StatusCode.UNSET == request.status.status_code


def test_a_failure_is_an_error_by_its_code(traced: Served, upstream: DemoUpstream, spans: Any) -> None:
    """The span of the request has our code and no words, for upstream's may quote the prompt."""
    upstream.play([{"text": "Hi"}, {"error": {"form": "bare", "message": "you said MARKED", "type": None}}])
    ask(traced)
    request, attempt = spans(2)
    for span in (request, attempt):
        assert traced.record().error_code == told(span)["error.type"]
        assert StatusCode.ERROR == span.status.status_code
        assert None is span.status.description
        assert "MARKED" not in span.to_json()


def test_a_client_that_leaves_is_no_error(traced: Served, upstream: DemoUpstream, spans: Any) -> None:
    """The spans end when it does, and say so."""
    upstream.play([{"text": "Hi"}, {"silence": True}])
    with traced.ask() as stream:
        stream.read_some()
        upstream.wait_for_request().started.wait(PATIENCE)
    for span in spans(2):
        assert "client_disconnected" == told(span)["error.type"]
        assert StatusCode.UNSET == span.status.status_code


def test_an_attempt_without_an_answer_is_told(serve: Serve, upstream: DemoUpstream, spans: Any) -> None:
    """In the trace and in the record: it was made, and may have been billed."""
    served = serve(SLUICE_TRACING="on", SLUICE_FIRST_TOKEN_TIMEOUT="0.2")
    upstream.play([{"silence": True}])
    ask(served)
    _, attempt = spans(2)
    assert "upstream_timeout" == told(attempt)["error.type"]
    assert "http.response.status_code" not in told(attempt)
    assert [{"error": "no answer"}] == served.record().attempts


def test_a_rejected_request_is_a_span_without_attempts(traced: Served, spans: Any) -> None:
    """Its status is the client's fault, which is no error of the server's."""
    ask(traced, messages="none")
    [span] = spans(1)
    assert "chat" == span.name
    assert ("invalid_request", 400) == (told(span)["error.type"], told(span)["http.response.status_code"])
    assert StatusCode.UNSET == span.status.status_code


def test_spans_nest_in_the_applications(serve: Serve, upstream: DemoUpstream, spans: Any) -> None:
    """Within a span of the host's own instrumentation the request's is a part of it, and not of the header's."""
    tracer = trace.get_tracer("host")

    def authenticate(request: Any) -> str:
        from opentelemetry import context

        context.attach(trace.set_span_in_context(tracer.start_span("host")))
        return "ann"

    served = serve(SLUICE_TRACING="on", SLUICE_OPEN="off", options={"authenticate": authenticate})
    ask(served, headers={"traceparent": PARENT})
    request, _ = spans(2)
    assert SpanKind.INTERNAL == request.kind
    assert TRACE != f"{request.context.trace_id:032x}"


def test_the_readers_thread_is_within_the_request(serve: Serve, spans: Any) -> None:
    """What a stage or another instrumentation starts there has the request's span as its parent."""
    from app.pipeline import Stage, Transform

    class Passing(Transform):
        def feed(self, chunk: Any) -> Any:
            trace.get_tracer("stage").start_span("stage").end()
            return [chunk]

    class Starting(Stage):
        name = "starting"

        def start(self, request: Any, notes: Any) -> Transform:
            return Passing()

    served = serve(SLUICE_TRACING="on", SLUICE_PIPELINE="on", options={"stages": [Starting()]})
    ask(served)
    wait_until(lambda: any(span.kind is SpanKind.SERVER for span in spans(1)))
    found = spans(2)
    [request] = [span for span in found if span.kind is SpanKind.SERVER]
    assert {request.context.span_id} == {span.parent.span_id for span in found if span.name == "stage"}


def test_nothing_is_imported_while_it_is_off() -> None:
    """An installation without the extra is served, and pays nothing."""
    script = """
import sys
sys.modules["opentelemetry"] = None  # as if it were not installed
from app import ConfigurationError, create_app
create_app({"SLUICE_OPEN": "on"})
assert not [name for name in sys.modules if name.startswith(("opentelemetry.", "app.tracing"))]
try:
    create_app({"SLUICE_OPEN": "on", "SLUICE_TRACING": "on"})
except ConfigurationError as error:
    print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "flask-sluice[otel]" in done.stdout
