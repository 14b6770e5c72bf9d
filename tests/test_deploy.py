"""The files in deploy/: nginx and the service's command really run, the others are held against what they refer to."""

from __future__ import annotations

import configparser
import functools
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from app import Settings
from app.demo import DemoUpstream
from tests.clock import PATIENCE

from .servers import (
    ROOT,
    BodyCut,
    GunicornGateway,
    Process,
    clean_environ,
    free_port,
    open_stream,
    request,
    wait_until,
)

DEPLOY = ROOT / "deploy"
SITE = (DEPLOY / "nginx.conf").read_text()
ASK = {"stream": True, "messages": [{"role": "user", "content": "Hello"}]}
FIRST: list[dict[str, Any]] = [{"text": ["first"]}, {"silence": True}]
"""Upstream says one thing and then nothing until its client leaves: whoever reads it got it while it was the last."""

# What nginx does without our file, but for where to listen and whom to ask.
PLAIN_SITE = "server { listen %s; location / { proxy_pass http://%s; } }"


class Nginx:
    """nginx with a site file in its `http` block, which may hold *more*; everything of it is in *folder*."""

    def __init__(self, folder: Path, site: str, port: int, more: str = "") -> None:
        self.url = f"http://127.0.0.1:{port}"
        temporary = "".join(
            f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        # Workers of a root's nginx are nobody, who may not enter the tests' folders.
        user = "user root;" if os.geteuid() == 0 else ""
        self.config = folder / "wrapper.conf"
        self.config.write_text(
            f"{user} daemon off; worker_processes 1; pid {folder}/pid; error_log stderr; events {{}}"
            f" http {{ access_log {folder}/access.log; {temporary} {more} include {folder}/site.conf; }}"
        )
        (folder / "site.conf").write_text(site)
        self._process: Process | None = None

    def check(self) -> subprocess.CompletedProcess[str]:
        """Let nginx read the configuration, and nothing more."""
        command = [nginx_binary(), "-t", "-c", str(self.config), "-e", "stderr"]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=5 * PATIENCE)

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        command = [nginx_binary(), "-c", str(self.config), "-e", "stderr"]
        self._process = process = Process(command, env=clean_environ({}))

        def listens() -> bool:
            assert process.popen.poll() is None, process.log()
            try:
                socket.create_connection(("127.0.0.1", port_of(self.url))).close()
            except OSError:
                return False
            return True

        wait_until(listens, what="nginx takes connections")

    def stop(self) -> None:
        """Stop it at once."""
        if self._process:
            self._process.stop(signal.SIGTERM)


def nginx_binary() -> str:
    found = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    assert found, "these tests need nginx (Debian: nginx-light)"
    return found


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    """Replace what must be there exactly once."""
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def shipped_site(behind: int, port: int) -> str:
    """Give the site file as shipped, but for two ports: the gateway's, and the one that nginx listens on."""
    return replaced(
        SITE,
        ("server 127.0.0.1:8000;", f"server 127.0.0.1:{behind};"),
        ("    listen 80;", f"    listen 127.0.0.1:{port};"),
    )


def port_of(url: str) -> int:
    return urlsplit(url).port or 80


def directive(name: str, text: str = SITE) -> str:
    """Give the value of a directive that is there once."""
    (value,) = re.findall(rf"^\s*{name}\s+([^;]+);", text, re.M)
    return str(value)


def seconds(text: str) -> float:
    """Read a time as nginx and compose write it."""
    return float(text.removesuffix("s"))


