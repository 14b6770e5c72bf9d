"""What Sluice changes in requests and urllib3 to stream: lines without delay, calls that can be cancelled, retries
that tell and that can be woken.

``Call`` is one request's handle. It finds its way to the pieces below through a thread-local (which gevent makes
greenlet-local), because urllib3 passes nothing of ours along.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import io
import math
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPHeaderDict, HTTPResponse
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import (
    ConnectTimeoutError,
    MaxRetryError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
    ResponseError,
)
from urllib3.exceptions import HTTPError as Urllib3Error
from urllib3.util.retry import Retry

try:
    import fcntl
    import termios
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

from .addresses import Addresses
from .chunked import ChunkedDecoder
from .head import read_fields, request_head
from .idle import IdleConnections
from .packet import send
from .sse import PAUSE, EventTooLong, LineBuffer
from .ticker import Ticker
from .trace import Trace

__all__ = ["Adapter", "Attempt", "Breaker", "Broken", "Call", "Cancelled", "StreamResponse", "UpstreamDown"]

_READ_SIZE = 65536
_FIRST_READ = 8192
"""Bytes read at once while little comes: a stream that waits for a block holds memory of that size."""
_TCP_ESTABLISHED = 1
_MAX_DIGITS = 19
_local = threading.local()
_addresses = Addresses()


def _breaker() -> Breaker:
    breaker: Breaker = getattr(_local, "breaker", None) or Breaker()
    return breaker


class Cancelled(Exception):
    """The call was cancelled.

    NOTE: a plain exception on purpose: urllib3 retries some of its own and of the socket's.
    """


class _Woken(Exception):
    """A wait for bytes was broken off by ``Call.wake``; nothing has been read."""


class UpstreamDown(ConnectTimeoutError):
    """No connect was tried, because the last ones all failed."""


class Attempt(dict[str, Any]):
    """What one attempt failed with: ``{status}`` or ``{error}``, and ``{wait}``, the seconds waited after it."""


class Call:
    """The handle of one upstream call: cancels it in any phase and knows how far it got.

    Attributes:
        cancelled: set once the call is to end.
        sent_at: monotonic time at which the current attempt's request began to be sent, or None.
        failed: the attempts that failed.
        is_trying: an attempt has begun and has not failed.

    Args:
        trace: is told of each attempt.
    """

    def __init__(self, trace: Trace | None = None) -> None:
        self._trace = trace
        self.is_trying = False
        self.cancelled = threading.Event()
        self.sent_at: float | None = None
        self.failed: list[Attempt] = []
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def try_again(self) -> None:
        """Note that an attempt, the first one too, begins."""
        self.is_trying = True
        if self._trace is not None:
            self._trace.attempt_began()

    def fail(self, attempt: Attempt) -> None:
        """Note what the attempt failed with."""
        self.is_trying = False
        self.failed.append(attempt)
        if self._trace is not None:
            self._trace.attempt_failed(attempt)

    def headers(self) -> Mapping[str, str]:
        """Give the headers that tell upstream which trace the current attempt belongs to."""
        return self._trace.headers() if self._trace is not None else {}

    def cancel(self) -> None:
        """End the call at once; the reader, wherever it waits, wakes with an error. From any thread, idempotent."""
        with self._lock:
            if self.cancelled.is_set():
                return
            self.cancelled.set()
            if self._socket is not None:
                # NOTE: the plain method: SSLSocket.shutdown would drop the TLS object under a reader that uses it.
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    @property
    def can_wake(self) -> bool:
        """Whether ``wake`` does anything: gevent can break off a wait for bytes, and a thread's cannot be."""
        hub = getattr(self._socket, "hub", None)
        return hasattr(hub, "_cancel_wait")

    def wake(self) -> None:
        """Let a read that waits come back without bytes; nothing is lost. From any greenlet."""
        if self.can_wake:
            sock: Any = self._socket
            sock.hub.loop.run_callback(self._break_off, sock)

    def _break_off(self, sock: Any) -> None:
        # The hub's own ``cancel_wait`` would not look whose connection it is by now.
        hub, event = sock.hub, sock._read_event
        if sock is self._socket and event is not None:
            hub._cancel_wait(event, _Woken(), False)

    def attach(self, sock: socket.socket | None) -> None:
        """Note that *sock* now carries this call.

        Raises:
            Cancelled: the call is cancelled; nothing may be sent.
        """
        with self._lock:
            if self.cancelled.is_set():
                raise Cancelled
            self._socket = sock

    def limit_reads(self, seconds: float) -> None:
        """Let each further read from the call's connection wait at most *seconds*."""
        with self._lock:
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.settimeout(seconds)

    def detach(self) -> None:
        """Note that the call's connection went back to its pool and is ours no more."""
        with self._lock:
            self._socket = None


