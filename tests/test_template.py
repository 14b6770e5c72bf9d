"""The short cut for chunks that differ only in their text gives what the long way gives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import wire
from app.chunks import Normalizer
from app.template import Templates, content_of

EVENT: dict[str, Any] = {
    "id": "gen-1",
    "provider": "P",
    "model": "m",
    "object": "chat.completion.chunk",
    "created": 17,
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": "x"}, "finish_reason": None, "logprobs": None}],
}


def event(text: str, **changes: Any) -> dict[str, Any]:
    """Give an event like ``EVENT`` with another text."""
    choice = {**EVENT["choices"][0], "delta": {"role": "assistant", "content": text}, **changes}
    return {**EVENT, "choices": [choice]}


def taught(*events: dict[str, Any], spaced: bool = False) -> tuple[Templates, Normalizer]:
    """Give templates that have seen *events*, and the normalizer that made their chunks."""
    templates, normalizer = Templates(), Normalizer("chatcmpl-1")
    for value in events:
        data = json.dumps(value).encode() if spaced else wire.dumps(value)
        text = content_of(value)
        chunks = normalizer.feed(wire.loads(data))
        if text is not None:
            templates.learn(data, text, chunks)
    return templates, normalizer


def line_of(value: Any) -> bytes:
    """Give the data line of an event."""
    return b"data: " + wire.dumps(value)


@settings(max_examples=500, deadline=None)
@given(text=st.text(st.characters(codec=None), min_size=1), escape=st.booleans(), spaced=st.booleans())
def test_any_text_comes_out_as_the_long_way_gives_it(text: str, escape: bool, spaced: bool) -> None:
    """Whatever the text and its spelling, the chunk is the one that parsing would have given."""
    templates, normalizer = taught(event("a"), event("b"), spaced=spaced)
    line = b"data: " + json.dumps(event(text), ensure_ascii=escape).encode("utf-8", "surrogatepass")
    if not spaced:
        line = line.replace(b'": ', b'":').replace(b', "', b',"') if text.isalnum() else line_of(event(text))

    got = templates.match(line)

    if got is not None:
        expected = normalizer.feed(wire.loads(line[6:]))
        assert text == got
        assert expected == [wire.loads(templates.render(got))] == [templates.chunk(got)]
        assert list(expected[0]) == list(templates.chunk(got))


def test_plain_chunks_fit() -> None:
    """From the third event of a choice on nothing is parsed."""
    templates, _ = taught(event("a"), event("b"))

    assert "hello" == templates.match(line_of(event("hello")))
    assert "é🔥\n\u2028" == templates.match(line_of(event("é🔥\n\u2028")))
    assert b'"content":"bye"' in templates.render("bye")


def test_the_first_chunk_of_a_choice_teaches_nothing() -> None:
    """It carries the role, which the next ones must not."""
    templates, _ = taught(event("a"))

    assert templates.match(line_of(event("b"))) is None


@pytest.mark.parametrize(
    "other",
    [
        event("a", finish_reason="stop"),
        event("a", index=1),
        event("a", logprobs={"content": []}),
        {**event("a"), "usage": {"total_tokens": 1}},
        {**event("a"), "error": {"message": "no"}},
        {**event("a"), "model": "another"},
        {**event("a"), "choices": [*event("a")["choices"], *event("b")["choices"]]},
    ],
)
def test_whatever_differs_elsewhere_does_not_fit(other: dict[str, Any]) -> None:
    """Only events with the same bytes around the text take the short cut."""
    templates, _ = taught(event("a"), event("b"))

    assert templates.match(line_of(other)) is None


@pytest.mark.parametrize(
    "inside", [b'x","y":"z', b"x\\", b"\\x", b"a\nb", b"\x00", b"\\ud800", b"\xff", b'"', b'\\"', b"\\u00"]
)
def test_what_is_no_json_string_does_not_fit(inside: bytes) -> None:
    """Text that ends early, breaks off in an escape or is no UTF-8 is left to the parser."""
    templates, _ = taught(event("a"), event("b"))
    head, tail = line_of(event("MARK")).split(b"MARK")

    got = templates.match(head + inside + tail)

    if inside == b'\\"':
        assert '"' == got
    else:
        assert got is None


def test_overlapping_ends_do_not_fit() -> None:
    """A line shorter than both ends together is none of the template's."""
    templates, _ = taught(event("a"), event("b"))
    head, tail = line_of(event("MARK")).split(b"MARK")

    assert templates.match(head[:-1] + tail) is None
    assert templates.match(head + tail) is None


def test_a_content_key_elsewhere_teaches_nothing() -> None:
    """Where the text cannot be found without doubt there is no template."""
    odd = {**event("a"), "vendor": {"content": "b"}}
    templates, _ = taught(event("x"), odd, odd)

    assert templates.match(line_of(odd)) is None


def test_a_stream_that_teaches_nothing_is_not_asked_for_ever() -> None:
    """After sixteen tries it is left alone."""
    templates, _ = taught(*({**event("a"), "vendor": {"content": "b"}} for _ in range(20)))

    assert not templates.may_learn
