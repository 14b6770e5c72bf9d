"""Stages of a host's own: the documented example, and stages that fail, through a real gateway."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import app
import app.errors
from app import Stage, Transform
from app.demo import DemoUpstream
from app.pipeline import Pipeline
from tests.conftest import Served
from tests.servers import ROOT
from tests.test_streaming import texts

LETTER = "Write to ann@example.org, bob.b+x@mail.example.co.uk or @carol; 3 @ 4, not a@b. End: dan@example.com"
MASKED = "Write to [e-mail], [e-mail] or @carol; 3 @ 4, not a@b. End: [e-mail]"


@pytest.fixture
def mask_emails(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give the stage of the documentation, run as it stands there."""
    page = Path(ROOT, "docs/writing-a-stage.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    monkeypatch.setitem(sys.modules, "flask_sluice", app)
    monkeypatch.setitem(sys.modules, "flask_sluice.errors", app.errors)
    space: dict[str, Any] = {}
    exec(compile(code, "writing-a-stage.md", "exec"), space)
    return space["MaskEmails"]()


def only(serve: Callable[..., Served], *stages: Stage) -> Served:
    """Give a gateway whose pipeline holds just these stages."""
    served = serve()
    served.gateway.pipeline = Pipeline(stages)
    served.gateway.own_fields |= {name for stage in stages for name in stage.fields}
    return served


@pytest.mark.parametrize("size", [1, 2, 5, 9, 200])
def test_the_documented_stage_masks_however_the_text_is_cut(
    serve: Callable[..., Served], upstream: DemoUpstream, mask_emails: Stage, size: int
) -> None:
    """Addresses are masked across chunk borders, nothing else changes, the metadata counts them."""
    served = only(serve, mask_emails)
    upstream.play([{"text": [LETTER[i : i + size] for i in range(0, len(LETTER), size)]}])

    with served.ask() as stream:
        data = stream.data()

    assert MASKED == texts(data)
    assert {"masked": 3} == data[-2]["x_g0dm0d3"]["pipeline"]["mask_emails"]
    heads = {(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in data[:-1]}
    assert 1 == len(heads)


def test_the_documented_stage_works_whole_and_for_each_choice(
    serve: Callable[..., Served], upstream: DemoUpstream, mask_emails: Stage
) -> None:
    """Blocking answers and several choices are masked too; its field stays here."""
    served = only(serve, mask_emails)
    upstream.play([{"choices": {"texts": [["ann@", "example.org"], ["bob@exam", "ple.org!"]]}}])

    with served.ask(stream=False, n=2, mask_emails=True) as response:
        answer = response.json()

    assert ["[e-mail]", "[e-mail]!"] == [choice["message"]["content"] for choice in answer["choices"]]
    assert "mask_emails" not in upstream.requests[0].body


def test_the_documented_stage_holds_nothing_back_for_long(
    serve: Callable[..., Served], upstream: DemoUpstream, mask_emails: Stage
) -> None:
    """Text that cannot become an address goes out at once."""
    served = only(serve, mask_emails)
    upstream.play([{"text": "Hello there! "}, {"silence": True}])

    with served.ask() as stream:
        found = ""
        while "there!" not in found:
            found += stream.next_data() or ""


def test_a_failure_gives_what_was_held(
    serve: Callable[..., Served], upstream: DemoUpstream, mask_emails: Stage
) -> None:
    """A stream that breaks off still gives the client every character that came."""
    served = only(serve, mask_emails)
    upstream.play([{"text": ["to ann@", "exam"]}, {"cut": "fin"}])

    with served.ask() as stream:
        data = stream.data()

    assert "to ann@exam" == texts(data[:-2])
    assert "upstream_cut" == data[-2]["error"]["code"]


def test_the_documented_stage_can_be_refused_and_can_refuse(
    serve: Callable[..., Served], upstream: DemoUpstream, mask_emails: Stage
) -> None:
    """false turns it off for the request, another value is a 400 that names the field."""
    served = only(serve, mask_emails)
    upstream.play([{"text": LETTER}])

    with served.ask(mask_emails=False) as stream:
        assert LETTER == texts(stream.data())
    with served.ask(mask_emails="yes") as response:
        assert (400, "mask_emails") == (response.status, response.json()["error"]["param"])


class _Holding(Transform):
    """Holds every second chunk and fails at the word "boom"."""

    def __init__(self, where: str) -> None:
        self.where, self.kept = where, []  # type: ignore[var-annotated]

    def feed(self, chunk: Any) -> Iterable[Any]:
        """Hold, pass or fail."""
        text = chunk["choices"][0]["delta"].get("content")
        if text == "boom" and self.where == "feed":
            raise ZeroDivisionError("secret text of the answer")
        if self.kept or chunk["choices"][0].get("finish_reason"):
            out, self.kept = [*self.kept, chunk], []
            return out
        self.kept = [chunk]
        return []

    def finish(self) -> Iterable[Any]:
        """Give the rest, or fail."""
        if self.where == "finish":
            raise ZeroDivisionError
        return self.kept

    def held(self) -> Iterable[Any]:
        """Give what is kept."""
        return self.kept


class _Failing(Stage):
    """Fails where it is told to."""

    name = "failing"

    def __init__(self, where: str) -> None:
        self.where = where

    def prepare(self, request: Any, notes: Any) -> Any:
        """Fail, or change the request."""
        if self.where == "prepare":
            raise ZeroDivisionError
        return request

    def start(self, request: Any, notes: Any) -> Transform:
        """Fail, or start."""
        if self.where == "start":
            raise ZeroDivisionError
        return _Holding(self.where)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("where", ["prepare", "start", "feed", "finish"])
def test_a_stage_that_fails_costs_only_its_effect(
    serve: Callable[..., Served],
    upstream: DemoUpstream,
    caplog: pytest.LogCaptureFixture,
    where: str,
    stream: bool,
) -> None:
    """The client gets the raw text in order, the metadata and the log name the stage, no text is told."""
    served = only(serve, _Failing(where))
    words = ["one ", "two ", "three ", "boom", " four ", "five"]
    upstream.play([{"text": words}])

    with served.ask(stream=stream) as response:
        if stream:
            data = response.data()
            text, told = texts(data), data[-2]["x_g0dm0d3"]
        else:
            answer = response.json()
            text, told = answer["choices"][0]["message"]["content"], answer["x_g0dm0d3"]

    assert "".join(words) == text
    assert [("failing", "ZeroDivisionError")] == [(e["stage"], e["error"]) for e in told["stage_errors"]]
    assert "stage failing failed" in caplog.text
    assert "secret text" not in caplog.text
    assert "completed" == served.record().end_reason
