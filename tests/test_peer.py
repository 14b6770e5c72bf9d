"""The client's connection: whose it is when it is cut off."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from app.peer import Peer
from tests.clock import PATIENCE


def test_a_connection_that_was_let_go_is_left_alone() -> None:
    """What happens on a connection after its request is the server's affair, or another request's."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer = Peer({"gunicorn.socket": ours})

        peer.let_go()
        peer.cut()
        peer.stop_reading()

        ours.sendall(b"still open")
        assert b"still open" == theirs.recv(100)
        assert not peer.is_gone()


def test_a_cut_is_done_before_the_server_may_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that cuts a connection off cannot be overtaken by the one that closes it, whose descriptor is free then.

    Otherwise the next connection, which gets that descriptor, would be cut off without a word.
    """
    in_the_middle, go_on = threading.Event(), threading.Event()
    duplicate = os.dup

    def slow(descriptor: int) -> int:
        in_the_middle.set()
        assert go_on.wait(PATIENCE)
        return duplicate(descriptor)

    monkeypatch.setattr("app.peer.os.dup", slow)
    ours, theirs = socket.socketpair()
    peer = Peer({"gunicorn.socket": ours})
    cutter = threading.Thread(target=peer.cut)
    cutter.start()
    assert in_the_middle.wait(PATIENCE)
    closer = threading.Thread(target=lambda: (peer.let_go(), ours.close()))
    closer.start()
    closer.join(0.2)
    assert closer.is_alive()

    go_on.set()
    cutter.join(PATIENCE)
    closer.join(PATIENCE)

    with theirs:
        theirs.settimeout(PATIENCE)
        assert b"" == theirs.recv(100)
