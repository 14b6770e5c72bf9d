"""Run a call that blocks the whole process under gevent (a database driver in C) where it blocks nobody."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

__all__ = ["offload"]

P = ParamSpec("P")
T = TypeVar("T")


def offload(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call *function* on gevent's native threads where gevent has patched this process, plainly elsewhere."""
    monkey: Any = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("threading"):
        return function(*args, **kwargs)
    gevent: Any = sys.modules["gevent"]
    result: T = gevent.get_hub().threadpool.apply(function, args, kwargs)
    return result
