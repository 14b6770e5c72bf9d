"""`sluice check`: what a gateway needs, and who holds a stream's bytes back."""

from __future__ import annotations

import gzip
import re
import socket
import threading
import urllib.request
from collections.abc import Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from app.commands.buffering import Timing, suspects
from app.demo import DemoUpstream
from tests.commands.runner import Done, run
from tests.conftest import Served
from tests.servers import free_port
from tests.test_deploy import Nginx

PACED: list[dict[str, Any]] = [piece for n in range(12) for piece in ({"text": [f"word{n} "]}, {"wait": 0.08})]
"""An answer that takes about a second."""


def findings(done: Done) -> dict[str, tuple[str, str]]:
    """Read the lines: state and text by subject."""
    lines = [re.fullmatch(r"(ok|warn|fail) +(\S+(?: by)?) +(.*)", line) for line in done.out.splitlines()]
    return {line[2]: (line[1], line[3]) for line in lines if line}


@pytest.fixture
def env(upstream: DemoUpstream, tmp_path: Path) -> dict[str, str | None]:
    """The environment of a gateway that lacks nothing."""
    return {
        "SLUICE_API_KEYS": "ann:secret-key-1",
        "OPENROUTER_API_KEY": "sk-or-v1-operator",
        "OPENROUTER_BASE_URL": upstream.base_url.replace("://", "://ann:secret-word@"),
        "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/records.db",
        "SLUICE_RETRIES": "0",
    }


def test_a_gateway_that_lacks_nothing(env: dict[str, str | None]) -> None:
    """Everything is looked at and fine; no key is shown, and nothing is coloured in a pipe."""
    done = run("check", env=env)

    assert {"settings", "callers", "key", "upstream", "database"} == findings(done).keys()
    assert {"ok"} == {state for state, _ in findings(done).values()}
    assert 0 == done.status
    assert not re.search("secret|operator|\x1b", done.out + done.err)


def test_each_lack_is_told(env: dict[str, str | None], tmp_path: Path) -> None:
    """An upstream that is not there and a database that cannot be opened fail; no keys are a warning."""
    blocker = tmp_path / "file"
    blocker.write_text("")
    changed = {
        "SLUICE_API_KEYS": None,
        "OPENROUTER_BASE_URL": f"http://ann:hunter2@127.0.0.1:{free_port()}/v1",
        "SLUICE_DATABASE_URL": f"sqlite:///{blocker}/records.db",
    }

    done = run("check", env=env | changed)
    found = findings(done)

    assert "hunter2" not in done.out + done.err
    assert 1 == done.status
    assert ("warn", "fail", "fail") == (found["callers"][0], found["upstream"][0], found["database"][0])
    assert "upstream_unreachable" in found["upstream"][1]
    assert "SLUICE_DATABASE_URL" in found["database"][1]


def test_a_key_that_upstream_refuses_is_told(env: dict[str, str | None], upstream: DemoUpstream) -> None:
    """401 for the key is a failure of its own."""
    upstream.play([{"answer": {"status": 401, "json": {"error": {"message": "no", "code": 401}}}}], path="/key")

    done = run("check", env=env)

    assert ("fail", "upstream refuses OPENROUTER_API_KEY") == findings(done)["key"]


def test_a_wrong_setting_is_told(env: dict[str, str | None]) -> None:
    """The first wrong setting is named, as at the start."""
    done = run("check", env=env | {"SLUICE_HEARTBEAT": "fast"})

    assert (1, "fail  settings   SLUICE_HEARTBEAT: expected a number, got 'fast'\n") == done[:2]


def test_a_stream_that_is_not_held_passes(served: Served, upstream: DemoUpstream) -> None:
    """Straight to the gateway bytes arrive as they are sent."""
    upstream.play(PACED)

    done = run("check", served.url)
    found = findings(done)

    assert 0 == done.status, done.out
    assert ("ok", "ok") == (found["stream"][0], found["buffering"][0])
    assert "demo/story" == upstream.requests[-1].body["model"]


def test_an_answer_too_short_to_tell_is_no_verdict(served: Served, upstream: DemoUpstream) -> None:
    """What is over at once says nothing about buffering."""
    upstream.play([{"text": ["word"]}])

    assert "warn" == findings(run("check", served.url))["buffering"][0]


