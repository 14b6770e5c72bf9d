"""The body of a request, read within bounds: of size, of time, and of what it costs to make something of it."""

from __future__ import annotations

import time

from flask import request
from werkzeug.exceptions import HTTPException

from .bulk import is_bulky
from .errors import BodyTimeout, ClientGone, LengthRequired, PayloadTooLarge, RequestError, UnsupportedMediaType
from .gateway import Gateway
from .peer import Peer

__all__ = ["read_body"]


def read_body(gateway: Gateway) -> bytes:
    """Read the body of the request that is being served.

    Raises:
        RequestError: it has no length, is too long or takes too long, or is not JSON by its headers.
        ClientGone: it never came to its end.
    """
    settings = gateway.settings
    length = _checked_length(settings.max_body_bytes)
    peer = Peer(request.environ)
    clock = _Clock(peer, settings.body_timeout)
    gateway.ticker.add(clock)
    try:
        body = _read(length)
    except RequestError:
        if clock.has_run_out:
            seconds = f"{settings.body_timeout:g} s (SLUICE_BODY_TIMEOUT)"
            raise BodyTimeout(f"the body's {length} bytes did not come within {seconds}") from None
        raise
    finally:
        gateway.ticker.remove(clock)
        peer.let_go()
    if is_bulky(body, settings.max_values):
        raise PayloadTooLarge(f"the body holds more than {settings.max_values} JSON values (SLUICE_MAX_VALUES)")
    return body


class _Clock:
    """Ends the reading of a body that takes too long: a socket's own time-out would begin anew with every byte."""

    def __init__(self, peer: Peer, seconds: float) -> None:
        self._peer = peer
        self._ends_at = time.monotonic() + seconds
        self.has_run_out = False

    def check(self, now: float) -> None:
        """Let whoever waits for the body find its end; called by the ticker."""
        if now > self._ends_at and not self.has_run_out:
            self.has_run_out = True
            self._peer.stop_reading()


def _checked_length(limit: int) -> int:
    """Give the body's length in bytes, once its headers have nothing against reading it."""
    mimetype, headers = request.mimetype, request.headers
    if mimetype != "application/json" and not mimetype.endswith("+json"):
        raise UnsupportedMediaType(f"expected Content-Type: application/json, got {mimetype[:60] or 'none'}")
    encoding = headers.get("Content-Encoding") or "identity"
    if encoding.lower() != "identity":
        raise UnsupportedMediaType(f"expected a body without Content-Encoding, got {encoding[:40]}")
    if headers.get("Transfer-Encoding"):
        raise LengthRequired("expected Content-Length, got a body with Transfer-Encoding")
    length = request.content_length or 0
    if length > limit:
        raise PayloadTooLarge(f"the body has {length} bytes, at most {limit} are taken (SLUICE_MAX_BODY_BYTES)")
    return length


def _read(length: int) -> bytes:
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
