"""The demo upstream: speaks OpenRouter's API offline, and plays any fault a test asks for.

It imports nothing from the rest of the package and nothing but the standard library.
"""

from __future__ import annotations

from .exchange import Exchange
from .script import Script, ScriptError
from .upstream import DemoUpstream

__all__ = ["DemoUpstream", "Exchange", "Script", "ScriptError"]
