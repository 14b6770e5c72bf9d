"""The HTTP face: one blueprint whose every answer, errors included, has OpenAI's shape."""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Callable, Iterable
from typing import Any

from flask import Blueprint, Response, g, request
from werkzeug.exceptions import HTTPException

from . import wire
from .body import EventBody
from .chat import parse_object, parse_request
from .drain import drain
from .errors import (
    ClientGone,
    GatewayError,
    InternalError,
    LengthRequired,
    MethodNotAllowed,
    NotFound,
    PayloadTooLarge,
    RequestError,
    UnsupportedMediaType,
)
from .gate import UpstreamKey
from .gateway import Gateway
from .peer import Peer
from .pipeline import Endpoint, Run
from .record import Record
from .relay import Stream
from .sinks import AnswerSink, EventSink, Last
from .version import version
from .worker import check_worker

__all__ = ["make_blueprint"]

log = logging.getLogger("sluice")

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_STREAM_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_OPENAI_ONLY = ("responses", "completions", "embeddings")

View = Callable[..., Response]


def make_blueprint(gateway: Gateway, name: str, import_name: str, url_prefix: str | None) -> Blueprint:
    """Make the blueprint that serves *gateway*."""
    blueprint = Blueprint(name, import_name, url_prefix=url_prefix)
    views = _Views(gateway)
    routes: list[tuple[str, str, View]] = [
        ("POST", "/chat/completions", views.chat_completions),
        ("GET", "/models", views.models),
        ("GET", "/models/<path:model_id>", views.model),
        ("GET", "/health", views.health),
        ("GET", "/ready", views.ready),
    ]
    if gateway.pipeline.stages:
        routes += [("POST", "/feedback", views.give_feedback), ("GET", "/feedback/stats", views.feedback_stats)]
    for stage in gateway.pipeline.stages:
        routes += [(e.method, e.path, views.endpoint(e)) for e in stage.endpoints()]
    for method, path, view in routes:
        endpoint = f"{method} {path}".replace(".", "_")
        blueprint.add_url_rule(f"/v1{path}", endpoint, view, methods=[method], provide_automatic_options=False)
    blueprint.add_url_rule(
        "/v1/<path:rest>", "unknown", _unknown(routes), methods=_METHODS, provide_automatic_options=False
    )
    blueprint.before_request(_identify)
    blueprint.before_request(_once(lambda: check_worker(request.environ.get("SERVER_SOFTWARE", ""))))
    blueprint.after_request(_sign)
    blueprint.register_error_handler(GatewayError, _told)
    blueprint.register_error_handler(HTTPException, _translated)
    blueprint.register_error_handler(Exception, _unexpected)
    return blueprint


class _Views:
    """The views over one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def chat_completions(self) -> Response:
        """Relay one chat completion, streaming or whole."""
        gateway = self._gateway
        record = gateway.new_record()
        record.request_id = g.sluice_request_id
        record.key_label = gateway.gate.admit(request)
        try:
            run, key = self._prepare(record)
            gateway.enter()
        except GatewayError as error:
            _reject(record, error)
            raise
        return self._relay(run, record, key)

    def models(self) -> Response:
        """List upstream's models."""
        self._gateway.gate.admit(request)
        return _json(self._gateway.models.all())

    def model(self, model_id: str) -> Response:
        """Show one model."""
        self._gateway.gate.admit(request)
        return _json(self._gateway.models.one(model_id))

    def health(self) -> Response:
        """Say that the process is up."""
        return _json({"status": "ok", "version": version()})

    def ready(self) -> Response:
        """Say whether new requests are welcome."""
        if drain.has_begun:
            return _json({"status": "draining"}, 503)
        return _json({"status": "ready", "open_streams": self._gateway.open_streams})

    def give_feedback(self) -> Response:
        """Keep a rating of an answer."""
        label = self._gateway.gate.admit(request)
        assert self._gateway.feedback is not None
        body = parse_object(self._body())
        return _json(self._gateway.feedback.submit(body, label, may_give_params=self._gateway.gate.is_open))

    def feedback_stats(self) -> Response:
        """Sum the ratings up."""
        self._gateway.gate.admit(request)
        assert self._gateway.feedback is not None
        return _json(self._gateway.feedback.stats())

    def endpoint(self, endpoint: Endpoint) -> View:
        """Make the view of a stage's endpoint."""

        def view() -> Response:
            self._gateway.gate.admit(request)
            body = parse_object(self._body()) if endpoint.method != "GET" else {}
            return _json(endpoint.handler(body))

        return view

    def _prepare(self, record: Record) -> tuple[Run, UpstreamKey]:
        gateway = self._gateway
        asked = parse_request(self._body(), gateway.settings, gateway.own_fields)
        record.stream = asked.stream
        model = asked.body.get("model")
        record.requested_model = model if isinstance(model, str) else None
        key = gateway.gate.upstream_key(request, asked.options.get("openrouter_api_key"))
        return gateway.pipeline.run(asked), key

    def _relay(self, run: Run, record: Record, key: UpstreamKey) -> Response:
        gateway = self._gateway
        mailbox = gateway.new_mailbox()
        stream = Stream(
            gateway.upstream,
            gateway.ticker,
            gateway.settings,
            run,
            EventSink(mailbox) if run.request.stream else AnswerSink(mailbox),
            record,
            key=key.key,
            own_key=key.own,
            peer=Peer(request.environ),
            on_close=gateway.leave,
        )
        if not run.request.stream:
            return _whole(stream, record)
        if gateway.settings.stream_errors == "status":
            stream.start()
            stream.wait_for_word(gateway.settings.commit_after)
            if stream.error is not None and not stream.has_begun:
                return _refuse(stream, record)
        response = Response(EventBody(stream), mimetype="text/event-stream", direct_passthrough=True)
        response.headers.update(_STREAM_HEADERS)
        return response

    def _body(self) -> bytes:
        """Read the request body.

        Raises:
            RequestError: it has no length, is too long, or is not JSON by its headers.
        """
        limit = self._gateway.settings.max_body_bytes
        if request.mimetype != "application/json" and not request.mimetype.endswith("+json"):
            raise UnsupportedMediaType(
                f"expected Content-Type: application/json, got {request.mimetype[:60] or 'none'}"
            )
        encoding = request.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            raise UnsupportedMediaType(f"expected a body without Content-Encoding, got {encoding[:40]}")
        if request.headers.get("Transfer-Encoding"):
            raise LengthRequired("expected Content-Length, got a body with Transfer-Encoding")
        length = request.content_length or 0
        if length > limit:
            raise PayloadTooLarge(f"the body has {length} bytes, at most {limit} are taken (SLUICE_MAX_BODY_BYTES)")
        try:
            body = request.get_data(cache=False)
        except HTTPException as error:
            if error.code == 413:
                raise PayloadTooLarge("the body is larger than this application takes (MAX_CONTENT_LENGTH)") from None
            raise RequestError("the body could not be read to its end") from None
        except OSError:
            raise ClientGone("the client left before its request was complete") from None
        if len(body) < length:
            raise RequestError(f"the body ended after {len(body)} of {length} bytes")
        return body