@functools.cache
def gunicorn_setting(name: str) -> Any:
    """Read a setting of the repository's gunicorn.conf.py, with no environment of ours."""
    script = "import runpy; print(__import__('json').dumps(runpy.run_path('gunicorn.conf.py')[%r]))"
    command = [sys.executable, "-c", script % name]
    done = subprocess.run(command, cwd=ROOT, env=clean_environ({}), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def unit(name: str) -> dict[str, dict[str, list[str]]]:
    """Read a systemd unit: section, name, values."""
    found: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    for line in (DEPLOY / name).read_text().splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and line[0] not in "#;":
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return found


def dockerfile() -> list[tuple[str, str]]:
    """Read the Dockerfile's instructions; continued lines are joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.M).replace("\\\n", " ")
    return [
        (word, " ".join(rest.split())) for word, _, rest in (line.partition(" ") for line in text.splitlines()) if word
    ]


def only(word: str) -> str:
    """Give the value of the Dockerfile's one instruction of a kind."""
    (value,) = [value for found, value in dockerfile() if found == word]
    return value


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


@pytest.fixture(scope="module")
def asked() -> Iterator[DemoUpstream]:
    """The upstream of this module's gateway."""
    with DemoUpstream() as server:
        yield server


@pytest.fixture(scope="module")
def gateway(asked: DemoUpstream) -> Iterator[GunicornGateway]:
    """A gateway as deployed, with a body limit that tests can exceed without nginx minding."""
    env = {"OPENROUTER_BASE_URL": asked.base_url, "SLUICE_PIPELINE": "off", "SLUICE_MAX_BODY_BYTES": "2000000"}
    with GunicornGateway(env) as started:
        yield started


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Nginx]]:
    """Start nginx with a site, a port and more, and stop it in the end."""
    started: list[Nginx] = []

    def start(site: str, port: int, more: str = "") -> Nginx:
        server = Nginx(tmp_path_factory.mktemp("nginx"), site, port, more)
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="module")
def shipped(nginx: Callable[..., Nginx], gateway: GunicornGateway) -> str:
    """The address of nginx with the shipped file."""
    port = free_port()
    return nginx(shipped_site(port_of(gateway.url), port), port).url


@pytest.fixture(scope="module")
def plain(nginx: Callable[..., Nginx], gateway: GunicornGateway) -> str:
    """The address of nginx with its defaults."""
    port = free_port()
    return nginx(PLAIN_SITE % (f"127.0.0.1:{port}", f"127.0.0.1:{port_of(gateway.url)}"), port).url


@pytest.fixture(params=["shipped", "plain"])
def front(request: pytest.FixtureRequest) -> str:
    """The address of either nginx, plus the route."""
    url: str = request.getfixturevalue(request.param)
    return f"{url}/v1/chat/completions"


def test_nginx_takes_the_shipped_file(tmp_path: Path) -> None:
    """`nginx -t` passes for the file, without a warning."""
    port = free_port()

    done = Nginx(tmp_path, shipped_site(8000, port), port).check()

    assert done.returncode == 0, done.stderr
    assert "[warn]" not in done.stderr


def test_chunk_passes_while_upstream_holds_the_next(front: str, asked: DemoUpstream) -> None:
    """Behind nginx, ours or its defaults, a chunk reaches the client though no other comes after it."""
    number = len(asked.requests) + 1
    asked.play(FIRST)

    with open_stream(front, ASK) as stream:
        chunk = json.loads(stream.next_data() or "")

        assert chunk["choices"][0]["delta"]["content"] == "first"
        assert asked.wait_for_request(number).outcome == "open"


def test_comment_passes_before_upstream_answers(front: str, asked: DemoUpstream) -> None:
    """The head and the first comment come through nginx while upstream has not said a word."""
    number = len(asked.requests) + 1
    asked.play([{"head": 200}, {"silence": True}])

    with open_stream(front, ASK) as stream:
        assert stream.status == 200
        assert (stream.next_event() or "").startswith(":")
        assert asked.wait_for_request(number).outcome == "open"


def test_whole_stream_comes_through(front: str, asked: DemoUpstream) -> None:
    """The events are all there, `[DONE]` is the last, and the body ends as its framing says."""
    asked.play([{"text": "one two three"}])

    with open_stream(front, ASK) as stream:
        chunks = stream.data()

    deltas = [choice["delta"].get("content") or "" for chunk in chunks[:-1] for choice in chunk["choices"]]
    assert "".join(deltas) == "one two three"
    assert chunks[-1] == "[DONE]"
    assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert "content-encoding" not in stream.headers


@pytest.mark.parametrize("abrupt", [False, True], ids=["fin", "rst"])
def test_client_that_leaves_nginx_closes_upstream(front: str, asked: DemoUpstream, abrupt: bool) -> None:
    """nginx passes a client's leaving on, and the gateway closes upstream, although upstream is silent."""
    number = len(asked.requests) + 1
    asked.play(FIRST)

    with open_stream(front, ASK) as stream:
        stream.next_data()
        stream.close(abrupt=abrupt)

    assert asked.wait_for_request(number).closed.wait(PATIENCE)


