"""Fault scripts: what the demo upstream is to do with a request, as a list of small objects.

A script is a list of steps, each an object with one key: ``[{"text": "Hello there"}, {"wait": 0.5}, {"cut": "fin"}]``.
The steps are listed with their options in README.md of this folder. What a script leaves out is added:

* a head (200, ``text/event-stream``, chunked) before the first byte of the body, unless a step gave one;
* after the last step, whatever a good stream still lacks: the finish chunk of each choice, the usage chunk,
  ``[DONE]``, the end of the body. After ``done`` or an error only the end of the body is added.

Nothing is added after ``end``, ``cut``, ``hangup``, ``silence`` and ``answer``: they are the last that happens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from .operations import Body, Close, End, Head, Operation, Raw, RawHead, Silence
from .registry import STEPS, ScriptError
from .steps import implicit_head
from .stream import Stream

__all__ = ["Attempts", "Script", "ScriptError", "Step", "parse_attempts", "parse_script", "play_script"]

Step = dict[str, Any]
Script = list[Step]


class Attempts(NamedTuple):
    """Scripts for requests that carry the same key: the n-th plays the n-th, the last one repeats."""

    key: str | None
    scripts: list[Script]


def parse_script(value: Any) -> Script:
    """Check a script: the names of its steps and the names of their options.

    Raises ScriptError.
    """
    if not isinstance(value, list):
        raise ScriptError("a script is a list of steps")
    for step in value:
        _check(step)
    return value


def _check(step: Any) -> None:
    if not isinstance(step, dict) or len(step) != 1:
        raise ScriptError(f"a step is an object with one key, not {step!r:.80}")
    ((name, value),) = step.items()
    if name == "repeat":
        steps = value.get("steps") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not set(value) <= {"steps", "times"} or not steps:
            raise ScriptError("step 'repeat': takes steps and times")
        parse_script(steps)
    elif name in STEPS:
        STEPS[name].check(name, value)
    else:
        raise ScriptError(f"unknown step {name!r}; there are {', '.join(sorted([*STEPS, 'repeat']))}")


def parse_attempts(text: str) -> Attempts:
    """Read what a user message of `demo/script` holds.

    Raises ScriptError.
    """
    try:
        value = json.loads(text)
    except ValueError as exc:
        raise ScriptError("the last user message of demo/script must be JSON: a list of steps") from exc
    if not isinstance(value, dict):
        return Attempts(None, [parse_script(value)])
    if set(value) != {"key", "attempts"} or not isinstance(value["attempts"], list) or not value["attempts"]:
        raise ScriptError('an object must be {"key": ..., "attempts": [steps, ...]}')
    return Attempts(str(value["key"]), [parse_script(script) for script in value["attempts"]])


def play_script(script: Script, stream: Stream) -> Iterator[Operation]:
    """Yield the operations of a script, completed to a good stream where it says nothing else.

    Raises ScriptError when a step's values turn out to be wrong.
    """
    has_head = False
    for operation in chain(_play(script, stream), _completion(stream)):
        if isinstance(operation, (Body, Raw, End)) and not has_head:
            yield implicit_head(stream)
        has_head = has_head or isinstance(operation, (Head, RawHead, Body, Raw, End))
        yield operation
        if isinstance(operation, (End, Close, Silence)):
            return


def _play(script: Sequence[Step], stream: Stream) -> Iterator[Operation]:
    for step in script:
        ((name, value),) = step.items()
        if name == "repeat":
            yield from _repeat(stream, **value)
            continue
        try:
            yield from STEPS[name].run(stream, value)
        except (TypeError, ValueError, KeyError, AttributeError) as exc:
            raise ScriptError(f"step {name!r}: {exc}") from exc


def _repeat(stream: Stream, steps: Script, times: int | None = None) -> Iterator[Operation]:
    count = 0
    while times is None or count < times:
        yield from _play(steps, stream)
        count += 1


def _completion(stream: Stream) -> Iterator[Operation]:
    if not stream.has_done and not stream.has_error:
        reason = "tool_calls" if stream.called_tools else "stop"
        for choice in stream.begun or [0]:
            if choice not in stream.finished:
                yield from STEPS["finish"].play(stream, reason, choice=choice)
        if not stream.has_usage:
            yield from STEPS["usage"].play(stream)
        yield from STEPS["done"].play(stream)
    yield End()
