"""AutoTune: fills the sampling parameters that a client left out, from the context of its conversation.

Cost: one detection per request, well under 200 microseconds for 2,000 characters; nothing per chunk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import ConfigurationError, RequestError
from ..pipeline import ChatRequest, Endpoint, Learned, Notes, Schema, Stage
from ..settings import Settings
from ..shape import BOOLEAN, NUMBER, STRING, array_of, object_of, one_of, or_null
from ..text.context import Detection, detect
from ..text.weights import shipped

__all__ = ["PARAMS", "STRATEGIES", "AutoTune", "Tuning"]

PARAMS = ("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "repetition_penalty")
_ROWS = {
    "precise": (0.2, 0.85, 30, 0.3, 0.1, 1.1),
    "balanced": (0.7, 0.9, 50, 0.1, 0.1, 1.0),
    "creative": (1.1, 0.95, 80, 0.4, 0.6, 1.15),
    "chaotic": (1.6, 0.98, 100, 0.7, 0.8, 1.25),
}
_CONTEXT_ROWS = {
    "code": (0.15, 0.8, 25, 0.2, 0.0, 1.05),
    "creative": (1.15, 0.95, 85, 0.5, 0.7, 1.2),
    "analytical": (0.4, 0.88, 40, 0.2, 0.15, 1.08),
    "conversational": (0.75, 0.9, 50, 0.1, 0.1, 1.0),
    "chaotic": (1.7, 0.99, 100, 0.8, 0.9, 1.3),
}
STRATEGIES = ("adaptive", *_ROWS)
_BOUNDS = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "top_k": (1.0, 100.0),
    "frequency_penalty": (-2.0, 2.0),
    "presence_penalty": (-2.0, 2.0),
    "repetition_penalty": (0.0, 2.0),
}
_SURE = 0.6
"""Confidence from which a context's row is used undiluted."""
_LONG = 10
"""Earlier messages from which repetition is discouraged."""
_OPENROUTER_ONLY = ("top_k", "repetition_penalty")
_HISTORY = array_of(object_of({"role": STRING, "content": {"type": ["string", "array", "null"]}}, ["role"]))
_OVERRIDES = object_of({name: or_null(NUMBER) for name in PARAMS}, (), additionalProperties=False)
_ANALYZED = object_of(
    {
        "message": {"type": "string", "pattern": r"\S", "examples": ["Sort a list in Python."]},
        "conversation_history": or_null(_HISTORY),
        "strategy": or_null(one_of(STRATEGIES)),
        "overrides": or_null(_OVERRIDES, description="Used in any case, brought within their bounds."),
    },
    ["message"],
)
_VALUES = object_of(
    {name: {"type": "number", "minimum": low, "maximum": high} for name, (low, high) in _BOUNDS.items()}
)
_DELTA = {"param": one_of(PARAMS), "before": NUMBER, "after": NUMBER, "delta": NUMBER, "reason": STRING}
_DECISION = object_of(
    {
        "params": _VALUES,
        "detected_context": one_of(_CONTEXT_ROWS),
        "confidence": NUMBER,
        "reasoning": STRING,
        "context_scores": array_of(object_of({"type": one_of(_CONTEXT_ROWS), "score": NUMBER, "percentage": NUMBER})),
        "pattern_matches": array_of(object_of({"pattern": STRING, "source": one_of(["current", "history"])})),
        "param_deltas": array_of(object_of(_DELTA)),
        "baseline_params": _VALUES,
    }
)


class Tuning(NamedTuple):
    """One decision: the parameters, the row they started from, and what was detected (adaptive only)."""

    params: dict[str, float]
    baseline: dict[str, float]
    detection: Detection | None
    learned: Mapping[str, float]


