"""The ticker: who is looked at when, and what the kernel tells about connections."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from app import hangups
from app.drain import Drain
from app.hangups import Hangups
from app.ticker import Ticker


class Item:
    """Something watched that notes each look, and says when the next one is due."""

    def __init__(self, due: float | None = None) -> None:
        self.due = due
        self.looks: list[float] = []

    def check(self, now: float) -> float | None:
        """Note it."""
        self.looks.append(now)
        return self.due


@pytest.fixture
def ticker(monkeypatch: pytest.MonkeyPatch) -> Ticker:
    """Give a ticker whose looks the test makes itself."""
    monkeypatch.setattr(Ticker, "_start", lambda self: None)
    return Ticker(60)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Give a connection over TCP: the server's end, and the client's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
        with ours, theirs:
            yield ours, theirs


def test_each_is_looked_at_when_it_is_due(ticker: Ticker) -> None:
    """At its first tick, then not before the time it gave; at every tick where it gave none."""
    later, always = Item(5.0), Item()
    ticker.add(later)
    ticker.add(always)

    for now in (1.0, 2.0, 4.9, 5.0):
        ticker._look(now)

    assert [1.0, 5.0] == later.looks
    assert [1.0, 2.0, 4.9, 5.0] == always.looks


def test_who_comes_back_is_looked_at_at_once(ticker: Ticker) -> None:
    """What was removed is forgotten with the time it gave."""
    item = Item(100.0)
    ticker.add(item)
    ticker._look(1.0)
    ticker.remove(item)
    ticker._look(2.0)

    ticker.add(item)
    ticker._look(3.0)

    assert [1.0, 3.0] == item.looks
    ticker.remove(item)
    ticker._look(4.0)
    assert ([1.0, 3.0], {}) == (item.looks, ticker._due)


def test_a_look_that_fails_is_made_again(ticker: Ticker, monkeypatch: pytest.MonkeyPatch) -> None:
    """And costs no other item its own."""
    bad, good = Item(), Item()
    monkeypatch.setattr(bad, "check", lambda now: bad.looks.append(now) or 1 / 0)
    ticker.add(bad)
    ticker.add(good)

    ticker._look(1.0)
    ticker._look(2.0)

    assert [1.0, 2.0] == bad.looks == good.looks


def test_all_are_looked_at_once_a_drain_is_over(ticker: Ticker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of what they waited for counts then."""
    item = Item(1000.0)
    ticker.add(item)
    ticker._look(1.0)

    monkeypatch.setattr(Drain, "is_over", lambda self: True)
    ticker._look(2.0)

    assert [1.0, 2.0] == item.looks


@pytest.mark.parametrize("abrupt", [False, True], ids=["FIN", "RST"])
def test_a_closed_connection_is_looked_at_before_its_time(
    ticker: Ticker, pair: tuple[socket.socket, socket.socket], abrupt: bool
) -> None:
    """However it was closed, and though what the client sent before is still unread; others are left alone."""
    ours, theirs = pair
    item, other = Item(1000.0), Item(1000.0)
    assert ticker.add(item, ours.fileno())
    ticker.add(other)
    ticker._look(1.0)
    theirs.sendall(b"unread")
    ticker._look(2.0)

    if abrupt:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    theirs.close()
    ticker._look(3.0)

    assert ([1.0, 3.0], [1.0]) == (item.looks, other.looks)


def test_a_descriptor_that_is_anothers_by_now_stays_watched(pair: tuple[socket.socket, socket.socket]) -> None:
    """Who forgets late does not take the next one's watch away."""
    ours, theirs = pair
    found = Hangups()
    found.watch(ours.fileno(), "first")
    found.watch(ours.fileno(), "second")

    found.forget(ours.fileno(), "first")
    theirs.close()

    assert {"second"} == found.found()
    found.forget(ours.fileno(), "second")
    found.forget(ours.fileno(), "second")
    assert set() == found.found()


def test_a_descriptor_that_was_closed_is_worth_a_look() -> None:
    """Whoever closed it did not say so."""
    reading, writing = os.pipe()
    found = Hangups()
    found.watch(reading, "item")

    os.close(reading)
    os.close(writing)

    assert {"item"} == found.found()


def test_where_the_kernel_tells_nothing_each_tick_looks(ticker: Ticker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on Linux, and where a server shows no socket, whoever is added is told so."""
    assert not ticker.add(Item(), -1)
    monkeypatch.setattr(hangups, "_CLOSED", None)
    elsewhere = Hangups()

    assert not elsewhere.watch(0, "item")
    elsewhere.forget(0, "item")
    assert set() == elsewhere.found()


def test_under_gevent_the_kernel_is_asked_itself() -> None:
    """gevent's own poll would make a watcher for each descriptor, at every tick."""
    code = (
        "from gevent import monkey; monkey.patch_all()\n"
        "import select, socket\n"
        "from app.hangups import Hangups\n"
        "ours, theirs = socket.socketpair()\n"
        "found = Hangups()\n"
        "assert type(found._poll).__module__ == 'select', type(found._poll)\n"
        "found.watch(ours.fileno(), 'item')\n"
        "assert found.found() == set()\n"
        "theirs.close()\n"
        "assert found.found() == {'item'}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
