"""Signs of a text's kind other than its words."""

from __future__ import annotations

import pytest

from app.text.signs import _MARKS, signs
from app.text.tokens import words


def found(text: str) -> set[str]:
    """Name the signs of a text of which no word is known."""
    tokens = words(text.casefold())
    return {name for name, _ in signs(text, tokens, set(tokens), sorted(set(tokens)))}


@pytest.mark.parametrize(("mark", "name"), [(mark, name) for name, marks in _MARKS.items() for mark in marks])
def test_each_mark_is_found_wherever_it_stands(mark: str, name: str) -> None:
    """Also alone, and amid others."""
    assert name in found(mark) & found(f"a{mark}b") & found(f"? {mark}\n")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("see loadUser", "camel case"),
        ("a KeyError again", "camel case"),
        ("a badKeyError again", "error name"),
        ("STOP", "capitals"),
        ("STOP THAT NOISE", "many capitals"),
        ("call f_oo", "snake case"),
        ("open main.py", "file name"),
        ("ls -la", "option"),
        ("print()", "call"),
        ("\\d", "pattern syntax"),
        ("[a-z]", "pattern syntax"),
        ("a <b> c", "tag"),
        ("`x`", "inline code"),
        ("in 1999", "digits"),
        ("*smiles warmly*", "stage direction"),
        ("a\nb", "lines"),
        ("a\nb\nc\nd\ne", "many lines"),
    ],
)
def test_signs_are_found(text: str, name: str) -> None:
    """One of each kind that is looked for only where some character is."""
    assert name in found(text)


@pytest.mark.parametrize("text", ["Plain words, said Once.", "I AM A cat", "a NATO b"])
def test_capitals_of_plain_text_are_no_camel_case(text: str) -> None:
    """Neither first letters nor runs."""
    assert not found(text) & {"camel case", "error name"}
