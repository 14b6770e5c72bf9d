"""Plays scenarios with curl, over HTTP/1.1 or `--http1.0`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from report import MODEL, TOOL, Report, assemble, flat_usage, play_all


def body(scenario: str, prompt: str) -> dict[str, Any]:
    """Give the request's body."""
    found: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": prompt}]}
    found["stream"] = scenario != "blocking"
    if scenario == "usage_on":
        found["stream_options"] = {"include_usage": True}
    if scenario.startswith("tools"):
        found["tools"] = [TOOL]
    return found


def play(base_url: str, scenario: str, prompt: str, report: Report, *, protocol: str) -> None:
    """Play one scenario; an abort is Ctrl-C."""
    with tempfile.TemporaryDirectory() as folder:
        request, head = Path(folder, "request.json"), Path(folder, "head")
        request.write_text(json.dumps(body(scenario, prompt)))
        command = ["curl", protocol, "--no-buffer", "--silent", "--show-error", "--fail-with-body"]
        command += ["--header", "Content-Type: application/json", "--data-binary", f"@{request}"]
        command += ["--dump-header", str(head), f"{base_url}/chat/completions"]
        with (
            Path(folder, "complaints").open("w+") as complaints,
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints) as run,
        ):
            assert run.stdout is not None
            if scenario == "blocking":
                read_completion(json.load(run.stdout), report)
            else:
                read_body(run.stdout, partial(run.send_signal, signal.SIGINT), scenario, report)
            run.wait()
            if scenario == "abort":
                report.leave()
            complaints.seek(0)
            report.extra["stderr"] = complaints.read()
        report.extra |= {"exit_code": run.returncode, "head": head.read_text().splitlines()}


def read_body(output: IO[bytes], leave: Callable[[], None], scenario: str, report: Report) -> None:
    """Read an event stream, or the JSON of an error."""
    lines, is_staying = [], scenario != "abort"
    for line in output:
        lines.append(line)
        if line.startswith(b"data: {"):
            read_data(json.loads(line[6:]), report)
        if report.is_enough and not is_staying:
            is_staying = True  # what the pipe still holds is read
            leave()
    if lines and lines[0].startswith(b"{"):
        read_error(json.loads(b"".join(lines))["error"], report)
    report.extra["ends_with_done"] = b"".join(lines).endswith(b"\n\ndata: [DONE]\n\n")
    report.extra["done_count"] = lines.count(b"data: [DONE]\n")


def read_data(data: dict[str, Any], report: Report) -> None:
    """Read one event."""
    if "error" in data:
        read_error(data["error"], report)
    if data.get("usage") is not None:
        report.usage = flat_usage(data["usage"])
    for choice in data.get("choices", []):
        delta = choice["delta"]
        report.role = delta.get("role", report.role)
        report.add(delta.get("content"))
        report.reasoning += delta.get("reasoning") or ""
        for fragment in delta.get("tool_calls", []):
            function = SimpleNamespace(**{"name": None, "arguments": None, **fragment["function"]})
            part = {"id": None, **fragment, "function": function}
            assemble(report.tool_calls, SimpleNamespace(**part))
        report.finish_reason = choice["finish_reason"] or report.finish_reason
    if "final_content" in data.get("x_g0dm0d3", {}):
        report.extra["final_content"] = data["x_g0dm0d3"]["final_content"]


def read_error(error: dict[str, Any], report: Report) -> None:
    """Read an error object."""
    report.error = {
        "class": error["type"],
        "classes": [error["type"]],
        "message": error["message"],
        "status": None,
        "code": error["code"],
    }


def read_completion(completion: dict[str, Any], report: Report) -> None:
    """Read a whole answer."""
    choice = completion["choices"][0]
    report.role, report.whole = choice["message"]["role"], choice["message"]["content"]
    report.finish_reason, report.usage = choice["finish_reason"], flat_usage(completion["usage"])


if __name__ == "__main__":
    play_all(partial(play, protocol=sys.argv[1]), sys.argv[2:])
