"""Answers for humans: OpenRouter's routes, each request turned into a script and played like any other."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from .exchange import Exchange
from .script import Script
from .stream import Stream, split_words, usage_of
from .texts import KEY, MODELS, STORY, stranger

__all__ = ["Answers"]

_REMEMBERED_GENERATIONS = 1000
_COMMENT_EVERY = 1.0


@dataclass(slots=True)
class Reply:
    """What one chat completion says: for each choice its tokens or, instead of them, one tool call."""

    tokens: list[list[str]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    reasoning: str = ""
    tool: dict[str, Any] | None = None

    def message(self, choice: int) -> dict[str, Any]:
        """The assistant's message, for an answer in one piece."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self.tokens[choice]), "refusal": None}
        if self.reasoning:
            details = [{"type": "reasoning.text", "text": self.reasoning, "format": "unknown", "index": 0}]
            message |= {"reasoning": self.reasoning, "reasoning_details": details}
        if self.tool is not None:
            function = self.tool | {"arguments": json.dumps(self.tool["arguments"], separators=(",", ":"))}
            call = {"index": 0, "id": "call_0", "type": "function", "function": function}
            message |= {"content": None, "tool_calls": [call]}
        return message


class Answers:
    """Decides what a request that carries no script is answered with."""

    def __init__(self, pace: float, first_token: float, usage_form: str) -> None:
        self._pace, self._first_token, self._usage_form = pace, first_token, usage_form
        self._generations: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def to(self, exchange: Exchange) -> tuple[Script, Stream]:
        """The script that answers, and the stream it speaks in."""
        route = f"{exchange.method} {exchange.path.removeprefix('/api/v1').rstrip('/')}"
        stream = Stream(usage_form=self._usage_form, pace=self._pace or None)
        if route == "POST /chat/completions":
            return self._chat(exchange.body, stream), stream
        if route == "GET /models":
            return _json({"data": MODELS, "links": {"next": None}, "total_count": len(MODELS)}), stream
        if route == "GET /key":
            return _json({"data": KEY}), stream
        if route == "GET /generation":
            told = self._generations.get(exchange.query.get("id", ""))
            return (_json({"data": told}) if told else _error(404, "not_found", "No such generation")), stream
        if exchange.method not in ("GET", "POST"):
            return _error(405, "invalid_request", "Only GET and POST are answered", keep_alive=False), stream
        return _error(404, "not_found", f"The demo upstream has no {exchange.path}"), stream

    def last_user_text(self, body: Any) -> str:
        """The text of the last user message, its parts joined."""
        messages = body.get("messages") if isinstance(body, dict) else None
        for message in reversed(messages if isinstance(messages, list) else []):
            if isinstance(message, dict) and message.get("role") == "user":
                return _text_of(message.get("content"))
        return ""

    def _chat(self, body: Any, stream: Stream) -> Script:
        if not isinstance(body, dict) or not (body.get("messages") or body.get("prompt")):
            return _error(400, "invalid_request", "Input required: specify messages")
        models = body.get("models")
        first = models[0] if isinstance(models, list) and models else "demo/echo"
        stream.model = str(body.get("model") or first)
        stream.prompt_tokens = max(1, len(json.dumps(body.get("messages") or "")) // 4)
        reply = self._reply(body, stream.model)
        self._remember(stream, reply, bool(body.get("stream")))
        return self._streamed(reply) if body.get("stream") else self._blocking(reply, stream)

    def _reply(self, body: dict[str, Any], model: str) -> Reply:
        count = body.get("n") if isinstance(body.get("n"), int) else 1
        reply = Reply(tool=_tool_call(body, model))
        if _thinks(body):
            reply.reasoning = "The user wants an answer. I look at the last message and choose one."
        for _ in range(max(1, min(count or 1, 8))):
            tokens, reason = ([], "tool_calls") if reply.tool else _limited(self._words(body, model), body)
            reply.tokens.append(tokens)
            reply.reasons.append(reason)
        return reply

    def _words(self, body: dict[str, Any], model: str) -> str:
        said = self.last_user_text(body)
        if model == "demo/echo":
            return said or "You said nothing that I could echo."
        if model == "demo/story":
            return STORY
        if model == "demo/tools":
            last = body["messages"][-1] if isinstance(body.get("messages"), list) else {}
            told = _text_of(last.get("content")) if isinstance(last, dict) and last.get("role") == "tool" else ""
            return f"The tool answered: {told}" if told else "Give me tools in the request, and I will call the first."
        return stranger(model)

    def _streamed(self, reply: Reply) -> Script:
        script: Script = [{"comment": None}]
        left = self._first_token
        while left > _COMMENT_EVERY:
            script += [{"wait": _COMMENT_EVERY}, {"comment": None}]
            left -= _COMMENT_EVERY
        script.append({"wait": max(left, 0.0)})
        if reply.reasoning:
            script.append({"reasoning": reply.reasoning})
        if reply.tool is not None:
            script.append({"tool_call": reply.tool})
        elif len(reply.tokens) == 1:
            script.append({"text": reply.tokens[0]})
        else:
            script.append({"choices": {"texts": list(reply.tokens)}})
        return script + [{"finish": {"reason": reason, "choice": i}} for i, reason in enumerate(reply.reasons)]

    def _blocking(self, reply: Reply, stream: Stream) -> Script:
        choices = [
            {
                "index": index,
                "message": reply.message(index),
                "finish_reason": reason,
                "native_finish_reason": reason,
                "logprobs": None,
            }
            for index, reason in enumerate(reply.reasons)
        ]
        whole = stream.envelope() | {"object": "chat.completion", "choices": choices}
        thoughts = len(split_words(reply.reasoning))
        usage = usage_of(stream.prompt_tokens, sum(map(len, reply.tokens)) + thoughts, thoughts)
        return [{"wait": self._first_token}, *_json(whole | {"usage": usage})]

    def _remember(self, stream: Stream, reply: Reply, streamed: bool) -> None:
        tokens = sum(map(len, reply.tokens))
        self._generations[stream.id] = {
            "id": stream.id,
            "model": stream.model,
            "provider_name": stream.provider,
            "streamed": streamed,
            "cancelled": False,
            "finish_reason": reply.reasons[0],
            "native_finish_reason": reply.reasons[0],
            "tokens_prompt": stream.prompt_tokens,
            "tokens_completion": tokens,
            "native_tokens_prompt": stream.prompt_tokens,
            "native_tokens_completion": tokens,
            "native_tokens_reasoning": len(split_words(reply.reasoning)),
            "total_cost": 0,
            "usage": 0,
            "is_byok": False,
        }
        if len(self._generations) > _REMEMBERED_GENERATIONS:
            self._generations.popitem(last=False)


def _json(value: Any) -> Script:
    return [{"answer": {"json": value}}]


def _error(status: int, kind: str, message: str, *, keep_alive: bool = True) -> Script:
    error = {"code": status, "message": message, "metadata": {"error_type": kind}}
    return [{"answer": {"status": status, "json": {"error": error}, "keep_alive": keep_alive}}]


def _text_of(content: Any) -> str:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _thinks(body: dict[str, Any]) -> bool:
    wanted = body.get("reasoning")
    if wanted is None:
        return body.get("include_reasoning") is True
    if not isinstance(wanted, dict):
        return False
    return not wanted.get("exclude") and wanted.get("enabled") is not False and wanted.get("effort") != "none"


def _limited(text: str, body: dict[str, Any]) -> tuple[list[str], str]:
    stop = body.get("stop")
    for mark in [stop] if isinstance(stop, str) else stop if isinstance(stop, list) else []:
        if isinstance(mark, str) and mark:
            text = text.partition(mark)[0]
    tokens = split_words(text)
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if isinstance(limit, int) and len(tokens) > limit:
        return tokens[: max(limit, 0)], "length"
    return tokens, "stop"


def _tool_call(body: dict[str, Any], model: str) -> dict[str, Any] | None:
    functions = {}
    for tool in body.get("tools") if isinstance(body.get("tools"), list) else []:  # type: ignore[union-attr]
        function = tool.get("function") if isinstance(tool, dict) else None
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            functions[function["name"]] = function
    chosen = body.get("tool_choice")
    messages = body.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    answered = isinstance(last, dict) and last.get("role") == "tool"
    if not functions or chosen == "none" or (chosen != "required" and not isinstance(chosen, dict) and answered):
        return None
    if isinstance(chosen, dict) and isinstance(chosen.get("function"), dict):
        function = functions.get(chosen["function"].get("name"))
    else:
        function = next(iter(functions.values())) if chosen == "required" or model == "demo/tools" else None
    return function and {"name": function["name"], "arguments": _arguments(function.get("parameters"))}


def _arguments(schema: Any) -> dict[str, Any]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {name: _example(kind if isinstance(kind, dict) else {}) for name, kind in properties.items()}


def _example(schema: dict[str, Any]) -> Any:
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    examples: dict[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "null": None}
    kind = schema.get("type", "string")
    return _arguments(schema) if kind == "object" else examples.get(kind if isinstance(kind, str) else "", "demo")