def test_file_alone_keeps_connections_and_holds_nothing_back(nginx: Callable[..., Nginx], asked: DemoUpstream) -> None:
    """In front of a server that says nothing about buffering, and though compression is on for other sites, nginx
    reuses one connection and relays every event as it is, at once."""
    port = free_port()
    gzip = "gzip on; gzip_min_length 0; gzip_proxied any; gzip_types text/event-stream;"
    url = nginx(shipped_site(asked.port, port), port, gzip).url
    connects = asked.connects

    for _ in range(5):
        with request("GET", f"{url}/api/v1/models") as response:
            response.read()
    # A body that only the connection's end ends: the form that nginx, left to itself, collects.
    asked.play([{"head": {"framing": "close"}}, *FIRST])
    with open_stream(f"{url}/api/v1/chat/completions", ASK, {"Accept-Encoding": "gzip"}) as stream:
        assert not {"x-accel-buffering", "content-encoding"} & stream.headers.keys()
        assert json.loads(stream.next_data() or "")["choices"][0]["delta"]["content"] == "first"

    assert connects + 1 == asked.connects


def test_gateway_learns_who_asks(nginx: Callable[..., Nginx]) -> None:
    """The shipped file tells the gateway the host, the scheme and the client's address, and keeps a given chain."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = free_port()
        nginx(shipped_site(listener.getsockname()[1], port), port)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /v1/health HTTP/1.1\r\nHost: api.example\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n")
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(PATIENCE)
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(65536)
    lines = head.decode().split("\r\n")
    fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    assert lines[0] == "GET /v1/health HTTP/1.1"
    assert "connection" not in fields
    assert (
        fields["host"],
        fields["x-forwarded-host"],
        fields["x-forwarded-proto"],
        fields["x-real-ip"],
    ) == ("api.example", "api.example", "http", "127.0.0.1")
    assert fields["x-forwarded-for"] == "192.0.2.7, 127.0.0.1"


def big_request(size: int) -> str:
    return json.dumps({"stream": True, "messages": [{"role": "user", "content": "x" * size}]})


def test_body_beyond_nginxs_default_passes(shipped: str, asked: DemoUpstream) -> None:
    """A body of 1.5 MB, which nginx would refuse without the file, reaches upstream whole."""
    number = len(asked.requests) + 1
    with open_stream(f"{shipped}/v1/chat/completions", big_request(1_500_000)) as stream:
        assert stream.status == 200
        assert stream.data()[-1] == "[DONE]"

    assert len(asked.wait_for_request(number).body["messages"][0]["content"]) == 1_500_000


def test_body_beyond_nginxs_default_is_refused_without_the_file(plain: str) -> None:
    """The same body gets nginx's own page under its defaults, which is why the file sets a limit."""
    with open_stream(f"{plain}/v1/chat/completions", big_request(1_500_000)) as response:
        assert response.status == 413
        assert response.headers["content-type"] == "text/html"


def test_body_beyond_the_gateways_limit_is_its_json(shipped: str) -> None:
    """A body that nginx lets through and the gateway does not is refused by the gateway, in JSON."""
    with open_stream(f"{shipped}/v1/chat/completions", big_request(2_100_000)) as response:
        assert response.status == 413
        error = response.json()["error"]

    assert error["code"] == "payload_too_large"
    assert "SLUICE_MAX_BODY_BYTES" in error["message"]


def test_body_beyond_the_files_limit_is_json_too(shipped: str) -> None:
    """What nginx itself refuses as too large has the shape of the gateway's errors."""
    # nginx answers by the length alone, so the body need not be sent.
    headers = {"Content-Length": str(40 * 2**20), "Content-Type": "application/json"}
    with request("POST", f"{shipped}/v1/chat/completions", headers=headers) as response:
        assert response.status == 413
        assert response.headers["content-type"] == "application/json"
        error = response.json()["error"]

    assert (error["type"], error["code"]) == ("invalid_request_error", "payload_too_large")
    assert {"message", "type", "param", "code"} == error.keys()


def test_chunked_body_gets_a_length_on_the_way(front: str) -> None:
    """A body without a length, which the gateway refuses, is accepted behind nginx, which collects it."""
    body = big_request(600_000).encode()
    pieces = [body[start : start + 10_000] for start in range(0, len(body), 10_000)]
    framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"

    with open_stream(front, framed, {"Transfer-Encoding": "chunked", "Content-Length": ""}) as stream:
        assert 200 == stream.status
        assert "[DONE]" == stream.data()[-1]


