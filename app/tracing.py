"""Traces for OpenTelemetry: a span for each request and one for each attempt to call upstream.

Names are those of the semantic conventions for generative AI and for HTTP. Spans hold figures and names, never a
prompt, an answer or a key. This module imports OpenTelemetry and is itself imported only where tracing is on.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from .faults import told
from .record import Record
from .settings import Settings
from .version import version

__all__ = ["RequestTrace", "Tracing"]

log = logging.getLogger("sluice")

_WELL = frozenset({"completed", "length", "tool_calls", "content_filter"})
_NO_FAULT = frozenset({"rejected", "client_disconnected", "client_stalled"})
"""Ends that are no error of the server's; the convention leaves the status of such spans unset."""
_REQUEST = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "max_tokens": "gen_ai.request.max_tokens",
    "max_completion_tokens": "gen_ai.request.max_tokens",
    "seed": "gen_ai.request.seed",
}
_LONGEST = 200
_carrier = TraceContextTextMapPropagator()
"""Carries trace ids only: a caller's baggage is none of upstream's business."""


class Tracing:
    """Starts the trace of each request.

    Args:
        settings: which upstream it is.
        provider: where spans go; None: the process' own provider if there is one, else an exporter of ours, which the
            ``OTEL_*`` environment variables set up.
    """

    def __init__(self, settings: Settings, provider: TracerProvider | None = None) -> None:
        parts = urlsplit(settings.openrouter_base_url)
        self.upstream: dict[str, Any] = {
            "server.address": parts.hostname or "",
            "server.port": parts.port or (443 if parts.scheme == "https" else 80),
        }
        self.common: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": settings.upstream_params,
        }
        self._provider = provider
        self._own: Any = None
        if provider is None and not _has_provider():
            _exporting()  # now, for the first request should not wait for what this imports
        # Registered before the records' writer is, and so called after it: a collector that is away takes seconds.
        atexit.register(self.close)
        self._tracers: dict[int, Tracer] = {}
        self._lock = threading.Lock()

    def start(self, record: Record, headers: Any) -> RequestTrace | None:
        """Start the trace of a request that came with *headers*, a mapping; None where that fails, which is logged."""
        try:
            return RequestTrace(self, record, headers)
        except Exception as error:
            log.error("a request cannot be traced: %s", told(error))
            return None

    def close(self) -> None:
        """Send what has not been sent, if the provider is ours."""
        if self._own is not None:
            self._own.shutdown()

    @property
    def tracer(self) -> Tracer:
        """This process' tracer; made after a fork, for exporters have threads."""
        found = self._tracers.get(os.getpid())
        if found is None:
            with self._lock:
                provider = self._provider or self._found()
                found = self._tracers.setdefault(os.getpid(), provider.get_tracer("sluice", version()))
        return found

    def _found(self) -> Any:
        if _has_provider():
            return trace.get_tracer_provider()
        self._own = _exporting()()
        return self._own


