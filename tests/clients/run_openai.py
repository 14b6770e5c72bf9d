"""Plays scenarios with openai-python, in whichever version is installed; `--helper` uses its `.stream()` helper."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import openai
from report import MODEL, TOOL, Report, assemble, failure, flat_usage, play_all


@cache
def client(base_url: str) -> openai.OpenAI:
    """Give the one client for an address, so that scenarios share its connections as a user's calls do."""
    return openai.OpenAI(base_url=base_url, api_key="unused")


def options(scenario: str, prompt: str) -> dict[str, Any]:
    """Give the request's parameters."""
    found: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": prompt}]}
    if scenario == "usage_on":
        found["stream_options"] = {"include_usage": True}
    if scenario.startswith("tools"):
        found["tools"] = [TOOL]
    return found


def play(base_url: str, scenario: str, prompt: str, report: Report) -> None:
    """Play one scenario with the plain calls."""
    report.extra["version"] = openai.__version__
    completions = client(base_url).chat.completions
    try:
        if scenario == "blocking":
            read_completion(completions.create(**options(scenario, prompt)), report)
        else:
            read_stream(completions.create(stream=True, **options(scenario, prompt)), scenario, report)
    except openai.OpenAIError as exc:
        report.error = failure(exc)


def read_stream(stream: Any, scenario: str, report: Report) -> None:
    """Read the chunks, or the first few."""
    with stream:
        for chunk in stream:
            if chunk.usage is not None:
                report.usage = flat_usage(chunk.usage.model_dump())
            for choice in chunk.choices:
                report.role = choice.delta.role or report.role
                report.add(choice.delta.content)
                report.reasoning += getattr(choice.delta, "reasoning", None) or ""
                for fragment in choice.delta.tool_calls or []:
                    assemble(report.tool_calls, fragment)
                report.finish_reason = choice.finish_reason or report.finish_reason
            if scenario == "abort" and report.is_enough:
                break
    if scenario == "abort":
        report.leave()


def read_completion(completion: Any, report: Report) -> None:
    """Read a whole answer."""
    choice = completion.choices[0]
    report.role, report.whole, report.finish_reason = choice.message.role, choice.message.content, choice.finish_reason
    report.reasoning = getattr(choice.message, "reasoning", None) or ""
    report.tool_calls = [
        {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
        for call in choice.message.tool_calls or []
    ]
    report.usage = flat_usage(completion.usage.model_dump() if completion.usage else None)


def play_helper(base_url: str, scenario: str, prompt: str, report: Report) -> None:
    """Play one scenario with the helper that puts the answer together."""
    report.extra["version"] = openai.__version__
    try:
        with client(base_url).chat.completions.stream(**options(scenario, prompt)) as stream:
            for event in stream:
                if event.type == "content.delta":
                    report.add(event.delta)
                if scenario == "abort" and report.is_enough:
                    break
            else:
                read_completion(stream.get_final_completion(), report)
        if scenario == "abort":
            report.leave()
    except openai.OpenAIError as exc:
        report.error = failure(exc)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == ["--helper"]:
        play_all(play_helper, arguments[1:])
    else:
        play_all(play, arguments)
