"""Who may call, and whose key goes upstream."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from flask import Request
from werkzeug.test import EnvironBuilder

from app.errors import AuthenticationError, ConfigurationError, NotFound, PermissionDenied, RequestError
from app.gate import Gate, UpstreamKey
from app.settings import Settings

CLIENTS = "sk-or-v1-client"
OPERATORS = "sk-or-v1-operator"


def request(authorization: str | None = None, host: str = "localhost:8000") -> Request:
    environ = EnvironBuilder().get_environ()
    environ["HTTP_HOST"] = host
    if authorization is not None:
        environ["HTTP_AUTHORIZATION"] = authorization
    return Request(environ)


def gate(authenticate: Any = None, **settings: Any) -> Gate:
    return Gate(Settings(openrouter_api_key=OPERATORS, **settings), authenticate)


@pytest.fixture
def keyed() -> Gate:
    """Give a gate with two keys, one known by its hash only."""
    digest = hashlib.sha256(b"second").hexdigest()
    return gate(api_keys=("one:first:with:colons", f"two:sha256:{digest.upper()}"))


def test_nobody_is_let_in_by_default() -> None:
    """Without keys, open mode or a host's check the start is refused, and the message says what to set."""
    with pytest.raises(ConfigurationError, match=r"SLUICE_API_KEYS=label:key.*SLUICE_OPEN=on.*authenticate"):
        gate()


def test_a_known_key_gives_its_label(keyed: Gate) -> None:
    """Plain and hashed keys are both known, and the scheme's case and blanks do not matter."""
    assert "one" == keyed.admit(request("Bearer first:with:colons")).label
    assert "two" == keyed.admit(request("  bEARER   second ")).label


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Bearer first",
        "Basic c2Vjb25k",
        "second",
        "Bearer second second",
        f"Bearer {CLIENTS}",
        "Bearer schl\xfcssel",
        f"Bearer {hashlib.sha256(b'second').hexdigest()}",
    ],
)
def test_any_other_key_is_refused_in_the_same_words(keyed: Gate, header: str | None) -> None:
    """Neither the message nor the status tells what was wrong, and an unknown OpenRouter key is no exception."""
    with pytest.raises(AuthenticationError) as caught:
        keyed.admit(request(header))
    assert (401, "Invalid API key", "invalid_api_key", {"WWW-Authenticate": "Bearer"}) == (
        caught.value.status,
        caught.value.message,
        caught.value.code,
        caught.value.to_headers(),
    )


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "LOCALHOST:1", "127.0.0.1:99", "[::1]", "[::1]:8000", "My.Host"]
)
def test_open_mode_serves_the_machine_itself_and_named_hosts(host: str) -> None:
    """With or without a port, in any case."""
    assert gate(open=True, allowed_hosts=("my.HOST",)).admit(request(host=host)).label is None


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "", "a b", "localhost@evil", "10.0.0.1"]
)
def test_open_mode_refuses_other_hosts(host: str) -> None:
    """A page that rebinds its name to this machine is kept out, whatever key it brings."""
    with pytest.raises(PermissionDenied) as caught:
        gate(open=True).admit(request("Bearer x", host))
    assert (403, "host_not_allowed") == (caught.value.status, caught.value.code)


def test_keys_are_asked_for_even_in_open_mode() -> None:
    """A key list closes the door, from this machine too."""
    found = gate(open=True, api_keys=("a:b",))
    assert not found.is_open
    with pytest.raises(AuthenticationError):
        found.admit(request())


OPERATOR = "operator-key"


@pytest.mark.parametrize("header", ["Bearer operator-key", "  bEARER   operator-key "])
@pytest.mark.parametrize("settings", [{"open": True}, {"api_keys": ("a:b",)}, {"authenticate": lambda request: "x"}])
def test_the_metadata_key_lets_the_operator_in(header: str, settings: dict[str, Any]) -> None:
    """Whoever else may call, and from any Host."""
    gate(metadata_key=OPERATOR, **settings).admit_operator(request(header, "any.where"))


@pytest.mark.parametrize("header", [None, "", "Bearer ", "Bearer b", "Bearer operator-ke", "Basic operator-key"])
@pytest.mark.parametrize("settings", [{"open": True}, {"api_keys": ("a:b",)}])
def test_with_a_metadata_key_nothing_else_will_do(header: str | None, settings: dict[str, Any]) -> None:
    """Neither a caller's key nor open mode; the refusal tells nothing."""
    with pytest.raises(AuthenticationError, match=r"^Invalid API key$"):
        gate(metadata_key=OPERATOR, **settings).admit_operator(request(header))


@pytest.mark.parametrize("settings", [{"api_keys": ("a:b",)}, {"authenticate": lambda request: "x", "open": True}])
def test_without_a_metadata_key_there_is_nothing_to_read(settings: dict[str, Any]) -> None:
    """A caller's key does not open it; the message says what to set."""
    with pytest.raises(NotFound, match="SLUICE_METADATA_KEY"):
        gate(**settings).admit_operator(request("Bearer b"))