class RequestTrace:
    """One request's spans."""

    def __init__(self, tracing: Tracing, record: Record, headers: Any) -> None:
        self._tracing = tracing
        parent = contexts.get_current()
        is_within = trace.get_current_span(parent).get_span_context().is_valid
        if not is_within:
            parent = _carrier.extract(headers, parent)
        self._span = tracing.tracer.start_span(
            "chat",
            parent,
            # Within a span of the application's server instrumentation this is a part of it.
            SpanKind.INTERNAL if is_within else SpanKind.SERVER,
            tracing.common,
            start_time=int(record.created_at * 1e9),
        )
        self._context = trace.set_span_in_context(self._span, parent)
        self.trace_id = trace.format_trace_id(self._span.get_span_context().trace_id)
        self._attempt: Span | None = None
        self._attempts = 0
        self._is_over = False
        self._lock = threading.Lock()  # the request can end while the reader is still in an attempt

    def run(self, function: Callable[[], None]) -> None:
        """Call *function* with the request's span as the current one."""
        token = contexts.attach(self._context)
        try:
            function()
        finally:
            contexts.detach(token)

    def attempt_began(self) -> None:
        """Start the span of an attempt."""
        attributes = {"http.request.method": "POST", **self._tracing.common, **self._tracing.upstream}
        if self._attempts:
            attributes["http.request.resend_count"] = self._attempts
        self._attempts += 1
        span = self._tracing.tracer.start_span("POST", self._context, SpanKind.CLIENT, attributes)
        with self._lock:
            if not self._is_over:
                self._attempt = span

    def headers(self) -> Mapping[str, str]:
        """Give ``traceparent``, and ``tracestate`` where the caller sent one."""
        found: dict[str, str] = {}
        if (span := self._attempt) is not None:
            _carrier.inject(found, trace.set_span_in_context(span, self._context))
        return found

    def attempt_failed(self, attempt: Mapping[str, Any]) -> None:
        """End the span of an attempt with its status, or the transport's words for what failed."""
        with self._lock:
            span, self._attempt = self._attempt, None
        if span is not None:
            if "status" in attempt:
                span.set_attribute("http.response.status_code", attempt["status"])
            span.set_attribute("error.type", str(attempt.get("status") or attempt.get("error", "_OTHER")))
            span.set_status(Status(StatusCode.ERROR))
            span.end()

    def ended(self, record: Record) -> None:
        """End the spans with what the record tells."""
        with self._lock:
            attempt, self._attempt, self._is_over = self._attempt, None, True
        span = self._span
        if attempt is not None:
            if record.headers_ms is not None:
                attempt.set_attribute("http.response.status_code", 200)
            _judge(attempt, record)
            attempt.end()
        if span.is_recording():
            if record.requested_model:
                span.update_name(f"chat {record.requested_model[:_LONGEST]}")
            span.set_attributes(self._tracing.upstream | _facts(record))
        _judge(span, record)
        span.end()


def _judge(span: Span, record: Record) -> None:
    reason = record.end_reason or "_OTHER"
    if reason not in _WELL:
        span.set_attribute("error.type", record.error_code or reason)
        if reason not in _NO_FAULT:
            span.set_status(Status(StatusCode.ERROR))


def _facts(record: Record) -> dict[str, Any]:
    """Give the attributes of a finished request, without those that are not known."""
    usage = record.usage or {}
    params = record.params_used
    found: dict[str, Any] = {to: _number(params[name]) for name, to in _REQUEST.items() if name in params}
    found |= {
        "gen_ai.request.model": record.requested_model,
        "gen_ai.request.stream": record.stream,
        "gen_ai.response.model": record.served_model,
        "gen_ai.response.id": record.generation_id or record.completion_id,
        "gen_ai.usage.input_tokens": _number(usage.get("prompt_tokens")),
        "gen_ai.usage.output_tokens": _number(usage.get("completion_tokens")),
        "gen_ai.response.time_to_first_chunk": None if record.first_chunk_ms is None else record.first_chunk_ms / 1000,
        "http.request.method": "POST",
        "http.route": record.endpoint,
        "http.response.status_code": record.status,
        "sluice.record_id": record.record_id,
        "sluice.request_id": record.request_id,
        "sluice.key_label": record.key_label,
        "sluice.provider": record.provider,
        "sluice.end_reason": record.end_reason,
        "sluice.attempts": len(record.attempts),
        "sluice.usage_is_estimate": record.is_estimate or None,
        "sluice.cost": _number(usage.get("cost")),
    }
    return {
        name: value[:_LONGEST] if isinstance(value, str) else value
        for name, value in found.items()
        if value is not None
    }


def _number(value: Any) -> int | float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63
    return value if is_number else None


def _has_provider() -> bool:
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def _exporting() -> Callable[[], Any]:
    """Import what sends spans by OTLP; give a function that makes a provider of it."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider as Provider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    def make() -> Any:
        name = os.environ.get("OTEL_SERVICE_NAME") or "sluice"
        # Kept to ourselves: which provider is the process' is for the application to say.
        provider = Provider(resource=Resource.create({SERVICE_NAME: name}), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        return provider

    return make
