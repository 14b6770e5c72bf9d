"""An upstream that keeps a given pace, so that a gateway's cost and delay can be measured.

It speaks OpenRouter's chat-completion stream. The last user message sets the pace, say ``chunks=100 gap_ms=50``; each
delta's content is the clock (CLOCK_MONOTONIC, nanoseconds) at which it was sent, so that a client on this machine
reads each chunk's transit time off the chunk. ``unit=HEX chars=1000000 cut=400`` asks for a text instead, as fast as it
is taken: the unit, UTF-8 in hexadecimal digits, repeated to so many characters, in pieces of so many.

Usage: pace.py PORT [CERTIFICATE KEY]
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import sys
import time

import uvloop

_HEAD = (
    b'data: {"id":"gen-1754000000-paceAbCdEfGhIj","provider":"Pace","model":"pace/one","object":"chat.completion.chunk"'
    b',"created":1754000000,"choices":[{"index":0,"delta":{"role":"assistant","content":"'
)
_TAIL = b'"},"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}\n\n'
_STOP = b'"},"finish_reason":"stop","native_finish_reason":"stop","logprobs":null}]}\n\n'
_USAGE = (
    b'data: {"id":"gen-1754000000-paceAbCdEfGhIj","provider":"Pace","model":"pace/one","object":"chat.completion.chunk"'
    b',"created":1754000000,"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":%d,"total_tokens":%d,"cost":0}}'
    b"\n\ndata: [DONE]\n\n"
)
_RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_WAITING = 262_144
"""Bytes that may wait for a slow reader before the next chunk is made."""


class Connection(asyncio.Protocol):
    """One connection, any number of requests after one another."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._received = b""
        self._task: asyncio.Task[None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, complete, body = self._received.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.I)
        wanted = int(length[1]) if length else 0
        if complete and len(body) >= wanted:
            self._received = body[wanted:]
            self._task = asyncio.get_running_loop().create_task(self._answer(body[:wanted]))

    async def _answer(self, body: bytes) -> None:
        if unit := re.search(rb"unit=([0-9a-f]+) chars=(\d+) cut=(\d+)", body):
            await self._tell(bytes.fromhex(unit[1].decode()).decode(), int(unit[2]), int(unit[3]))
            return
        asked = {name: int(value) for name, value in re.findall(rb"(chunks|gap_ms)=(\d+)", body)}
        count, gap = asked.get(b"chunks", 10), asked.get(b"gap_ms", 0) / 1000
        transport = self._transport
        transport.write(_RESPONSE)
        due = time.monotonic()
        for _ in range(count):
            transport.write(_framed(_HEAD + b"%d " % time.monotonic_ns() + _TAIL))
            due += gap
            await asyncio.sleep(max(due - time.monotonic(), 0))
            while transport.get_write_buffer_size() > _WAITING:
                await asyncio.sleep(0.001)
        transport.write(_framed(_HEAD + _STOP) + _framed(_USAGE % (count, count + 9)) + b"0\r\n\r\n")

    async def _tell(self, unit: str, chars: int, cut: int) -> None:
        text = (unit * (chars // len(unit) + 1))[:chars]
        transport = self._transport
        transport.write(_RESPONSE)
        for start in range(0, chars, cut):
            transport.write(_framed(_HEAD + json.dumps(text[start : start + cut]).encode()[1:-1] + _TAIL))
            await asyncio.sleep(0)  # paced streams keep their pace
            while transport.get_write_buffer_size() > _WAITING:
                await asyncio.sleep(0.001)
        transport.write(_framed(_HEAD + _STOP) + _framed(_USAGE % (1, 10)) + b"0\r\n\r\n")


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def serve(port: int, context: ssl.SSLContext | None) -> None:
    """Serve until the process is ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", port, ssl=context, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    context = None
    if len(sys.argv) > 2:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(sys.argv[2], sys.argv[3])
    uvloop.run(serve(int(sys.argv[1]), context))
