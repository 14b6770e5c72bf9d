"""A load of requests that end in every way, each with its own request id and the end reasons it may have."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.clock import PATIENCE
from tests.servers import BodyCut, open_stream

__all__ = ["KEY", "Asked", "Load"]

KEY = {"Authorization": "Bearer key-of-ann"}
_QUIET = [{"head": {}}, {"silence": True}]
_SLOW = [{"text": {"content": ["word "] * 400, "pace": 40}}]
_FAILED = {"answer": {"status": 500, "json": {"error": {"code": 500, "message": "It broke."}}}}
_BUSY = {"answer": {"status": 429, "headers": {"Retry-After": "0"}, "json": {"error": {"code": 429}}}}

KINDS: dict[str, tuple[list[Any], str, str]] = {
    "answered": ([{"text": "Hello there, friend."}], "read", "completed"),
    "slowly answered": ([{"text": {"content": ["a "] * 10, "pace": 30}}], "read", "completed"),
    "cut short": ([{"text": "Hello"}, {"finish": "length"}], "read", "length"),
    "a tool called": ([{"tool_call": {"name": "f"}}], "read", "tool_calls"),
    "refused upstream": ([_FAILED], "read", "upstream_error"),
    "an error in the stream": ([{"text": "Hi"}, {"error": "choices"}], "read", "upstream_error"),
    "a cut": ([{"text": "Hi"}, {"cut": "rst"}], "read", "upstream_cut"),
    "nothing": ([{"head": {}}, {"done": "[DONE]"}], "read", "upstream_empty"),
    "left at once": (_SLOW, "send", "client_disconnected"),
    "left before the head": ([{"silence": True}], "first", "client_disconnected"),
    "left before the first token": (_QUIET, "first", "client_disconnected"),
    "left in mid stream": (_SLOW, "some", "client_disconnected"),
    "a rejected body": ([], "reject", "rejected"),
    "a body that is no JSON": ([], "garbage", "rejected"),
}


@dataclass
class Asked:
    """One request: what it may have ended with, and whether it surely reached the gateway."""

    request_id: str
    reasons: set[str]
    is_sure: bool = True
    ended_at: float = 0.0
    kind: str = ""


@dataclass
class Load:
    """Threads that ask until they are told to stop.

    Attributes:
        asked: the requests so far, those under way excluded.
    """

    url: str
    threads: int = 8
    asked: list[Asked] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)

    def start(self) -> None:
        """Begin."""
        self._stop, self.is_over = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(self.threads)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ask nothing more and wait for what is under way."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)

    def _run(self, number: int) -> None:
        chance = random.Random(number)
        names = sorted(KINDS)
        turn = 0
        while not self._stop.is_set():
            turn += 1
            kind = names[(number * 5 + turn) % len(names)]
            is_stream = chance.random() < 0.7 or KINDS[kind][1] in ("first", "some")
            asked = Asked(f"load-{number}-{turn}", {KINDS[kind][2]}, kind=kind)
            try:
                self._ask(asked, kind, is_stream)
            except (OSError, BodyCut):
                asked.is_sure = False  # the gateway is going, or gone
            except Exception as error:
                self.failures.append(error)
            asked.ended_at = time.monotonic()
            if self.is_over.is_set():
                asked.is_sure = False
            self.asked.append(asked)
            if not asked.is_sure:
                time.sleep(0.02)

    def _ask(self, asked: Asked, kind: str, is_stream: bool) -> None:
        script, way, _ = KINDS[kind]
        headers = {**KEY, "X-Request-Id": asked.request_id}
        message = {"role": "user", "content": json.dumps(script)}
        body: Any = {"model": "demo/script", "stream": is_stream, "messages": [message]}
        if way == "reject":
            body = {"model": 5, "messages": []}
        elif way == "garbage":
            body = '{"messages": '
        if way == "send":
            self._send(headers, json.dumps(body))
            return
        with open_stream(f"{self.url}/v1/chat/completions", body, headers) as response:
            if response.status == 503:
                asked.reasons |= {"rejected", "draining"}
            if way == "first":
                response.next_event()
            elif way == "some":
                for _ in range(6):
                    response.next_event()
            else:
                text = response.read()
                asked.reasons |= {"draining"} if b"draining" in text else set()

    def _send(self, headers: dict[str, str], body: str) -> None:
        """Send a request and leave without reading, once it has surely arrived."""
        parts = urlsplit(self.url)
        lines = {"Host": parts.netloc, "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        with socket.create_connection((parts.hostname or "", parts.port or 0), PATIENCE) as sock:
            sock.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n{body}".encode())