class AutoTune(Stage):
    """See the module.

    Args:
        enabled: runs for requests that do not say.
        strategy: for requests that do not say, one of ``STRATEGIES``.
        openrouter: upstream takes OpenRouter's own parameters.

    Raises:
        ConfigurationError: there is no such strategy.
    """

    name = "autotune"
    order = 10
    fields = ("autotune", "strategy")

    def __init__(self, *, enabled: bool = True, strategy: str = "adaptive", openrouter: bool = True) -> None:
        if strategy not in STRATEGIES:
            raise ConfigurationError(f"SLUICE_STRATEGY: expected one of {', '.join(STRATEGIES)}, got {strategy[:40]!r}")
        self._enabled, self._strategy, self._openrouter = enabled, strategy, openrouter
        self._learned: Learned = lambda context: {}
        if enabled:
            shipped()  # a third of a second's work, which no request shall wait for

    @classmethod
    def from_settings(cls, settings: Settings) -> AutoTune:
        """Make the stage from settings."""
        openrouter = settings.upstream_params == "openrouter"
        return cls(enabled=settings.autotune, strategy=settings.strategy, openrouter=openrouter)

    def prepare(self, request: ChatRequest, notes: Notes) -> ChatRequest:
        """Fill in what the client left out; leave the request alone where AutoTune does not run."""
        enabled = request.options.get("autotune")
        if enabled is not None and not isinstance(enabled, bool):
            raise RequestError("autotune: expected true or false", param="autotune")
        strategy = _strategy(request.options.get("strategy"), self._strategy)
        if not (self._enabled if enabled is None else enabled) or not _may_run(request):
            return request
        message, history = _conversation(request.body["messages"])
        if not message.strip():
            return request
        tuning = self.tune(message, history, strategy)
        left_out = [name for name in PARAMS if name not in request.sent and self._may_send(name, request.body)]
        notes[self.name] = {
            "detected_context": tuning.detection.context if tuning.detection else None,
            "confidence": tuning.detection.confidence if tuning.detection else None,
            "reasoning": _reasoning(tuning, strategy),
            "strategy": strategy,
        }
        return request.with_body(request.body | {name: tuning.params[name] for name in left_out})

    def tune(self, message: str, history: Sequence[str], strategy: str) -> Tuning:
        """Decide on all six parameters for *message* after *history*."""
        detection = detect(message, history) if strategy == "adaptive" else None
        baseline = _ROWS["balanced" if detection else strategy]
        row = _blend(_CONTEXT_ROWS[detection.context], detection.confidence) if detection else baseline
        params = dict(zip(PARAMS, row, strict=True))
        boost = min(max(len(history) - _LONG, 0) * 0.01, 0.15)
        params["repetition_penalty"] += boost
        params["frequency_penalty"] += boost / 2
        learned = self._learned(detection.context) if detection else {}
        for name, value in learned.items():
            params[name] += value
        return Tuning(_bounded(params), dict(zip(PARAMS, baseline, strict=True)), detection, learned)

    def learn_from(self, learned: Learned) -> None:
        """Apply what feedback taught from now on."""
        self._learned = learned

    def endpoints(self) -> Sequence[Endpoint]:
        """Offer the decision without a completion."""
        summary = "Tell what AutoTune would decide, and why"
        return (Endpoint("POST", "/autotune/analyze", self._analyze, summary, _ANALYZED, _DECISION),)

    def schema(self) -> Schema:
        """Describe the request's fields."""
        what = "Fill in the sampling parameters that the request leaves out."
        enabled = or_null(BOOLEAN, default=self._enabled, description=what)
        strategy = or_null(one_of(STRATEGIES), default=self._strategy)
        return {"properties": {"autotune": enabled, "strategy": strategy}}

    def _analyze(self, body: dict[str, Any]) -> dict[str, Any]:
        message = body.get("message")
        if not isinstance(message, str) or not message.strip():
            raise RequestError("message: expected text that is not empty", param="message")
        history = _history(body.get("conversation_history"))
        strategy = _strategy(body.get("strategy"), self._strategy)
        overrides = _overrides(body.get("overrides"))
        tuning = self.tune(message, history, strategy)
        detection = tuning.detection or detect(message, history)
        params = tuning.params | overrides
        return {
            "params": params,
            "detected_context": detection.context,
            "confidence": detection.confidence,
            "reasoning": _reasoning(tuning, strategy),
            "context_scores": [
                {"type": context, "score": round(score, 4), "percentage": round(share * 100, 1)}
                for context, score, share in detection.ranked()
            ],
            "pattern_matches": [{"pattern": found.pattern, "source": found.source} for found in detection.evidence],
            "param_deltas": _deltas(tuning, params, overrides, strategy),
            "baseline_params": tuning.baseline,
        }

    def _may_send(self, name: str, body: Mapping[str, Any]) -> bool:
        if name not in _OPENROUTER_ONLY:
            return True
        provider = body.get("provider")
        return self._openrouter and not (isinstance(provider, dict) and provider.get("require_parameters"))


