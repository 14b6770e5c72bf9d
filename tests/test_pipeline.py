"""How stages are put together, and that a broken one costs its own effect only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from app.errors import ConfigurationError, RequestError
from app.pipeline import ChatRequest, Chunk, Notes, Pipeline, Stage, Transform
from app.settings import Settings

MESSAGES = [{"role": "user", "content": "Hello"}]
REQUEST = ChatRequest({"messages": MESSAGES}, {}, True)


def chunk(text: str) -> Chunk:
    return {"choices": [{"index": 0, "delta": {"content": text}}]}


def texts(chunks: Iterable[Chunk]) -> list[str]:
    return [item["choices"][0]["delta"]["content"] for item in chunks]


class Tagger(Transform):
    """Adds its letter to each text, and one chunk at the end."""

    def __init__(self, letter: str) -> None:
        self.letter = letter

    def feed(self, chunk: Chunk) -> Iterable[Chunk]:
        chunk["choices"][0]["delta"]["content"] += self.letter
        return [chunk]

    def finish(self) -> Iterable[Chunk]:
        return [chunk(f"end of {self.letter}:")]


class Holder(Transform):
    """Keeps everything until the end, and raises at a given word."""

    def __init__(self, bad: str = "", held_raises: bool = False, finish_raises: bool = False) -> None:
        self.kept: list[Chunk] = []
        self.bad, self.held_raises, self.finish_raises = bad, held_raises, finish_raises

    def feed(self, chunk: Chunk) -> Iterator[Chunk]:
        text = texts([chunk])[0]
        if self.bad and self.bad in text:
            yield {"choices": []}
            raise LookupError(f"cannot bear {text}")
        self.kept.append(chunk)

    def finish(self) -> Iterable[Chunk]:
        if self.finish_raises:
            raise LookupError("no end")
        return self.kept

    def held(self) -> Iterable[Chunk]:
        if self.held_raises:
            raise ZeroDivisionError
        return self.kept


def stage(name: str, order: int, transform: Transform | None = None, **hooks: Any) -> Stage:
    """Make a stage of a few lines."""
    body = {"name": name, "order": order, "start": lambda self, request, notes: transform, **hooks}
    made: Stage = type(name, (Stage,), body)()
    return made


def run(*stages: Stage) -> Any:
    return Pipeline(stages).run(REQUEST)


def test_a_stage_without_hooks_changes_nothing() -> None:
    """Each hook has a default that leaves things as they are."""
    found = run(stage("idle", 1))
    assert REQUEST is found.request
    assert found.is_plain
    assert (found.notes, found.errors) == ({"idle": None}, [])
    assert [chunk("a")] == found.feed(chunk("a"))
    assert found.finish() == []
    assert stage("idle", 1).endpoints() == ()
    assert isinstance(Stage.from_settings(Settings()), Stage)


def test_a_transform_without_hooks_passes_everything() -> None:
    """The base transform gives what it is fed and keeps nothing."""
    found = run(stage("idle", 1, Transform()))
    assert not found.is_plain
    assert [chunk("a")] == found.feed(chunk("a"))
    assert (found.finish(), found.is_plain) == ([], True)
    assert Transform().held() == ()


def test_stages_run_in_their_order() -> None:
    """The order is the stages' own, however they are passed in, and equal ones keep their place."""
    stages = [stage("c", 30, Tagger("c")), stage("a", 10, Tagger("a")), stage("b", 20, Tagger("b"))]
    assert texts(run(*stages).feed(chunk("x"))) == ["xabc"]
    assert [one.name for one in Pipeline(stages).stages] == ["a", "b", "c"]


def test_what_a_transform_gives_at_its_end_passes_those_behind_it() -> None:
    """The rest of the first goes through the second, whose own rest comes after."""
    found = run(stage("a", 1, Tagger("a")), stage("b", 2, Tagger("b")))
    assert texts(found.finish()) == ["end of a:b", "end of b:"]
    assert found.finish() == []


def test_fields_are_those_of_all_stages() -> None:
    """The pipeline knows which request fields are taken out."""
    assert {"x", "y", "z"} == Pipeline([stage("a", 1, fields=("x", "y")), stage("b", 2, fields=("z",))]).fields


def test_each_stage_prepares_what_the_one_before_gave() -> None:
    """Requests are copied on change, so that the first one stays as it was."""

    def prepare(self: Stage, request: ChatRequest, notes: Notes) -> ChatRequest:
        notes[self.name] = {"seen": sorted(request.body)}
        return request.with_body({**request.body, self.name: 1})

    found = run(stage("b", 2, prepare=prepare), stage("a", 1, prepare=prepare))
    assert found.request.body == {"messages": MESSAGES, "a": 1, "b": 1}
    assert found.notes == {"a": {"seen": ["messages"]}, "b": {"seen": ["a", "messages"]}}
    assert REQUEST.body == {"messages": MESSAGES}


