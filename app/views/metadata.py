"""What is recorded, for the operator: events and statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TypeVar

from flask import Response, request

from .. import wire
from ..errors import StoreAway
from ..gateway import Gateway
from ..questions import EventQuery, read_event_query, read_stats_query, write_cursor
from ..reply import json_reply
from ..stores import Event, Events, Place, StoreError
from .route import Route

__all__ = ["routes"]

T = TypeVar("T")

_PAGE = 500
"""Events that one look into the database fetches when all are asked for."""
_NDJSON = "application/x-ndjson"


def routes(gateway: Gateway) -> list[Route]:
    """Give the routes of what is recorded."""

    def events() -> Response:
        """List records, newest first."""
        gateway.gate.admit_operator(request)
        query = read_event_query(dict(request.args.lists()))
        is_lines = _wants_lines(query)
        if query.limit is None:
            pages = _pages(gateway.events, query)
            first = _asked(lambda: next(pages, []))
            return Response(_lines(chain([first], pages)), mimetype=_NDJSON)
        limit = query.limit
        found = _asked(lambda: gateway.events.page(query.chosen, query.after, limit + 1))
        cursor = write_cursor(_place(found[limit - 1])) if len(found) > limit else None
        body = _lines([found[:limit]]) if is_lines else _list(found[:limit], cursor)
        response = Response(body, mimetype=_NDJSON if is_lines else "application/json")
        if cursor is not None:
            response.headers["X-Next-Cursor"] = cursor
        return response

    def stats() -> Response:
        """Sum records up."""
        gateway.gate.admit_operator(request)
        query = read_stats_query(dict(request.args.lists()))
        totals, rows = _asked(lambda: gateway.statistics.answer(query.question))
        times = {"since": query.question.since, "until": query.question.until}
        head = {"object": "stats", **times, "by": query.by, "period": query.period}
        return json_reply({**head, "totals": totals, "data": rows})

    return [Route("GET", "/metadata/events", events), Route("GET", "/metadata/stats", stats)]


def _wants_lines(query: EventQuery) -> bool:
    if query.format is not None:
        return query.format == "ndjson"
    return request.accept_mimetypes.best_match(["application/json", _NDJSON], "application/json") == _NDJSON


def _pages(events: Events, query: EventQuery) -> Iterator[list[Event]]:
    """Give all pages, one look into the database each, as the client takes them."""
    after = query.after
    while page := events.page(query.chosen, after, _PAGE):
        yield page
        if len(page) < _PAGE:
            return
        after = _place(page[-1])


def _place(event: Event) -> Place:
    return Place(event["created_at"], event["record_id"])


def _lines(pages: Iterator[list[Event]] | list[list[Event]]) -> Iterator[bytes]:
    for page in pages:
        yield b"".join(wire.dumps(event) + b"\n" for event in page)


def _list(page: list[Event], cursor: str | None) -> Iterator[bytes]:
    yield b'{"object":"list","data":['
    for number, event in enumerate(page):
        yield (b"," if number else b"") + wire.dumps(event)
    yield b'],"next_cursor":' + wire.dumps(cursor) + b"}"


def _asked(question: Callable[[], T]) -> T:
    try:
        return question()
    except StoreError as error:
        raise StoreAway(f"the record cannot be reached ({error}): look at SLUICE_DATABASE_URL") from error
