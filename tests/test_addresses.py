"""Looking up upstream: once for a burst, anew after a second, failures included; every address is tried."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from app import addresses as module
from app.addresses import Addresses
from tests.clock import PATIENCE, Clock


class Resolver:
    """Stands for the system's: counts the questions, and answers when it is let."""

    def __init__(self, *answers: Any) -> None:
        self.asked = 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._answers = [*answers]

    def __call__(self, host: str, port: int, *_: Any) -> Any:
        self.asked += 1
        assert self.may_answer.wait(PATIENCE)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def at(port: int) -> Any:
    return (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Give the clock that addresses are kept by."""
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def resolve_by(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> Resolver:
    resolver = Resolver(*answers)
    monkeypatch.setattr(module.socket, "getaddrinfo", resolver)
    return resolver


def test_a_burst_asks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes while a name is looked up waits for that answer."""
    resolver = resolve_by(monkeypatch, [at(1)])
    resolver.may_answer.clear()
    addresses, got = Addresses(), []
    threads = [threading.Thread(target=lambda: got.append(addresses.of("up", 1))) for _ in range(20)]
    for thread in threads:
        thread.start()

    resolver.may_answer.set()
    for thread in threads:
        thread.join(PATIENCE)

    assert (1, [[at(1)]] * 20) == (resolver.asked, got)


def test_an_answer_counts_for_a_second(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """A name that comes to stand for another address is followed."""
    resolver = resolve_by(monkeypatch, [at(1)], [at(2)])
    addresses = Addresses()

    found = [addresses.of("up", 1)]
    clock.now += 0.9
    found.append(addresses.of("up", 1))
    clock.now += 0.2
    found.append(addresses.of("up", 1))

    assert ([[at(1)], [at(1)], [at(2)]], 2) == (found, resolver.asked)


def test_a_failure_counts_as_long_and_is_raised_each_time(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """A resolver that is away is not asked by every request, and is asked again."""
    resolver = resolve_by(monkeypatch, socket.gaierror(socket.EAI_AGAIN, "away"), [at(1)])
    addresses = Addresses()

    for _ in range(2):
        with pytest.raises(socket.gaierror, match="away") as caught:
            addresses.of("up", 1)
        assert socket.EAI_AGAIN == caught.value.errno
    clock.now += 1.1

    assert ([at(1)], 2) == (addresses.of("up", 1), resolver.asked)


def test_a_name_that_cannot_be_one_is_unknown() -> None:
    """A label that is empty or too long ends as any name that does not exist."""
    with pytest.raises(socket.gaierror):
        Addresses().of("a" * 70 + ".example", 1)


def test_every_address_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that refuses is passed over; where all do, the last one's reason is told."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        port, closed = server.getsockname()[1], other.getsockname()[1]
        other.close()
        resolve_by(monkeypatch, [at(closed), at(port)])
        with Addresses().connect("up", 1, timeout=PATIENCE, source=None, options=None) as sock:
            assert ("127.0.0.1", port) == sock.getpeername()

        resolve_by(monkeypatch, [at(closed)])
        with pytest.raises(ConnectionRefusedError):
            Addresses().connect("up", 1, timeout=PATIENCE, source=None, options=None)


def test_sockets_get_their_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options are set and the source address is bound before connecting."""
    option = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        resolve_by(monkeypatch, [at(server.getsockname()[1])])
        with Addresses().connect("up", 1, timeout=3, source=("127.0.0.1", 0), options=[option]) as sock:
            assert (3, True) == (sock.gettimeout(), bool(sock.getsockopt(*option[:2])))
