"""STM over several choices that come at once, in any order and cut, with stages of a host's own around it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from app import Stage, Transform
from app.pipeline import ChatRequest, Pipeline
from app.stages.stm import Stm
from app.text.transducer import MODULES, transform
from tests.stages.test_stm import CORPUS, is_json

BODY = {"messages": [{"role": "user", "content": "x"}]}


class Late(Transform):
    """Gives each chunk with the next one, one event for both where it can."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def feed(self, chunk: Any) -> Iterable[Any]:
        """Give the one before."""
        out, self.kept = self.kept, [chunk]
        return out

    def finish(self) -> Iterable[Any]:
        """Give the last."""
        return self.kept

    held = finish


class Around(Stage):
    """A host's stage that holds a chunk, before or behind STM."""

    name = "around"

    def __init__(self, order: int) -> None:
        self.order = order  # type: ignore[misc]

    def start(self, request: Any, notes: Any) -> Transform:
        """Begin."""
        return Late()


def chunk_of(choices: list[tuple[int, str]]) -> Any:
    """Make a chunk with the texts of several choices."""
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": index, "delta": {"content": text}, "finish_reason": None} for index, text in choices],
    }


def end_of(index: int) -> Any:
    """Make the chunk that ends a choice."""
    return {**chunk_of([]), "choices": [{"index": index, "delta": {}, "finish_reason": "stop"}]}


def played(parts: list[list[tuple[int, str]]], count: int, mode: str, orders: list[int]) -> tuple[Any, Any]:
    """Pass *parts* through the pipeline; give the text of each choice, and the corrections."""
    run = Pipeline([Stm(), *map(Around, orders)]).run(
        ChatRequest(BODY, {"stm_mode": mode, "stm_modules": [*MODULES]}, True)
    )
    out = [chunk for part in parts for chunk in run.feed(chunk_of(part))]
    out += [chunk for index in range(count) for chunk in run.feed(end_of(index))]
    out += run.finish()
    found, corrected, ended = [""] * count, {}, set()
    for chunk in out:
        for choice in chunk["choices"]:
            assert choice["index"] not in ended
            found[choice["index"]] += choice["delta"].get("content") or ""
            if choice.get("finish_reason"):
                ended.add(choice["index"])
            if "x_g0dm0d3" in chunk:
                corrected[choice["index"]] = chunk["x_g0dm0d3"]["final_content"]
    assert [] == run.errors
    assert set(range(count)) == ended
    return found, corrected


@pytest.mark.parametrize("orders", [[], [20], [100], [20, 100]], ids=str)
@pytest.mark.parametrize("seed", range(25))
def test_each_choice_comes_to_its_own_text(orders: list[int], seed: int) -> None:
    """Live equals whole for each, whatever comes between, and corrections are of the right choice."""
    chance = random.Random(seed)
    count = chance.randint(2, 4)
    texts = [chance.choice(CORPUS)[:400] for _ in range(count)]
    left, parts = list(texts), []
    while any(left):
        part = []
        for index in chance.sample(range(count), chance.randint(1, count)):
            size = chance.choice((1, 3, 10, 60))
            if left[index]:
                part.append((index, left[index][:size]))
                left[index] = left[index][size:]
        parts += [part] * bool(part)
    whole = [text if is_json(text) else transform(text, MODULES) for text in texts]

    live, none = played(parts, count, "live", orders)
    raw, corrected = played(parts, count, "correct", orders)

    assert (whole, {}) == (live, none)
    assert texts == raw
    assert {index: text for index, text in enumerate(whole) if text != texts[index]} == corrected
