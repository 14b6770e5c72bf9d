"""The stages that ship with Sluice, one file each.

The rule of this folder: a module here defines exactly one ``Stage`` subclass with its own ``name`` and ``order``, and
imports no other module here. Nothing else has to be edited to add one: the folder is read at start.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from ..pipeline import Stage

if TYPE_CHECKING:
    from ..settings import Settings

__all__ = ["shipped", "stage_classes"]


def stage_classes() -> list[type[Stage]]:
    """Find the stage class of every module in this folder, in chain order."""
    found = []
    for info in iter_modules(__path__):
        module = import_module(f".{info.name}", __name__)
        found += [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Stage) and value.__module__ == module.__name__
        ]
    return sorted(found, key=lambda stage: stage.order)


def shipped(settings: Settings) -> list[Stage]:
    """Make every shipped stage from *settings*.

    Raises:
        ConfigurationError: a stage cannot take its settings.
    """
    return [stage.from_settings(settings) for stage in stage_classes()]
