"""The commands of ``sluice``, one module each."""

from __future__ import annotations

from click import Command

from .chat import chat
from .check import check
from .demo import demo
from .events import events
from .key import key
from .serve import serve
from .stats import stats

__all__ = ["COMMANDS"]

COMMANDS: tuple[Command, ...] = (serve, chat, demo, check, events, stats, key)
