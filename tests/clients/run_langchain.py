"""Plays scenarios with LangChain's ChatOpenAI."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any

import openai
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_openai import ChatOpenAI
from report import MODEL, TOOL, Report, failure, play_all


def play(base_url: str, scenario: str, prompt: str, report: Report) -> None:
    """Play one scenario."""
    report.extra["version"] = version("langchain-openai")
    usage = {"stream_usage": True} if scenario == "usage_on" else {}
    model: Any = ChatOpenAI(model=MODEL, base_url=base_url, api_key="unused", **usage)
    if scenario.startswith("tools"):
        model = model.bind_tools([TOOL])
    try:
        if scenario == "blocking":
            message = model.invoke(prompt)
            report.whole = message.content
            read_message(message, report)
        else:
            read_stream(model.stream(prompt), scenario, report)
    except openai.OpenAIError as exc:
        report.error = failure(exc)


def read_stream(stream: Any, scenario: str, report: Report) -> None:
    """Read the chunks, adding them up as the library has it, or the first few."""
    total: AIMessageChunk | None = None
    for chunk in stream:
        total = chunk if total is None else total + chunk
        report.add(chunk.content)
        if scenario == "abort" and report.is_enough:
            stream.close()
            report.leave()
            return
    if total is not None:
        report.whole = str(total.content)
        read_message(total, report)


def read_message(message: AIMessage, report: Report) -> None:
    """Read what a whole message says besides its text."""
    report.finish_reason = message.response_metadata.get("finish_reason")
    raw = message.tool_call_chunks if isinstance(message, AIMessageChunk) else message.tool_calls
    report.tool_calls = [{"id": call["id"], "name": call["name"], "arguments": call["args"]} for call in raw]
    report.extra["parsed"] = [call["args"] for call in message.tool_calls]
    usage = message.usage_metadata
    if usage is not None:
        report.usage = {
            "prompt_tokens": usage["input_tokens"],
            "completion_tokens": usage["output_tokens"],
            "total_tokens": usage["total_tokens"],
            "cached_tokens": usage.get("input_token_details", {}).get("cache_read"),
            "reasoning_tokens": usage.get("output_token_details", {}).get("reasoning"),
        }


if __name__ == "__main__":
    play_all(play, sys.argv[1:])
