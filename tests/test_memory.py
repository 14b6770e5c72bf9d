"""What a request held is let go when it ends, however it does, and not only when Python searches for garbage."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.demo import DemoUpstream
from app.relay import Stream
from tests.conftest import Served
from tests.servers import wait_until

ENDS: dict[str, list[Any]] = {
    "an answer": [{"text": "hi"}],
    "a cut": [{"text": "hi"}, {"cut": "rst"}],
    "no finish": [{"text": "hi"}, {"end": True}],
    "an error": [{"text": "hi"}, {"error": {}}],
    "no JSON": [{"text": "hi"}, {"data": "{broken"}],
    "a status": [{"answer": {"status": 400}}],
    "a page": [{"answer": {"html": "<p>hi</p>"}}],
    "no answer": [{"hangup": "rst"}],
    "silence": [{"text": "hi"}, {"silence": True}],
    "no first token": [{"silence": True}],
}


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[weakref.WeakSet[Stream]]:
    """Give the streams that are still held, while nothing searches for garbage."""
    alive: weakref.WeakSet[Stream] = weakref.WeakSet()
    made = Stream.__init__

    def note(stream: Stream, *args: Any, **kwargs: Any) -> None:
        made(stream, *args, **kwargs)
        alive.add(stream)

    monkeypatch.setattr(Stream, "__init__", note)
    gc.collect()
    gc.disable()
    yield alive
    gc.enable()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", ENDS)
def test_a_request_that_ended_holds_nothing(
    serve: Callable[..., Served], upstream: DemoUpstream, streams: weakref.WeakSet[Stream], name: str, stream: bool
) -> None:
    """Neither messages nor answer stay behind in a failure that knows the frames it went through."""
    served = serve(SLUICE_RETRIES="0", SLUICE_IDLE_TIMEOUT="0.3", SLUICE_FIRST_TOKEN_TIMEOUT="0.3")
    upstream.play(ENDS[name])

    with served.ask(stream=stream) as response:
        response.read()

    served.record()
    wait_until(lambda: not streams, what="the stream to be let go")


def test_a_client_that_leaves_takes_its_stream_with_it(
    served: Served, upstream: DemoUpstream, streams: weakref.WeakSet[Stream]
) -> None:
    """In the middle of an answer."""
    upstream.play([{"text": "hi"}, {"silence": True}])

    with served.ask() as response:
        response.next_data()

    served.record()
    wait_until(lambda: not streams, what="the stream to be let go")
