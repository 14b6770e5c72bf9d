"""Rows of whole numbers, each row in one number, which Python adds up faster than it would the rows."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

__all__ = ["Lanes"]

_BITS = Struct("<q").size * 8
"""Of each number of a row."""


class Lanes:
    """Puts rows of whole numbers beside each other into one, so that sums of these are the rows' sums.

    Args:
        count: of the numbers in a row.
    """

    def __init__(self, count: int) -> None:
        self._struct = Struct(f"<{count}q")
        self._signs = sum(1 << (_BITS * (lane + 1) - 1) for lane in range(count))

    def pack(self, row: Iterable[int]) -> int:
        """Give the sum of a row's numbers, each times the power of two that its lane begins with."""
        return (int.from_bytes(self._struct.pack(*row), "little") ^ self._signs) - self._signs

    def unpack(self, packed: int) -> tuple[int, ...]:
        """Give a row again, or the sum of several."""
        found: tuple[int, ...] = self._struct.unpack(
            ((packed + self._signs) ^ self._signs).to_bytes(self._struct.size, "little")
        )
        return found
