"""What gunicorn refuses before the application sees it, told in the application's shape and not in HTML."""

from __future__ import annotations

from typing import Any

from gunicorn import util
from gunicorn.http import errors as http

from . import wire
from .errors import GatewayError

__all__ = ["refuse_in_json"]

_NOT_THEIRS = (http.ConfigurationProblem, http.InvalidResponseHeader, http.InvalidResponseHeaderName)
_REASONS = {
    400: "Bad Request",
    414: "URI Too Long",
    417: "Expectation Failed",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
}


def refuse_in_json(worker: Any) -> None:
    """Let *worker* answer a request that it cannot read with an error of ours, and log no more than its kind.

    NOTE: gunicorn's own line has the client's address and what it could not read, which may be a key.
    """
    handle_error = worker.handle_error

    def refuse(req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        if not isinstance(exc, http.ParseException) or isinstance(exc, _NOT_THEIRS):
            handle_error(req, client, addr, exc)
            return
        worker.log.warning("a request that cannot be read was refused: %s", type(exc).__name__)
        try:
            util.write_nonblock(client, _answer(_made(exc, worker.cfg)))
        except OSError:
            pass  # the client has left

    worker.handle_error = refuse


def _made(error: http.ParseException, config: Any) -> GatewayError:
    if isinstance(error, http.LimitRequestLine):
        words = f"the request line is longer than {config.limit_request_line} bytes (gunicorn's limit_request_line)"
        return GatewayError(words, code="request_line_too_long", status=414)
    if isinstance(error, http.LimitRequestHeaders):
        words = (
            f"more than {config.limit_request_fields} headers, or one longer than {config.limit_request_field_size}"
            " bytes (gunicorn's limit_request_fields and limit_request_field_size)"
        )
        return GatewayError(words, code="headers_too_large", status=431)
    status = {http.ExpectationFailed: 417, http.UnsupportedTransferCoding: 501}.get(type(error), 400)
    words = f"the request is no HTTP/1.1 that can be served: {type(error).__name__}"
    return GatewayError(words, code="malformed_request", status=status)


def _answer(error: GatewayError) -> bytes:
    body = wire.dumps({"error": error.to_object()})
    head = f"HTTP/1.1 {error.status} {_REASONS[error.status]}\r\nConnection: close\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
