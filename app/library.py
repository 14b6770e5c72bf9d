"""Streaming as a Python call: ``stream_message`` yields text, ``stream_chunks`` whole chunks.

Both go the way the service goes: the same client, retries, time limits and decoder; no pipeline, no record. Settings
come from the environment (``OPENROUTER_API_KEY``, ``OPENROUTER_BASE_URL``, the time limits) unless given.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from functools import lru_cache
from types import TracebackType
from typing import Any

from .chat import make_request
from .errors import GatewayError
from .mailbox import Mailbox
from .pipeline import Chunk, Run
from .record import Record, new_completion_id
from .relay import Stream
from .settings import Settings
from .sinks import ChunkSink
from .ticker import Ticker
from .upstream import UpstreamClient

__all__ = ["ChunkStream", "MessageStream", "stream_chunks", "stream_message"]

_QUEUE_CHUNKS = 256


class ChunkStream(Generator[Chunk, None, None]):
    """Yields a stream's chunks; made by ``stream_chunks``.

    Unlike a plain generator it may be closed by any thread, also while another waits in ``next``: upstream is closed
    at once and the iteration ends.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._items: list[Any] = []
        self._is_closed = False
        self._turn = threading.Lock()

    def __next__(self) -> Chunk:
        if not self._turn.acquire(blocking=False):
            raise ValueError("stream already executing: another thread waits in next")  # as a generator says it
        try:
            return self._next()
        finally:
            self._turn.release()

    def _next(self) -> Chunk:
        if not self._items and not self._is_closed:
            self._stream.start()
            items = self._stream.take()
            self._stream.mailbox.taken(sum(isinstance(item, dict) for item in items))
            self._items = items[::-1]
        item = self._items.pop() if self._items else None
        if self._is_closed:
            raise StopIteration
        if isinstance(item, dict):
            return item
        self.close()
        if isinstance(item, GatewayError):
            raise item
        raise StopIteration

    def send(self, value: None) -> Chunk:
        """Give the next chunk; nothing can be sent."""
        return self.__next__()

    def throw(self, typ: Any, val: Any = None, tb: TracebackType | None = None, /) -> Chunk:
        """Close, then raise."""
        self.close()
        raise typ if val is None else val

    def close(self) -> None:
        """End the call if it still goes on. From any thread, idempotent."""
        self._is_closed = True
        self._stream.close()

    cancel = close

    def __enter__(self) -> ChunkStream:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._stream.close()


class MessageStream(Generator[str, None, None]):
    """Yields the text of the first choice, fragment by fragment; made by ``stream_message``.

    It closes as ``ChunkStream`` does.
    """

    def __init__(self, chunks: ChunkStream) -> None:
        self._chunks = chunks

    def __next__(self) -> str:
        for chunk in self._chunks:
            for choice in chunk["choices"]:
                text = choice["delta"].get("content") if choice["index"] == 0 else None
                if isinstance(text, str) and text:
                    return text
        raise StopIteration

    def send(self, value: None) -> str:
        """Give the next fragment; nothing can be sent."""
        return self.__next__()

    def throw(self, typ: Any, val: Any = None, tb: TracebackType | None = None, /) -> str:
        """Close, then raise."""
        self.close()
        raise typ if val is None else val

    def close(self) -> None:
        """End the call if it still goes on. From any thread, idempotent."""
        self._chunks.close()

    cancel = close

    def __enter__(self) -> MessageStream:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def stream_message(
    messages: list[dict[str, Any]],
    model: str | None = None,
    api_key: str | None = None,
    *,
    settings: Settings | None = None,
    **params: Any,
) -> MessageStream:
    """Stream one answer as text fragments.

    Args:
        messages: the conversation, in OpenAI's form.
        model: model id; the operator's default when None.
        api_key: upstream key; ``OPENROUTER_API_KEY`` when None.
        settings: read from the environment when None.
        params: further fields of the request, sent upstream as they are.

    Returns:
        An iterator; ``close`` it, or use it as a context manager, to end the call early.

    Raises:
        RequestError: the request cannot be sent. While iterating: UpstreamError and the other errors of ``errors``.
    """
    return MessageStream(stream_chunks(messages, model, api_key, settings=settings, **params))


def stream_chunks(
    messages: list[dict[str, Any]],
    model: str | None = None,
    api_key: str | None = None,
    *,
    settings: Settings | None = None,
    **params: Any,
) -> ChunkStream:
    """Stream one answer as ``chat.completion.chunk`` objects; otherwise as ``stream_message``.

    Usage comes as a last chunk when ``stream_options={"include_usage": True}`` is passed.
    """
    settings = settings or Settings.from_env()
    client, ticker = _shared(settings)
    fields = {"model": model, "messages": messages, **params, "stream": True}
    request = make_request({key: value for key, value in fields.items() if value is not None}, settings)
    stream = Stream(
        client,
        ticker,
        settings,
        Run(request, {}, [], []),
        ChunkSink(Mailbox(_QUEUE_CHUNKS)),
        Record(completion_id=new_completion_id()),
        key=api_key or settings.openrouter_api_key,
        own_key=api_key is None,
    )
    return ChunkStream(stream)


@lru_cache(maxsize=8)
def _shared(settings: Settings) -> tuple[UpstreamClient, Ticker]:
    """Keep one client per process and settings: connections are worth keeping."""
    ticker = Ticker(settings.tick)
    return UpstreamClient(settings, ticker), ticker


# A forked child must not use its parent's connections.
os.register_at_fork(after_in_child=_shared.cache_clear)
