from __future__ import annotations

import http.client
import io
from typing import Any

import pytest

from app.head import read_fields, request_head


def test_a_head_is_the_request_line_and_its_fields() -> None:
    """RFC 9112, sections 3 and 5: a line each, and an empty one at the end."""
    found = request_head("POST", "/v1/chat/completions", {"Host": "one:8080", "X-Title": "Caf\u00e9"})
    assert b"POST /v1/chat/completions HTTP/1.1\r\nHost: one:8080\r\nX-Title: Caf\xe9\r\n\r\n" == found


@pytest.mark.parametrize(
    ("name", "value"),
    [("A", "b\r\nC: d"), ("A", "b\n"), ("A", "b\rc"), ("A\r\nB", "c"), ("A", "\u2603")],
)
def test_no_header_can_become_two(name: str, value: str) -> None:
    """A value that came from outside ends neither its line nor the head."""
    with pytest.raises(ValueError, match=r"line break|latin-1"):
        request_head("POST", "/", {"Host": "one", name: value})


@pytest.mark.parametrize("target", ["/a\r\nB: c", "/a\n"])
def test_no_target_ends_its_line(target: str) -> None:
    """Nor does a path."""
    with pytest.raises(ValueError, match="line break"):
        request_head("GET", target, {})


@pytest.mark.parametrize(
    ("head", "fields"),
    [
        (b"A: b\r\n\r\n", {"A": "b"}),
        (b"A: b\n\n", {"A": "b"}),
        (b"A:b\r\na:  c \r\n\r\n", {"A": "b, c"}),
        (b"A : b\r\n\r\n", {"A": "b"}),
        (b"A: b\r\n\tc\r\n d\r\n\r\n", {"A": "b c d"}),
        (b" A: b\r\nC: d\r\n\r\n", {"A": "b", "C": "d"}),
        (b"no colon\r\nA: b\r\n\r\n", {"A": "b"}),
        (b"A: b:c\r\nB:\r\n\r\n", {"A": "b:c", "B": ""}),
        (b"A: \xe9\r\n\r\n", {"A": "\u00e9"}),
        (b"A: b", {"A": "b"}),
        (b"", {}),
    ],
)
def test_fields_are_read_as_they_come(head: bytes, fields: dict[str, str]) -> None:
    """What is no field harms none that is one."""
    found: Any = read_fields(io.BytesIO(head))
    assert fields == {name: found[name] for name in found}


def test_the_body_is_left_alone() -> None:
    """Reading stops at the empty line."""
    file = io.BytesIO(b"A: b\r\n\r\nC: d\r\n")
    read_fields(file)
    assert b"C: d\r\n" == file.read()


@pytest.mark.parametrize("head", [b"A: " + b"b" * 65536 + b"\r\n\r\n", b"A: b\r\n" * 101 + b"\r\n"])
def test_a_head_has_an_end(head: bytes) -> None:
    """Neither a line nor their number grows without limit."""
    with pytest.raises(http.client.HTTPException):
        read_fields(io.BytesIO(head))
