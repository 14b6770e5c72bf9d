"""A chat completion request: read, checked no stricter than upstream would, and made ready for the pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import wire
from .errors import RequestError
from .pipeline import ChatRequest
from .settings import Settings
from .shape import BOOLEAN, STRING, array_of, ascii_of, object_of, one_of, or_null

__all__ = ["FIELDS", "OWN_FIELDS", "make_request", "parse_object", "parse_request"]

OWN_FIELDS = frozenset(
    {
        "openrouter_api_key",
        "autotune",
        "strategy",
        "parseltongue",
        "parseltongue_technique",
        "parseltongue_intensity",
        "parseltongue_triggers",
        "parseltongue_seed",
        "custom_triggers",
        "stm_modules",
        "stm_mode",
        "custom_system_prompt",
    }
)
"""Request fields that are ours: they never go upstream, whether their stage runs or not."""

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_CONTENT = {"type": ["string", "array", "null"], "items": {"type": "object"}}
_MESSAGE = object_of({"role": one_of(_ROLES), "content": _CONTENT}, ["role"])
FIELDS: dict[str, dict[str, Any]] = {
    "messages": array_of(_MESSAGE, minItems=1),
    "model": or_null(STRING, minLength=1, description="Left out with `models`: none; else the operator's default."),
    "models": or_null({"type": "array"}, description="Models to fall back to, as OpenRouter takes them."),
    "stream": or_null(BOOLEAN, default=False),
    "stream_options": or_null({"type": "object"}, description="include_usage: true asks for the usage chunk."),
    "openrouter_api_key": or_null(ascii_of("!-~"), description="Your own upstream key, where taken."),
    "custom_system_prompt": or_null(STRING, description="Put before the messages as a system message."),
}
"""What is checked of a request, whatever the pipeline: a JSON Schema for each field. All others go upstream."""

_WORDS: dict[str, tuple[type, str]] = {
    "boolean": (bool, "true or false"),
    "string": (str, "text"),
    "array": (list, "a list"),
    "object": (dict, "an object"),
}
_LIMITS = ("max_tokens", "max_completion_tokens", "reasoning")


def parse_object(data: bytes) -> dict[str, Any]:
    """Read a request body that must be a JSON object.

    Raises:
        RequestError: it is not.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")  # RFC 8259, section 8.1: may be passed over
    if not data.strip():
        raise RequestError("the body is empty: expected a JSON object")
    try:
        body = wire.loads(data)
    except UnicodeDecodeError:
        raise RequestError("the body is not UTF-8: expected JSON in UTF-8") from None
    except ValueError as error:
        # NOTE: the reader's own words hold positions, never text of the body.
        raise RequestError(f"the body is not JSON: {_clip(str(error))}") from None
    if not isinstance(body, dict):
        raise RequestError(f"the body must be a JSON object, got {_kind(body)}")
    return body


def parse_request(data: bytes, settings: Settings, own_fields: Iterable[str] = OWN_FIELDS) -> ChatRequest:
    """Read and check a chat completion request, and fill in the operator's defaults.

    Args:
        data: the body as received.
        own_fields: fields that do not go upstream.

    Raises:
        RequestError: names the field, what was expected and what came.
    """
    return make_request(parse_object(data), settings, own_fields)


def make_request(body: dict[str, Any], settings: Settings, own_fields: Iterable[str] = OWN_FIELDS) -> ChatRequest:
    """Check a request that is already an object, which becomes the upstream body; otherwise as ``parse_request``."""
    _check(body)
    if len(body["messages"]) > settings.max_messages:
        raise RequestError(
            f"messages: expected at most {settings.max_messages} (SLUICE_MAX_MESSAGES), got {len(body['messages'])}",
            param="messages",
        )
    own = frozenset(own_fields) | OWN_FIELDS
    sent = frozenset(key for key, value in body.items() if value is not None)
    options = {key: body.pop(key) for key in own & body.keys()}
    wants_usage = (body.get("stream_options") or {}).get("include_usage") is True
    stream = body.get("stream") is True
    return ChatRequest(_prepared(body, options, sent, settings), options, stream, stream and wants_usage, sent)


def _prepared(
    body: dict[str, Any], options: dict[str, Any], sent: frozenset[str], settings: Settings
) -> dict[str, Any]:
    prompt = options.get("custom_system_prompt")
    if prompt:
        body["messages"] = [{"role": "system", "content": prompt}, *body["messages"]]
    if not {"model", "models"} & sent:
        body["model"] = settings.default_model
    if settings.default_max_tokens and not sent.intersection(_LIMITS):
        body["max_tokens"] = settings.default_max_tokens
    if settings.upstream_params == "openai":
        # OpenRouter always counts; others only when asked. Who did not ask is not shown it.
        body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
    body["stream"] = True
    return body


def _check(body: dict[str, Any]) -> None:
    for name, schema in FIELDS.items():
        if name != "messages":
            _expect(body, name, *_WORDS[schema["type"][0]])
    if body.get("model") == "":
        raise RequestError("model: expected a model id, got empty text", param="model")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        found = "an empty list" if messages == [] else _kind(messages)
        raise RequestError(f"messages: expected a list of at least one message, got {found}", param="messages")
    for number, message in enumerate(messages):
        _check_message(f"messages[{number}]", message)


def _check_message(name: str, message: Any) -> None:
    if not isinstance(message, dict):
        raise RequestError(f"{name}: expected an object, got {_kind(message)}", param=name)
    role = message.get("role")
    if role not in _ROLES:
        found = repr(role[:40]) if isinstance(role, str) else _kind(role)
        raise RequestError(f"{name}.role: expected one of {', '.join(_ROLES)}, got {found}", param=f"{name}.role")
    content = message.get("content")
    if content is not None and not isinstance(content, (str, list)):
        raise RequestError(
            f"{name}.content: expected text, a list of parts or null, got {_kind(content)}", param=f"{name}.content"
        )
    for place, part in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(part, dict):
            where = f"{name}.content[{place}]"
            raise RequestError(f"{where}: expected an object with a type, got {_kind(part)}", param=where)


def _expect(body: dict[str, Any], name: str, kind: type, words: str) -> None:
    value = body.get(name)
    if value is not None and not isinstance(value, kind):
        raise RequestError(f"{name}: expected {words}, got {_kind(value)}", param=name)


def _kind(value: Any) -> str:
    """Name the JSON type of *value* without showing it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "text"
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a number"


def _clip(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "..."
