"""The response that carries a stream, made so that an application's hooks and extensions leave its body alone.

What reads or compresses a body holds a stream back to its end. Compressing extensions pass over a body that says how
it is encoded, so this one says ``identity``, which no client need be told; who reads the body is refused.
"""

from __future__ import annotations

from typing import Any, NoReturn

from flask import Response, current_app
from werkzeug.datastructures import Headers

from .body import EventBody
from .errors import HostError

__all__ = ["EventResponse", "event_response"]

_HEADERS = {
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
    "Content-Encoding": "identity",
}


class EventResponse(Response):
    """See the module; made by ``event_response``."""

    def make_sequence(self) -> NoReturn:
        """Refuse: the body is not there yet.

        Raises:
            HostError: always.
        """
        error = HostError(
            "a hook or an extension of this application reads the body of a stream, which would hold it back to its"
            " end: let it pass over responses whose is_streamed is true"
        )
        if isinstance(self.response, EventBody):
            self.response.fail(error)
        raise error

    def get_data(self, as_text: bool = False) -> Any:
        """Give what a hook has put in the stream's place, if one has; otherwise as ``make_sequence``."""
        if not self.is_sequence:
            self.make_sequence()
        return super().get_data(as_text=True) if as_text else super().get_data()

    data = property(get_data, Response.set_data)

    def get_wsgi_headers(self, environ: Any) -> Headers:
        """Give the headers as they are sent: a body that is not encoded need not say so (RFC 9110, section 8.4.1)."""
        # What the parent does besides is about lengths and locations, which a stream has none of; and it takes a copy.
        headers = self.headers if isinstance(self.response, EventBody) else super().get_wsgi_headers(environ)
        if headers.get("Content-Encoding") == "identity":
            del headers["Content-Encoding"]
        return headers


def event_response(body: EventBody) -> Response:
    """Make the response that sends *body*."""
    kind = _class_for(current_app.response_class)
    return kind(body, headers=_HEADERS, mimetype="text/event-stream", direct_passthrough=True)


def _class_for(base: type[Response]) -> type[Response]:
    """Make our class a kind of the application's own, or Flask would turn our responses into plain ones of that."""
    if issubclass(EventResponse, base):
        return EventResponse
    return type("EventResponse", (EventResponse, base), {})
