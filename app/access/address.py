"""The address of a client, for limits alone: it never grants access, and is never kept as it is."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from typing import Any

from ..settings import Settings

__all__ = ["client_address", "masked"]

_IPV6_PREFIX = 64
"""Bits of an IPv6 address that tell one customer from another (RFC 6177); the rest is the customer's to choose."""


def client_address(environ: Mapping[str, Any], hops: int) -> str:
    """Give the address that limits count, from a WSGI *environ*; an IPv6 one stands for its /64.

    Args:
        hops: proxies in front that can be believed. Each adds the address it was called from at the right end of
            X-Forwarded-For, so what lies further left is the client's own invention.
    """
    peer = str(environ.get("REMOTE_ADDR") or "")
    if hops:
        named = [part.strip() for part in str(environ.get("HTTP_X_FORWARDED_FOR") or "").split(",")]
        # Fewer entries than proxies: it came another way, and nothing of it can be believed.
        if len(named) >= hops and (found := _network(named[-hops])):
            return found
    return _network(peer) or peer


def masked(address: str, settings: Settings) -> str:
    """Give a keyed hash of *address*, the same in every process with the same settings."""
    secrets = (settings.metadata_key, settings.openrouter_api_key, settings.limit_storage)
    secret = hashlib.sha256(repr(secrets).encode()).digest()
    return hmac.new(secret, address.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:24]


def _network(text: str) -> str | None:
    """Read an address, with or without a port; None where it is none."""
    bare = text.partition("]")[0].removeprefix("[") if text.startswith("[") else text
    if bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        found = ipaddress.ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, _IPV6_PREFIX), strict=False))
    return str(found)
