"""A stream that comes faster than it is worked on gives others their turn."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from app import relay, turns
from app.demo import DemoUpstream
from tests.conftest import Served
from tests.servers import ROOT, GunicornGateway, request
from tests.test_streaming import texts

PIECE = "is probably "
COUNT = 2000


@pytest.mark.parametrize("fields", [{"stream": True, "stm_mode": "live"}, {"stream": True}, {"stream": False}], ids=str)
def test_turns_are_given_by_the_characters_worked_on(
    serve: Callable[..., Served], upstream: DemoUpstream, monkeypatch: pytest.MonkeyPatch, fields: dict[str, object]
) -> None:
    """Whether anything ever waits for upstream or not, there is a turn for others after some thousand characters."""
    given: list[None] = []
    monkeypatch.setattr(relay, "give_way", lambda: given.append(None))
    served = serve(SLUICE_PIPELINE="on")
    upstream.play([{"text": [PIECE] * COUNT}])

    with served.ask(**fields) as response:
        if fields["stream"]:
            assert PIECE.strip() in texts(response.data()) or fields.get("stm_mode") == "live"
        else:
            assert 200 == response.status

    work = COUNT * (len(PIECE) + turns.EVENT_WORK)
    assert work / (turns.TURN_WORK + len(PIECE) + turns.EVENT_WORK) - 1 <= len(given) < COUNT


def test_under_gevent_a_turn_is_a_look_at_what_has_come_in() -> None:
    """Greenlets that give way again and again do not keep a timer or a socket waiting for more than a few turns."""
    program = """
from gevent import monkey; monkey.patch_all()
import threading, time
from app.turns import give_way
turns = 0
def work():
    global turns
    for _ in range(2000):
        turns += 1
        give_way()
def look():
    worst = 0
    while turns < 4000:
        before = turns
        time.sleep(0.00001)
        worst = max(worst, turns - before)
        end = time.monotonic() + 0.0001
        while time.monotonic() < end: pass
    print(worst)
threads = [threading.Thread(target=work) for _ in range(2)] + [threading.Thread(target=look)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 50


def test_threads_are_not_put_to_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is patched the interpreter itself gives turns."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)

    sleep.__module__ = "time"
    monkeypatch.setattr(turns.time, "sleep", sleep)
    turns.give_way()
    sleep.__module__ = "gevent.hub"
    turns.give_way()

    assert 1 == len(slept)
    assert 0 < slept[0] < 1e-6


def test_a_worker_does_not_look_for_garbage_in_what_it_has_loaded() -> None:
    """A full search would hold every stream up for as long as it takes to go through all modules."""
    with GunicornGateway(app="tests.ticking:app") as gateway, request("GET", f"{gateway.url}/frozen") as response:
        assert 20_000 < response.json()["objects"]