def test_an_open_gateway_shows_its_figures_to_its_own_hosts() -> None:
    """Without a metadata key, and to no page that rebinds its name."""
    gate(open=True).admit_operator(request())
    with pytest.raises(PermissionDenied):
        gate(open=True).admit_operator(request(host="evil.example"))


@pytest.mark.parametrize("label", [None, "", False])
def test_a_hosts_own_check_takes_the_place_of_keys(label: Any) -> None:
    """Its label is the caller's; nothing means no."""
    assert "team" == gate(lambda request: "team").admit(request(host="any.where")).label
    with pytest.raises(AuthenticationError, match=r"^Invalid API key$"):
        gate(lambda request: label, open=True, api_keys=("a:b",)).admit(request("Bearer b"))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("keyonly", "without a label"),
        (":key", "without a label"),
        ("label:", "without a label"),
        (f"label:{CLIENTS}", "OpenRouter's own keys"),
        ("label:sha256:abc", "not 64 hex digits"),
        ("label:sha256:" + "g" * 64, "not 64 hex digits"),
        ("label:sha256:", "not 64 hex digits"),
    ],
)
def test_an_unusable_key_stops_the_start_and_is_not_shown(entry: str, words: str) -> None:
    """The line names the label at most."""
    with pytest.raises(ConfigurationError, match=words) as caught:
        gate(api_keys=(entry,))
    assert "SLUICE_API_KEYS" in str(caught.value)
    assert "keyonly" not in str(caught.value) and CLIENTS not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "header", "expected"),
    [
        (CLIENTS, None, UpstreamKey(CLIENTS, False)),
        (CLIENTS, "Bearer sk-or-other", UpstreamKey(CLIENTS, False)),
        (None, f"Bearer {CLIENTS}", UpstreamKey(CLIENTS, False)),
        (None, "Bearer anything", UpstreamKey(OPERATORS, True)),
        (None, None, UpstreamKey(OPERATORS, True)),
        (None, f"Basic {CLIENTS}", UpstreamKey(OPERATORS, True)),
    ],
)
def test_in_open_mode_a_clients_key_comes_before_the_operators(
    given: str | None, header: str | None, expected: UpstreamKey
) -> None:
    """The body's field first, then a bearer that is OpenRouter's by its form."""
    assert expected == gate(open=True).upstream_key(request(header), given)


@pytest.mark.parametrize("key", ["", " ", "a b", "schlüssel", "a\nb", "a\x00", "\ud800", "a\u2028"])
def test_a_clients_key_that_cannot_be_a_header_is_a_400(key: str) -> None:
    """It does not fall back to the operator's key, and is not shown."""
    with pytest.raises(RequestError) as caught:
        gate(open=True).upstream_key(request(), key)
    assert (400, "openrouter_api_key") == (caught.value.status, caught.value.param)
    assert "openrouter_api_key: expected a key of printable ASCII" == caught.value.message


def test_a_bearer_that_cannot_be_a_header_is_a_400_too() -> None:
    """A key that is OpenRouter's by its form must be usable."""
    with pytest.raises(RequestError, match="Authorization"):
        gate(open=True).upstream_key(request("Bearer sk-or-v1-schl\xfcssel"), None)


@pytest.mark.parametrize("settings", [{}, {"open": True}, {"client_keys": False}])
def test_with_gateway_keys_a_clients_key_is_taken_only_if_allowed(settings: dict[str, Any]) -> None:
    """Open mode's default does not reach a gateway that has keys."""
    found = gate(api_keys=("a:b",), **settings)
    with pytest.raises(RequestError, match="SLUICE_CLIENT_KEYS") as caught:
        found.upstream_key(request("Bearer b"), CLIENTS)
    assert 400 == caught.value.status
    assert UpstreamKey(OPERATORS, True) == found.upstream_key(request("Bearer b"), None)


def test_with_gateway_keys_the_authorization_header_never_goes_upstream() -> None:
    """Even a bearer in OpenRouter's form is the gateway's business alone."""
    found = gate(api_keys=("a:b",), client_keys=True)
    assert UpstreamKey(CLIENTS, False) == found.upstream_key(request("Bearer b"), CLIENTS)
    assert UpstreamKey(OPERATORS, True) == found.upstream_key(request(f"Bearer {CLIENTS}"), None)
    hosted = gate(lambda request: "x", open=True)
    assert UpstreamKey(OPERATORS, True) == hosted.upstream_key(request(f"Bearer {CLIENTS}"), None)


def test_open_mode_can_do_without_clients_keys() -> None:
    """Switched off, a key in the body is refused."""
    with pytest.raises(RequestError, match="SLUICE_CLIENT_KEYS is off"):
        gate(open=True, client_keys=False).upstream_key(request(), CLIENTS)


def test_a_key_beyond_ascii_is_known_by_its_bytes() -> None:
    """Clients send UTF-8, WSGI shows it as Latin-1."""
    keyed = gate(api_keys=("one:schlüssel",))

    assert "one" == keyed.admit(request("Bearer " + "schlüssel".encode().decode("latin-1"))).label
    with pytest.raises(AuthenticationError):
        keyed.admit(request("Bearer schlüssel"))
