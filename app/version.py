"""The version of the installed distribution."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

__all__ = ["version"]


@cache
def version() -> str:
    """Give the version; ``0+source`` in a checkout that is not installed."""
    try:
        return installed_version("flask-sluice")
    except PackageNotFoundError:
        return "0+source"
