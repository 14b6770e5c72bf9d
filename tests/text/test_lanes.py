"""Rows that stand beside each other in one whole number."""

from __future__ import annotations

from app.text.lanes import Lanes


def test_rows_are_added_up_beside_each_other() -> None:
    """No lane borrows from the next, whatever the signs."""
    lanes = Lanes(3)
    rows = [(-1, 5, 0), (-700, -7, 2**40), (1, 0, -(2**40) - 3)]

    packed = sum(map(lanes.pack, rows))

    assert (-700, -2, -3) == lanes.unpack(packed)
    assert (-2100, -6, -9) == lanes.unpack(3 * packed)
    assert (0, 0, 0) == lanes.unpack(0)
