"""The clients, what is asked through each of them, and the trial that plays it all."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.demo import DemoUpstream
from app.demo.exchange import Exchange
from tests.clients.environments import NODE, environment
from tests.clock import PATIENCE
from tests.servers import RawStream, clean_environ, wait_until

__all__ = ["CLIENTS", "Bystander", "Client", "Trial", "playing"]

FOLDER = Path(__file__).resolve().parent
SCENARIOS = (
    "stream",
    "abort",  # early, so that the others show what it leaves behind in the client
    "blocking",
    "tools",
    "tools_interleaved",
    "usage_on",
    "usage_off",
    "error_before",
    "error_after",
    "error_status",
)
RUN_SECONDS = 300.0


@dataclass(frozen=True)
class Client:
    """A real client.

    Args:
        name: as it is shown.
        environment: of ``environments.py``; None is the tests' own.
        command: the runner and its options.
        errors: the class of what it raises, by scenario.
        lacks: scenarios that the client has no way to ask for.
        hides: fields of a report that the client never tells.
    """

    name: str
    environment: str | None
    command: tuple[str, ...]
    errors: Mapping[str, str]
    lacks: frozenset[str] = frozenset()
    hides: frozenset[str] = frozenset()

    def scenarios(self) -> list[str]:
        """What it plays."""
        return [scenario for scenario in SCENARIOS if scenario not in self.lacks]

    def argv(self) -> list[str]:
        """Give the program and its options."""
        program, *options = self.command
        if self.environment == NODE:
            return ["node", str(environment(NODE) / program), *options]
        python = sys.executable if self.environment is None else str(environment(self.environment) / "bin" / "python")
        return [python, str(FOLDER / program), *options]


def _errors(before: str, after: str, status: str) -> dict[str, str]:
    return {"error_before": before, "error_after": after, "error_status": status}


def _openai(name: str, environment: str, program: str) -> list[Client]:
    """Make a client of an OpenAI library, and one of its helper.

    The helper only streams, and takes a tool call for complete as soon as a fragment of another one comes.
    """
    errors, lacks = _errors("APIError", "APIError", "RateLimitError"), frozenset({"blocking", "tools_interleaved"})
    return [
        Client(name, environment, (program,), errors),
        Client(f"{name}-helper", environment, (program, "--helper"), errors, lacks),
    ]


def _ai(provider: str, before: str, *, lacks: Iterable[str] = (), hides: Iterable[str] = ()) -> Client:
    """Make a client of the Vercel AI SDK, which hands on an error inside a stream as the object that was sent."""
    errors = _errors(before, "Object", "APICallError")
    return Client(f"ai-{provider}", NODE, ("run_ai.mjs", provider), errors, frozenset(lacks), frozenset(hides))


def _curl(version: str) -> Client:
    errors = _errors("insufficient_quota", "server_error", "rate_limit_error")
    return Client(f"curl-{version}", None, ("run_curl.py", f"--http{version}"), errors)


ALWAYS_ASKS = frozenset({"usage_off"})
CLIENTS = [
    *_openai("openai-python-3", "openai3", "run_openai.py"),
    *_openai("openai-python-2", "openai2", "run_openai.py"),
    *_openai("openai-python-1", "openai1", "run_openai.py"),
    *_openai("openai-node", NODE, "run_openai.mjs"),
    _ai("compatible", "Object"),
    _ai("openai", "APICallError", lacks=ALWAYS_ASKS, hides=["reasoning"]),
    _ai("openrouter", "Object"),
    Client(
        "langchain",
        "langchain",
        ("run_langchain.py",),
        _errors("APIError", "APIError", "OpenAIRateLimitError"),
        hides=frozenset({"reasoning"}),
    ),
    Client(
        "llm",
        "llm",
        ("run_llm.py",),
        _errors("exit 1", "exit 1", "exit 1"),
        ALWAYS_ASKS,
        frozenset({"chunks", "finish_reason", "reasoning"}),
    ),
    _curl("1.1"),
    _curl("1.0"),
]


def playing(scenario: str) -> list[Client]:
    """Give the clients that play a scenario."""
    return [client for client in CLIENTS if scenario not in client.lacks]


@dataclass(frozen=True)
class Run:
    """A runner's process, ended, and its reports by scenario."""

    status: int
    complaints: str
    reports: Mapping[str, dict[str, Any]]


