"""JSON that comes back out as it went in."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import wire

TEXT = st.text(st.characters(exclude_categories=[]))  # lone surrogates too
SPELLINGS = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,4})?", fullmatch=True)


class Spelled:
    """A number by its spelling, for the trees below."""

    def __init__(self, spelling: str) -> None:
        self.spelling = spelling

    def __repr__(self) -> str:
        return self.spelling


TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), TEXT, SPELLINGS.map(Spelled)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)


def spell(tree: Any, comma: str = ",", colon: str = ":") -> str:
    """Write a tree as JSON, numbers as spelled."""
    if isinstance(tree, Spelled):
        return tree.spelling
    if isinstance(tree, list):
        return f"[{comma.join(spell(item, comma, colon) for item in tree)}]"
    if isinstance(tree, dict):
        items = (f"{json.dumps(key)}{colon}{spell(value, comma, colon)}" for key, value in tree.items())
        return f"{{{comma.join(items)}}}"
    return json.dumps(tree)


def pairs(data: bytes | str) -> Any:
    """Read JSON with the standard library, every number as its spelling, every key in its place."""

    def number(spelling: str) -> tuple[str, str]:
        return ("number", spelling)

    return json.loads(data, parse_int=number, parse_float=number, object_pairs_hook=lambda found: ("object", found))


@given(TREES)
def test_every_value_key_order_and_spelling_survives(tree: Any) -> None:
    """Reading and writing any JSON keeps values, order of keys and the spelling of numbers."""
    text = spell(tree)
    assert pairs(text) == pairs(wire.dumps(wire.loads(text.encode())))


@given(TREES)
def test_whitespace_between_values_changes_nothing(tree: Any) -> None:
    """The same text, spread out, is read to the same value."""
    compact, spread = spell(tree), spell(tree, ",\r\n\t", " : ")
    assert wire.dumps(wire.loads(compact.encode())) == wire.dumps(wire.loads(f" {spread}\n".encode()))


@given(st.binary(max_size=40))
def test_bytes_that_are_no_json_are_a_value_error(data: bytes) -> None:
    """Whatever the bytes, there is a value or a ValueError."""
    try:
        value = wire.loads(data)
    except ValueError:
        return
    assert pairs(data) == pairs(wire.dumps(value))


@pytest.mark.parametrize(
    "text",
    [
        "1.0",
        "1.10",
        "1e5",
        "1E+5",
        "-0",
        "-0.0",
        "0e0",
        "1e400",
        "-1e400",
        "0.1000000000000000055511151231257827",
        "9007199254740993",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775809",
        "1" * 5000,
        "-" + "1" * 5000,
        "1" * 4000,
        '[1.0e0,{"a":[18446744073709551616,1.50]}]',
    ],
)
def test_numbers_keep_their_spelling(text: str) -> None:
    """Numbers that floats or 64 bits cannot hold come back as they were spelled."""
    assert text.encode() == wire.dumps(wire.loads(text.encode()))


def test_exact_numbers_are_numbers() -> None:
    """A spelled number counts as what it is."""
    found = wire.loads(b"[1.10,18446744073709551616]")
    assert found == [1.1, 18446744073709551616]
    assert isinstance(found[0], float) and isinstance(found[1], int)
    assert found[0] * 2 == 2.2


@pytest.mark.parametrize("value", [10**30, -(10**30), 2**64, -(2**63) - 1])
def test_what_was_reckoned_with_exact_numbers_can_be_written(value: int) -> None:
    """A whole number past 64 bits is written whether it was read or computed, a truth value as one."""
    text = f'{{"a":[{value},true,1]}}'.encode()
    assert text == wire.dumps({"a": [value, True, 1]})
    assert f"[{value - 1}]".encode() == wire.dumps([wire.loads(f"[{value}]".encode())[0] - 1])


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "[NaN]", '{"a":1.50,"b":NaN}'])
def test_what_is_no_json_number_is_refused(text: str) -> None:
    """NaN and infinities are Python's, not JSON's."""
    with pytest.raises(ValueError, match="not JSON"):
        wire.loads(text.encode())


def test_lone_surrogates_are_written_as_escapes() -> None:
    """Half a surrogate pair survives beside an exact number, in keys too."""
    text = rb'{"\ud800":["\udfff",1.10,"x"],"a":{"b":"\ud83d"}}'
    assert text == wire.dumps(wire.loads(text))


def test_a_pair_of_surrogates_is_one_character() -> None:
    """Escaped pairs are joined."""
    assert '"😀"'.encode() == wire.dumps(wire.loads(rb'"\ud83d\ude00"'))


def test_of_a_key_that_comes_twice_the_last_value_stays() -> None:
    """Duplicate keys are read as JavaScript and Python read them."""
    assert wire.loads(b'{"a":1,"a":2}') == {"a": 2}


@pytest.mark.parametrize("inner", [b"", b"1", b"1.0e0", rb'"\ud800"', b'{"a":1.50}'])
@pytest.mark.parametrize("depth", [100, 250, 255, 300, 900, 1023, 1025, 5000, 200_000])
def test_nesting_is_read_and_written_or_refused(depth: int, inner: bytes) -> None:
    """However deep, what is read can be written, and the rest is a ValueError."""
    text = b"[" * depth + inner + b"]" * depth
    if depth <= 250:
        assert text == wire.dumps(wire.loads(text))
    else:
        with pytest.raises(ValueError, match="nested too deeply"):
            wire.loads(text)


def test_what_was_read_at_the_limit_can_be_wrapped_and_written() -> None:
    """Around the deepest value there is room for our own layers."""
    for text in (b"[" * 254 + b"]" * 254, b'{"a":' * 253 + rb'"\ud800"' + b"}" * 253):
        value = wire.loads(text)
        assert b'{"x":{"y":[%b]}}' % text == wire.dumps({"x": {"y": [value]}})


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b'"\xed\xa0\x80"', b'"\x01"', b"{}{}", b"[1,]", b"\xef\xbb\xbf{}"]
)
def test_bad_documents_are_refused(data: bytes) -> None:
    """Broken, unfinished and wrongly encoded texts are ValueErrors."""
    with pytest.raises(ValueError, match=r"."):
        wire.loads(data)


def test_only_json_values_can_be_written() -> None:
    """An object that is no JSON is refused loudly."""
    with pytest.raises(TypeError):
        wire.dumps({"a": object()})


def test_subclasses_are_written_as_what_they_are() -> None:
    """Text, integers and floats of subclasses are plain JSON."""

    class Text(str):
        pass

    class Number(int):
        pass

    class Real(float):
        pass

    assert wire.dumps([Text("a"), Number(5), Real(1.5)]) == b'["a",5,1.5]'
    assert math.isclose(1.5, wire.loads(b"1.5"))


@pytest.mark.parametrize("key", [1, None, 1.5, ("a",)])
def test_a_key_that_is_no_text_is_refused(key: object) -> None:
    """Rather than written as what no reader takes."""
    with pytest.raises(TypeError):
        wire.dumps({"a": {key: 1}})
