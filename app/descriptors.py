"""How many streams the file descriptors of this process suffice for: each takes two, the client's and upstream's."""

from __future__ import annotations

__all__ = ["RESERVE", "affordable", "descriptor_limit"]

RESERVE = 350
"""Descriptors for all else: the server's further connections (worker_connections), the store, log files."""


def descriptor_limit() -> int | None:
    """Give how many files this process may open; None where nothing limits it."""
    try:
        import resource
    except ImportError:  # not a Unix
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def affordable(streams: int, descriptors: int | None) -> int:
    """Give how many of *streams* can be open at once with *descriptors*; at least one."""
    if descriptors is None:
        return streams
    return max(min(streams, (descriptors - min(RESERVE, descriptors // 2)) // 2), 1)
