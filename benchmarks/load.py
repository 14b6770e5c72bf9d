"""A client of many streams at once that checks every chunk and reads its transit time.

Usage: load.py URL --streams N [--total T] [--chunks K] [--gap-ms MS] [--key KEY]
       [--header 'NAME: VALUE' ...] [--extra JSON] [--mark CHUNKS ...]
Prints one JSON object: streams done and failed, chunks, seconds, time to first chunk and transit times in ms. Before
it one for each ``--mark``, as soon as every stream has had so many chunks: the mark, and all chunks there were by then.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import resource
import time
from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlsplit

import uvloop

_STAMP = re.compile(rb'"content": ?"(\d{9,}) ')
_FRAME = re.compile(rb"\r\n[0-9a-fA-F]+\r\n")  # HTTP's chunk framing, which may fall inside an event
_KEPT = 500
"""Bytes kept between two reads: an event may be cut anywhere."""


class Stream(asyncio.Protocol):
    """One request; ``ended`` gives None, or what went wrong."""

    def __init__(self, request: bytes, chunks: int, load: Load) -> None:
        self._request, self._expected, self._load = request, chunks, load
        self._tail = b""
        self._seen = 0
        self.ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._began = time.monotonic_ns()
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        text = _FRAME.sub(b"", self._tail + data)
        end = 0
        for stamp in _STAMP.finditer(text):
            if not self._seen:
                self._load.firsts.append((now - self._began) / 1e6)
            self._load.transits.append((now - int(stamp[1])) / 1e6)
            self._seen += 1
            self._load.note(self._seen)
            end = stamp.end()
        self._tail = text[max(end, len(text) - _KEPT) :]
        if b"[DONE]" in self._tail:
            self._end(None if self._seen == self._expected else f"{self._seen} of {self._expected} chunks")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"cut after {self._seen} of {self._expected} chunks: {self._tail[-80:]!r}")

    def _end(self, failure: str | None) -> None:
        if not self.ended.done():
            self.ended.set_result(failure)
            self._transport.close()


class Load:
    """What a run of many streams found."""

    def __init__(self, marks: Sequence[int] = (), streams: int = 0) -> None:
        self._behind = dict.fromkeys(marks, streams)
        self.firsts: list[float] = []
        self.transits: list[float] = []
        self.failures: Counter[str] = Counter()
        self.done = 0

    def note(self, seen: int) -> None:
        """Take note that a stream has had *seen* chunks; tell when it was the last of them to reach a mark."""
        if seen in self._behind:
            self._behind[seen] -= 1
            if not self._behind[seen]:
                print(json.dumps({"mark": seen, "chunks": len(self.transits)}), flush=True)

    async def run(self, url: str, request: bytes, *, streams: int, total: int, chunks: int, limit: float) -> None:
        """Keep *streams* open until *total* have been."""
        parts = urlsplit(url)
        loop = asyncio.get_running_loop()
        left = iter(range(total))

        async def worker() -> None:
            for _ in left:
                try:
                    async with asyncio.timeout(limit):
                        _, stream = await loop.create_connection(
                            lambda: Stream(request, chunks, self), parts.hostname, parts.port
                        )
                        failure = await stream.ended
                except (OSError, TimeoutError) as error:
                    failure = repr(error)[:100]
                if failure is None:
                    self.done += 1
                else:
                    self.failures[failure] += 1

        await asyncio.gather(*(worker() for _ in range(min(streams, total))))


def quantile(values: Sequence[float], part: float) -> float | None:
    """Give a quantile of *values*, None where there are none."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * part))], 3) if ordered else None


def request_of(url: str, options: argparse.Namespace) -> bytes:
    """Make the request's bytes, once for all streams."""
    parts = urlsplit(url)
    pace = f"chunks={options.chunks} gap_ms={options.gap_ms}"
    body = {"model": options.model, "stream": True, "messages": [{"role": "user", "content": pace}]}
    data = json.dumps(body | json.loads(options.extra)).encode()
    lines = [
        f"POST {parts.path} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
        f"Authorization: Bearer {options.key}",
        "Connection: close",
        *options.header,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + data


def main() -> None:
    """Run and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--total", type=int, default=0)
    parser.add_argument("--chunks", type=int, default=100)
    parser.add_argument("--gap-ms", type=int, default=0)
    parser.add_argument("--key", default="none")
    parser.add_argument("--header", action="append", default=[], help="a further header, as it is sent")
    parser.add_argument("--model", default="pace/one")
    parser.add_argument("--extra", default="{}")
    parser.add_argument("--limit", type=float, default=120, help="longest time of one stream, seconds")
    parser.add_argument("--mark", type=int, nargs="*", default=[], help="chunks of a stream")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    load = Load(options.mark, options.total or options.streams)
    began = time.monotonic()
    uvloop.run(
        load.run(
            options.url,
            request_of(options.url, options),
            streams=options.streams,
            total=options.total or options.streams,
            chunks=options.chunks,
            limit=options.limit,
        )
    )
    found = {
        "done": load.done,
        "failed": sum(load.failures.values()),
        "failures": load.failures.most_common(3),
        "chunks": len(load.transits),
        "seconds": round(time.monotonic() - began, 2),
        "first_ms": {"p50": quantile(load.firsts, 0.5), "p99": quantile(load.firsts, 0.99)},
        "transit_ms": {"p50": quantile(load.transits, 0.5), "p99": quantile(load.transits, 0.99)},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
