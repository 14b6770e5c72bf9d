"""What the runners share: their command line, the request they make, and what they tell of the answer.

A runner is called with one or more triples BASE_URL SCENARIO PROMPT, plays them one after the other in one process, and
prints a JSON object for each on a line of its own. The scenario says how the client asks; what is answered is the
upstream's affair.

| scenario | how the client asks |
|---|---|
| `blocking` | for the whole answer at once |
| `tools...` | for a stream, offering a tool |
| `usage_on` | for a stream, with usage |
| `abort` | for a stream, and leaves after the first few pieces, the way users of that library do |
| any other | for a stream |
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["ABORT_AFTER", "MODEL", "PARAMETERS", "TOOL", "Report", "assemble", "failure", "flat_usage", "play_all"]

MODEL = "demo/script"
ABORT_AFTER = 3
"""So many pieces of text are read before leaving."""
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Forecast.", "parameters": PARAMETERS, "strict": True},
}


@dataclass
class Report:
    """An answer as the client's user sees it; `left_at` is the moment when an abort was done, in `time.monotonic()`.

    `text` is what came in pieces, `whole` what the client itself put together at the end, if it does.
    `classes` of an `error` are its class and those above it.
    """

    text: str = ""
    whole: str | None = None
    chunks: int = 0
    reasoning: str = ""
    role: str | None = None
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    error: dict[str, Any] | None = None
    left_at: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def add(self, text: str | None) -> None:
        """Take a piece of text."""
        if text:
            self.text += text
            self.chunks += 1

    @property
    def is_enough(self) -> bool:
        """Whether a client that aborts leaves now."""
        return self.chunks >= ABORT_AFTER

    def leave(self) -> None:
        """Note that the client has left."""
        self.left_at = time.monotonic()


def assemble(calls: list[dict[str, Any]], fragment: Any) -> None:
    """Put a fragment of a tool call where its index says; whatever comes twice is there twice."""
    while len(calls) <= fragment.index:
        calls.append({"id": "", "name": "", "arguments": ""})
    call = calls[fragment.index]
    call["id"] += fragment.id or ""
    if fragment.function is not None:
        call["name"] += fragment.function.name or ""
        call["arguments"] += fragment.function.arguments or ""


def flat_usage(usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """Bring OpenAI's usage object into one level."""
    if usage is None:
        return None
    return {
        "prompt_tokens": usage["prompt_tokens"],
        "completion_tokens": usage["completion_tokens"],
        "total_tokens": usage["total_tokens"],
        "cached_tokens": (usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        "reasoning_tokens": (usage.get("completion_tokens_details") or {}).get("reasoning_tokens"),
        "cost": usage.get("cost"),
    }


def failure(error: Exception) -> dict[str, Any]:
    """Describe what a library of ours raised."""
    return {
        "class": type(error).__name__,
        "classes": [cls.__name__ for cls in type(error).__mro__],
        "message": str(error),
        "status": getattr(error, "status_code", None),
        "code": getattr(error, "code", None),
    }


def play_all(play: Callable[[str, str, str, Report], None], arguments: list[str]) -> None:
    """Play each triple and print its report; whatever *play* raises ends the process, as no client should."""
    if not arguments or len(arguments) % 3:
        raise SystemExit(f"usage: {sys.argv[0]} [options] BASE_URL SCENARIO PROMPT ...")
    for start in range(0, len(arguments), 3):
        base_url, scenario, prompt = arguments[start : start + 3]
        report = Report()
        play(base_url, scenario, prompt, report)
        print(json.dumps({"scenario": scenario, **asdict(report)}), flush=True)