def _strategy(value: Any, default: str) -> str:
    if value is None:
        return default
    if value not in STRATEGIES:
        raise RequestError(f"strategy: expected one of {', '.join(STRATEGIES)}", param="strategy")
    return str(value)


def _may_run(request: ChatRequest) -> bool:
    offers_tools = request.body.get("tools") or request.body.get("functions")  # the older name, deprecated by OpenAI
    return not ("temperature" in request.sent or offers_tools or request.wants_structure)


def _conversation(messages: list[dict[str, Any]]) -> tuple[str, list[str]]:
    """Give the text of the last user message, and the texts of what came before it."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place]["role"] == "user":
            before = [m for m in messages[:place] if m["role"] not in ("system", "developer")]
            return _text(messages[place].get("content")), [_text(m.get("content")) for m in before]
    return "", []


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in content or () if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _history(value: Any) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in value):
        raise RequestError("conversation_history: expected a list of {role, content}", param="conversation_history")
    for number, content in enumerate(message.get("content") for message in value):
        if content is not None and not isinstance(content, (str, list)):
            name = f"conversation_history[{number}].content"
            raise RequestError(f"{name}: expected text, a list of parts or null", param=name)
    return [_text(m.get("content")) for m in value if m["role"] not in ("system", "developer")]


def _overrides(value: Any) -> dict[str, float]:
    """Read and clamp an object of parameters."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RequestError("overrides: expected an object of parameters", param="overrides")
    for name, given in value.items():
        if name not in PARAMS:
            raise RequestError(f"overrides: expected only {', '.join(PARAMS)}", param="overrides")
        if given is not None and (isinstance(given, bool) or not isinstance(given, (int, float))):
            raise RequestError(f"overrides.{name}: expected a number", param=f"overrides.{name}")
    return _bounded({name: given for name, given in value.items() if given is not None})


def _blend(row: Sequence[float], confidence: float) -> tuple[float, ...]:
    """Mix a context's row with the balanced one where the context is not sure."""
    if confidence >= _SURE:
        return tuple(row)
    mixed = [one * confidence + other * (1 - confidence) for one, other in zip(row, _ROWS["balanced"], strict=True)]
    place = PARAMS.index("top_k")
    mixed[place] = math.floor(mixed[place] + 0.5)
    return tuple(mixed)


def _bounded(params: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in params.items():
        low, high = _BOUNDS[name]
        clamped = min(max(value, low), high)
        found[name] = math.floor(clamped + 0.5) if name == "top_k" else round(clamped, 10)
    return found


def _reasoning(tuning: Tuning, strategy: str) -> str:
    if tuning.detection is None:
        return f"strategy {strategy}: its fixed parameters"
    found = tuning.detection
    words = ", ".join(repr(piece.pattern) for piece in found.evidence[:3]) or "nothing in particular"
    how = "" if found.confidence >= _SURE else ", mixed with balanced"
    taught = ", adjusted by feedback" if tuning.learned else ""
    return f"{found.context} at {found.confidence:.0%} confidence, from {words}{how}{taught}"


def _deltas(tuning: Tuning, params: Mapping[str, float], overrides: Mapping[str, float], strategy: str) -> list[Any]:
    found = []
    for name in PARAMS:
        before, after = tuning.baseline[name], params[name]
        if before == after:
            continue
        context = tuning.detection.context if tuning.detection else strategy
        reason = "override" if name in overrides else "long conversation" if tuning.detection is None else context
        found.append(
            {"param": name, "before": before, "after": after, "delta": round(after - before, 10), "reason": reason}
        )
    return found
