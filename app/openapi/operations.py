"""What each route does, takes, gives and may fail with. Routes of stages bring that themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .. import errors
from ..errors import GatewayError
from ..feedback import TAKES as FEEDBACK
from ..pipeline import Endpoint
from .metadata import EVENT_PARAMETERS, STATS_PARAMETERS
from .schemas import ref

__all__ = ["ADMITTED", "BODY", "OPERATIONS", "UPSTREAM", "Operation", "of_endpoint"]

Errors = tuple[type[GatewayError], ...]

OPERATOR: Errors = (errors.AuthenticationError, errors.PermissionDenied)
ADMITTED: Errors = (*OPERATOR, errors.RateLimited, errors.LimitsUnavailable)
"""Of every route that asks who calls."""
BODY: Errors = (
    errors.RequestError,
    errors.BodyTimeout,
    errors.LengthRequired,
    errors.PayloadTooLarge,
    errors.UnsupportedMediaType,
)
"""Of every route that takes a body."""
UPSTREAM: Errors = (
    errors.UpstreamError,
    errors.UpstreamConnectionError,
    errors.UpstreamProtocolError,
    errors.UpstreamCut,
    errors.UpstreamEmpty,
    errors.UpstreamTimeout,
    errors.DeadlineExceeded,
)
"""Of every route that asks upstream, which may also tell errors of its own, with any status."""


_OPERATOR: Errors = (*ADMITTED, errors.RequestError, errors.NotFound, errors.StoreAway)
"""Of the routes that only the operator may ask."""


class Operation(NamedTuple):
    """One method of one path.

    Attributes:
        summary: what it does.
        errors: classes it may be answered with, beside ``InternalError``.
        takes: schema of the request's JSON object, if it takes one.
        gives: content of the 200, by media type.
        others: further answers that are no errors, by status.
        parameters: of the query.
        is_open: nobody is asked who they are.
    """

    summary: str
    errors: Errors
    takes: Mapping[str, Any] | None = None
    gives: Mapping[str, Any] = {}
    others: Mapping[str, Any] = {}
    parameters: tuple[Mapping[str, Any], ...] = ()
    is_open: bool = False

    @property
    def asks_upstream(self) -> bool:
        """Whether upstream's own errors may be the answer."""
        return errors.UpstreamError in self.errors


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": ref(name)}}


_CONTENT = {
    "type": "string",
    "contentMediaType": "application/json",
    "contentSchema": {"anyOf": [ref("ChatCompletionChunk"), ref("Error")]},
}
# One event, as OpenAPI 3.2 describes a stream's items and readers of 3.1 that know streams take it.
_EVENT = {
    "type": "object",
    "description": (
        "Server-sent events, of which this is one. The data is JSON, but for the last one, [DONE]; a comment comes in"
        " every silence. A failure is a chunk whose finish_reason is error, then an event that holds an Error."
    ),
    "properties": {"data": {"anyOf": [{"const": "[DONE]"}, _CONTENT]}},
    "required": ["data"],
}

_PAGE = {"text/html": {"schema": {"type": "string"}}}

OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("POST", "/v1/chat/completions"): Operation(
        "Relay a chat completion, as a stream if `stream` is true",
        (*ADMITTED, *BODY, *UPSTREAM, errors.BudgetExceeded, errors.TooManyStreams, errors.Overloaded, errors.Draining),
        takes=ref("ChatRequest"),
        gives={**_json("ChatCompletion"), "text/event-stream": {"schema": _EVENT}},
    ),
    ("GET", "/v1/models"): Operation("List upstream's models", (*ADMITTED, *UPSTREAM), gives=_json("ModelList")),
    ("GET", "/v1/models/<path:model_id>"): Operation(
        "Show one model", (*ADMITTED, *UPSTREAM, errors.NotFound), gives=_json("Model")
    ),
    ("GET", "/v1/health"): Operation("Say that the process is up", (), gives=_json("Health"), is_open=True),
    ("GET", "/v1/ready"): Operation(
        "Say whether new requests are welcome",
        (),
        gives=_json("Ready"),
        others={"503": {"description": "The process is shutting down.", "content": _json("Draining")}},
        is_open=True,
    ),
    ("GET", "/v1/metadata/events"): Operation(
        "List records, newest first",
        _OPERATOR,
        gives={**_json("EventList"), "application/x-ndjson": {"schema": {"type": "string"}}},
        parameters=EVENT_PARAMETERS,
    ),
    ("GET", "/v1/metadata/stats"): Operation(
        "Sum records up, by model and period", _OPERATOR, gives=_json("Stats"), parameters=STATS_PARAMETERS
    ),
    ("POST", "/v1/feedback"): Operation(
        "Rate an answer's parameters",
        (*ADMITTED, *BODY, errors.NotFound, errors.StoreAway),
        takes=FEEDBACK,
        gives=_json("FeedbackAccepted"),
    ),
    ("GET", "/v1/feedback/stats"): Operation(
        "Sum the ratings up", (*ADMITTED, errors.StoreAway), gives=_json("FeedbackStats")
    ),
    ("GET", "/metrics"): Operation(
        "Show the figures of all workers to Prometheus",
        (*OPERATOR, errors.NotFound),
        gives={"text/plain": {"schema": {"type": "string"}}},
    ),
    ("GET", "/"): Operation("Give the playground, a page to try the gateway on", (), gives=_PAGE, is_open=True),
    ("GET", "/dashboard"): Operation("Give the dashboard, a page to watch it on", (), gives=_PAGE, is_open=True),
    ("GET", "/static/<state>/<path:name>"): Operation(
        "Give a file of the pages", (errors.NotFound,), gives={"*/*": {}}, is_open=True
    ),
    ("GET", "/openapi.json"): Operation(
        "Give this document", (), gives={"application/json": {"schema": {"type": "object"}}}, is_open=True
    ),
}
"""By method and path, as Flask writes it."""


def of_endpoint(endpoint: Endpoint) -> Operation:
    """Give the operation of a stage's endpoint."""
    takes = None if endpoint.method == "GET" else endpoint.takes or {"type": "object"}
    return Operation(
        endpoint.summary or f"{endpoint.method} {endpoint.path}",
        ADMITTED if takes is None else (*ADMITTED, *BODY),
        takes=takes,
        gives={"application/json": {"schema": endpoint.gives or {"type": "object"}}},
    )