def test_gateway_that_is_away_is_told_in_json(nginx: Callable[..., Nginx]) -> None:
    """With no gateway behind it, nginx answers 502 in the gateway's shape."""
    port = free_port()
    url = nginx(shipped_site(free_port(), port), port).url

    with open_stream(f"{url}/v1/chat/completions", ASK) as response:
        assert response.status == 502
        assert response.headers["content-type"] == "application/json"
        assert response.json()["error"]["code"] == "gateway_unreachable"


def test_gateways_own_errors_pass_untouched(shipped: str, asked: DemoUpstream) -> None:
    """A 502 of the gateway keeps the gateway's body, though nginx has one of its own for that status."""
    asked.play([{"hangup": "fin"}])

    with open_stream(f"{shipped}/v1/chat/completions", ASK | {"stream": False}) as response:
        assert 502 == response.status
        error = response.json()["error"]

    assert "gateway_unreachable" != error["code"]
    assert error["message"]


def test_tls_block_works_when_uncommented(
    nginx: Callable[..., Nginx], gateway: GunicornGateway, asked: DemoUpstream, tmp_path: Path
) -> None:
    """With the comment signs off and a certificate in place, a stream comes over TLS, event by event."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    command += f" -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}"
    subprocess.run(command.split(), check=True, capture_output=True)
    port = free_port()
    site = replaced(
        re.sub(r"^    # (listen 443|ssl_)", r"    \1", SITE, flags=re.M),
        ("server 127.0.0.1:8000;", f"server 127.0.0.1:{port_of(gateway.url)};"),
        ("    listen 80;\n", ""),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/nginx/tls/fullchain.pem", str(certificate)),
        ("/etc/nginx/tls/privkey.pem", str(key)),
    )
    nginx(site, port)
    asked.play(FIRST)

    tls = ssl.create_default_context(cafile=str(certificate))
    with open_stream(f"https://127.0.0.1:{port}/v1/chat/completions", ASK, tls=tls) as stream:
        chunk = json.loads(stream.next_data() or "")

    assert chunk["choices"][0]["delta"]["content"] == "first"


def test_nginx_waits_longer_than_the_gateway() -> None:
    """The file's limits lie beyond the gateway's defaults: nginx never cuts what the gateway would end properly."""
    settings = Settings()

    assert seconds(directive("proxy_read_timeout")) > settings.deadline
    assert settings.max_body_bytes == int(directive("client_max_body_size").removesuffix("m")) * 2**20
    assert seconds(directive("keepalive_timeout")) < gunicorn_setting("keepalive")


def test_units_pass_systemds_own_check(tmp_path: Path) -> None:
    """systemd finds nothing to say about the units, where it is installed; they name each other in any case."""
    here = str(Path(sys.executable).parent)
    for name in ("sluice.service", "sluice.socket"):
        text = (DEPLOY / name).read_text().replace("/opt/sluice/.venv/bin", here).replace("/opt/sluice", str(ROOT))
        (tmp_path / name).write_text(text)
    analyze = shutil.which("systemd-analyze")
    if analyze:
        command = [analyze, "verify", "--man=no", str(tmp_path / "sluice.service"), str(tmp_path / "sluice.socket")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=5 * PATIENCE)
        assert (done.returncode, done.stderr) == (0, "")

    assert unit("sluice.service")["Unit"]["Requires"] == ["sluice.socket"]
    assert unit("sluice.socket")["Socket"]["ListenStream"] == ["127.0.0.1:8000"]
    assert unit("sluice.socket")["Install"]["WantedBy"] == ["sockets.target"]


def test_service_stops_as_gently_as_gunicorn_can() -> None:
    """systemd signals gunicorn alone, and waits longer than gunicorn lets open streams go on."""
    service = unit("sluice.service")["Service"]

    assert service["KillMode"] == ["mixed"]
    assert float(service["TimeoutStopSec"][0]) > gunicorn_setting("graceful_timeout")
    assert service["Type"] == ["notify"]


def test_service_has_files_for_all_its_streams() -> None:
    """Each stream takes two file descriptors; the service may open more than all workers' streams need."""
    service = unit("sluice.service")["Service"]

    assert int(service["LimitNOFILE"][0]) > 2 * 8 * gunicorn_setting("worker_connections")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DynamicUser", "yes"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("PrivateDevices", "yes"),
        ("CapabilityBoundingSet", ""),
        ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX"),
    ],
)
def test_service_is_shut_in(name: str, value: str) -> None:
    """The service has no privilege, sees little of the machine, and writes to its own folder alone."""
    assert [value] == unit("sluice.service")["Service"][name]


