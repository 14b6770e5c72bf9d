"""Who may call, and with whose key upstream is called.

An address never grants access: behind a proxy every client comes from the same one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from .access import Caller, Key, KeyRing, subject_of
from .access.address import client_address, masked
from .errors import AuthenticationError, ConfigurationError, NotFound, PermissionDenied, RequestError
from .settings import Settings

__all__ = ["Authenticate", "Gate", "UpstreamKey"]

Authenticate = Callable[[Any], str | None]
"""A host's own check: takes the Flask request, gives the caller's label, or None to refuse."""

_CLIENT_PREFIX = "sk-or-"
_LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})


class UpstreamKey(NamedTuple):
    """The key of an upstream call; ``own`` says that it is the operator's."""

    key: str | None
    own: bool


class Gate:
    """Lets callers in.

    Args:
        settings: keys, or open mode.
        authenticate: a host's own check, which takes the place of keys.

    Raises:
        ConfigurationError: nothing says who may call, or a key is unusable.
    """

    def __init__(self, settings: Settings, authenticate: Authenticate | None = None) -> None:
        self._settings = settings
        self._authenticate = authenticate
        # With a host's own check nobody asks for keys: neither are they read nor their file watched.
        self.keys = KeyRing() if authenticate else KeyRing(settings.api_keys, settings.api_keys_file)
        self._hosts = _LOCAL | {host.lower() for host in settings.allowed_hosts}
        if not (authenticate or self.keys.is_used or settings.open):
            raise ConfigurationError(
                "nobody could call: set SLUICE_API_KEYS=label:key, or SLUICE_OPEN=on to serve without keys,"
                " or pass `authenticate` to create_blueprint"
            )

    @property
    def is_open(self) -> bool:
        """Whether callers need no key."""
        return not self._authenticate and not self.keys.is_used

    @property
    def takes_client_keys(self) -> bool:
        """Whether clients may bring an upstream key in the body."""
        # With keys of our own the Authorization header is ours alone, and open mode's default does not count.
        return self._settings.takes_client_keys and (self.is_open or self._settings.client_keys is True)

    def admit(self, request: Any) -> Caller:
        """Give the caller of a Flask *request*.

        Raises:
            AuthenticationError: no key, or an unknown one.
            PermissionDenied: open mode, and a Host that is not served.
        """
        if self._authenticate is not None:
            label = self._authenticate(request)
            if not label:
                raise AuthenticationError("Invalid API key")
            return Caller(str(label), subject_of(str(label)))
        if self.keys.is_used:
            key = self._key(bearer(request))
            return Caller(key.label, subject_of(key.label), key)
        self._check_host(request)
        address = client_address(request.environ, self._settings.trusted_proxies)
        return Caller(None, f"address:{masked(address, self._settings)}")

    def admit_operator(self, request: Any) -> None:
        """Let the operator read what is recorded and measured: by the metadata key, or without one in open mode.

        Raises:
            NotFound: there is no metadata key and the gateway is not open.
            AuthenticationError: no metadata key was sent, or a wrong one.
            PermissionDenied: open mode, and a Host that is not served.
        """
        if self._settings.metadata_key is not None:
            if not self.is_operator(request):
                raise AuthenticationError("Invalid API key", headers={"WWW-Authenticate": "Bearer"})
        elif self.is_open:
            self._check_host(request)
        else:
            raise NotFound("this route is closed: set SLUICE_METADATA_KEY, and send it as a bearer token")

    def is_operator(self, request: Any) -> bool:
        """Whether a Flask *request* bears the metadata key."""
        key = self._settings.metadata_key
        return key is not None and hmac.compare_digest(
            _digest_of(bearer(request)), hashlib.sha256(key.encode()).hexdigest()
        )

    def _check_host(self, request: Any) -> None:
        host = re.sub(r":\d*$", "", (request.host or "").lower())
        if host not in self._hosts:
            raise PermissionDenied(
                f"Host {host[:100]!r} is not served in open mode: add it to SLUICE_ALLOWED_HOSTS, or set keys",
                code="host_not_allowed",
            )

    def upstream_key(self, request: Any, given: str | None) -> UpstreamKey:
        """Choose the upstream key; *given* is the body's ``openrouter_api_key``.

        A client's key never falls back to the operator's.

        Raises:
            RequestError: the client's key cannot be used.
        """
        takes = self.takes_client_keys
        if given is not None:
            if not takes:
                raise RequestError(
                    "openrouter_api_key: this gateway uses its own upstream key (SLUICE_CLIENT_KEYS is off)",
                    param="openrouter_api_key",
                )
            return UpstreamKey(_usable(given, "openrouter_api_key"), False)
        token = bearer(request) if self.is_open else None
        if token and token.startswith(_CLIENT_PREFIX):
            if not takes:
                raise AuthenticationError("this gateway uses its own upstream key (SLUICE_CLIENT_KEYS is off)")
            return UpstreamKey(_usable(token, "Authorization"), False)
        return UpstreamKey(self._settings.openrouter_api_key, True)

    def _key(self, token: str | None) -> Key:
        found = self.keys.find(_digest_of(token))
        if not token or found is None:
            raise AuthenticationError("Invalid API key", headers={"WWW-Authenticate": "Bearer"})
        return found


def bearer(request: Any) -> str | None:
    """Give the bearer token of a Flask *request* (RFC 6750, section 2.1)."""
    scheme, _, token = str(request.headers.get("Authorization", "")).strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def _digest_of(token: str | None) -> str:
    # WSGI's text is the header's bytes as Latin-1 (PEP 3333): back to the bytes, which are UTF-8 as the keys are.
    return hashlib.sha256((token or "").encode("latin-1", "replace")).hexdigest()


def _usable(key: str, name: str) -> str:
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise RequestError(f"{name}: expected a key of printable ASCII", param=name)
    return key
