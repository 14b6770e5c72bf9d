"""The stream between its three parties, where their timing matters or the process is short of threads."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from app.demo import DemoUpstream
from app.mailbox import Mailbox
from app.pipeline import ChatRequest, Pipeline
from app.record import Record
from app.relay import HEARTBEAT, Stream
from app.settings import Settings
from app.sinks import EventSink, Last
from app.ticker import Ticker
from tests.clock import PATIENCE
from tests.conftest import Served
from tests.test_faults import ending
from tests.test_fidelity import ID, ScriptedUpstream
from tests.test_streaming import texts

LINES = [b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}', b"", b"data: [DONE]", b""]


def test_no_heartbeat_follows_the_ending() -> None:
    """A stream that ends while the ticker is about to send a heartbeat has its ending as the last item."""
    stream = Stream(
        ScriptedUpstream(LINES),
        Ticker(60),
        Settings(open=True, heartbeat=0.1),
        Pipeline().run(ChatRequest({}, {}, True)),
        EventSink(Mailbox(1 << 20)),
        Record(completion_id=ID),
        key=None,
        own_key=False,
    )
    items: list[Any] = []
    consumer = threading.Thread(target=lambda: items.extend(stream.take()))

    def late_check(*args: Any, **limits: Any) -> None:
        """Look at the limits for so long that the stream ends meanwhile."""
        stream.start()
        assert stream.first_event.wait(PATIENCE)
        # The consumer has been told but has not run yet: to the ticker it still waits.
        stream._is_away = False

    stream._limits.passed = late_check  # type: ignore[method-assign]

    stream.check(stream._wrote_at + 1)
    consumer.start()
    consumer.join(PATIENCE)

    assert isinstance(items[-1], Last)
    assert HEARTBEAT not in items
    stream.close()


def _no_thread(*args: Any) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_process_without_threads_says_so(
    served: Served, upstream: DemoUpstream, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """The request fails as one too many, nothing goes upstream, and its place is free again."""
    with monkeypatch.context() as patch:
        patch.setattr("app.relay._thread.start_new_thread", _no_thread)
        # The server of the test starts its threads by the same function, under another name.
        with served.ask(stream=stream) as response:
            code = ending(response)[2]["code"] if stream else response.json()["error"]["code"]
    with served.ask() as response:
        assert texts(response.data())

    assert "overloaded" == code == served.record().error_code
    assert 1 == len(upstream.requests)
    served.record(2)
    assert 0 == served.gateway.open_streams


def test_a_ticker_without_a_thread_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes later is watched, and so is what came while no thread could be started."""
    seen: list[str] = []
    looked = threading.Event()

    class Item:
        def __init__(self, name: str) -> None:
            self.name = name

        def check(self, now: float) -> None:
            seen.append(self.name)
            if {"first", "second"} <= set(seen):
                looked.set()

    ticker = Ticker(0.01)
    first, second = Item("first"), Item("second")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _no_thread)
        ticker.add(first)
    ticker.add(second)

    assert looked.wait(PATIENCE)
    ticker.remove(first)
    ticker.remove(second)


@pytest.mark.parametrize("is_asked_for", [True, False])
def test_a_stream_gives_its_place_back_once(is_asked_for: bool) -> None:
    """However often and from wherever it is closed, and whether anybody came for its body or not."""
    closed: list[None] = []
    stream = Stream(
        ScriptedUpstream(LINES),
        Ticker(60),
        Settings(open=True),
        Pipeline().run(ChatRequest({}, {}, True)),
        EventSink(Mailbox(1 << 20)),
        Record(completion_id=ID),
        key=None,
        own_key=False,
        on_close=lambda: closed.append(None),
    )
    if is_asked_for:
        stream.start()
        stream.take()
    threads = [threading.Thread(target=stream.close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [None] == closed
