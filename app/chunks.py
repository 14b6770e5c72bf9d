"""The chunks of an answer: what upstream sends, made into what every client library can take.

What is changed is little and listed in the documentation under "Fidelity"; everything else passes as it came, keys
in order. The rules that need memory (first role of a choice, tool call fragments, finish reasons, usage) live in
``Normalizer``, one per stream.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from . import wire
from .errors import GatewayError, UpstreamProtocolError, from_upstream
from .pipeline import Chunk

__all__ = ["Normalizer", "chunk_of_completion"]

_HEAD = ("id", "object", "created", "model")
_FRAME = frozenset({*_HEAD, "provider", "system_fingerprint", "service_tier", "choices"})
_CHOICE_FRAME = frozenset({"index", "delta", "finish_reason"})
_INDEXED = ("reasoning_details", "images", "annotations")


def chunk_of_completion(completion: dict[str, Any]) -> Chunk:
    """Make one chunk of a whole (not streamed) completion, for upstreams that answer JSON to a stream request."""
    if not ("choices" in completion or "error" in completion):
        words = completion.get("message") or completion.get("detail")
        return {"error": {"message": words or "upstream's JSON is no completion", "code": completion.get("code")}}
    chunk = {**completion, "object": "chat.completion.chunk"}
    choices = completion.get("choices")
    chunk["choices"] = [
        {("delta" if key == "message" else key): value for key, value in choice.items()}
        for choice in (choices if isinstance(choices, list) else [])
        if isinstance(choice, dict)
    ]
    return chunk


@dataclass(slots=True)
class _Tool:
    id: Any = None
    name: Any = None
    type: Any = None


class Normalizer:
    """Brings one stream's chunks into shape and remembers what has to be said at its end.

    Args:
        completion_id: the ``id`` that every chunk gets.
        own_key: whether the operator's key was used (see ``errors.from_upstream``).
        secret: the key, to be masked in upstream's error texts.
        keep_debug: pass upstream's debug chunks on.

    Attributes:
        generation_id: upstream's own id of the answer.
        usage: upstream's last usage object, or None.
        finishes: finish reason by choice index, of the choices that have ended.
        begun: indices of the choices that have begun, in order.
        failure: the error that upstream told in the stream, or None.
    """

    def __init__(
        self, completion_id: str, *, own_key: bool = False, secret: str | None = None, keep_debug: bool = False
    ) -> None:
        self.id = completion_id
        self.created: int | None = None
        self.model: str | None = None
        self._shown_model: str | None = None
        self.provider: str | None = None
        self.generation_id: str | None = None
        self.usage: dict[str, Any] | None = None
        self.begun: dict[int, None] = {}
        self.finishes: dict[int, str] = {}
        self.failure: GatewayError | None = None
        self._own_key, self._secret, self._keep_debug = own_key, secret, keep_debug
        self._tools: dict[int, dict[int, _Tool]] = {}
        self._items: dict[tuple[int, str], tuple[int, Any, Any]] = {}

    def feed(self, chunk: Any) -> list[Chunk]:
        """Take one parsed event of upstream; give the chunks it stands for, finish chunks apart.

        Sets ``failure`` when the event tells an error; what it holds beside the error is still given.

        Raises:
            UpstreamProtocolError: the event is no object.
        """
        if not isinstance(chunk, dict):
            raise UpstreamProtocolError("upstream sent an event that is no JSON object: expected a completion chunk")
        if chunk.get("object") == "error" and "error" not in chunk:
            chunk = {"error": chunk}  # some servers put the error where the chunk belongs
        self._learn(chunk)
        taken = self._take_usage(chunk)
        if "error" in chunk:
            error = chunk.pop("error")
            taken = True
            if error:
                self._fail(error)
        if "user_id" in chunk and self._own_key:
            del chunk["user_id"]  # of the gateway's account at upstream, which is no client's business
            taken = True
        if "debug" in chunk and not self._keep_debug:
            del chunk["debug"]
            taken = True
        chunk = self._stamped(chunk)
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            choices = chunk["choices"] = []
        return self._choices(chunk, choices, taken)

    def head(self) -> Chunk:
        """Give the head that every chunk of this stream shares."""
        if self.created is None:
            self.created = int(time.time())
        return {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": (self.model or "") if self._shown_model is None else self._shown_model,
        }

    def unfinished(self) -> list[int]:
        """Give the indices of the choices that have begun and not ended."""
        return [index for index in self.begun if index not in self.finishes]

    @property
    def is_whole(self) -> bool:
        """Whether every choice that began has ended."""
        return bool(self.begun) and not self.unfinished()

    def finish_chunk(self, index: int) -> Chunk:
        """Make the finish chunk of a choice lacking one, with upstream's reason if any; the choice has ended."""
        reason = self.finishes.setdefault(index, "tool_calls" if self._tools.get(index) else "stop")
        return {**self.head(), "choices": [{"index": index, "delta": {}, "finish_reason": reason}]}

    def _learn(self, chunk: Chunk) -> None:
        created = chunk.get("created")
        if self.created is None and isinstance(created, int) and not isinstance(created, bool):
            self.created = created
        if self.generation_id is None and isinstance(chunk.get("id"), str):
            self.generation_id = chunk["id"]
        if self.provider is None and isinstance(chunk.get("provider"), str):
            self.provider = chunk["provider"]
        if self.model is None and isinstance(chunk.get("model"), str):
            self.model = chunk["model"] or None

    def _stamped(self, chunk: Chunk) -> Chunk:
        """Give *chunk* the head it shares with the others; what was missing comes first."""
        if self._shown_model is None:
            # Upstream may name its model late; what clients are shown stays as the first chunk had it.
            self._shown_model = self.head()["model"]
        if not ("id" in chunk and "object" in chunk and "created" in chunk and "model" in chunk):
            chunk = {**{key: value for key, value in self.head().items() if key not in chunk}, **chunk}
        chunk["id"] = self.id
        chunk["created"] = self.created
        chunk["model"] = self._shown_model
        return chunk

    def _take_usage(self, chunk: Chunk) -> bool:
        if "usage" not in chunk:
            return False
        usage = chunk.pop("usage")
        if isinstance(usage, dict):
            self.usage = usage
        return True

    def _fail(self, error: Any, http_status: int = 200) -> None:
        if self.failure is None:
            self.failure = from_upstream(error, http_status, own_key=self._own_key, secret=self._secret)

    def _choices(self, chunk: Chunk, choices: list[Any], taken: bool) -> list[Chunk]:
        kept: list[Chunk] = []
        ends: list[Chunk] = []
        for place, choice in enumerate(choices):
            if not isinstance(choice, dict):
                continue
            taken |= self._choice(choice, place)
            reason = choice.get("finish_reason") or None  # a blank one says nothing
            if reason is None:
                if "finish_reason" in choice:
                    choice["finish_reason"] = None
                kept.append(choice)
            else:
                self._end(choice, reason, kept, ends)
        chunk["choices"] = kept
        if not ends:
            return [] if self._is_left_with_nothing(chunk, kept, taken) else [chunk]
        frame = {key: value for key, value in chunk.items() if key in _FRAME}
        out = [{**frame, "choices": [end]} for end in ends]
        if self._is_left_with_nothing({}, kept, taken):
            # No choice stays: what else the event holds rides on its first end, not on a chunk without choices.
            out[0] = {**chunk, "choices": [ends[0]]}
            return out
        return [chunk, *out]

    def _choice(self, choice: Chunk, place: int) -> bool:
        """Bring one choice into shape; tell whether something was taken out of it."""
        index = choice.get("index")
        if not isinstance(index, int) or isinstance(index, bool):
            index = choice["index"] = place
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = choice["delta"] = {}
        taken = self._take_usage(choice)  # some providers put it here
        if "error" in choice:
            error = choice.pop("error")
            taken = True
            if error:
                self._fail(error)
        if index not in self.begun:
            self.begun[index] = None
            if not delta.get("role") or not isinstance(delta["role"], str):
                choice["delta"] = delta = {"role": "assistant", **{k: v for k, v in delta.items() if k != "role"}}
        elif "role" in delta:
            del delta["role"]
            taken = True
        if "tool_calls" in delta:
            self._tool_calls(index, delta)
        for key in _INDEXED:
            if isinstance(delta.get(key), list):
                self._number(index, key, delta[key])
        return taken

    def _end(self, choice: Chunk, reason: Any, kept: list[Chunk], ends: list[Chunk]) -> None:
        """Split a choice with a finish reason into its text, if any, and its end."""
        index, delta = choice["index"], choice["delta"]
        has_text = any(not _is_blank(value) for key, value in delta.items() if key != "role")
        is_error = reason == "error"
        if is_error:
            self._fail({"message": 'upstream ended the answer with finish_reason "error" and gave no reason'})
        if has_text or is_error or index in self.finishes:
            text = {**choice, "finish_reason": None}
            if "native_finish_reason" in text:
                text["native_finish_reason"] = None
            if has_text:
                kept.append(text)
            choice = {**choice, "delta": {}}
            if choice.get("logprobs") is not None:
                choice["logprobs"] = None
        if not is_error and index not in self.finishes:
            self.finishes[index] = reason if isinstance(reason, str) else str(reason)
            choice["finish_reason"] = self.finishes[index]
            ends.append(choice)

    @staticmethod
    def _is_left_with_nothing(chunk: Chunk, kept: list[Chunk], taken: bool) -> bool:
        for choice in kept:
            delta = choice["delta"]
            if (delta and not taken) or not all(map(_is_blank, delta.values())):
                return False
            if any(value is not None for key, value in choice.items() if key not in _CHOICE_FRAME):
                return False
        return all(value is None for key, value in chunk.items() if key not in _FRAME)

    def _tool_calls(self, choice_index: int, delta: Chunk) -> None:
        calls = delta["tool_calls"]
        if not isinstance(calls, list):
            if calls is None:
                return
            calls = [calls]
        before: set[int] = set()
        delta["tool_calls"] = [
            self._tool_call(choice_index, call, before) if isinstance(call, dict) else call for call in calls
        ]

    def _tool_call(self, choice_index: int, call: Chunk, before: set[int]) -> Chunk:
        """Bring one fragment into shape; *before* holds the indices that this event's list has used."""
        known = self._tools.setdefault(choice_index, {})
        index, identity = call.get("index"), call.get("id")
        if not isinstance(index, int) or isinstance(index, bool):
            index = self._place_of(known, call, before)
            call = {"index": index, **{k: v for k, v in call.items() if k != "index"}}
        tool = known.get(index)
        if tool is None or (identity and tool.id and identity != tool.id):
            tool = known[index] = _Tool()
        before.add(index)
        _once(call, "id", tool)
        _once(call, "type", tool)
        function = call.get("function")
        if isinstance(function, dict):
            _once(function, "name", tool)
            if "arguments" in function and not isinstance(function["arguments"], str):
                arguments = function["arguments"]
                function["arguments"] = "" if arguments is None else wire.dumps(arguments).decode()
        return call

    @staticmethod
    def _place_of(known: dict[int, _Tool], call: Chunk, before: set[int]) -> int:
        """Find the index of a tool call fragment that came without one."""
        identity, function = call.get("id"), call.get("function")
        if not identity:
            last = max(known, default=0)
            name = function.get("name") if isinstance(function, dict) else None
            is_new = name and last in known and (last in before or known[last].name not in (None, "", name))
            return last + 1 if is_new else last
        for index, tool in known.items():
            if tool.id == identity:
                return index
        return max(known, default=-1) + 1

    def _number(self, choice_index: int, key: str, items: list[Any]) -> None:
        """Give each list item an index: client libraries merge by it."""
        for item in items:
            if not isinstance(item, dict):
                continue
            last, kind, identity = self._items.get((choice_index, key), (-1, None, None))
            index = item.get("index")
            if not isinstance(index, int) or isinstance(index, bool):
                continues = key == "reasoning_details" and last >= 0 and kind == item.get("type")
                same = item.get("id") is None or identity is None or identity == item.get("id")
                index = item["index"] = last if continues and same else last + 1
            known = identity if index == last else None
            self._items[choice_index, key] = (index, item.get("type"), item.get("id") or known)


def _is_blank(value: Any) -> bool:
    return value is None or value == "" or value == [] or value == {}


def _once(holder: Chunk, key: str, tool: _Tool) -> None:
    """Keep *key* in a tool call fragment only the first time it says something."""
    if key not in holder:
        return
    value, seen = holder[key], getattr(tool, key)
    if value is None or (seen is not None and (not value or value == seen)):
        del holder[key]
    elif not seen:
        setattr(tool, key, value)
