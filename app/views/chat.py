"""The chat completion: one request in, a stream or one whole answer out."""

from __future__ import annotations

from flask import Response, g, request

from ..access import Caller, Place, apply_rules
from ..body import EventBody
from ..chat import parse_request
from ..errors import GatewayError, InternalError
from ..event_response import event_response
from ..gate import UpstreamKey
from ..gateway import Gateway
from ..identity import request_id
from ..payload import read_body
from ..peer import Peer
from ..pipeline import Run
from ..record import Record
from ..relay import Stream
from ..reply import error_reply, json_reply
from ..sinks import AnswerSink, EventSink, Last
from .admission import count
from .route import Route

__all__ = ["routes"]


def routes(gateway: Gateway) -> list[Route]:
    """Give the route of chat completions."""
    return [Route("POST", "/chat/completions", _ChatCompletions(gateway))]


class _ChatCompletions:
    """The view over one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def __call__(self) -> Response:
        """Relay one chat completion, streaming or whole."""
        gateway = self._gateway
        record = gateway.new_record()
        record.request_id = request_id()
        caller = gateway.gate.admit(request)
        record.key_label = caller.label
        g.sluice_has_record = True
        gateway.trace(record, request.headers)
        try:
            gateway.enter(record)  # before the body is read: who sends it slowly takes a place too
            try:
                count(gateway, caller)
                run, key = self._prepare(record, caller)
                place = gateway.quotas.enter(caller, record)
            except BaseException:
                gateway.leave()
                raise
        except Exception as error:
            _reject(record, error if isinstance(error, GatewayError) else InternalError("the gateway failed"))
            raise
        try:
            stream = self._stream(run, record, key, place)
        except BaseException:
            place.leave()
            gateway.leave()
            raise
        return self._answer(stream, record)

    def _prepare(self, record: Record, caller: Caller) -> tuple[Run, UpstreamKey]:
        gateway = self._gateway
        asked = parse_request(read_body(gateway), gateway.settings, gateway.own_fields)
        record.stream = asked.stream
        model = asked.body.get("model")
        record.requested_model = model if isinstance(model, str) else None
        apply_rules(caller.key, asked)
        key = gateway.gate.upstream_key(request, asked.options.get("openrouter_api_key"))
        return gateway.pipeline.run(asked), key

    def _stream(self, run: Run, record: Record, key: UpstreamKey, place: Place) -> Stream:
        gateway = self._gateway
        mailbox = gateway.new_mailbox()
        return Stream(
            gateway.upstream,
            gateway.ticker,
            gateway.settings,
            run,
            EventSink(mailbox) if run.request.stream else AnswerSink(mailbox, gateway.settings.max_answer_bytes),
            record,
            key=key.key,
            own_key=key.own,
            peer=Peer(request.environ),
            on_end=place.leave,
            on_close=lambda: _left(gateway, record, key),
        )

    def _answer(self, stream: Stream, record: Record) -> Response:
        gateway = self._gateway
        if isinstance(stream.sink, AnswerSink):
            return _whole(stream, record)
        if gateway.settings.stream_errors == "status":
            stream.start()
            stream.wait_for_word(gateway.settings.commit_after)
            if stream.error is not None and not stream.has_begun:
                return _refuse(stream, record)
        return event_response(EventBody(stream))


def _left(gateway: Gateway, record: Record, key: UpstreamKey) -> None:
    gateway.leave()
    gateway.settle(record, key)


def _whole(stream: Stream, record: Record) -> Response:
    """Wait for the whole answer."""
    try:
        stream.start()
        while type(stream.take()[-1]) is not Last:
            pass
        if stream.error is not None:
            return _refuse(stream, record)
        assert isinstance(stream.sink, AnswerSink)
        return json_reply(stream.sink.answer.completion(stream.chunks.usage))
    finally:
        stream.close()


def _refuse(stream: Stream, record: Record) -> Response:
    """Answer a failed stream with a status."""
    assert stream.error is not None
    record.status = stream.error.status
    stream.mark_ended()
    stream.close()
    return error_reply(stream.error, stream.metadata())


def _reject(record: Record, error: GatewayError) -> None:
    record.status = error.status
    record.note_error(error)
    record.close(error.end_reason)
