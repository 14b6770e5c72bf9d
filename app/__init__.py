"""Sluice: an OpenRouter streaming gateway for Flask.

Public are the names below and the modules ``errors``, ``pipeline``, ``gunicorn`` and ``testing``; others may change.
"""

from __future__ import annotations

from typing import Any

from .errors import ConfigurationError, GatewayError
from .factory import Sluice, create_app, create_blueprint
from .library import stream_chunks, stream_message
from .pipeline import Stage, Transform
from .settings import Settings

__all__ = [
    "ConfigurationError",
    "GatewayError",
    "Settings",
    "Sluice",
    "Stage",
    "Transform",
    "create_app",
    "create_blueprint",
    "stream_chunks",
    "stream_message",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from .version import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
