"""What gateways are known to tell of keys that they should not, each kind as it comes about."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.demo import DemoUpstream
from app.errors import ConfigurationError
from app.settings import Settings
from tests.clock import PATIENCE
from tests.conftest import Served
from tests.servers import free_port, request

KEYS = {"SLUICE_OPEN": "off", "SLUICE_API_KEYS": "ann:secret-of-ann"}
REFUSAL = {
    "error": {"message": "Invalid API key", "type": "invalid_request_error", "param": None, "code": "invalid_api_key"}
}
KEPT_SECRET = "sk-or-v1-0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    "key", ["sk-not-a-real-key", "secret-of-an", "secret-of-ann2", "", "ann", "x" * 5000, "ü'\";--"]
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/v1/models/x"), ("POST", "/v1/nothing")],
)
def test_a_refusal_is_the_same_whatever_was_wrong(
    serve: Callable[..., Served], method: str, path: str, key: str
) -> None:
    """Nothing of what was sent comes back, neither plain nor hashed, nor does anything of how keys are kept."""
    served = serve(**KEYS)
    headers = {"Authorization": f"Bearer {key}".encode().decode("latin-1")}
    with request(method, f"{served.url}{path}", b"{}" if method == "POST" else None, headers) as answer:
        text = answer.read().decode()
    if path == "/v1/nothing":
        assert 404 == answer.status
    else:
        assert (401, REFUSAL) == (answer.status, json.loads(text))
        assert "Bearer" == answer.headers["www-authenticate"]
    assert hashlib.sha256(key.encode()).hexdigest()[:8] not in text
    assert not served.records


def test_a_refusal_tells_no_more_than_a_missing_key(serve: Callable[..., Served]) -> None:
    """Byte for byte, so that nobody learns which keys there are."""
    served = serve(**KEYS)
    found = set()
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic eDp5"}, {"X-Api-Key": "secret-of-ann"}):
        with request("GET", f"{served.url}/v1/models", headers=headers) as answer:
            found.add((answer.status, answer.read(), answer.headers["content-length"]))
    assert 1 == len(found)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [401, 403])
def test_upstreams_word_on_the_operators_key_stays_here(
    serve: Callable[..., Served], upstream: DemoUpstream, caplog: Any, stream: bool, status: int
) -> None:
    """A caller cannot mend it, and must not learn a fragment of it; the log has none either."""
    caplog.set_level(logging.DEBUG)
    served = serve(OPENROUTER_API_KEY=KEPT_SECRET, **KEYS)
    said = f"Incorrect API key provided: {KEPT_SECRET[:14]}...{KEPT_SECRET[-4:]}. You can find yours at {KEPT_SECRET}."
    wrong = {"error": {"message": said, "code": status, "metadata": {"raw": {"key": KEPT_SECRET}}}}
    upstream.play([{"answer": {"status": status, "json": wrong}}])
    with served.ask(stream=stream, headers={"Authorization": "Bearer secret-of-ann"}) as answer:
        text = answer.read().decode()
    if status == 401:
        assert (200 if stream else 502) == answer.status
        assert "upstream_auth" in text
        assert "Incorrect" not in text
    everything = text + caplog.text + repr(served.record().to_dict())
    assert not [part for part in (KEPT_SECRET, KEPT_SECRET[:14], KEPT_SECRET[-8:]) if part in everything]


@pytest.mark.parametrize("stream", [True, False])
def test_no_failure_tells_a_key_that_stands_in_an_address(
    serve: Callable[..., Served], caplog: Any, stream: bool
) -> None:
    """A password in the base URL or the proxy's is in no error, log line or record."""
    caplog.set_level(logging.DEBUG)
    port = free_port()
    served = serve(
        OPENROUTER_BASE_URL=f"http://user:pass-word-1@127.0.0.1:{port}/v1",
        SLUICE_UPSTREAM_PROXY=f"http://user:pass-word-2@127.0.0.1:{port}",
        SLUICE_RETRIES="0",
        **KEYS,
    )
    with served.ask(stream=stream, headers={"Authorization": "Bearer secret-of-ann"}) as answer:
        text = answer.read().decode()
    assert "upstream_unreachable" in text
    everything = text + caplog.text + repr(served.record().to_dict())
    assert not [word for word in ("pass-word", "secret-of-ann", "sk-or-v1-operator") if word in everything]


def test_a_key_in_the_query_of_upstreams_address_stops_the_start() -> None:
    """Addresses are logged everywhere on the way; the key goes into a header."""
    with pytest.raises(ConfigurationError, match="without a query") as caught:
        Settings.from_mapping({"SLUICE_OPEN": "on", "OPENROUTER_BASE_URL": f"https://up.example/v1?key={KEPT_SECRET}"})
    assert KEPT_SECRET not in caught.value.message


def test_keys_are_nowhere_in_what_is_kept_or_shown(serve: Callable[..., Served], tmp_path: Path, caplog: Any) -> None:
    """Neither in settings and keys as a traceback would show them, nor in the database's file."""
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "keys.toml"
    path.write_text('[[keys]]\nlabel = "bob"\nkey = "secret-of-bob"\n')
    served = serve(SLUICE_API_KEYS_FILE=str(path), SLUICE_METADATA_KEY="secret-of-operator", **KEYS)
    for key in ("secret-of-ann", "secret-of-bob", "secret-of-nobody"):
        with served.ask(headers={"Authorization": f"Bearer {key}"}) as answer:
            answer.read()
    served.record(2)
    assert served.gateway.journal is not None
    served.gateway.journal.flush(PATIENCE)
    kept = b"".join(file.read_bytes() for file in tmp_path.glob("records.db*"))
    gate = served.gateway.gate
    shown = repr(served.gateway.settings) + repr(vars(gate)) + repr(vars(gate.keys)) + caplog.text

    assert b"bob" in kept
    assert b"secret-of" not in kept
    assert "secret-of" not in shown
