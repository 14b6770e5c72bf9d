"""What was changed in a text, by position, so that positions in the old text can be told in the new one."""

from __future__ import annotations

from bisect import bisect_right

__all__ = ["Edits"]


class Edits:
    """Changes in the order of the text: each takes the place of some raw characters."""

    __slots__ = ("_added", "_ends", "_shifts", "_starts")

    def __init__(self) -> None:
        self._added: list[tuple[int, int, int]] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._shifts: list[int] = []

    def add(self, start: int, end: int, length: int) -> None:
        """Note that raw characters *start* to *end* became *length* characters."""
        self._added.append((start, end, length))

    def moved(self, position: int) -> int:
        """Give where raw *position* stands in the new text; inside something changed: where that begins."""
        self._take_in()
        index = bisect_right(self._ends, position)
        before = self._shifts[index - 1] if index else 0
        if index < len(self._starts) and self._starts[index] < position:
            return self._starts[index] + before
        return position + before

    def __len__(self) -> int:
        return len(self._added)

    def _take_in(self) -> None:
        """Work out where what was added moves things to; edits are many, and seldom asked for."""
        shift = self._shifts[-1] if self._shifts else 0
        for start, end, length in self._added[len(self._starts) :]:
            shift += length - (end - start)
            self._starts.append(start)
            self._ends.append(end)
            self._shifts.append(shift)
