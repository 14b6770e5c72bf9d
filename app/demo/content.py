"""Steps that say something: text, reasoning, tool calls, images, annotations, and chunks of any kind."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

from .operations import Operation, Wait
from .registry import ScriptError, step, whole
from .stream import Stream, split_words

__all__ = [
    "annotations_",
    "base_",
    "choice",
    "choices",
    "chunk",
    "delta",
    "image",
    "object_",
    "reasoning",
    "text",
    "tool_call",
    "tool_calls",
]


def _paced(bodies: Iterable[Operation], pace: float | None) -> Iterator[Operation]:
    for number, body in enumerate(bodies):
        if number and pace:
            yield Wait(1 / pace)
        yield body


def _tokens(content: str | list[str], whole: bool = False) -> list[str]:
    if isinstance(content, list):
        return content
    return [content] if whole or not content else split_words(content)


@step
def text(
    stream: Stream,
    content: str | list[str],
    *,
    pace: float | None = None,
    choice: int = 0,
    whole: bool = False,
    logprobs: bool | int = False,
) -> Iterator[Operation]:
    def chunks() -> Iterator[Operation]:
        for token in _tokens(content, whole):
            stream.tokens += 1
            more = {"logprobs": _logprobs(token, int(logprobs))} if logprobs else {}
            yield stream.chunk(stream.delta({"content": token}, choice, **more))

    yield from _paced(chunks(), pace or stream.pace)


def _logprobs(token: str, count: int) -> dict[str, Any]:
    top = [
        {"token": token[: len(token) - rank] or token, "logprob": -0.25 * (rank + 1), "bytes": list(token.encode())}
        for rank in range(count)
    ]
    entry = {"token": token, "logprob": -0.25, "bytes": list(token.encode()), "top_logprobs": top}
    return {"content": [entry], "refusal": None}


@step
def choices(
    stream: Stream, texts: list[str | list[str]], *, pace: float | None = None, together: bool = False
) -> Iterator[Operation]:
    columns = [_tokens(content) for content in texts]

    def chunks() -> Iterator[Operation]:
        for row in range(max(map(len, columns), default=0)):
            present = [(index, column[row]) for index, column in enumerate(columns) if row < len(column)]
            stream.tokens += len(present)
            deltas = [stream.delta({"content": token}, index) for index, token in present]
            yield from [stream.chunk(*deltas)] if together else [stream.chunk(delta) for delta in deltas]

    yield from _paced(chunks(), pace or stream.pace)


@step
def reasoning(
    stream: Stream,
    content: str | list[str],
    *,
    details: bool = True,
    index: bool = True,
    type: str = "reasoning.text",
    pace: float | None = None,
    choice: int = 0,
) -> Iterator[Operation]:
    key = {"reasoning.summary": "summary", "reasoning.encrypted": "data"}.get(type, "text")

    def chunks() -> Iterator[Operation]:
        for token in _tokens(content):
            stream.reasoning_tokens += 1
            detail = {"type": type, key: token, "format": "unknown"} | ({"index": 0} if index else {})
            more = {"reasoning_details": [detail]} if details else {}
            yield stream.chunk(stream.delta({"content": "", "reasoning": token} | more, choice))

    yield from _paced(chunks(), pace or stream.pace)


def _pieces(arguments: Any, form: str, pieces: int | list[Any]) -> list[Any]:
    if form == "null":
        return [None]
    if form == "object":
        return [arguments]
    if isinstance(pieces, list):
        return pieces
    spelled = arguments if isinstance(arguments, str) else json.dumps(arguments, separators=(",", ":"))
    size = -(-len(spelled) // max(pieces, 1)) or 1
    return [spelled[start : start + size] for start in range(0, len(spelled), size)] or [""]


def _fragments(
    stream: Stream,
    name: str = "lookup",
    *,
    arguments: Any = "{}",
    form: str = "string",
    pieces: int | list[Any] = 3,
    index: Any = ...,
    id: str | None = None,
    repeat: bool = False,
    null: bool = False,
    whole: bool = False,
) -> Iterator[dict[str, Any]]:
    number, stream.calls = stream.calls, stream.calls + 1
    index = number if index is ... else index
    place = {} if index is None else {"index": index}
    call = {"id": id or f"call_{number}", "type": "function"}
    parts = _pieces(arguments, form, 1 if whole else pieces)
    first = [parts.pop(0)] if whole or form != "string" else [""]
    yield place | call | {"function": {"name": name, "arguments": first[0]}}
    for part in parts:
        stream.tokens += 1
        if repeat:
            yield place | call | {"function": {"name": name, "arguments": part}}
        elif null:
            yield place | {"id": None, "type": None, "function": {"name": None, "arguments": part}}
        else:
            yield place | {"function": {"arguments": part}}


@step
def tool_call(
    stream: Stream, name: str = "lookup", *, choice: int = 0, pace: float | None = None, **options: Any
) -> Iterator[Operation]:
    def chunks() -> Iterator[Operation]:
        for fragment in _fragments(stream, name, **options):
            yield stream.chunk(stream.delta({"content": None, "tool_calls": [fragment]}, choice))

    yield from _paced(chunks(), pace or stream.pace)


@step
def tool_calls(
    stream: Stream, calls: list[dict[str, Any]], *, order: str = "interleaved", choice: int = 0
) -> Iterator[Operation]:
    columns = [list(_fragments(stream, **call)) for call in calls]
    longest = max(map(len, columns), default=0)
    rows = [[column[row] for column in columns if row < len(column)] for row in range(longest)]
    if order == "sequence":
        rows = [[fragment] for column in columns for fragment in column]
    elif order == "interleaved":
        rows = [[fragment] for row in rows for fragment in row]
    elif order != "together":
        raise ScriptError("step 'tool_calls': order is interleaved, sequence or together")
    for row in rows:
        yield stream.chunk(stream.delta({"content": None, "tool_calls": row}, choice))


@step
def image(
    stream: Stream, size: int = 1024, *, count: int = 1, index: bool = False, choice: int = 0
) -> Iterator[Operation]:
    for number in range(count):
        data = base64.b64encode(random.Random(number).randbytes(size)).decode()
        item: dict[str, Any] = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        item |= {"index": number} if index else {}
        yield stream.chunk(stream.delta({"content": "", "images": [item]}, choice))


@step
def annotations_(
    stream: Stream, items: int | list[Any] = 1, *, index: bool = False, choice: int = 0
) -> Iterator[Operation]:
    many = items if isinstance(items, list) else [_citation(number) for number in range(items)]
    for number, item in enumerate(many):
        placed = item | {"index": number} if index else item
        yield stream.chunk(stream.delta({"content": "", "annotations": [placed]}, choice))


def _citation(number: int) -> dict[str, Any]:
    place = {"start_index": number, "end_index": number + 1}
    return {"type": "url_citation", "url_citation": {"url": f"https://example.org/{number}", "title": "Demo"} | place}


@whole
def delta(stream: Stream, delta: dict[str, Any]) -> Iterator[Operation]:
    yield stream.chunk(stream.delta(delta))


@whole
def choice(stream: Stream, choice: dict[str, Any]) -> Iterator[Operation]:
    yield stream.chunk(choice)


@whole
def chunk(stream: Stream, keys: dict[str, Any]) -> Iterator[Operation]:
    yield stream.object(stream.envelope() | keys)


@whole
def object_(stream: Stream, value: Any) -> Iterator[Operation]:
    yield stream.object(value)


@whole
def base_(stream: Stream, keys: dict[str, Any]) -> Iterator[Operation]:
    stream.base |= keys
    return
    yield
