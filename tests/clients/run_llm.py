"""Plays scenarios with the `llm` command, set up by the file that its users write: a process for each."""

from __future__ import annotations

import codecs
import json
import os
import signal
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from report import ABORT_AFTER, MODEL, Report, play_all

COMMAND = Path(sys.executable).parent / "llm"
FUNCTIONS = """
def get_weather(city: str, days: int) -> str:
    "Forecast."
    return f"{city}: rain for {days} days"
"""


def play(base_url: str, scenario: str, prompt: str, report: Report) -> None:
    """Play one scenario."""
    report.extra["version"] = version("llm")
    with tempfile.TemporaryDirectory() as folder:
        model = {"model_id": "sluice", "model_name": MODEL, "api_base": base_url, "supports_tools": True}
        Path(folder, "extra-openai-models.yaml").write_text(json.dumps([model]))  # JSON is YAML too
        env = {**os.environ, "LLM_USER_PATH": folder}
        options = ["--functions", FUNCTIONS] if scenario.startswith("tools") else []
        options += ["--no-stream"] if scenario == "blocking" else []
        ask(["prompt", "--model", "sluice", *options, prompt], env, scenario, report)
        if report.error is None and scenario != "abort":
            read_log(env, report)


def ask(arguments: list[str], env: dict[str, str], scenario: str, report: Report) -> None:
    """Run the command and read what it prints as it comes; an abort is Ctrl-C."""
    command = [str(COMMAND), *arguments]
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints) as run,
    ):
        read_output(run, report, aborts=scenario == "abort")
        status = run.wait()
        if scenario == "abort":
            report.leave()
        complaints.seek(0)
        complaint = complaints.read().decode()
    report.extra |= {"exit_code": status, "stderr": complaint}
    if status and scenario != "abort":
        report.error = {"class": f"exit {status}", "classes": [], "message": complaint, "status": None, "code": None}
    elif not report.error:
        report.text = report.text.removesuffix("\n")  # the command ends its output with one of its own


def read_output(run: subprocess.Popen[bytes], report: Report, *, aborts: bool) -> None:
    """Read standard output to its end."""
    assert run.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")()
    while piece := os.read(run.stdout.fileno(), 65536):
        report.add(decoder.decode(piece))
        if aborts and len(report.text.split()) >= ABORT_AFTER:
            aborts = False
            run.send_signal(signal.SIGINT)


def read_log(env: dict[str, str], report: Report) -> None:
    """Read the command's own log: what it made of the answers."""
    command = [str(COMMAND), "logs", "list", "--count", "0", "--json"]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    entries: list[dict[str, Any]] = sorted(json.loads(done.stdout), key=lambda entry: entry["id"])
    report.extra["answers"] = len(entries)
    report.whole = "".join(entry["response"] for entry in entries)
    report.tool_calls = [
        {"id": call["tool_call_id"], "name": call["name"], "arguments": json.dumps(call["arguments"])}
        for entry in entries
        for call in entry["tool_calls"]
    ]
    last = entries[-1]
    if last["input_tokens"] is not None:
        details = last["token_details"]
        details = json.loads(details) if isinstance(details, str) else details or {}
        report.usage = {
            "prompt_tokens": last["input_tokens"],
            "completion_tokens": last["output_tokens"],
            "cached_tokens": details.get("prompt_tokens_details", {}).get("cached_tokens"),
            "reasoning_tokens": details.get("completion_tokens_details", {}).get("reasoning_tokens"),
            "cost": details.get("cost"),
        }


if __name__ == "__main__":
    play_all(play, sys.argv[1:])