class _FinalResponse(http.client.HTTPResponse):
    """Reads a head at a third of the cost, takes off chunked framing by the block, passes over interim responses.

    http.client has each head parsed as an e-mail, and knows 100 alone of the interim ones (RFC 9110, section 15.2):
    with one of them taken for the answer, the true answer would stay behind on a connection that goes back to its pool,
    and be the next caller's.
    """

    _framing: ChunkedDecoder | None = None

    def __init__(self, sock: Any, **kwargs: Any) -> None:
        super().__init__(sock, **kwargs)
        self._receive = sock.recv
        self._is_drained = False

    def begin(self) -> None:
        """Read the head, and find out how the body is framed (RFC 9112, section 6.3)."""
        status = 100
        while 100 <= status < 200:
            version, status, reason = self._read_status()  # type: ignore[attr-defined]
            fields = read_fields(self.fp)
            if status == 101:  # Switching Protocols
                raise http.client.UnknownProtocol("what follows a 101")
        if not version.startswith("HTTP/1."):
            raise http.client.UnknownProtocol(version)
        self.version = 10 if version == "HTTP/1.0" else 11
        self.code = self.status = status
        self.reason = reason.strip()
        self.headers = self.msg = fields  # type: ignore[assignment]
        self.chunked = fields.get("Transfer-Encoding", "").lower() == "chunked"
        self.chunk_left = None
        self._framing = ChunkedDecoder() if self.chunked else None
        self.length = None if self.chunked else _length(status, self._method, fields)  # type: ignore[attr-defined]
        closes: bool = self._check_close()  # type: ignore[attr-defined]
        self.will_close = closes or (not self.chunked and self.length is None)

    def read1(self, n: int = -1) -> bytes:
        """Give what is there of the body, of any number of chunks.

        Raises:
            http.client.IncompleteRead: the body ended early, or its framing is broken; what came before was given.
        """
        decoder = self._framing
        if decoder is None or self.fp is None:
            return super().read1(n)
        data = b""
        try:
            while not data and not decoder.is_done:
                block = self._receive(n) if self._is_drained else self._drain(n)
                if not block:
                    raise ValueError("the connection was closed")
                data = decoder.feed(block)
        except ValueError:
            data, decoder.sound = decoder.sound, b""
            if not data:
                self.close()
                raise http.client.IncompleteRead(b"") from None
            self._is_drained, self._receive = True, lambda _: b""  # what follows cannot be told apart
        if decoder.is_done:
            self._close_conn()  # type: ignore[attr-defined]
        return data

    def _drain(self, n: int) -> bytes:
        """Read what came with the head, or what comes first; from then on the file holds nothing back."""
        self._is_drained = n >= io.DEFAULT_BUFFER_SIZE
        block: bytes = self.fp.read1(n)
        return block

    def read_block(self, n: int, decode_content: bool = True) -> bytes:
        """Do as ``read1``, with urllib3's error for a broken body.

        Raises:
            urllib3.exceptions.ProtocolError: the body ended early, or its framing is broken.
        """
        try:
            return self.read1(n)
        except http.client.HTTPException as error:
            raise ProtocolError(f"Connection broken: {error!r}", error) from error


def _length(status: int, method: str, fields: HTTPHeaderDict) -> int | None:
    """Tell how long a body is that is not chunked, in bytes; None where its end is the connection's."""
    if status in (204, 304) or method == "HEAD":
        return 0
    told = next(iter(fields.getlist("Content-Length")), "")
    return int(told) if told.isascii() and told.isdigit() and len(told) < _MAX_DIGITS else None


