"""Which entries of the lexicon a word shows."""

from __future__ import annotations

import pytest

from app.text.lexicon import Lexicon

LEXICON = Lexicon({1: ["compare"], 2: ["compar*"], 3: ["compa+"], 4: ["comp*"], 5: ["compare with"], 6: ["比較"]})


@pytest.mark.parametrize(
    ("word", "features"),
    [
        ("compare", {1, 2, 3}),
        ("comparison", {2, 3}),
        ("compass", {3, 4}),
        ("compa", {4}),
        ("compile", {4}),
        ("com", set()),
        ("other", set()),
    ],
)
def test_a_word_shows_itself_its_longest_beginning_and_its_five_letters(word: str, features: set[int]) -> None:
    """An entry with ``+`` wants a longer word, and counts beside the others."""
    assert features == set(LEXICON.known({word}).get(word, ()))


def test_phrases_and_runs_are_found_where_they_stand() -> None:
    """Words that only stand apart are no phrase."""
    assert {("compare", "with"): (5,)} == LEXICON.phrases(["please", "compare", "with", "this"])
    assert {} == LEXICON.phrases(["with", "compare"])
    assert {"比較": (6,)} == LEXICON.grams("これを比較して")
