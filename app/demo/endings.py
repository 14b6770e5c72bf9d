"""Steps that end an answer, well or badly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .operations import Close, End, Ending, Limit, Operation
from .registry import ScriptError, step
from .stream import Stream

__all__ = ["close"]


@step
def finish(
    stream: Stream,
    reason: str | None = "stop",
    *,
    native: Any = ...,
    content: str | None = "",
    delta: dict[str, Any] | None = None,
    choice: int = 0,
    usage: bool | dict[str, Any] = False,
    logprobs: Any = None,
) -> Iterator[Operation]:
    native_reason = reason if native is ... else native
    own = {"content": content} if delta is None else delta
    more = {"usage": stream.usage if usage is True else usage} if usage else {}
    ended = {"finish_reason": reason, "native_finish_reason": native_reason, "logprobs": logprobs}
    closing = stream.delta(own, choice, **ended)
    if delta is not None:
        closing["delta"] = delta  # as given: with or without a role
    yield stream.chunk(closing, **more)


@step
def usage(stream: Stream, form: str | bool = True, *, usage: dict[str, Any] | None = None) -> Iterator[Operation]:
    numbers = stream.usage if usage is None else usage
    form = stream.usage_form if form is True else form
    if form == "missing":
        yield stream.object(stream.envelope() | {"usage": numbers})
    elif form == "choice":
        yield stream.chunk(stream.delta({"role": "assistant", "content": ""}), usage=numbers)
    elif form == "null":
        yield stream.object(stream.envelope() | {"choices": None, "usage": numbers})
    elif form == "empty":
        yield stream.chunk(usage=numbers)
    else:
        raise ScriptError("step 'usage': form is empty, choice, missing or null")


@step
def error(
    stream: Stream,
    form: str = "choices",
    *,
    code: int | str | None = 502,
    message: str | None = "Provider disconnected",
    type: str | None = "provider_unavailable",
    metadata: dict[str, Any] | None = None,
    extra: dict[str, Any] | None = None,
    choice: int = 0,
    content: str = "",
    event: str | None = None,
) -> Iterator[Operation]:
    kind = {"error_type": type} if type is not None else {}
    fields = {"code": code, "message": message, "metadata": kind | (metadata or {}) or None}
    told = {name: value for name, value in fields.items() if value is not None} | (extra or {})
    failed = stream.delta({"content": content}, choice, finish_reason="error")
    forms: dict[str, dict[str, Any]] = {
        "choices": stream.envelope() | {"error": told, "choices": [failed]},
        "empty": stream.envelope() | {"choices": [], "error": told},
        "bare": {"error": told},
        "choice": stream.envelope() | {"choices": [failed | {"error": told}]},
        "text": {"error": message},
        "null": stream.envelope() | {"error": None, "choices": [stream.delta({"content": content}, choice)]},
        "finish": stream.envelope() | {"choices": [failed]},
    }
    if form not in forms:
        raise ScriptError(f"step 'error': form is one of {', '.join(forms)}")
    body = stream.object(forms[form])
    yield body if event is None else stream.event(stream.dumps(forms[form]), event=event)


@step
def done(
    stream: Stream, text: str | bool = True, *, space: str | None = None, blank: bool = True
) -> Iterator[Operation]:
    stream.has_done = True
    yield stream.event("[DONE]" if text is True else str(text), space=space, blank=blank)


@step
def end(stream: Stream, _: Any = True) -> Iterator[Operation]:
    yield End()


@step
def cut(stream: Stream, how: Ending = "fin") -> Iterator[Operation]:
    yield close(how)


@step
def cut_at(stream: Stream, count: int, *, how: Any = "fin", of: Any = "body") -> Iterator[Operation]:
    if how not in ("clean", "fin", "rst") or of not in ("body", "wire"):
        raise ScriptError("step 'cut_at': how is clean, fin or rst, of is body or wire")
    yield Limit(count, how, of)


def close(how: Any) -> Close:
    """The connection's end.

    Raises ScriptError.
    """
    if how not in ("fin", "rst"):
        raise ScriptError("a connection is closed by 'fin' or 'rst'")
    return Close(how)
