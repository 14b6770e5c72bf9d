"""Under gevent the consumer of a stream reads upstream itself: woken for heartbeats, losing nothing."""

from __future__ import annotations

import json
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.demo import DemoUpstream
from app.demo.exchange import Exchange
from app.mailbox import Mailbox
from app.transport import Call
from tests.certificates import make_certificate
from tests.clock import PATIENCE, let_pass
from tests.servers import GunicornGateway, open_stream, request, wait_until
from tests.test_redeploy import reasons
from tests.test_streaming import texts

ASKED = {"stream": True, "messages": [{"role": "user", "content": "x"}]}
_CHUNK = {"id": "gen-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def event(text: str) -> bytes:
    """Give an event of upstream's."""
    chunk = {**_CHUNK, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def settings_for(upstream: DemoUpstream) -> dict[str, str]:
    return {"OPENROUTER_BASE_URL": upstream.base_url, "SLUICE_PIPELINE": "off", "SLUICE_HEARTBEAT": "0.5"}


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_heartbeats_do_not_disturb_reading(tls: bool, tmp_path: Path) -> None:
    """Silence between events, and within one whose beginning has come, is filled, and every byte then counts."""
    pair = make_certificate(tmp_path)
    second = event("second")
    with DemoUpstream(ssl_context=pair.server_context() if tls else None) as upstream:
        upstream.play(
            [
                {"bytes": event("first")},
                {"wait": 1.3},
                {"bytes": second[:40]},
                {"wait": 1.3},
                {"bytes": second[40:] + event("third") + b"data: [DONE]\n\n"},
            ]
        )
        values = settings_for(upstream) | ({"SLUICE_CA_BUNDLE": str(pair.certificate)} if tls else {})
        with GunicornGateway(values) as gateway, open_stream(gateway.chat_url, ASKED) as stream:
            blocks = stream.events()

    data = [block.removeprefix("data: ") for block in blocks if block.startswith("data: ")]
    assert "[DONE]" == data.pop()
    assert "firstsecondthird" == texts([json.loads(value) for value in data])
    first = next(number for number, block in enumerate(blocks) if "first" in block)
    after = next(number for number, block in enumerate(blocks) if "second" in block)
    assert 3 <= blocks[first:after].count(": keep-alive")


def test_a_connection_is_used_again_after_heartbeats(upstream: DemoUpstream) -> None:
    """The consumer reads on to the end of the body, and the connection goes back."""
    upstream.play([{"text": "a"}, {"wait": 1.2}, {"text": "b"}])
    upstream.play([{"text": "c"}])

    with GunicornGateway(settings_for(upstream)) as gateway:
        for expected in ("ab", "c"):
            with open_stream(gateway.chat_url, ASKED) as stream:
                assert expected == texts(stream.data())

    assert 1 == upstream.connects


def test_an_end_that_does_not_come_keeps_nobody(upstream: DemoUpstream) -> None:
    """The client has its whole answer, framing too, while upstream's body stays open behind ``[DONE]``."""
    upstream.play([{"bytes": event("a") + b"data: [DONE]\n\n"}, {"silence": True}])

    with GunicornGateway(settings_for(upstream)) as gateway:
        with open_stream(gateway.chat_url, ASKED) as stream:
            data = stream.data()

        assert ["a", "[DONE]"] == [texts(data), data[-1]]
        assert upstream.requests[0].closed.wait(PATIENCE)


def test_an_end_that_does_not_come_does_not_hold_up_the_client(upstream: DemoUpstream) -> None:
    """Its connection is closed, or free for its next request, before upstream's, which is given a second."""
    upstream.play([{"bytes": event("a") + b"data: [DONE]\n\n"}, {"silence": True}])

    with GunicornGateway(settings_for(upstream)) as gateway:
        with request("POST", gateway.chat_url, json.dumps(ASKED), version="HTTP/1.0") as stream:
            data = stream.data()
        ended_at = time.monotonic()
        assert upstream.requests[0].closed.wait(PATIENCE)

    assert ["a", "[DONE]"] == [texts(data), data[-1]]
    assert ended_at < upstream.requests[0].closed_at


def test_a_stream_whose_upstream_falls_silent_ends(upstream: DemoUpstream) -> None:
    """Silence is told from heartbeats of our own, however many go out meanwhile."""
    upstream.play([{"text": "a"}, {"silence": True}])
    values = settings_for(upstream) | {"SLUICE_IDLE_TIMEOUT": "2"}

    with GunicornGateway(values) as gateway, open_stream(gateway.chat_url, ASKED) as stream:
        data = stream.data()

    assert ["upstream_timeout", "[DONE]"] == [data[-2]["error"]["code"], data[-1]]


def test_a_client_that_is_stuck_is_recorded_at_a_shutdown(upstream: DemoUpstream, tmp_path: Path) -> None:
    """It is to take the ending first, which nobody writes while the consumer is stuck; then it is cut off."""
    upstream.play([{"repeat": {"steps": [{"text": "word " * 200}]}}])
    values = settings_for(upstream) | {
        "SLUICE_GRACEFUL_TIMEOUT": "4",
        "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/records.db",
    }

    with GunicornGateway(values) as gateway, open_stream(gateway.chat_url, ASKED) as stream:
        exchange = upstream.wait_for_request()
        wait_until(lambda: _stands_still(exchange), what="back-pressure")
        gateway.process.send_signal(signal.SIGTERM)
        gateway.process.wait(PATIENCE)
        stream.close()

    assert {"draining": 1} == reasons(tmp_path / "records.db")


def _stands_still(exchange: Exchange) -> bool:
    """Tell whether nothing more of an answer has been sent for a while."""
    sent = exchange.sent
    let_pass(0.3)
    return 0 < sent == exchange.sent


def test_a_stage_that_waits_holds_up_its_own_chunk_alone(upstream: DemoUpstream) -> None:
    """Where a host's stage may wait, the consumer does not: what the stage gave goes out, and heartbeats do."""
    upstream.play([{"write": {"events": 0}}, {"text": ["first", " second"]}])
    values = settings_for(upstream) | {"SLUICE_PIPELINE": "on", "SLUICE_STM_MODULES": ""}

    with (
        GunicornGateway(values, app="tests.hosts.waiting:app") as gateway,
        open_stream(gateway.chat_url, ASKED) as stream,
    ):
        first = json.loads(stream.next_data() or "")
        beats = [stream.next_event(), stream.next_event()]
        request("GET", gateway.url + "/go").close()
        rest = stream.data()

    assert ("first", " second", "[DONE]") == (texts([first]), texts(rest), rest[-1])
    assert [": keep-alive"] * 2 == beats


def test_a_busy_worker_hands_on_what_it_has(upstream: DemoUpstream) -> None:
    """What was read at once takes many turns to relay where others have theirs, and goes out meanwhile."""
    upstream.play([{"write": {"events": 0}}, {"text": [f"word {number} " for number in range(600)]}])

    with GunicornGateway(settings_for(upstream), app="tests.hosts.busy:app") as gateway:
        request("GET", gateway.url + "/work").close()
        with open_stream(gateway.chat_url, ASKED) as stream:
            pieces = list(iter(stream.read_some, b""))

    assert b"word 599 " in b"".join(pieces)
    assert max(map(len, pieces)) < 32_768  # half of what is read at once


def test_an_answer_that_is_too_large_is_told_in_full(upstream: DemoUpstream) -> None:
    """What a choice that ended still had to say does not fit either, and takes nothing from what is told."""
    upstream.play([{"text": "a"}, {"finish": "stop"}, {"text": {"content": ["x" * 100] * 30, "choice": 1}}])
    values = settings_for(upstream) | {"SLUICE_MAX_ANSWER_BYTES": "2000"}

    whole = json.dumps({**ASKED, "stream": False})
    with GunicornGateway(values) as gateway, request("POST", gateway.chat_url, whole) as response:
        status, answer = response.status, response.json()

    assert (502, "upstream_protocol") == (status, answer["error"]["code"])
    assert [{"status": 200}] == answer["x_g0dm0d3"]["attempts"]


class Hub:
    """Stands for gevent's: takes callbacks, and notes the waits that it is to break off."""

    def __init__(self) -> None:
        self.loop = SimpleNamespace(run_callback=lambda callback, *args: self.callbacks.append((callback, args)))
        self.callbacks: list[Any] = []
        self.broken_off: list[Any] = []

    def _cancel_wait(self, event: Any, error: Exception, close: bool) -> None:
        self.broken_off.append(event)


def test_only_a_calls_own_wait_is_broken_off() -> None:
    """A connection that has become another's between the wish and its turn is left alone."""
    hub = Hub()
    sock: Any = SimpleNamespace(hub=hub, _read_event="event")
    call = Call()
    call.attach(sock)

    call.wake()
    call.detach()
    for callback, args in hub.callbacks:
        callback(*args)

    assert [] == hub.broken_off
    call.attach(sock)
    call.wake()
    callback, args = hub.callbacks[-1]
    callback(*args)
    assert ["event"] == hub.broken_off


def test_a_thread_is_not_woken() -> None:
    """A wait in a thread cannot be broken off, so reading stays with the reader there."""
    call = Call()
    assert not call.can_wake
    call.wake()


def test_a_mailbox_that_is_handed_over_lets_its_consumer_go() -> None:
    """A consumer that waits comes back without items, and its own items are bound by nothing."""
    box = Mailbox(1)
    got: list[list[Any]] = []
    consumer = threading.Thread(target=lambda: got.append(box.take()))
    consumer.start()

    box.hand_over()
    consumer.join(PATIENCE)
    box.put("a", 10)
    box.put("b", 10)

    assert [[], ["a", "b"], []] == [*got, box.take_now(), box.take_now()]

    box.take_back()
    consumer = threading.Thread(target=lambda: got.append(box.take()))
    consumer.start()
    box.slip("c")
    consumer.join(PATIENCE)
    assert ["c"] == got[-1]
