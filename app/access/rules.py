"""What a key may ask for, applied to one request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import PermissionDenied, RequestError
from ..pipeline import ChatRequest
from .key import Key

__all__ = ["apply_rules"]

_LIMITS = ("max_tokens", "max_completion_tokens")


def apply_rules(key: Key | None, request: ChatRequest) -> None:
    """Hold *request* against the rules of *key*, and lower its default token limit to the key's.

    Raises:
        PermissionDenied: a model is asked for that the key may not have.
        RequestError: more tokens are asked for than the key may have.
    """
    if key is None:
        return
    if key.models is not None:
        _check_models(key, request.body)
    if key.max_tokens is not None:
        _check_tokens(key.max_tokens, request)


def _check_models(key: Key, body: dict[str, Any]) -> None:
    assert key.models is not None
    asked = list(_models(body))
    if body.get("preset") is not None:
        raise _not_allowed(key, "preset", "a preset, which chooses the model out of sight,")
    if not asked:
        raise _not_allowed(key, "model", "upstream's default model")  # `models` was an empty list
    for param, model in asked:
        if not (isinstance(model, str) and key.allows(model)):
            raise _not_allowed(key, param, repr(model[:100]) if isinstance(model, str) else "what is no model id")


def _models(body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each model the request names, with the field that does."""
    for name in ("model", "models"):
        for model in _listed(body.get(name)):
            yield name, model
    tools = [tool for tool in _listed(body.get("tools")) if isinstance(tool, dict) and tool.get("type") != "function"]
    for name, value in (("plugins", body.get("plugins")), ("tools", tools)):
        for model in _nested(value):
            yield name, model


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _nested(value: Any) -> Iterator[str]:
    """Yield the models that upstream's plugins and own tools call, wherever in their options they stand."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name.endswith(("model", "models")):
                yield from (model for model in _listed(item) if isinstance(model, str))
            yield from _nested(item)
    elif isinstance(value, list):
        for item in value:
            yield from _nested(item)


def _not_allowed(key: Key, param: str, what: str) -> PermissionDenied:
    allowed = ", ".join(key.models or ())
    return PermissionDenied(
        f"{param}: this key may not use {what}; it may use {allowed}"[:1000], param=param, code="model_not_allowed"
    )


def _check_tokens(cap: int, request: ChatRequest) -> None:
    body, reasoning = request.body, request.body.get("reasoning")
    asked = [(name, body.get(name)) for name in _LIMITS]
    if isinstance(reasoning, dict):
        asked.append(("reasoning.max_tokens", reasoning.get("max_tokens")))
    given = [(name, value) for name, value in asked if value is not None and name.partition(".")[0] in request.sent]
    for name, value in given:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value <= cap:
            shown = f"{value:g}" if isinstance(value, (int, float)) and abs(value) < 1e15 else "something else"
            raise RequestError(f"{name}: this key may ask for at most {cap} tokens, got {shown}", param=name)
    if not any(name in _LIMITS for name, _ in given):
        default = body.get("max_tokens")
        body["max_tokens"] = cap if default is None else min(default, cap)
