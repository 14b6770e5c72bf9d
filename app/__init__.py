"""Sluice: an OpenRouter streaming gateway for Flask.

Public are the names below and the modules ``errors``, ``pipeline``, ``gunicorn`` and ``testing``; others may change.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

# Looked up when first asked for: gunicorn's configuration imports the hooks in the master process, which must not load
# the rest, or a reload would go on with the old code.
_MODULES = {
    "ConfigurationError": "errors",
    "GatewayError": "errors",
    "Settings": "settings",
    "Sluice": "factory",
    "Stage": "pipeline",
    "Transform": "pipeline",
    "create_app": "factory",
    "create_blueprint": "factory",
    "stream_chunks": "library",
    "stream_message": "library",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    if name == "__version__":
        from .version import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