def test_a_refused_field_is_the_callers_error() -> None:
    """A RequestError of a stage is the answer."""

    def prepare(self: Stage, request: ChatRequest, notes: Notes) -> ChatRequest:
        raise RequestError("no such strategy", param="strategy")

    with pytest.raises(RequestError, match="no such strategy"):
        run(stage("a", 1, prepare=prepare))


@pytest.mark.parametrize("error", [ValueError("secret prompt"), ConfigurationError("late")])
@pytest.mark.parametrize("where", ["prepare", "start"])
def test_any_other_exception_costs_the_stages_effect_only(where: str, error: Exception) -> None:
    """The request goes on without the stage, its half-written notes go, its error is told by class alone."""

    def prepare(self: Stage, request: ChatRequest, notes: Notes) -> ChatRequest:
        notes["bad"] = {"half": True}
        if where == "prepare":
            raise error
        return request.with_body({"spoilt": True})

    def start(self: Stage, request: ChatRequest, notes: Notes) -> Transform:
        raise error

    found = run(stage("bad", 1, prepare=prepare, start=start), stage("good", 2, Tagger("g")))
    assert REQUEST.body == found.request.body
    assert found.notes == {"bad": None, "good": None}
    assert [{"stage": "bad", "in": "prepare", "error": type(error).__name__}] == found.errors
    assert texts(found.feed(chunk("x"))) == ["xg"]


def test_a_stage_that_gives_no_request_is_left_out() -> None:
    """A forgotten return is an error of that stage, not of the request."""
    found = run(stage("bad", 1, prepare=lambda self, request, notes: None), stage("good", 2))
    assert REQUEST is found.request
    assert found.errors == [{"stage": "bad", "in": "prepare", "error": "TypeError"}]


def test_a_transform_that_raises_gives_up_what_it_held_and_is_left_out() -> None:
    """What it kept and the chunk it failed on go on raw, in order, through those behind it."""
    found = run(stage("bad", 1, Holder("boom")), stage("good", 2, Tagger("g")))
    assert found.feed(chunk("a")) + found.feed(chunk("b")) == []
    assert texts(found.feed(chunk("boom"))) == ["ag", "bg", "boomg"]
    assert texts(found.feed(chunk("c"))) == ["cg"]
    assert texts(found.finish()) == ["end of g:"]
    assert found.errors == [{"stage": "bad", "in": "transform", "error": "LookupError"}]


def test_a_later_transform_that_raises_on_one_of_many_chunks_loses_none() -> None:
    """When the one before lets go of several, the failing one and those after it pass raw."""
    found = run(stage("first", 1, Holder()), stage("bad", 2, Holder("boom")), stage("last", 3, Tagger("z")))
    for word in ("a", "boom", "c"):
        assert found.feed(chunk(word)) == []
    assert texts(found.finish()) == ["az", "boomz", "cz", "end of z:"]


def test_a_transform_that_raises_at_its_end_gives_up_what_it_held() -> None:
    """The end of one is not the end of the answer."""
    found = run(stage("bad", 1, Holder(finish_raises=True)), stage("good", 2, Tagger("g")))
    assert found.feed(chunk("a")) == []
    assert texts(found.finish()) == ["ag", "end of g:"]
    assert found.is_plain


def test_a_transform_that_cannot_even_give_up_is_told_twice() -> None:
    """What is lost then is what it held; the chunk at hand and the stream go on."""
    found = run(stage("bad", 1, Holder("boom", held_raises=True)))
    assert found.feed(chunk("a")) == []
    assert texts(found.feed(chunk("boom"))) == ["boom"]
    assert [(error["in"], error["error"]) for error in found.errors] == [
        ("transform", "LookupError"),
        ("held", "ZeroDivisionError"),
    ]


def test_a_transform_that_gives_nothing_at_all_is_an_error_of_its_own() -> None:
    """A feed that forgets to return is left out, and its chunk is not lost."""
    broken = type("Broken", (Transform,), {"feed": lambda self, chunk: None})()
    found = run(stage("bad", 1, broken))
    assert texts(found.feed(chunk("a"))) == ["a"]
    assert [error["error"] for error in found.errors] == ["TypeError"]


def test_the_log_never_quotes_an_exception(caplog: pytest.LogCaptureFixture) -> None:
    """Messages of stages may hold text of the conversation, so only their class is logged."""
    found = run(stage("bad", 1, Holder("boom")))
    found.feed(chunk("boom"))
    assert "LookupError" in caplog.text
    assert "cannot bear" not in caplog.text
