"""Whether a stream's bytes arrive as they are sent, and if not, who on the way holds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from email.message import Message
from typing import Any, NamedTuple

from .. import wire
from ..sse import Comment
from .client import EventResponse

__all__ = ["Suspect", "Timing", "measure", "suspects"]

_NOISE = 0.25
"""Seconds that a slow network and a busy machine may add without meaning anything."""
_TELLING = 0.5
"""Seconds an answer must take for its pace to tell anything."""


@dataclass
class Timing:
    """When things came, in seconds since the request was sent, beside what the gateway says of itself.

    Attributes:
        head, comment, first, last: response head, first comment, first and last data.
        said_first, said_total: the gateway's own figures, in seconds; None from a server that gives none.
        reads, events: how many reads brought data, and how many events they held.
        widest: longest time between two reads with data.
        round_trip: seconds that a small answer takes, to be taken off.
    """

    head: float = 0.0
    comment: float | None = None
    first: float | None = None
    last: float | None = None
    said_first: float | None = None
    said_total: float | None = None
    reads: int = 0
    events: int = 0
    widest: float = 0.0
    round_trip: float = 0.0
    error: str | None = field(default=None)

    @property
    def sent_over(self) -> float | None:
        """Seconds over which the gateway sent the answer, by its own account."""
        if self.said_first is None or self.said_total is None:
            return None
        return self.said_total - self.said_first

    @property
    def is_telling(self) -> bool:
        """Whether the answer took long enough to tell."""
        return (self.sent_over or 0.0) >= _TELLING

    @property
    def held(self) -> float:
        """Seconds by which the first data came late."""
        if self.first is None or self.said_first is None:
            return 0.0
        return max(self.first - self.said_first - self.round_trip, 0.0)

    @property
    def verdict(self) -> str | None:
        """How the bytes were held, in words; None where they came as they were sent."""
        over = self.sent_over
        if over is None or self.first is None or self.last is None:
            return None
        if self.held > _NOISE and self.last - self.first < over / 2:
            return f"the answer came in one piece, {self.held:.1f} s late"
        if self.held > _NOISE and self.held > over / 5:
            return f"the first token came {self.held:.1f} s late"
        if self.events >= 10 and self.events / self.reads > 5 and self.widest > _NOISE:
            return f"events came in bunches of {self.events / self.reads:.0f}, up to {self.widest:.1f} s apart"
        return None


def measure(response: EventResponse, round_trip: float) -> Timing:
    """Read a stream to its end and note when what came.

    Raises:
        GatewayError: it broke off.
    """
    timing, before = Timing(head=response.head_at, round_trip=round_trip), None
    for arrival in response.arrivals():
        data = [item for item in arrival.items if not isinstance(item, Comment)]
        if len(data) < len(arrival.items) and timing.comment is None:
            timing.comment = arrival.at
        values = [wire.loads(item.data) for item in data if item.data != b"[DONE]"]
        for value in values:
            _note_facts(timing, value)
        if any(_says_something(value) for value in values):
            timing.reads += 1
            timing.events += len(values)
            timing.first = arrival.at if timing.first is None else timing.first
            timing.widest = max(timing.widest, arrival.at - before if before is not None else 0.0)
            timing.last = before = arrival.at
    return timing


def _note_facts(timing: Timing, value: Any) -> None:
    facts = value.get("x_g0dm0d3") if isinstance(value, dict) else None
    told = facts.get("timing") if isinstance(facts, dict) else None
    if isinstance(told, dict):
        first, total = told.get("first_chunk_ms"), told.get("total_ms")
        timing.said_first = first / 1000 if isinstance(first, (int, float)) else None
        timing.said_total = total / 1000 if isinstance(total, (int, float)) else None
    if isinstance(value, dict) and isinstance(value.get("error"), dict):
        timing.error = str(value["error"].get("message"))


def _says_something(value: Any) -> bool:
    choices = value.get("choices") if isinstance(value, dict) else None
    return isinstance(choices, list) and any(isinstance(c, dict) and c.get("delta") for c in choices)


class Suspect(NamedTuple):
    """Someone on the way who may hold bytes: what shows it, and what to change there."""

    name: str
    shows: str
    remedy: str


_COMPRESSION = (
    "leave text/event-stream out of compression (nginx: `gzip_types` without it; Flask-Compress: COMPRESS_MIMETYPES;"
    " Caddy: `encode` with a matcher)"
)
_BY_NAME: tuple[tuple[str, str, str], ...] = (
    ("cloudflare", "Cloudflare", "turn off its transformations for this path; Cache-Control: no-transform must pass"),
    ("cloudfront", "CloudFront", "use a cache policy with caching and compression off for this path"),
    ("varnish", "Varnish", "`set beresp.do_stream = true;` and `return (pass);` for this path"),
    ("openresty", "nginx (OpenResty)", "`proxy_buffering off;` in the location, and do not ignore X-Accel-Buffering"),
    ("nginx", "nginx", "`proxy_buffering off;` in the location, and do not ignore X-Accel-Buffering"),
    ("apache", "Apache", "`ProxyPass ... flushpackets=on`, and no mod_deflate for text/event-stream"),
    ("squid", "Squid", "let this path through without its cache"),
    ("akamai", "Akamai", "turn on streaming for this path"),
    ("envoy", "Envoy", "take the buffer and compressor filters off this route"),
    ("caddy", "Caddy", "`flush_interval -1` in reverse_proxy"),
    ("iis", "IIS", '`responseBufferLimit="0"` for the proxy\'s handler'),
    ("google", "a Google load balancer", "turn off Cloud CDN for this path"),
)
_NAMING = ("Server", "Via", "X-Served-By", "X-Powered-By", "X-Cache")
_MARKS = {"CF-RAY": "cloudflare", "X-Amz-Cf-Id": "cloudfront", "X-Varnish": "varnish", "X-Azure-Ref": "azure"}


def suspects(headers: Message) -> list[Suspect]:
    """Name who may hold the bytes, by the headers of the response, the likeliest first."""
    found: list[Suspect] = []
    encoding = headers.get("Content-Encoding")
    if encoding and encoding.lower() != "identity":
        found.append(Suspect("compression", f"Content-Encoding: {encoding}", _COMPRESSION))
    for name in _NAMING:
        value = headers.get(name) or ""
        found += [Suspect(who, f"{name}: {value}", what) for word, who, what in _BY_NAME if word in value.lower()][:1]
    for name, word in _MARKS.items():
        if headers.get(name):
            known = next((entry for entry in _BY_NAME if entry[0] == word), ("", word, "turn its buffering off"))
            found.append(Suspect(known[1], f"{name}: {headers[name]}", known[2]))
    via = headers.get("Via")
    if via and not any(suspect.shows.startswith("Via") for suspect in found):
        found.append(Suspect("a proxy", f"Via: {via}", "turn its response buffering off for this path"))
    if headers.get("Content-Length"):
        remedy = "it waits for the whole answer to count it: turn its response buffering off"
        found.append(
            Suspect("a proxy that collects the answer", f"Content-Length: {headers['Content-Length']}", remedy)
        )
    return list({suspect.name: suspect for suspect in reversed(found)}.values())[::-1]