def test_service_writes_only_where_it_may() -> None:
    """The record's place is inside the state folder, the one place that the sandbox leaves writable."""
    service = unit("sluice.service")["Service"]

    assert service["StateDirectory"] == ["sluice"]
    assert service["Environment"] == ["SLUICE_DATABASE_URL=sqlite:////var/lib/sluice/records.db"]


def test_units_are_plain_ini_files() -> None:
    """No line of the units is anything but a section, an assignment or a comment."""
    for name in ("sluice.service", "sluice.socket"):
        parser = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
        parser.read_string((DEPLOY / name).read_text())

        assert {"Unit", "Install"} <= set(parser.sections())


@pytest.fixture
def activated(asked: DemoUpstream, tmp_path: Path) -> Iterator[tuple[socket.socket, Callable[[], Process]]]:
    """A listening socket, and a function that starts the service's command with it, as systemd does."""
    command = unit("sluice.service")["Service"]["ExecStart"][0].split()
    assert command[0] == "/opt/sluice/.venv/bin/gunicorn"
    started: list[Process] = []
    env = clean_environ(
        {
            "SLUICE_OPEN": "on",
            "SLUICE_PIPELINE": "off",
            "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/records.db",
            "OPENROUTER_BASE_URL": asked.base_url,
            "OPENROUTER_API_KEY": "key",
            "LISTEN_FDS": "1",
        }
    )
    # LISTEN_PID must be the process' own, and the socket descriptor 3: a shell sees to both, then becomes gunicorn.
    script = 'exec 3<&0 </dev/null; LISTEN_PID=$$ exec "$@"'
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def start() -> Process:
            argv = ["sh", "-c", script, "sh", sys.executable, "-m", "gunicorn", *command[1:]]
            process = Process(argv, env=env, cwd=ROOT, stdin=listener.fileno())
            started.append(process)
            return process

        yield listener, start
        for process in started:
            process.stop(signal.SIGQUIT)


def test_service_takes_over_systemds_socket(
    activated: tuple[socket.socket, Callable[[], Process]], asked: DemoUpstream
) -> None:
    """The service's command serves the socket it is handed, not BIND; and a restart refuses no connection."""
    listener, start = activated
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/chat/completions"
    asked.play([{"text": "before"}])
    asked.play([{"text": "after"}])

    first = start()
    first.wait_for_log(rf"Listening at: http://127.0.0.1:{listener.getsockname()[1]}")
    with open_stream(url, ASK) as stream:
        assert stream.data()[-1] == "[DONE]"
    assert first.stop(signal.SIGTERM) == 0

    with socket.create_connection(listener.getsockname()) as waiting:  # nobody serves, nobody refuses
        body = json.dumps(ASK)
        waiting.sendall(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
        )
        start()
        waiting.settimeout(PATIENCE)
        answer = b"".join(iter(lambda: waiting.recv(65536), b""))

    assert answer.startswith(b"HTTP/1.1 200")
    assert b"after" in answer and b"data: [DONE]" in answer


def test_image_copies_what_there_is() -> None:
    """Every COPY source exists, and is let through by the ignore file, which lets nothing else through."""
    copied = [source for word, value in dockerfile() if word == "COPY" for source in value.split()[:-1]]
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]

    assert set() == {source for source in copied if not (ROOT / source).exists()}
    assert rules[0] == "*"
    assert {f"!{source}" for source in copied} == {rule for rule in rules if rule.startswith("!")}


def test_image_starts_what_it_copies(tmp_path: Path, asked: DemoUpstream) -> None:
    """The image's command, run in a folder with nothing but what is copied, serves on the image's port."""
    for *sources, target in (value.split() for word, value in dockerfile() if word == "COPY"):
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, tmp_path / target)
            else:
                shutil.copy(ROOT / source, tmp_path / target)
    command = json.loads(only("CMD"))
    assert command == ["gunicorn", "-c", "gunicorn.conf.py", "wsgi:app"]
    env = {"OPENROUTER_BASE_URL": asked.base_url, "SLUICE_PIPELINE": "off", "PYTHONPATH": None}

    gateway = GunicornGateway(env, config="gunicorn.conf.py", app=command[-1], cwd=tmp_path)
    with gateway, open_stream(gateway.chat_url, ASK) as stream:
        assert stream.data()[-1] == "[DONE]"


