"""The objects of the API that no single stage owns, as JSON Schemas by name."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from ..chat import FIELDS
from ..contract import as_json
from ..pipeline import Stage
from ..shape import BOOLEAN, COUNT, NUMBER, STRING, array_of, object_of, one_of, or_null
from .metadata import EVENT, STATS

__all__ = ["SCHEMAS", "chat_request", "ref"]

log = logging.getLogger("sluice.pipeline")


def ref(name: str) -> dict[str, Any]:
    """Point to a schema of the document by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def chat_request(stages: Iterable[Stage], *, default_model: str, takes_client_keys: bool) -> dict[str, Any]:
    """Describe what a chat completion takes: the fields that are checked; all others go upstream as they came."""
    properties: dict[str, Any] = dict(FIELDS)
    properties["model"] = {**FIELDS["model"], "default": default_model}
    if not takes_client_keys:
        properties["openrouter_api_key"] = {"type": "null", "description": "This gateway uses its own upstream key."}
    rules: list[Any] = []
    for stage in stages:
        schema = _schema_of(stage)
        properties |= schema["properties"]
        rules += schema["allOf"]
    example = {"messages": [{"role": "user", "content": "Hello!"}], "stream": True}
    more: dict[str, Any] = {"allOf": rules} if rules else {}
    return object_of(properties, ["messages"], additionalProperties=True, examples=[example], **more)


def _schema_of(stage: Stage) -> dict[str, Any]:
    """Give what a stage accepts; of one that cannot say it, a host's own, that its fields may be anything."""
    try:
        schema = as_json({"properties": {}, "allOf": [], **stage.schema()})
        if not isinstance(schema["properties"], dict) or not isinstance(schema["allOf"], list):
            raise TypeError("a stage's schema needs an object of properties and a list of rules")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a stage that exits does not end the worker
        log.warning("stage %s failed in schema with %s; its fields may be anything", stage.name, type(error).__name__)
        return {"properties": {name: {} for name in stage.fields}, "allOf": []}
    found: dict[str, Any] = schema
    return found


_ATTEMPT = object_of({"status": {"type": ["integer", "null"]}, "error": {"type": ["string", "null"]}}, ())
_STAGE_ERROR = object_of({"stage": STRING, "in": STRING, "error": STRING})
_FACTS: Mapping[str, Any] = {
    "record_id": STRING,
    "generation_id": or_null(STRING, description="OpenRouter's id of the answer."),
    "model": or_null(STRING),
    "params_used": {"type": "object", "description": "The sampling parameters that went upstream."},
    "pipeline": {"type": "object", "description": "What each stage decided, by its name; null where it did nothing."},
    "stage_errors": array_of(_STAGE_ERROR),
    "attempts": array_of(_ATTEMPT, description="Every attempt at upstream."),
    "timing": object_of({"first_chunk_ms": or_null(NUMBER), "total_ms": NUMBER}),
}
_ON_CHUNK: Mapping[str, Any] = {
    **_FACTS,
    "error": ref("ErrorObject"),
    "stm_applied": {"const": True},
    "final_content": {**STRING, "description": "In mode correct: the corrected text of the whole choice."},
}
_HEAD: Mapping[str, Any] = {"id": STRING, "created": {"type": "integer"}, "model": or_null(STRING)}
_DELTA = object_of({"role": or_null(STRING), "content": or_null(STRING)}, ())
_CHUNK_CHOICE = object_of({"index": COUNT, "delta": _DELTA, "finish_reason": or_null(STRING)}, ["index", "delta"])
_MESSAGE = object_of({"role": STRING, "content": or_null(STRING), "refusal": or_null(STRING)})
_CHOICE = object_of({"index": COUNT, "message": _MESSAGE, "finish_reason": or_null(STRING)})
_USAGE = {"type": "object", "description": "Upstream's count of tokens, as it came."}
_MODEL = object_of({"id": STRING, "object": {"const": "model"}, "created": {}, "owned_by": STRING})
_RATINGS = {"positive": COUNT, "negative": COUNT, "positive_rate": or_null(NUMBER)}

_STORE = object_of({"state": one_of(["ok", "failing"]), "waiting": COUNT, "dropped": COUNT})

SCHEMAS: Mapping[str, Any] = {
    "ErrorObject": object_of(
        {
            "message": STRING,
            "type": STRING,
            "param": or_null(STRING, description="The field at fault."),
            "code": {"type": ["string", "integer", "null"], "description": "Stable word for programs."},
            "metadata": {"description": "What upstream said beside the message."},
        },
        ["message", "type", "param", "code"],
    ),
    "Error": object_of({"error": ref("ErrorObject"), "x_g0dm0d3": ref("Facts")}, ["error"]),
    "Facts": object_of(_FACTS, description="What happened to a request."),
    "ChatCompletionChunk": object_of(
        {
            **_HEAD,
            "object": {"const": "chat.completion.chunk"},
            "choices": array_of(_CHUNK_CHOICE, description="Empty in the usage chunk."),
            "usage": _USAGE,
            "x_g0dm0d3": object_of(_ON_CHUNK, (), description="On the last finish chunk, and on STM's correction."),
        },
        ["id", "object", "created", "model", "choices"],
    ),
    "ChatCompletion": object_of(
        {
            **_HEAD,
            "object": {"const": "chat.completion"},
            "choices": array_of(_CHOICE),
            "usage": _USAGE,
            "x_g0dm0d3": ref("Facts"),
        },
        ["id", "object", "created", "model", "choices", "x_g0dm0d3"],
    ),
    "Model": _MODEL,
    "ModelList": object_of({"object": {"const": "list"}, "data": array_of(ref("Model"))}),
    "Health": object_of({"status": one_of(["ok"]), "version": STRING}),
    "Ready": object_of(
        {"status": one_of(["ready"]), "open_streams": COUNT, "store": _STORE, "warnings": array_of(STRING)},
        ["status", "open_streams", "store"],
    ),
    "Draining": object_of({"status": one_of(["draining"])}),
    "EventList": object_of({"object": {"const": "list"}, "data": array_of(EVENT), "next_cursor": or_null(STRING)}),
    "Stats": STATS,
    "FeedbackAccepted": object_of(
        {"accepted": {"const": True}, "total_feedback": COUNT, "context_type": STRING, "learned": BOOLEAN}
    ),
    "FeedbackStats": object_of(
        {
            "total_feedback": COUNT,
            **_RATINGS,
            "contexts": {
                "type": "object",
                "additionalProperties": object_of(
                    {"total": COUNT, **_RATINGS, "adjustments": {"type": "object", "additionalProperties": NUMBER}}
                ),
            },
        }
    ),
}