class Trial:
    """All runs, in the background and one after the other.

    Args:
        upstream: what the gateways have behind them.
        addresses: by scenario, the base URL to ask; under ``""`` for all others.
        scripts: what upstream plays, by scenario: a list of scripts, the n-th for the n-th request.
    """

    def __init__(
        self, upstream: DemoUpstream, addresses: Mapping[str, str], scripts: Mapping[str, list[list[dict[str, Any]]]]
    ) -> None:
        self.upstream = upstream
        self._addresses, self._scripts = addresses, scripts
        self._pool = ThreadPoolExecutor(1)  # one run at a time, or the starts of others would delay an abort
        self._runs: dict[str, Future[Run]] = {}

    def begin(self, clients: Iterable[Client]) -> None:
        """Let these clients play, in this order and behind those begun before."""
        for client in clients:
            self._runs[client.name] = self._pool.submit(self._run, client)

    def run(self, client: Client) -> Run:
        """Wait for a client's run."""
        return self._runs[client.name].result()

    def report(self, client: Client, scenario: str) -> dict[str, Any]:
        """Wait for what a client told of a scenario."""
        run = self.run(client)
        assert scenario in run.reports, f"the runner ended with {run.status} before it: {run.complaints}"
        return run.reports[scenario]

    def exchanges(self, client: Client, scenario: str) -> list[Exchange]:
        """Give the requests that reached upstream for a scenario."""
        key = f"{client.name}/{scenario}"
        return [exchange for exchange in self.upstream.requests if exchange.key == key]

    def close(self) -> None:
        """Begin nothing more, and wait for what is under way."""
        self._pool.shutdown(cancel_futures=True)

    def _run(self, client: Client) -> Run:
        arguments = []
        for scenario in client.scenarios():
            prompt = {"key": f"{client.name}/{scenario}", "attempts": self._scripts[scenario]}
            arguments += [self._addresses.get(scenario, self._addresses[""]), scenario, json.dumps(prompt)]
        env = clean_environ({"LANGSMITH_TRACING": "false", "OPENAI_BASE_URL": None})
        command = [*client.argv(), *arguments]
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_SECONDS
        )
        reports = [json.loads(line) for line in done.stdout.split("\n") if line]  # U+2028 ends no line here
        return Run(done.returncode, done.stderr, {report["scenario"]: report for report in reports})


class Bystander:
    """A client whose numbered words keep coming while others come and go: does anything disturb it?"""

    SCRIPT: list[dict[str, Any]] = [{"text": {"content": [f"{number} " for number in range(6000)], "pace": 20}}]

    def __init__(self, stream: RawStream) -> None:
        self._stream = stream
        self._words = ""
        self._heard_at = 0.0
        self._failure: Exception | None = None
        self._is_leaving = False
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def check(self, since: float) -> None:
        """Wait for a word after the moment *since*, and look whether any was lost up to now."""
        wait_until(lambda: self._failure or self._heard_at > since, what="a word for the bystander")
        if self._failure is not None:
            raise AssertionError("the bystander's stream broke") from self._failure
        numbers = self._words.split()
        assert [str(number) for number in range(len(numbers))] == numbers

    def close(self) -> None:
        """Leave."""
        self._is_leaving = True
        self._thread.join(PATIENCE)
        self._stream.close()

    def _listen(self) -> None:
        try:
            while not self._is_leaving:
                data = self._stream.next_data()
                assert data not in (None, "[DONE]"), "the stream ended"
                self._words += json.loads(data)["choices"][0]["delta"].get("content", "")
                self._heard_at = time.monotonic()
        except Exception as exc:
            self._failure = exc
