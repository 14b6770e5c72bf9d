"""The state of one scripted stream and the writing of its events."""

from __future__ import annotations

import json
import re
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from .operations import Body

__all__ = ["Stream", "Style", "split_words", "usage_of"]

_LINE_ENDS = {"lf": ("\n",), "crlf": ("\r\n",), "cr": ("\r",), "mixed": ("\n", "\r\n", "\r")}
_LINE_BREAK = re.compile(r"\r\n|\n|\r")


def split_words(text: str) -> list[str]:
    """Tokens of a text: each word with the white space before it. Joined they are the text again."""
    return re.findall(r"\s*\S+|\s+$", text)


def usage_of(prompt_tokens: int, completion_tokens: int, reasoning_tokens: int = 0) -> dict[str, Any]:
    """A usage object as OpenRouter gives it, free of charge."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "cost": 0,
        "is_byok": False,
        "prompt_tokens_details": {"cached_tokens": 0},
        "cost_details": {"upstream_inference_cost": None},
        "completion_tokens_details": {"reasoning_tokens": reasoning_tokens},
    }


@dataclass(slots=True)
class Style:
    """How events are written; the step `style` changes it for the events that follow it."""

    line_ending: str = "lf"
    space: str = " "
    json: str = "compact"
    ascii: bool = False
    role: str = "every"

    def __post_init__(self) -> None:
        layouts, roles = ("compact", "spaced", "pretty"), ("every", "first", "never")
        for name, values in (("line_ending", tuple(_LINE_ENDS)), ("json", layouts), ("role", roles)):
            if getattr(self, name) not in values:
                raise ValueError(f"style {name} must be one of {', '.join(values)}")


@dataclass(slots=True)
class Stream:
    """What a stream has said so far: enough to end it as a good upstream would."""

    model: str = "demo/script"
    provider: str | None = "Demo"
    id: str = field(default_factory=lambda: f"gen-{int(time.time())}-{secrets.token_hex(8)}")
    created: int = field(default_factory=lambda: int(time.time()))
    prompt_tokens: int = 8
    tokens: int = 0
    reasoning_tokens: int = 0
    usage_form: str = "empty"
    pace: float | None = None
    style: Style = field(default_factory=Style)
    base: dict[str, Any] = field(default_factory=dict)
    begun: list[int] = field(default_factory=list)
    finished: dict[int, str] = field(default_factory=dict)
    called_tools: bool = False
    has_usage: bool = False
    has_error: bool = False
    has_done: bool = False
    calls: int = 0
    _lines: int = 0
    _line_ended: str = ""

    @property
    def usage(self) -> dict[str, Any]:
        """The usage so far."""
        return usage_of(self.prompt_tokens, self.tokens + self.reasoning_tokens, self.reasoning_tokens)

    def delta(self, delta: dict[str, Any], choice: int = 0, **more: Any) -> dict[str, Any]:
        """A choice with a delta; `more` are further keys of the choice or replacements of its usual ones."""
        role = self.style.role == "every" or (self.style.role == "first" and choice not in self.begun)
        head = {"role": "assistant"} if role and "role" not in delta else {}
        usual = {"finish_reason": None, "native_finish_reason": None, "logprobs": None}
        return {"index": choice, "delta": head | delta} | usual | more

    def chunk(self, *choices: dict[str, Any], **more: Any) -> Body:
        """An event with a usual chunk that holds these choices."""
        return self.object(self.envelope() | {"choices": list(choices)} | more)

    def envelope(self) -> dict[str, Any]:
        """The keys that every chunk has, but for `choices`."""
        usual: dict[str, Any] = {"id": self.id}
        if self.provider is not None:
            usual["provider"] = self.provider
        usual |= {"model": self.model, "object": "chat.completion.chunk", "created": self.created}
        return {name: value for name, value in (usual | self.base).items() if value is not None}

    def object(self, value: Any) -> Body:
        """An event with any JSON value, whose choices, usage and error are taken note of."""
        if isinstance(value, dict):
            self._note(value)
        return self.event(self.dumps(value))

    def event(self, data: str, *, space: str | None = None, blank: bool = True, event: str | None = None) -> Body:
        """An event with this data, a line break in which makes a further data line."""
        gap = self.style.space if space is None else space
        lines = [f"event: {event}"] if event is not None else []
        lines += [f"data:{gap}{line}" for line in _LINE_BREAK.split(data)]
        return self.lines([*lines, ""] if blank else lines)

    def lines(self, lines: list[str]) -> Body:
        """Lines as they are, each with the line ending in force."""
        return Body("".join(line + self._line_end(line) for line in lines).encode("utf-8", "surrogatepass"))

    def dumps(self, value: Any) -> str:
        """JSON in the layout in force."""
        indent = 1 if self.style.json == "pretty" else None
        separators = (",", ":") if self.style.json == "compact" else None
        text = json.dumps(value, ensure_ascii=self.style.ascii, indent=indent, separators=separators)
        if not self.style.ascii and re.search("[\ud800-\udfff]", text):
            return json.dumps(value, indent=indent, separators=separators)  # UTF-8 has no lone surrogates
        return text

    def _line_end(self, line: str) -> str:
        ends = _LINE_ENDS[self.style.line_ending]
        self._lines += 1
        end = ends[self._lines % len(ends)]
        if not line and end == "\n" and self._line_ended == "\r":
            end = "\r\n"  # a line feed right behind a carriage return would end no line of its own
        self._line_ended = end
        return end

    def _note(self, chunk: dict[str, Any]) -> None:
        self.has_usage = self.has_usage or chunk.get("usage") is not None
        self.has_error = self.has_error or chunk.get("error") is not None
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                continue
            index = choice.get("index", 0)
            if isinstance(index, int) and index not in self.begun:
                self.begun.append(index)
            reason = choice.get("finish_reason")
            if reason is not None:
                self.finished[index] = reason
            self.has_error = self.has_error or reason == "error" or choice.get("error") is not None
            delta = choice.get("delta")
            self.called_tools = self.called_tools or (isinstance(delta, dict) and bool(delta.get("tool_calls")))