class Holder(BaseHTTPRequestHandler):
    """A proxy that collects an answer before it passes it on."""

    target = ""
    packs = False
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Pass a request on."""
        length = int(self.headers.get("Content-Length") or 0)
        data = self.rfile.read(length) if length else None
        asked = urllib.request.Request(self.target + self.path, data, {"Content-Type": "application/json"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked) as response:
            body, kind = response.read(), response.headers["Content-Type"]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Via", "1.1 holder")
        if self.packs and "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(params=[False, True], ids=["plain", "gzip"])
def held(request: pytest.FixtureRequest, served: Served) -> Iterator[str]:
    """The address of a proxy that holds the gateway's answers."""
    handler = type("Handler", (Holder,), {"target": served.url, "packs": request.param})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_who_holds_a_stream_is_named(held: str, upstream: DemoUpstream, request: pytest.FixtureRequest) -> None:
    """An answer that comes in one piece fails, with the layer that shows itself; compression is named first."""
    upstream.play(PACED)

    done = run("check", held)

    assert 1 == done.status
    assert "in one piece" in findings(done)["buffering"][1]
    assert "(Via: 1.1 holder)" in done.out
    assert ("gzip" in request.node.name) == ("compression (Content-Encoding: gzip)" in done.out)


def test_nginx_that_buffers_is_named(
    tmp_path_factory: pytest.TempPathFactory, served: Served, upstream: DemoUpstream
) -> None:
    """nginx that compresses streams and is told to ignore our header holds them, and is named with what to change."""
    port = free_port()
    deaf = "proxy_ignore_headers X-Accel-Buffering; gzip on; gzip_types text/event-stream; gzip_proxied any;"
    site = f"server {{ listen 127.0.0.1:{port}; location / {{ {deaf} proxy_pass {served.url}; }} }}"
    nginx = Nginx(tmp_path_factory.mktemp("nginx"), site, port)
    nginx.start()
    try:
        upstream.play(PACED)
        done = run("check", nginx.url)
    finally:
        nginx.stop()

    assert 1 == done.status, done.out
    assert "compression (Content-Encoding: gzip)" in done.out
    assert re.search(r"fail +held by +nginx \(Server: nginx.*\): `proxy_buffering off;`", done.out)


@pytest.mark.parametrize(
    "address", ["http://u:hunter2@127.0.0.1", "http://u:hunter2/x@127.0.0.1", "http://u:[hunter2@h", "u:hunter2@h"]
)
def test_an_address_with_a_password_is_refused_and_not_repeated(address: str) -> None:
    """The key has an option of its own."""
    done = run("check", address)

    assert 2 == done.status
    assert "without user and password" in done.err
    assert "hunter2" not in done.out + done.err


def test_what_is_no_gateway_is_told() -> None:
    """A server that answers something else, and none at all."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer() -> None:
            connection, _ = listener.accept()
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nServer: toaster\r\nContent-Length: 2\r\n\r\nhi")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        done = run("check", f"127.0.0.1:{port}")
        thread.join()

    assert 1 == done.status
    assert "status 200 from toaster, and no JSON: is this a gateway?" in done.out


@pytest.mark.parametrize(
    ("headers", "names"),
    [
        ({"Server": "cloudflare", "CF-RAY": "1"}, ["Cloudflare"]),
        ({"Server": "gunicorn", "Via": "1.1 varnish (Varnish/7.0)", "X-Varnish": "3"}, ["Varnish"]),
        ({"Server": "gunicorn", "X-Amz-Cf-Id": "x"}, ["CloudFront"]),
        ({"Server": "Apache/2.4", "Content-Encoding": "br"}, ["compression", "Apache"]),
        ({"Server": "gunicorn", "Content-Length": "5"}, ["a proxy that collects the answer"]),
        ({"Server": "gunicorn", "Content-Encoding": "identity"}, []),
    ],
)
def test_layers_show_themselves_in_headers(headers: dict[str, str], names: list[str]) -> None:
    """Each known layer is named once, the likeliest first."""
    message = Message()
    for name, value in headers.items():
        message[name] = value

    assert names == [suspect.name for suspect in suspects(message)]


def timing(**figures: Any) -> Timing:
    """Make a timing of a two-second answer that was not held."""
    return Timing(
        **{"said_first": 0.5, "said_total": 2.5, "first": 0.55, "last": 2.55, "reads": 20, "events": 40} | figures
    )


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (timing(), None),
        (timing(round_trip=0.3, first=0.9, last=2.9), None),
        (timing(first=2.55), "the answer came in one piece, 2.0 s late"),
        (timing(first=1.5, last=2.6), "the first token came 1.0 s late"),
        (timing(reads=4, widest=0.6), "events came in bunches of 10, up to 0.6 s apart"),
        (timing(said_first=None), None),
    ],
)
def test_verdicts(found: Timing, verdict: str | None) -> None:
    """What came when against what was said to be sent when."""
    assert verdict == found.verdict
