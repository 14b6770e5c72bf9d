"""Positions in the raw text told in the new one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.text.edits import Edits


def test_without_edits_nothing_moves() -> None:
    """Every place is where it was."""
    assert [0, 5, 99] == [Edits().moved(place) for place in (0, 5, 99)]


def test_places_behind_an_edit_move_by_it() -> None:
    """Those before it stay, those inside go to its beginning."""
    edits = Edits()
    edits.add(4, 10, 2)

    assert [0, 4, 4, 4, 6, 16] == [edits.moved(place) for place in (0, 4, 5, 9, 10, 20)]
    assert 1 == len(edits)


def test_edits_add_up() -> None:
    """Each counts for what stands behind it."""
    edits = Edits()
    edits.add(0, 8, 0)
    edits.add(10, 12, 5)

    assert [0, 2, 2, 7, 8] == [edits.moved(place) for place in (0, 10, 11, 12, 13)]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(0, 9)), max_size=8))
def test_text_outside_edits_is_found_again(parts: list[tuple[int, int, int]]) -> None:
    """Against a text that is really put together so."""
    edits, raw, new, kept = Edits(), "", "", []
    for gap, old, length in parts:
        for _ in range(gap):
            kept.append((len(raw), len(new)))
            raw, new = raw + "k", new + "k"
        edits.add(len(raw), len(raw) + old, length)
        raw, new = raw + "o" * old, new + "n" * length
    kept.append((len(raw), len(new)))

    assert [place for _, place in kept] == [edits.moved(place) for place, _ in kept]
