"""The body of a request, read within bounds."""

from __future__ import annotations

from flask import request
from werkzeug.exceptions import HTTPException

from .errors import ClientGone, LengthRequired, PayloadTooLarge, RequestError, UnsupportedMediaType

__all__ = ["read_body"]


def read_body(limit: int) -> bytes:
    """Read the body of the request that is being served, at most *limit* bytes.

    Raises:
        RequestError: it has no length, is too long, or is not JSON by its headers.
    """
    if request.mimetype != "application/json" and not request.mimetype.endswith("+json"):
        raise UnsupportedMediaType(f"expected Content-Type: application/json, got {request.mimetype[:60] or 'none'}")
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
