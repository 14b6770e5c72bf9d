"""Streaming as a Python call."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Generator
from typing import Any

import pytest

from app import GatewayError, Settings, stream_chunks, stream_message
from app.demo import DemoUpstream
from app.errors import RequestError, UpstreamCut, UpstreamTimeout
from tests.clock import PATIENCE, granted

HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def settings(upstream: DemoUpstream) -> Settings:
    """Give settings that lead to ``upstream``."""
    return Settings.from_mapping(
        {
            "OPENROUTER_BASE_URL": upstream.base_url,
            "OPENROUTER_API_KEY": "sk-or-v1-operator",
            "SLUICE_RETRY_BACKOFF": "0.05",
            "SLUICE_IDLE_TIMEOUT": "1",
        }
    )


def test_it_yields_text_fragments(settings: Settings, upstream: DemoUpstream) -> None:
    """The fragments are upstream's, in order."""
    upstream.play([{"reasoning": "hm"}, {"text": ["one", " two", " three"]}])

    assert ["one", " two", " three"] == list(stream_message(HELLO, "some/model", settings=settings, temperature=0.5))

    body = upstream.requests[0].body
    assert ["some/model", True, 0.5, HELLO] == [body["model"], body["stream"], body["temperature"], body["messages"]]
    assert "Bearer sk-or-v1-operator" == upstream.requests[0].headers["Authorization"]


def test_it_is_a_generator(settings: Settings, upstream: DemoUpstream) -> None:
    """next, send, close and throw work as with any generator."""
    upstream.play([{"text": ["one", " two"]}])
    stream = stream_message(HELLO, settings=settings)

    assert isinstance(stream, Generator)
    assert ["one", " two"] == [next(stream), stream.send(None)]
    with pytest.raises(KeyError):
        stream.throw(KeyError)
    assert [] == list(stream)


def test_an_own_key_is_used(settings: Settings, upstream: DemoUpstream) -> None:
    """api_key goes before the operator's."""
    list(stream_message(HELLO, settings=settings, api_key="sk-or-v1-mine"))

    assert "Bearer sk-or-v1-mine" == upstream.requests[0].headers["Authorization"]


def test_it_yields_whole_chunks(settings: Settings, upstream: DemoUpstream) -> None:
    """stream_chunks gives the chunks themselves, usage when asked."""
    upstream.play([{"text": "hi"}])

    chunks = list(stream_chunks(HELLO, settings=settings, stream_options={"include_usage": True}))

    assert ["hi", None] == [chunks[0]["choices"][0]["delta"]["content"], chunks[0]["choices"][0]["finish_reason"]]
    assert "stop" == chunks[-2]["choices"][0]["finish_reason"]
    assert chunks[-1]["usage"]["total_tokens"] > 0


def test_a_failure_raises_after_the_text_before_it(settings: Settings, upstream: DemoUpstream) -> None:
    """An upstream that breaks off raises the package's exception."""
    upstream.play([{"text": "half"}, {"cut": "rst"}])
    got: list[str] = []

    with pytest.raises(UpstreamCut) as caught:
        got.extend(stream_message(HELLO, settings=settings))

    assert ["half"] == got
    assert isinstance(caught.value, GatewayError)


def test_silence_raises_in_time(settings: Settings, upstream: DemoUpstream) -> None:
    """The time limits hold for library calls."""
    upstream.play([{"text": "half"}, {"silence": True}])

    with pytest.raises(UpstreamTimeout):
        list(stream_message(HELLO, settings=settings))


def test_a_bad_request_raises_at_once(settings: Settings, upstream: DemoUpstream) -> None:
    """Nothing goes upstream."""
    with pytest.raises(RequestError, match="messages"):
        stream_message([], settings=settings)

    assert not upstream.requests


@pytest.mark.parametrize("script", [[{"silence": True}], [{"text": "a"}, {"silence": True}]], ids=["head", "text"])
def test_another_thread_can_cancel(settings: Settings, upstream: DemoUpstream, script: list[Any]) -> None:
    """Closing from another thread ends a waiting next, and upstream sees the close."""
    upstream.play(script)
    stream = stream_message(HELLO, settings=settings)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.extend(stream))
    reader.start()
    exchange = upstream.wait_for_request()

    stream.close()
    closed_at = time.monotonic()
    reader.join(PATIENCE)

    assert not reader.is_alive()
    assert exchange.closed.wait(PATIENCE)
    assert granted(closed_at, exchange.closed_at) < 1


def test_closing_early_closes_upstream(settings: Settings, upstream: DemoUpstream) -> None:
    """So does leaving the context, and dropping the last reference."""
    for _ in range(2):
        upstream.play([{"text": "a"}, {"silence": True}])
    with stream_message(HELLO, settings=settings) as stream:
        next(stream)
    dropped = stream_message(HELLO, settings=settings)
    next(dropped)
    del dropped

    assert all(exchange.closed.wait(PATIENCE) for exchange in upstream.requests)


def test_a_stream_that_was_never_started_sends_nothing(settings: Settings, upstream: DemoUpstream) -> None:
    """Closing before the first next costs nothing."""
    stream_message(HELLO, settings=settings).close()

    assert not upstream.requests


def _in_child(settings: Settings, results: Any) -> None:
    results.put("".join(stream_message(HELLO, "demo/echo", settings=settings)))


def test_a_forked_child_has_connections_of_its_own(settings: Settings, upstream: DemoUpstream) -> None:
    """After a fork parent and child both stream."""
    assert "Hello" == "".join(stream_message(HELLO, "demo/echo", settings=settings))
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_in_child, args=(settings, results))
    child.start()

    assert "Hello" == results.get(timeout=PATIENCE)
    child.join()
    assert "Hello" == "".join(stream_message(HELLO, "demo/echo", settings=settings))
    assert 2 == upstream.connects


def test_two_threads_cannot_wait_for_the_same_stream(settings: Settings, upstream: DemoUpstream) -> None:
    """The second is told at once, as with any generator, and the first goes on."""
    upstream.play([{"silence": True}])
    stream = stream_chunks(HELLO, settings=settings)
    reader = threading.Thread(target=lambda: list(stream))
    reader.start()
    upstream.wait_for_request()

    with pytest.raises(ValueError, match="already executing"):
        next(stream)

    stream.close()
    reader.join(PATIENCE)
    assert not reader.is_alive()
