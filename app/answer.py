"""A whole answer, put together from its chunks, for clients that did not ask for a stream."""

from __future__ import annotations

from typing import Any

from .pipeline import Chunk

__all__ = ["Answer"]

_FIELD_TEXT = frozenset({"content", "reasoning", "reasoning_content", "refusal"})
_AUDIO_TEXT = frozenset({"data", "transcript"})
_CALL_TEXT = frozenset({"name", "arguments", "input"})
_CALLED = ("function", "custom")
"""What a tool call calls, with text that comes in pieces."""


class _Text:
    """A text that is still coming, in pieces: joining each to those before would take time by the square."""

    __slots__ = ("pieces",)

    def __init__(self, *pieces: str) -> None:
        self.pieces = [*pieces]


class Answer:
    """Collects chunks and gives the completion in the shape of OpenRouter's ``stream: false``.

    Text fields concatenate, lists append, of anything else the last value wins.
    """

    def __init__(self) -> None:
        self._top: Chunk = {}
        self._choices: dict[int, dict[str, Any]] = {}

    def add(self, chunk: Chunk) -> None:
        """Take one normalised chunk."""
        for key, value in chunk.items():
            if key != "choices":
                self._top[key] = value
        for choice in chunk["choices"]:
            kept = self._choices.setdefault(choice["index"], {"index": choice["index"], "message": {}})
            for key, value in choice.items():
                if key == "delta":
                    _merge_message(kept["message"], value)
                elif key == "logprobs":
                    _merge_logprobs(kept, value)
                elif value is not None or key not in kept:
                    kept[key] = value

    def completion(self, usage: dict[str, Any] | None) -> dict[str, Any]:
        """Give the ``chat.completion`` object."""
        choices = [_finished(self._choices[index]) for index in sorted(self._choices)]
        found = {**self._top, "object": "chat.completion", "choices": choices}
        if usage is not None:
            found["usage"] = usage
        return found


def _finished(choice: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = _joined(choice["message"])
    calls = message.get("tool_calls")
    if calls:
        message["tool_calls"] = [_settled(call) for call in calls]
    has_other = calls or message.get("function_call") or message.get("refusal")
    content = message.get("content") or (None if has_other else "")
    rest = {k: v for k, v in message.items() if k not in ("role", "content", "refusal")}
    whole = {
        "role": message.get("role", "assistant"),
        "content": content,
        "refusal": message.get("refusal") or None,
        **rest,
    }
    return {**{k: v for k, v in choice.items() if k != "message"}, "message": whole}


def _joined(value: Any) -> Any:
    """Give what was merged with its texts whole."""
    if isinstance(value, _Text):
        return "".join(value.pieces)
    if isinstance(value, dict):
        return {key: _joined(part) for key, part in value.items()}
    return [_joined(part) for part in value] if isinstance(value, list) else value


def _settled(call: dict[str, Any]) -> dict[str, Any]:
    settled = {"type": "function", **{k: v for k, v in call.items() if k != "index"}}
    if not isinstance(call.get("custom"), dict):
        settled["function"] = {"arguments": "", **_object_in(call, "function")}
    return settled


def _merge_message(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for key, value in delta.items():
        if key == "tool_calls" and isinstance(value, list):
            for call in value:
                if isinstance(call, dict):
                    if not isinstance(message.get(key), list):
                        message[key] = []
                    _merge_call(message[key], call)
        elif key == "audio" and isinstance(value, dict):
            _merge_fields(_object_in(message, key), value, _AUDIO_TEXT)
        elif key == "function_call" and isinstance(value, dict):
            _merge_fields(_object_in(message, key), value, _CALL_TEXT)
        else:
            _merge_fields(message, {key: value}, _FIELD_TEXT)


def _object_in(holder: dict[str, Any], key: str) -> dict[str, Any]:
    """Give the object under *key*, put there if what is there is none."""
    if not isinstance(holder.get(key), dict):
        holder[key] = {}
    found: dict[str, Any] = holder[key]
    return found


def _merge_fields(kept: dict[str, Any], new: dict[str, Any], text: frozenset[str]) -> None:
    for key, value in new.items():
        old = kept.get(key)
        if key in text and isinstance(value, str) and isinstance(old, _Text):
            old.pieces.append(value)
        elif key in text and isinstance(value, str) and isinstance(old, str):
            kept[key] = _Text(old, value)
        elif isinstance(value, list) and isinstance(old, list):
            old.extend(value)
        elif value is not None or key not in kept:
            kept[key] = list(value) if isinstance(value, list) else value


def _merge_call(calls: list[dict[str, Any]], call: dict[str, Any]) -> None:
    """Join a tool call fragment to its call: the last one of its index, or a new one when a new id appears."""
    for kept in reversed(calls):
        if kept["index"] == call.get("index"):
            if call.get("id") and kept.get("id") and call["id"] != kept["id"]:
                break
            for key in _CALLED:
                if isinstance(call.get(key), dict):
                    _merge_fields(_object_in(kept, key), call[key], _CALL_TEXT)
            kept.update({k: v for k, v in call.items() if k not in (*_CALLED, "index") and v is not None})
            return
    called = {key: dict(call[key]) for key in _CALLED if isinstance(call.get(key), dict)}
    calls.append({"index": call.get("index"), **call, **called})


def _merge_logprobs(choice: dict[str, Any], logprobs: Any) -> None:
    old = choice.get("logprobs")
    if isinstance(old, dict) and isinstance(logprobs, dict):
        _merge_fields(old, logprobs, frozenset())
    elif logprobs is not None or "logprobs" not in choice:
        choice["logprobs"] = dict(logprobs) if isinstance(logprobs, dict) else logprobs