def _whole(stream: Stream, record: Record) -> Response:
    """Wait for the whole answer."""
    try:
        stream.start()
        while type(stream.take()[-1]) is not Last:
            pass
        if stream.error is not None:
            return _refuse(stream, record)
        assert isinstance(stream.sink, AnswerSink)
        return _json(stream.sink.answer.completion(stream.chunks.usage))
    finally:
        stream.close()


def _refuse(stream: Stream, record: Record) -> Response:
    """Answer a failed stream with a status."""
    assert stream.error is not None
    record.status = stream.error.status
    stream.mark_ended()
    stream.close()
    return _told(stream.error, stream.metadata())


def _reject(record: Record, error: GatewayError) -> None:
    record.status, record.error_code, record.error_type = error.status, error.code, error.type
    record.close(error.end_reason)


def _json(value: Any, status: int = 200) -> Response:
    return Response(wire.dumps(value), status, mimetype="application/json")


def _told(error: GatewayError, metadata: dict[str, Any] | None = None) -> Response:
    """Give an error's JSON face."""
    body: dict[str, Any] = {"error": error.to_object()}
    if metadata is not None:
        body["x_g0dm0d3"] = metadata
    response = _json(body, error.status)
    response.headers.update(error.to_headers())
    return response


def _translated(error: HTTPException) -> Response | HTTPException:
    code = error.code or 500
    if code < 400:
        return error  # a redirect of the router
    found = GatewayError if code >= 500 else RequestError
    return _told(found(error.description or error.name, status=code, code=error.name.lower().replace(" ", "_")))


def _unexpected(error: Exception) -> Response:
    log.exception("request %s failed", g.get("sluice_request_id"))
    return _told(InternalError("the gateway failed; its log says why"))


def _unknown(routes: Iterable[tuple[str, str, View]]) -> View:
    """Make the view of every path that is none of ours."""
    methods: dict[str, set[str]] = {}
    for method, path, _ in routes:
        methods.setdefault(path, set()).add(method)
    listed = ", ".join(f"{'/'.join(sorted(found))} /v1{path}" for path, found in methods.items())

    def view(rest: str) -> Response:
        path = "/models/<path:model_id>" if rest.startswith("models/") else f"/{rest}"
        if path in methods:
            allowed = ", ".join(sorted(methods[path]))
            raise MethodNotAllowed(
                f"/v1/{rest[:100]} takes {allowed}, not {request.method}", headers={"Allow": allowed}
            )
        why = " of OpenAI's, which this gateway does not have" if rest in _OPENAI_ONLY else ""
        raise NotFound(f"/v1/{rest[:100]} is no route{why or ' here'}; there are: {listed}")

    return view


def _once(check: Callable[[], None]) -> Callable[[], None]:
    """Make a hook that runs *check* until it has passed once in this process."""
    passed_in: set[int] = set()

    def hook() -> None:
        if os.getpid() not in passed_in:
            check()
            passed_in.add(os.getpid())

    return hook


def _identify() -> None:
    given = request.headers.get("X-Request-Id", "")
    g.sluice_request_id = given if _REQUEST_ID.fullmatch(given) else f"req-{secrets.token_hex(12)}"


def _sign(response: Response) -> Response:
    if "sluice_request_id" not in g:
        _identify()  # a hook of the host's answered before ours was asked
    response.headers["X-Request-Id"] = g.sluice_request_id
    return response
