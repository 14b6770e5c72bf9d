"""An upstream and a way to play one script on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.demo import DemoUpstream

from .client import Answer, ask


@pytest.fixture
def play(upstream: DemoUpstream) -> Callable[..., Answer]:
    """Play the steps given as arguments for one request, and give the answer."""

    def play_steps(*steps: dict[str, Any]) -> Answer:
        upstream.play(list(steps))
        return ask(upstream, model="test/model", messages=[], stream=True)

    return play_steps
