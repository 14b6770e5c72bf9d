"""A client of a running gateway that sees what arrives when; the standard library's HTTP and nothing in between."""

from __future__ import annotations

import http.client
import json
import time
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self
from urllib.parse import SplitResult, urlsplit

from .. import wire
from ..errors import GatewayError, UpstreamConnectionError, UpstreamCut, UpstreamProtocolError, mask_secrets
from ..sse import Comment, EventDecoder, LineBuffer, ServerSentEvent
from ..url import taken_apart

__all__ = ["Arrival", "EventResponse", "GatewayClient"]

_LIMIT = 16_777_216


class Arrival(NamedTuple):
    """What one read of the connection brought: seconds since the request was sent, and the events in it."""

    at: float
    items: list[ServerSentEvent | Comment]


class GatewayClient:
    """Calls one gateway.

    Args:
        url: where it is mounted; a ``/v1`` at the end is taken as meant.
        key: bearer token, or None.
        timeout: longest silence in seconds.

    Raises:
        ValueError: *url* is no http or https address, or holds a user or password.
    """

    def __init__(self, url: str, key: str | None = None, timeout: float = 330.0) -> None:
        parts = _parsed(url if "://" in url else f"http://{url}")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}"
        self._parts, self._key, self._timeout = urlsplit(self.url), key, timeout

    def get(self, path: str) -> Any:
        """Fetch a JSON document.

        Raises:
            GatewayError: it could not be had; tells what the gateway says.
        """
        connection = self._connect()
        try:
            response = self._send(connection, "GET", path, None, {"Accept": "application/json"})
            return _read_json(response, path)
        except (OSError, http.client.HTTPException) as error:
            raise self._away(error) from None
        finally:
            connection.close()

    def stream(self, body: Mapping[str, Any], *, encoding: str = "identity") -> EventResponse:
        """Ask for a streamed chat completion.

        Raises:
            GatewayError: there is no stream; tells what the gateway says.
        """
        connection = self._connect()
        try:
            connection.connect()
            sent = time.monotonic()
            headers = {"Accept": "text/event-stream", "Content-Type": "application/json", "Accept-Encoding": encoding}
            data = json.dumps({**body, "stream": True}).encode()
            response = self._send(connection, "POST", "/v1/chat/completions", data, headers)
            if response.status != 200 or response.headers.get_content_type() != "text/event-stream":
                found = _read_json(response, "/v1/chat/completions")
                raise UpstreamProtocolError(f"expected an event stream, got {str(found)[:200]}")
            return EventResponse(connection, response, sent)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._away(error) from None
        except BaseException:
            connection.close()
            raise

    def _connect(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        return kind(self._parts.netloc, timeout=self._timeout)

    def _send(
        self, connection: http.client.HTTPConnection, method: str, path: str, data: bytes | None, more: dict[str, str]
    ) -> http.client.HTTPResponse:
        headers = {"User-Agent": "sluice", "Connection": "close", **more}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        connection.request(method, self._parts.path + path, data, headers)
        return connection.getresponse()

    def _away(self, error: Exception) -> GatewayError:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        return UpstreamConnectionError(f"no answer from {self.url}: {why}")


def _parsed(url: str) -> SplitResult:
    """Take *url* apart; what is wrong with it is said without repeating it, for it may hold a password."""
    parts = taken_apart(url)
    if parts is None or parts.scheme not in ("http", "https") or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("expected an address such as http://127.0.0.1:8000, without user and password")
    return parts


class EventResponse:
    """A stream that has begun.

    Attributes:
        sent: monotonic time at which the request went out.
        head_at: seconds from then until the response's head was there.
        headers: of the response.
    """

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, sent: float) -> None:
        self._connection, self._response = connection, response
        self.sent, self.head_at = sent, time.monotonic() - sent
        self.headers = response.headers
        self.is_http10 = response.version == 10

    def arrivals(self) -> Iterator[Arrival]:
        """Yield what each read brings, to the end of the body.

        Raises:
            GatewayError: the connection broke.
        """
        lines, decoder = LineBuffer(_LIMIT), EventDecoder(_LIMIT)
        unpacker = zlib.decompressobj(47) if self.headers.get("Content-Encoding") in ("gzip", "deflate") else None
        try:
            while data := self._response.read1(65536):
                at = time.monotonic() - self.sent
                block = lines.feed(unpacker.decompress(data) if unpacker else data)
                items = (decoder.feed(line) for line in block.split(b"\n")[:-1])
                yield Arrival(at, [item for item in items if item is not None])
        except (OSError, http.client.HTTPException, zlib.error) as error:
            raise UpstreamCut(f"the stream broke off: {error or type(error).__name__}") from None

    def chunks(self) -> Iterator[dict[str, Any]]:
        """Yield the chunks.

        Raises:
            GatewayError: the stream tells an error, or broke off.
        """
        for arrival in self.arrivals():
            for item in arrival.items:
                if isinstance(item, Comment):
                    continue
                if item.data == b"[DONE]":
                    return
                chunk = _read_chunk(item.data)
                if "choices" not in chunk:
                    raise _error_of(chunk.get("error"), 200)
                yield chunk
        raise UpstreamCut("the stream broke off without [DONE]")

    def close(self) -> None:
        """Close the connection, which cancels the request where it still goes on."""
        self._response.close()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _read_chunk(data: bytes) -> dict[str, Any]:
    try:
        chunk = wire.loads(data)
    except ValueError:
        chunk = None
    if not isinstance(chunk, dict):
        raise UpstreamProtocolError("the stream holds an event that is no JSON object")
    return chunk


def _read_json(response: http.client.HTTPResponse, path: str) -> Any:
    """Read a JSON body.

    Raises:
        GatewayError: the status says that it failed, or the body is no JSON.
    """
    data = response.read(_LIMIT)
    try:
        found = wire.loads(data)
    except ValueError:
        server = response.headers.get("Server", "the server")
        raise UpstreamProtocolError(
            f"{path}: status {response.status} from {server}, and no JSON: is this a gateway?"
        ) from None
    if response.status >= 400:
        raise _error_of(found.get("error") if isinstance(found, dict) else None, response.status)
    return found


def _error_of(error: Any, status: int) -> GatewayError:
    told = error if isinstance(error, dict) else {}
    message = str(told.get("message") or f"status {status} without a reason")
    return GatewayError(mask_secrets(message), code=str(told.get("code") or status), status=status)
