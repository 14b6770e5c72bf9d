"""The queue between a reader and a consumer: nothing is lost, order is kept, the bound holds, a lift frees."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.mailbox import Mailbox

WAIT = 60.0


def started(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def joined(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.join(WAIT)
    assert [] == [thread for thread in threads if thread.is_alive()]


class Watched(Mailbox):
    """A mailbox that says when its reader is about to wait."""

    def __init__(self, limit: int) -> None:
        self.reader_waits = threading.Event()
        super().__init__(limit)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "_reader_waits" and value:
            self.reader_waits.set()


def test_everything_there_is_is_taken_at_once() -> None:
    """Items come in order and in one list."""
    box = Mailbox(100)
    for number in range(5):
        box.put(number, 1)
    box.slip("last")
    assert [0, 1, 2, 3, 4, "last"] == box.take()


def test_a_taker_waits_for_the_first_item() -> None:
    """An empty mailbox holds its consumer, and never gives an empty list."""
    box = Mailbox(10)
    got: queue.Queue[list[Any]] = queue.Queue()

    def consume() -> None:
        for _ in range(100):
            got.put(box.take())

    consumer = started(consume)
    for number in range(100):
        assert got.empty()
        box.slip(number)
        assert [number] == got.get(timeout=WAIT)
    joined(consumer)


def test_a_put_waits_while_the_mailbox_is_full() -> None:
    """The reader goes on once the consumer has counted what it took, and not before."""
    box, done = Watched(10), threading.Event()
    box.put("a", 10)
    assert box.is_full

    def read() -> None:
        box.put("b", 1)
        done.set()

    reader = started(read)
    assert box.reader_waits.wait(WAIT)
    assert ["a"] == box.take()
    assert not done.is_set()
    box.taken(10)
    assert done.wait(WAIT)
    assert ["b"] == box.take()
    joined(reader)


def test_one_item_may_be_larger_than_the_bound() -> None:
    """A big event passes an empty mailbox, and fills it."""
    box = Mailbox(10)
    box.put("big", 1000)
    assert box.is_full
    box.taken(1000)
    assert not box.is_full


def test_slipping_past_a_full_mailbox_never_waits() -> None:
    """Heartbeats and endings have no size."""
    box = Mailbox(1)
    box.put("a", 1)
    for _ in range(1000):
        box.slip("beat")
    assert ["a", *["beat"] * 1000] == box.take()
    box.taken(1)
    assert not box.is_full


@pytest.mark.parametrize("before", [True, False], ids=["lifted before", "lifted while waiting"])
def test_a_lift_frees_a_waiting_reader_for_good(before: bool) -> None:
    """Nothing waits any more, and nothing that was put is lost."""
    box = Watched(1)
    box.put(0, 1)

    def read() -> None:
        for number in range(1, 100):
            box.put(number, 1)

    if before:
        box.lift()
    reader = started(read)
    if not before:
        assert box.reader_waits.wait(WAIT)
        box.lift()
    joined(reader)
    box.lift()
    assert not box.is_full
    assert list(range(100)) == box.take()


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 20), min_size=1, max_size=200),
    limit=st.integers(1, 30),
    batch=st.booleans(),
)
def test_two_threads_lose_nothing_and_keep_order_and_bound(sizes: list[int], limit: int, batch: bool) -> None:
    """Whatever the sizes, every item arrives once, in order, and what waits is never over bound and one item."""
    box, worst = Mailbox(limit), 0
    got: list[Any] = []

    def read() -> None:
        for number, size in enumerate(sizes):
            box.put((number, size), size)
        box.slip(None)

    reader = started(read)
    while not got or got[-1] is not None:
        items = box.take()
        total = sum(item[1] for item in items if item)
        worst = max(worst, total)
        got += items
        if batch:
            box.taken(total)
        else:
            for item in items:
                if item:
                    box.taken(item[1])
    joined(reader)
    assert [*enumerate(sizes), None] == got
    assert worst <= limit - 1 + max(sizes)


def test_slips_of_many_threads_all_arrive() -> None:
    """Items from any thread, while one reader puts and one consumer takes: none is lost, each thread's in order."""
    box = Mailbox(5)
    rounds, slippers = 300, 3

    def slip(name: int) -> None:
        for number in range(rounds):
            box.slip((name, number))

    def slipper(name: int) -> threading.Thread:
        return started(lambda: slip(name))

    def read() -> None:
        for number in range(rounds):
            box.put(("reader", number), 1)

    threads = [started(read), *map(slipper, range(slippers))]
    got: list[Any] = []
    while len(got) < rounds * (slippers + 1):
        items = box.take()
        box.taken(sum(item[0] == "reader" for item in items))
        got += items
    joined(*threads)
    for name in ("reader", *range(slippers)):
        assert list(range(rounds)) == [number for who, number in got if who == name]


def test_a_lift_in_the_middle_of_a_race_loses_nothing() -> None:
    """A bound that is lifted while both sides run frees the reader at whatever point it is."""

    def read(box: Mailbox) -> None:
        for number in range(50):
            box.put(number, 1)

    for _ in range(50):
        box = Mailbox(1)
        got: list[int] = []
        reader = started(partial(read, box))
        lifter = started(box.lift)
        while len(got) < 50:
            got += box.take()  # never counted as taken: only the lift can free the reader
        joined(reader, lifter)
        assert list(range(50)) == got
