"""Puts the document together for the routes that one gateway has registered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ..errors import GatewayError, InternalError
from ..gate import Gate
from ..pipeline import Pipeline
from ..settings import Settings
from ..version import version
from .operations import ADMITTED, OPERATIONS, Operation, of_endpoint
from .schemas import SCHEMAS, chat_request, ref

__all__ = ["make_document"]

_VARIABLE = re.compile(r"<(?:\w+:)?(\w+)>")
_REQUEST_ID = {"X-Request-Id": {"schema": {"type": "string"}, "description": "The client's own, or one of ours."}}
_RETRY_AFTER = {"Retry-After": {"schema": {"type": "string"}, "description": "Seconds to wait, where known."}}


class Described(Protocol):
    """What is needed of a gateway."""

    settings: Settings
    gate: Gate
    pipeline: Pipeline


def make_document(gateway: Described, routes: Iterable[tuple[str, str, str]], base: str) -> dict[str, Any]:
    """Describe the *routes* of *gateway*.

    Args:
        routes: method, path as Flask writes it, and what the view says about itself.
        base: where the paths begin on the server, without a slash at the end.
    """
    stages = gateway.pipeline.stages
    operations = {**OPERATIONS, **{(e.method, f"/v1{e.path}"): of_endpoint(e) for s in stages for e in s.endpoints()}}
    paths: dict[str, Any] = {}
    for method, path, about in routes:
        operation = operations.get((method, path)) or Operation(about, ADMITTED)
        item = paths.setdefault(_VARIABLE.sub(r"{\1}", path), {})
        item[method.lower()] = _described(method, path, operation, is_open=gateway.gate.is_open)
    request = chat_request(
        stages,
        default_model=gateway.settings.default_model,
        takes_client_keys=gateway.gate.takes_client_keys,
    )
    bearer = {"type": "http", "scheme": "bearer", "description": "A gateway key, or what the application takes."}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sluice",
            "version": version(),
            "description": "An OpenRouter streaming gateway, in OpenAI's format.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": base or "/"}],
        "paths": paths,
        "components": {"schemas": {"ChatRequest": request, **SCHEMAS}, "securitySchemes": {"bearer": bearer}},
    }


def _described(method: str, path: str, operation: Operation, *, is_open: bool) -> dict[str, Any]:
    parts = [part for part in path.removeprefix("/v1").split("/") if part]
    name = "_".join([method.lower(), *(re.sub(r"\W+", "_", part).strip("_") for part in parts)])
    variables = [
        {"name": variable, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for variable in _VARIABLE.findall(path)
    ]
    found: dict[str, Any] = {
        "operationId": name,
        "summary": operation.summary,
        "security": [] if operation.is_open else [{}, {"bearer": []}] if is_open else [{"bearer": []}],
        "responses": _responses(operation),
    }
    if variables or operation.parameters:
        found["parameters"] = [*variables, *operation.parameters]
    if operation.takes is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": operation.takes}}}
    return found


def _responses(operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "200": {"description": operation.summary + ".", "headers": _REQUEST_ID, "content": dict(operation.gives)}
    }
    by_status: dict[int, list[type[GatewayError]]] = {}
    classes: tuple[type[GatewayError], ...] = (*operation.errors, InternalError)
    for error in classes:
        by_status.setdefault(error.status, []).append(error)
    for status, found_classes in sorted(by_status.items()):
        found[str(status)] = _failure("; ".join(_told(error) for error in found_classes), status)
    if operation.asks_upstream:
        found["default"] = _failure("Upstream's own error, with its status.", 429)
    for code, answer in operation.others.items():
        found[code] = {"headers": _REQUEST_ID, **answer}
    return found


def _told(error: type[GatewayError]) -> str:
    words = (error.__doc__ or "").strip().partition("\n")[0]
    return f"`{error.code}`: {words}"


def _failure(description: str, status: int) -> Mapping[str, Any]:
    headers = _REQUEST_ID | (_RETRY_AFTER if status in (429, 503) else {})
    return {"description": description, "headers": headers, "content": {"application/json": {"schema": ref("Error")}}}
