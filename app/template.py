"""Chunks that differ only in their text, which nearly all of a stream's chunks do, relayed without being parsed.

A template is learned from one event and the chunk that was made of it: the bytes before and behind the text, on the
way in and on the way out. An event that has the same bytes around a well-formed JSON string is the same document but
for that string, so the chunk made of it would be the same but for its text.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from . import wire
from .pipeline import Chunk

__all__ = ["Templates", "content_of"]

_MOST = 4
"""Templates of one stream, one for each choice of most answers."""
_TRIES = 16
"""Events that are looked at to learn from; a stream that teaches nothing by then never will."""
_CONTENT = re.compile(rb'"content"\s*:\s*"')
_STRING = re.compile(rb'(?:[^"\\\x00-\x1f]|\\.)*')
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_MARK = "\u2063sluice\u2063"
_MARKED = wire.dumps(_MARK)


class _Template:
    """One shape: ``head`` and ``tail`` around the text of an event, ``before`` and ``behind`` that of the chunk."""

    __slots__ = ("before", "behind", "head", "index", "tail")

    def __init__(self, head: bytes, tail: bytes, before: bytes, behind: bytes, index: int) -> None:
        self.head, self.tail, self.before, self.behind, self.index = head, tail, before, behind, index


class Templates:
    """The templates of one stream.

    Attributes:
        index: choice index of the last match.
    """

    def __init__(self) -> None:
        self._known: list[_Template] = []
        self._tries = 0
        self._last: _Template | None = None
        self._raw = b""
        self._text = ""
        self.index = 0

    def match(self, line: bytes) -> str | None:
        """Give the text of a data *line* that fits a template; None for any other line."""
        for template in self._known:
            end = len(line) - len(template.tail)
            if end >= len(template.head) and line.startswith(template.head) and line.endswith(template.tail):
                raw = line[len(template.head) : end]
                text = _read(raw)
                if text:  # whether an empty text is relayed depends on what stood beside it
                    self._last, self._raw, self._text, self.index = template, raw, text, template.index
                    return text
                return None
        return None

    def render(self, text: str) -> bytes:
        """Give the chunk of the last match with *text*, as JSON; the text of that match keeps its spelling."""
        template = self._last
        assert template is not None
        raw = self._raw if text is self._text else wire.dumps(text)[1:-1]
        return template.before + raw + template.behind

    def chunk(self, text: str) -> Chunk:
        """Give the chunk of the last match with *text* as an object."""
        chunk: Chunk = wire.loads(self.render(text))
        return chunk

    @property
    def may_learn(self) -> bool:
        """Whether another look is worth it."""
        return self._tries < _TRIES

    def learn(self, data: bytes, text: str, chunks: list[Chunk]) -> None:
        """Learn from an event's *data*, the *text* that ``content_of`` gave for it, and the *chunks* made of it."""
        self._tries += 1
        template = _learned(data, text, chunks)
        if template is not None:
            del self._known[_MOST - 1 :]
            self._known.insert(0, template)


def content_of(value: Any) -> str | None:
    """Give the text of an event whose one choice holds a text, perhaps a role, and nothing else of moment."""
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return None
    delta = choices[0].get("delta")
    if not isinstance(delta, dict) or not delta.keys() <= {"content", "role"}:
        return None
    text = delta.get("content")
    return text if isinstance(text, str) and text else None


def _learned(data: bytes, text: str, chunks: list[Chunk]) -> _Template | None:
    if len(chunks) != 1 or content_of(chunks[0]) != text or b"\n" in data:
        return None
    choice = chunks[0]["choices"][0]
    if choice["delta"].keys() != {"content"} or choice.get("finish_reason") is not None:
        return None  # a first chunk, or one that ends its choice: the next ones will be made otherwise
    found = _CONTENT.findall(data)
    place = _CONTENT.search(data)
    if len(found) != 1 or place is None:
        return None
    string = _STRING.match(data, place.end())
    if string is None or _read(string.group()) != text:
        return None
    marked = {**chunks[0], "choices": [{**choice, "delta": {"content": _MARK}}]}
    parts = wire.dumps(marked).split(_MARKED[1:-1])
    if len(parts) != 2:
        return None
    return _Template(b"data: " + data[: place.end()], data[string.end() :], parts[0], parts[1], choice["index"])


def _read(raw: bytes) -> str | None:
    """Read the inside of a JSON string; None where it is none."""
    try:
        if _PLAIN.fullmatch(raw):
            return raw.decode()
        text: str = orjson.loads(b'"%b"' % raw)
    except ValueError:  # bytes that are no UTF-8, half a surrogate pair, a quote inside: for those who parse
        return None
    return text