class _Cancellable:
    """Mixed into urllib3's connections: tells the current call which socket carries it.

    A connection that is closed need not be told: shutting down a closed socket object does nothing, and while a
    response still reads a close-delimited body from it, that same object is how to end it.
    """

    sock: Any
    timeout: Any
    connect: Any
    close: Any
    call: Call | None = None
    _method = "GET"

    def _new_conn(self) -> socket.socket:
        breaker = _breaker()
        breaker.check()
        try:
            sock = self._connected()
        except Exception:
            breaker.failed()
            raise
        breaker.succeeded()
        return sock

    def _connected(self) -> socket.socket:
        this: Any = self
        try:
            return _addresses.connect(
                this._dns_host,
                this.port,
                timeout=this.timeout,
                source=this.source_address,
                options=this.socket_options,
            )
        except socket.gaierror as error:
            raise NameResolutionError(this.host, this, error) from error
        except TimeoutError as error:
            raise ConnectTimeoutError(this, f"no connection to {this.host} within {this.timeout} s") from error
        except OSError as error:
            raise NewConnectionError(this, f"no connection: {error}") from error

    @property
    def is_connected(self) -> bool:
        """Whether an idle connection can be used again: upstream has neither closed it nor sent what nobody asked for.

        Says what urllib3's own look says, without a turn of the event loop that lets every other stream go first.
        """
        if self.sock is None:
            return False
        try:
            state = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
            unread = fcntl.ioctl(self.sock.fileno(), termios.FIONREAD, b"\0\0\0\0")
        except (AttributeError, OSError):
            return bool(super().is_connected)  # type: ignore[misc]
        return bool(state == _TCP_ESTABLISHED and not any(unread))

    def request(self, method: str, url: str, body: Any = None, headers: Any = None, **_: Any) -> None:
        """Send a request in one packet, with one system call.

        Raises:
            ValueError: a header holds a line break, or what is not Latin-1.
        """
        if self.sock is None:
            self.connect()
        self._attach(self.sock)
        if self.call is not None:
            self.call.sent_at = time.monotonic()
            if traced := self.call.headers():
                headers = {**(headers or {}), **traced}
        head = request_head(method, url, headers or {})
        self._method = method
        self.sock.settimeout(self.timeout)
        send(self.sock, head + body if body else head)

    def getresponse(self) -> Any:
        """Wait for a response's head.

        Raises:
            http.client.HTTPException: it is none.
        """
        sock, method = self.sock, self._method
        sock.settimeout(self.timeout)
        inner = _FinalResponse(sock, method=method)
        try:
            inner.begin()
        except BaseException:
            inner.close()
            self.close()
            raise
        if inner.will_close:
            self.close()  # the response keeps the socket until it is read
        return HTTPResponse(
            body=inner,
            headers=inner.headers,  # type: ignore[arg-type]
            status=inner.status,
            version=inner.version,
            reason=inner.reason,
            preload_content=False,
            decode_content=False,
            original_response=inner,
            request_method=method,
            sock_shutdown=sock.shutdown,
        )

    def release(self) -> None:
        """Belong to no call any more."""
        call, self.call = self.call, None
        if call is not None:
            call.detach()

    def _attach(self, sock: socket.socket | None) -> None:
        self.call = getattr(_local, "call", None)
        if self.call is not None:
            self.call.attach(sock)


class _PlainConnection(_Cancellable, HTTPConnection):
    pass


class _TlsConnection(_Cancellable, HTTPSConnection):
    """Can be cancelled during the handshake too.

    The handshake replaces the socket object, so meanwhile a duplicate carries the call.
    """

    def connect(self) -> None:
        self._duplicate: socket.socket | None = None
        try:
            super().connect()
        finally:
            if self._duplicate is not None:
                self._duplicate.close()

    def _new_conn(self) -> socket.socket:
        sock = super()._new_conn()
        self._duplicate = sock.dup()
        try:
            self._attach(self._duplicate)
        except Cancelled:
            sock.close()
            raise
        return sock


class _Releasing:
    """Mixed into urllib3's pools: taking a connection begins an attempt, and one that goes back belongs to no call."""

    def _get_conn(self, timeout: float | None = None) -> Any:
        call: Call | None = getattr(_local, "call", None)
        if call is not None:
            call.try_again()
        return super()._get_conn(timeout)  # type: ignore[misc]

    def _put_conn(self, conn: Any) -> None:
        if conn is not None:
            conn.release()
        super()._put_conn(conn)  # type: ignore[misc]


