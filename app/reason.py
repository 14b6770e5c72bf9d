"""What upstream says of a refusal, in whichever dialect; its words are for the client, never for the log."""

from __future__ import annotations

from typing import Any

from . import wire

__all__ = ["read_reason"]

_LONGEST = 1000
_FAULTS = 5


def read_reason(body: bytes) -> Any:
    """Give the error object of a response that is no success, else a text, else None.

    OpenRouter and OpenAI write ``{"error": {...}}``, Google's gateways a list of one of these, FastAPI and vLLM
    ``detail`` with a list of faults, others ``message``, ``errors``, or plain text.
    """
    try:
        found = wire.loads(body.strip())
    except ValueError:
        return _plain(body)
    return _reason(found[0] if isinstance(found, list) and found else found)


def _reason(found: Any) -> Any:
    if not isinstance(found, dict):
        return found if isinstance(found, str) else None
    error = found.get("error")
    if isinstance(error, dict):
        inner = error.get("error")
        return inner if isinstance(inner, dict) and "message" not in error else error
    if error is not None:
        return error
    told = found.get("message") or found.get("detail") or found.get("errors")
    if isinstance(told, list):
        return "; ".join(filter(None, map(_fault, told[:_FAULTS]))) or None
    return told


def _fault(fault: Any) -> str:
    """Spell out one fault of a list: ``body.temperature: Input should be a valid number``."""
    if not isinstance(fault, dict):
        return fault if isinstance(fault, str) else ""
    words = fault.get("msg") or fault.get("message") or fault.get("detail")
    place = fault.get("loc")
    where = ".".join(map(str, place)) if isinstance(place, list) else ""
    return f"{where}: {words}" if where and isinstance(words, str) else words if isinstance(words, str) else ""


def _plain(body: bytes) -> str | None:
    text = body.decode("utf-8", "replace").strip()
    # A page of a proxy's says nothing in its first words, and JSON that was cut off is no text.
    return None if text.startswith(("<", "{", "[")) else text[:_LONGEST]
