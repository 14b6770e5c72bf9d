"""The client of upstream: one adapter, prepared requests, and every foreign exception made one of ours."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import DecodeError

from . import wire
from .errors import (
    ConfigurationError,
    GatewayError,
    UpstreamConnectionError,
    UpstreamCut,
    UpstreamProtocolError,
    from_upstream,
)
from .reason import read_reason
from .settings import Settings
from .sse import EventTooLong
from .ticker import Ticker
from .transport import Adapter, Attempt, Broken, Call, StreamResponse, UpstreamDown

__all__ = ["UpstreamClient"]

_RETRIED = frozenset({429, 502, 503})
_ERROR_BYTES = 65536
_LIST_BYTES = 67_108_864
_LIST_SECONDS = 20.0


class UpstreamClient:
    """Talks to one fixed upstream; shared by all streams of a process.

    Args:
        ticker: lets it close connections that have been idle for long.
    """

    def __init__(self, settings: Settings, ticker: Ticker) -> None:
        self.settings = settings
        self.base_url = settings.openrouter_base_url.rstrip("/")
        self.host = urlsplit(self.base_url).netloc.rpartition("@")[2]
        retries = {
            "total": settings.retries,
            "read": False,
            "other": 0,
            "allowed_methods": None,
            "status_forcelist": _RETRIED,
            "raise_on_status": False,
            "backoff_factor": settings.retry_backoff,
            "backoff_jitter": 0.5,
            "retry_after_max": settings.retry_after_max,
        }
        self._adapter = Adapter(settings.max_streams + 50, ticker, settings.max_event_bytes, retries)
        proxy = settings.upstream_proxy
        # Nothing looks at the environment: neither at netrc, which would replace our Authorization, nor at proxies.
        self._options: dict[str, Any] = {
            "stream": True,
            "verify": settings.ca_bundle or True,
            "proxies": {"http": proxy, "https": proxy} if proxy else {},
        }
        try:
            accept = {"Accept": "text/event-stream, application/json"}
            self._template = self._prepare("POST", "/chat/completions", accept)
        except ValueError:  # its words hold the address, and that may hold a password
            raise ConfigurationError("OPENROUTER_BASE_URL: expected an address that can be called") from None
        self._headers = dict(self._template.headers)

    def open(self, call: Call, body: bytes, key: str | None, *, own_key: bool) -> StreamResponse:
        """Send a chat completion and wait for the head of its answer.

        The caller closes the response. Blocks through connects, retries and waits; ``call.cancel`` ends it.

        Raises:
            Cancelled: the call was cancelled.
            UpstreamError: no connection, or a status that is no success.
        """
        request = requests.PreparedRequest()
        request.__dict__.update(self._template.__dict__)  # its own ``copy`` also copies what no request of ours has
        request.headers = {**self._headers, "Content-Length": str(len(body))}  # type: ignore[assignment]
        request.body = body
        if key:
            request.headers["Authorization"] = f"Bearer {key}"
        response = self._send(call, request)
        if 200 <= response.status_code < 300:
            return response
        try:
            raise self._refused(call, response, key, own_key)
        finally:
            response.close()

    def broken(self, call: Call, error: Exception) -> GatewayError:
        """Make our error of one that reading a response raised."""
        if isinstance(error, EventTooLong):
            limit = self.settings.max_event_bytes
            return UpstreamProtocolError(f"upstream sent an event of more than {limit} bytes (SLUICE_MAX_EVENT_BYTES)")
        if isinstance(error, DecodeError):
            return UpstreamProtocolError("upstream's body does not match its Content-Encoding")
        return UpstreamCut("upstream's connection broke in the middle of the answer")

    def get(self, path: str, key: str | None = None) -> Any:
        """Fetch a JSON document below the base URL with *key*, else with the operator's, if there is one.

        Raises:
            UpstreamError: it could not be had.
        """
        request = self._prepare("GET", path, {"Accept": "application/json"})
        used = key or self.settings.openrouter_api_key
        if used:
            request.headers["Authorization"] = f"Bearer {used}"
        call = Call()
        response = self._send(call, request, read_timeout=_LIST_SECONDS)
        try:
            if response.status_code != 200:
                raise self._refused(call, response, used, key is None)
            return wire.loads(_read(response, _LIST_BYTES, time.monotonic() + _LIST_SECONDS))
        except Broken as error:
            raise self.broken(call, error) from error
        except ValueError as error:
            raise UpstreamProtocolError(f"upstream's answer to {path.partition('?')[0]} is no JSON") from error
        finally:
            response.close()

    def close(self) -> None:
        """Close the idle connections."""
        self._adapter.close()

    def _prepare(self, method: str, path: str, headers: dict[str, str]) -> requests.PreparedRequest:
        settings = self.settings
        own = {
            "Host": self.host,
            "Accept-Encoding": "identity",
            "User-Agent": "sluice",
            "Content-Type": "application/json",
        }
        if settings.referer:
            own["HTTP-Referer"] = settings.referer
        if settings.title:
            own["X-OpenRouter-Title"] = settings.title
        return requests.Request(method, self.base_url + path, headers={**own, **headers}).prepare()

    def _send(self, call: Call, request: requests.PreparedRequest, read_timeout: float | None = None) -> StreamResponse:
        timeout: Any = (self.settings.connect_timeout, read_timeout)
        try:
            # Straight to the adapter: cookies and redirects, which a Session would look after, are refused.
            return self._adapter.send_for(call, request, timeout=timeout, **self._options)
        except (requests.RequestException, *Broken) as error:
            raise self._unreachable(call, error) from error

    def _unreachable(self, call: Call, error: Exception) -> GatewayError:
        reason = getattr(error.args[0] if error.args else None, "reason", None)
        tries = f" after {len(call.failed)} attempts" if len(call.failed) > 1 else ""
        if isinstance(reason, UpstreamDown):
            words = f"upstream {self.host} is down ({reason.args[-1]}); try again in a moment"
        elif call.sent_at is not None:
            words = f"upstream {self.host} closed the connection before it answered"
        elif isinstance(error, requests.exceptions.SSLError):
            words = f"TLS with upstream {self.host} failed: look at SLUICE_CA_BUNDLE and OPENROUTER_BASE_URL"
        elif isinstance(error, requests.exceptions.ProxyError):
            words = "the proxy to upstream cannot be reached: look at SLUICE_UPSTREAM_PROXY"
        else:
            limit = self.settings.connect_timeout
            words = f"no connection to upstream {self.host}{tries} (SLUICE_CONNECT_TIMEOUT is {limit:g} s)"
        wait = "1" if isinstance(reason, UpstreamDown) else None
        return _told(UpstreamConnectionError(words, retry_after=wait), call)

    def _refused(self, call: Call, response: StreamResponse, key: str | None, own_key: bool) -> GatewayError:
        """Make our error of a response whose status is no success."""
        status = response.status_code
        if status not in _RETRIED:
            call.fail(Attempt(status=status))  # the others were counted when their retries ran out
        if 300 <= status < 400:
            return UpstreamProtocolError(
                f"upstream answered {status}, a redirect, and none is followed: look at OPENROUTER_BASE_URL"
            )
        try:
            told = read_reason(_read(response, _ERROR_BYTES, None))
        except Broken:
            told = None
        error = from_upstream(told, status, own_key=own_key, secret=key)
        if error.status == status or error.code == "upstream_auth":
            error.retry_after = _header(response, "Retry-After")
        elif 400 <= status <= 599:
            error.status = status
        return _told(error, call)


def _read(response: StreamResponse, limit: int, until: float | None) -> bytes:
    """Read a body of at most *limit* bytes, more being cut off; *until* is a monotonic time.

    Raises:
        EventTooLong, OSError, urllib3.exceptions.HTTPError: as ``iter_content``; TimeoutError past *until*.
    """
    body = bytearray()
    while len(body) < limit:
        data = response.raw.read1(65536, decode_content=True)
        if not data:
            break
        body += data
        if until is not None and time.monotonic() > until:
            raise TimeoutError
    return bytes(body)


def _header(response: StreamResponse, name: str) -> str | None:
    """Give a response header that is safe to pass on."""
    value = response.headers.get(name)
    return value if value and value.isascii() and value.isprintable() and len(value) < 100 else None


def _told(error: GatewayError, call: Call) -> GatewayError:
    error.retried = len(call.failed) > 1
    return error