def test_image_listens_where_it_says() -> None:
    """The port bound, exposed and asked for health is one and the same."""
    env = dict(pair.split("=", 1) for pair in only("ENV").split())
    check = json.loads(only("HEALTHCHECK").partition(" CMD ")[2])

    assert env["BIND"] == "0.0.0.0:8000"
    assert only("EXPOSE") == "8000"
    assert "'127.0.0.1', 8000," in check[-1]


def test_image_does_not_run_as_root() -> None:
    """The last USER is a number above 0, so that a cluster can tell that it is not root."""
    assert int(only("USER")) > 0
    assert only("STOPSIGNAL") == "SIGTERM"
    assert only("VOLUME") in dict(pair.split("=", 1) for pair in only("ENV").split())["SLUICE_DATABASE_URL"]


def test_images_health_check_tells_health(gateway: GunicornGateway) -> None:
    """The check succeeds against a gateway that runs, and fails where nothing listens."""
    check = json.loads(only("HEALTHCHECK").partition(" CMD ")[2])
    assert check[0] == "python"

    def status(port: str) -> int:
        script = replaced(check[-1], ("8000", port))
        return subprocess.run(
            [sys.executable, "-c", script], capture_output=True, check=False, timeout=5 * PATIENCE
        ).returncode

    assert status(str(port_of(gateway.url))) == 0
    assert status(str(free_port())) != 0


def test_compose_refers_to_what_there_is() -> None:
    """Build context, Dockerfile and mounted files exist, and each service that another needs is there."""
    services = compose()["services"]
    build = services["gateway"]["build"]
    mounts = [mount.split(":") for service in services.values() for mount in service["volumes"]]

    assert (DEPLOY / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()
    for source, _, *_ in mounts:
        assert (DEPLOY / source).is_file() if source.startswith(".") else source in compose()["volumes"]
    assert services.keys() >= services["nginx"]["depends_on"].keys()


def test_compose_points_nginx_at_the_gateway(tmp_path: Path) -> None:
    """Its command changes one line of the site file, the gateway's address, to the service's name and port."""
    services = compose()["services"]
    shell, _, script = services["nginx"]["command"]
    (mount,) = services["nginx"]["volumes"]
    source, target, _ = mount.split(":")
    local = script.replace(target, str(DEPLOY / source)).replace("/etc/nginx/conf.d/default.conf", f"{tmp_path}/site")
    local = replaced(local, ("exec nginx -g 'daemon off;'", "true"))
    subprocess.run([shell, "-c", local], check=True)

    before, after = SITE.splitlines(), (tmp_path / "site").read_text().splitlines()
    changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    (port,) = services["gateway"]["expose"]
    assert [("    server 127.0.0.1:8000;", f"    server gateway:{port};")] == changed
    assert services["gateway"]["environment"]["BIND"].endswith(f":{port}")
    assert f":{directive('listen')}" == services["nginx"]["ports"][0][-3:]


def test_compose_lets_streams_finish() -> None:
    """Both containers are given more time to stop than gunicorn gives open streams."""
    for service in compose()["services"].values():
        assert seconds(service["stop_grace_period"]) > gunicorn_setting("graceful_timeout")


def test_containers_keep_the_record_in_the_volume() -> None:
    """The image's record lies in its volume, which compose mounts: the one place a read-only container can write to."""
    gateway = compose()["services"]["gateway"]
    place = only("VOLUME")

    assert gateway["read_only"] is True
    assert [f"records:{place}"] == gateway["volumes"]
    assert gateway["environment"]["SLUICE_DATABASE_URL"].startswith(f"sqlite:///{place}/")


def test_open_stream_is_cut_when_the_gateway_dies(nginx: Callable[..., Nginx], asked: DemoUpstream) -> None:
    """When the gateway is killed, its clients behind nginx see a cut, not a proper end that hides the loss."""
    port = free_port()
    asked.play(FIRST)
    with GunicornGateway({"OPENROUTER_BASE_URL": asked.base_url, "SLUICE_PIPELINE": "off"}) as doomed:
        url = nginx(shipped_site(port_of(doomed.url), port), port).url
        with open_stream(f"{url}/v1/chat/completions", ASK) as stream:
            stream.next_data()
            os.killpg(doomed.process.pid, signal.SIGKILL)

            with pytest.raises(BodyCut):
                stream.events(10)