class _PlainPool(_Releasing, HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _TlsPool(_Releasing, HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class Breaker:
    """Spares an upstream that cannot be reached: after *limit* failed connects in a row, one try each *pause* seconds.

    Args:
        limit: failed connects in a row that open the breaker.
        pause: seconds between two tries while it is open.
    """

    def __init__(self, limit: int = 10, pause: float = 1.0) -> None:
        self.limit, self.pause = limit, pause
        self.failures = 0
        self._next_try = 0.0
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether a connect now would be refused."""
        return self.failures >= self.limit and time.monotonic() < self._next_try

    def check(self) -> None:
        """Let a connect pass or refuse it.

        Raises:
            UpstreamDown: the breaker is open.
        """
        with self._lock:
            if self.is_open:
                raise UpstreamDown(f"not tried: the last {self.failures} connects failed")
            if self.failures >= self.limit:
                self._next_try = time.monotonic() + self.pause

    def failed(self) -> None:
        """Count a failed connect."""
        with self._lock:
            self.failures += 1
            if self.failures == self.limit:
                self._next_try = time.monotonic() + self.pause

    def succeeded(self) -> None:
        """Forget the failures."""
        self.failures = 0


class CallRetry(Retry):
    """urllib3's Retry for one call: POST too, the card's statuses, waits that end when the call is cancelled.

    Connection failures count as such whenever the request had not been sent, so that nothing is billed twice.
    ``Retry-After`` replaces the wait when it is at most ``retry_after_max`` seconds, is ignored when unreadable, and
    ends the attempts when longer.
    """

    def __init__(self, *args: Any, call: Call, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.call = call

    def new(self, **kw: Any) -> CallRetry:
        return super().new(**{"call": self.call, **kw})

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:
        return status_code in self.status_forcelist

    def _is_connection_error(self, err: Exception) -> bool:
        if self.call.sent_at is not None:
            return False
        cause = err.original_error if isinstance(err, ProxyError) else err
        return isinstance(cause, (ConnectTimeoutError, ReadTimeoutError, ProtocolError, OSError))

    def get_backoff_time(self) -> float:
        step: float = self.backoff_factor * 2 ** max(len(self.history) - 1, 0)
        return step * (1 + self.backoff_jitter * random.random())

    def get_retry_after(self, response: Any) -> float | None:
        return _seconds(response.headers.get("Retry-After") or "")

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: Any = None,
        error: Exception | None = None,
        _pool: Any = None,
        _stacktrace: Any = None,
    ) -> CallRetry:
        if self.call.cancelled.is_set():
            raise Cancelled
        self.call.fail(_attempt(response, error))
        if response is not None and (self.get_retry_after(response) or 0) > self.retry_after_max:
            raise MaxRetryError(_pool, url or "", ResponseError("Retry-After is longer than the most we wait"))
        if isinstance(error, UpstreamDown) and len(self.call.failed) == 1:
            # A newcomer is told at once; who waits already goes on waiting.
            raise MaxRetryError(_pool, url or "", error)
        new: CallRetry = super().increment(method, url, response, error, _pool, _stacktrace)
        self.call.sent_at = None
        return new

    def sleep(self, response: Any = None) -> None:
        wait = self.get_retry_after(response) if response is not None else None
        # The wait upstream asked for is a floor; a little more keeps those who were told the same from coming at once.
        wait = self.get_backoff_time() if wait is None else wait * (1 + 0.1 * random.random())
        if self.call.failed:
            self.call.failed[-1]["wait"] = round(wait, 3)
        if self.call.cancelled.wait(wait):
            raise Cancelled


def _seconds(header: str) -> float | None:
    """Read a Retry-After header (RFC 9110, section 10.2.3); None where it is neither seconds nor a date."""
    header = header.strip()
    if header.isascii() and header.isdigit():
        return float(header[:12])
    try:
        date = parsedate_to_datetime(header)
        return max((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _attempt(response: Any, error: Exception | None) -> Attempt:
    if response is not None:
        return Attempt(status=response.status)
    if isinstance(error, UpstreamDown):
        return Attempt(error="not tried")
    if isinstance(error, NewConnectionError):
        return Attempt(error="connect failed")
    return Attempt(error="connect timeout" if isinstance(error, ConnectTimeoutError) else "connection lost")


_BLANK = requests.Response().__dict__


class StreamResponse(requests.Response):
    """A response whose ``iter_lines`` is prompt, right and linear.

    As shipped it delivers late on close-delimited bodies, makes a blank line of a CRLF cut in two and is quadratic
    on long lines. ``iter_content`` here reads what is there and hands out whole lines only, so ``iter_lines`` on top
    of it never has to keep or join anything.
    """

    line_limit = 16_777_216
    last_read_at = 0.0
    """Monotonic time of the last bytes from upstream."""
    is_partial = False
    """Whether those bytes ended within a line."""
    read_until = math.inf
    """Monotonic time after which nothing more is read, whatever still comes."""
    pauses = False
    """Whether ``PAUSE`` is yielded before each wait."""

    def __init__(self) -> None:
        # The parent's own makes a jar of cookies and a dozen other things that nobody asks a stream for.
        self.__dict__.update(_BLANK)

    @functools.cached_property
    def _unwrapped(self) -> _FinalResponse | None:
        """What reads the body a block at a time, if it is chunked and not compressed.

        urllib3's own ``read1`` goes through six layers for each block. Such a body needs none.
        """
        inner = getattr(self.raw, "_original_response", None)
        plain = isinstance(inner, _FinalResponse) and inner.chunked and not self.raw.headers.get("Content-Encoding")
        return inner if plain else None

    @property
    def can_pause(self) -> bool:
        """Whether a wait for bytes can be broken off and taken up again; urllib3 gives up a response at any error."""
        return self._unwrapped is not None

    @property
    def is_over(self) -> bool:
        """Whether the body's end has been read; not known of every body."""
        inner = self._unwrapped
        return inner is not None and inner.fp is None

    def iter_content(self, chunk_size: int | None = 1, decode_unicode: bool = False) -> Iterator[Any]:
        """Yield blocks of whole lines, each ended by LF; the unfinished last line at the end.

        Raises:
            EventTooLong: a line is longer than ``line_limit`` bytes.
            urllib3.exceptions.HTTPError, OSError: the connection broke; TimeoutError past ``read_until``.
        """
        lines, inner = LineBuffer(self.line_limit), self._unwrapped
        read: Callable[..., bytes] = self.raw.read1 if inner is None else inner.read_block
        now, size = time.monotonic, _FIRST_READ
        try:
            while True:
                try:
                    data = read(size, decode_content=True)
                except _Woken:
                    yield PAUSE
                    continue
                if not data:
                    break
                size = _READ_SIZE if len(data) > _FIRST_READ // 2 else _FIRST_READ
                self.last_read_at = now()
                if self.last_read_at > self.read_until:
                    raise TimeoutError
                block = lines.feed(data)
                self.is_partial = lines.is_partial
                if block:
                    yield block
                    if self.pauses:
                        yield PAUSE
        except (Urllib3Error, OSError):
            self.raw.close()
            raise
        if self.is_over:
            self.raw.release_conn()
        else:
            self.raw.read1(1)  # lets urllib3 see the end, and take the connection back
        if rest := lines.flush():
            yield rest


class Adapter(HTTPAdapter):
    """requests' adapter over the pieces above, for one upstream.

    Args:
        pool_size: idle connections that are kept.
        ticker: lets those be closed that have been idle for long.
        line_limit: longest line of a response in bytes.
        retries: keyword arguments of each call's ``CallRetry``.
    """

    def __init__(self, pool_size: int, ticker: Ticker, line_limit: int, retries: dict[str, Any]) -> None:
        idle = {"QueueCls": staticmethod(functools.partial(IdleConnections, ticker))}
        self._pools = {"http": type("Pool", (_PlainPool,), idle), "https": type("Pool", (_TlsPool,), idle)}
        self._line_limit = line_limit
        self._retries = retries
        self._pool: Any = None
        self.breaker = Breaker()
        super().__init__(pool_connections=4, pool_maxsize=pool_size, pool_block=False)

    @property
    def max_retries(self) -> Retry:
        """The current call's retries: requests asks for them in the thread that sends."""
        call: Call | None = getattr(_local, "call", None)
        return Retry(0, read=False) if call is None else CallRetry(call=call, **self._retries)

    @max_retries.setter
    def max_retries(self, value: Any) -> None:
        """Ignore what the parent's constructor sets."""

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **pool_kwargs: Any) -> None:
        super().init_poolmanager(connections, maxsize, block, **pool_kwargs)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **proxy_kwargs)
        manager.pool_classes_by_scheme = self._pools
        return manager

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
        """Give the pool of the one upstream there is: looking it up anew costs a tenth of a call."""
        if self._pool is None:
            self._pool = super().get_connection_with_tls_context(*args, **kwargs)
        return self._pool

    def close(self) -> None:
        self._pool = None
        super().close()

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> StreamResponse:
        response = StreamResponse()
        response.status_code = resp.status
        response.headers = resp.headers  # blind to case as they are
        response.raw, response.reason, response.request = resp, resp.reason, req
        response.url = req.url or ""
        response.line_limit = self._line_limit
        return response

    def send_for(self, call: Call, request: requests.PreparedRequest, **options: Any) -> StreamResponse:
        """Send *request* as the one that belongs to *call*.

        Raises:
            Cancelled: the call was cancelled.
            requests.RequestException, urllib3.exceptions.HTTPError, OSError: as ``send``.
        """
        _local.call, _local.breaker = call, self.breaker
        try:
            response = self.send(request, **options)
        finally:
            _local.call = _local.breaker = None
        assert isinstance(response, StreamResponse)
        return response

    def request_url(self, request: requests.PreparedRequest, proxies: Any) -> str:
        """Give what the request line asks for."""
        return super().request_url(request, proxies) if proxies else request.path_url


Broken = (Urllib3Error, OSError, EventTooLong)
"""What reading a response may raise."""
