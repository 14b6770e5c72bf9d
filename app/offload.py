"""Run a call that blocks the whole process under gevent (a database driver in C) where it blocks nobody."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

__all__ = ["offload"]

P = ParamSpec("P")
T = TypeVar("T")


def offload(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call *function* on gevent's native threads where gevent has patched this process, plainly elsewhere."""
    monkey: Any = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("threading"):
        return function(*args, **kwargs)
    gevent: Any = sys.modules["gevent"]
    outcome = gevent.get_hub().threadpool.apply(_outcome, (function, args, kwargs))
    if outcome.error is not None:
        raise outcome.error
    result: T = outcome.value
    return result


class _Outcome(NamedTuple):
    value: Any = None
    error: BaseException | None = None


def _outcome(function: Callable[..., Any], args: Any, kwargs: Any) -> _Outcome:
    # What is raised on such a thread gevent prints with its traceback, SQL and all, though the caller handles it.
    try:
        return _Outcome(value=function(*args, **kwargs))
    except BaseException as error:
        return _Outcome(error=error)
