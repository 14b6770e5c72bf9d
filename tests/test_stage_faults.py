"""Stages that misbehave, a host's own and one that ships: stream and text outlive them, and what failed is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from app import Stage, Transform
from app.demo import DemoUpstream
from app.errors import PermissionDenied, RequestError
from app.pipeline import ChatRequest, Endpoint, Pipeline
from app.relay import Stream
from app.stages.stm import Stm
from app.text.hedges import Hedges
from tests.conftest import Served
from tests.servers import RawStream, request
from tests.test_metadata import asked
from tests.test_stages import only
from tests.test_streaming import texts

WORDS = ["one ", "two ", "boom", " three ", "four"]
WAYS = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


class Leave(BaseException):
    """What a library may raise to get out of everything."""


def deep() -> Any:
    """Give a list nested deeper than JSON readers go."""
    found: list[Any] = []
    for _ in range(500):
        found = [found]
    return found


def round_in_circles() -> Any:
    """Give an object that holds itself."""
    found: dict[str, Any] = {}
    found["self"] = found
    return found


def with_delta(chunk: Any, **fields: Any) -> Any:
    """Change the delta in place, as a stage does."""
    chunk["choices"][0]["delta"].update(fields)
    return [chunk]


def with_choice(chunk: Any, **fields: Any) -> Any:
    """Change the choice in place."""
    chunk["choices"][0].update(fields)
    return [chunk]


def leave(error: BaseException) -> Any:
    """Raise from inside an expression."""
    raise error


DEEDS: dict[str, Callable[[Any], Any]] = {
    "NaN": lambda chunk: with_delta(chunk, content=float("nan")),
    "NaN beside": lambda chunk: with_delta(chunk, score=float("nan")),
    "infinity": lambda chunk: with_choice(chunk, score=float("inf")),
    "a set": lambda chunk: with_delta(chunk, content={"a"}),
    "bytes": lambda chunk: with_delta(chunk, content=b"boom"),
    "a number": lambda chunk: with_delta(chunk, content=5),
    "an object": lambda chunk: with_delta(chunk, content={"text": "boom"}),
    "a date": lambda chunk: with_delta(chunk, at=datetime.now(UTC)),
    "keys that are numbers": lambda chunk: with_delta(chunk, table={1: 2}),
    "an instance": lambda chunk: with_delta(chunk, what=object()),
    "depth": lambda chunk: with_delta(chunk, deep=deep()),
    "a circle": lambda chunk: with_delta(chunk, circle=round_in_circles()),
    "tool calls that are text": lambda chunk: with_delta(chunk, tool_calls="call"),
    "tool calls of numbers": lambda chunk: with_delta(chunk, tool_calls=[1]),
    "reasoning that is a list": lambda chunk: with_delta(chunk, reasoning=["x"]),
    "no delta": lambda chunk: with_choice(chunk, delta=None),
    "a delta that is text": lambda chunk: with_choice(chunk, delta="boom"),
    "an index that is text": lambda chunk: with_choice(chunk, index="0"),
    "an index that is true": lambda chunk: with_choice(chunk, index=True),
    "a finish reason that is a number": lambda chunk: with_choice(chunk, finish_reason=1),
    "choices that are an object": lambda chunk: [{**chunk, "choices": {"0": chunk["choices"][0]}}],
    "choices that are a tuple": lambda chunk: [{**chunk, "choices": tuple(chunk["choices"])}],
    "choices of text": lambda chunk: [{**chunk, "choices": ["boom"]}],
    "no choices": lambda chunk: [{"id": chunk["id"]}],
    "an end among others": lambda chunk: [
        {**chunk, "choices": [*chunk["choices"], {"index": 1, "delta": {}, "finish_reason": "stop"}]}
    ],
    "None": lambda chunk: None,
    "a list of None": lambda chunk: [None],
    "text": lambda chunk: "boom",
    "the chunk itself": lambda chunk: chunk,
    "a number at all": lambda chunk: 7,
    "a generator that fails": lambda chunk: (part if part else leave(ValueError("boom")) for part in [chunk, None]),
    "a good one, then a bad one": lambda chunk: [{**chunk, "choices": []}, {"choices": None}],
    "an exit": lambda chunk: leave(SystemExit(1)),
    "a way out of everything": lambda chunk: leave(Leave()),
    "recursion": lambda chunk: leave(RecursionError()),
}


class _Bad(Transform):
    def __init__(self, deed: Callable[[Any], Any]) -> None:
        self.deed = deed

    def feed(self, chunk: Any) -> Iterable[Any]:
        """Do it at the word "boom"."""
        choices = chunk["choices"]
        is_time = choices and choices[0]["delta"].get("content") == "boom"
        found: Iterable[Any] = self.deed(chunk) if is_time else [chunk]
        return found


class _BadStage(Stage):
    name = "bad"

    def __init__(self, deed: Callable[[Any], Any]) -> None:
        self.deed = deed

    def start(self, request: Any, notes: Any) -> Transform:
        """Begin."""
        return _Bad(self.deed)


def told(response: RawStream, stream: bool) -> tuple[str, dict[str, Any]]:
    """Give the text of an answer and what the metadata says."""
    if stream:
        data = response.data()
        assert data[-1] == "[DONE]"
        assert {"chat.completion.chunk"} == {chunk["object"] for chunk in data[:-1]}
        return texts(data), data[-2]["x_g0dm0d3"]
    answer = response.json()
    assert 200 == response.status, answer
    return answer["choices"][0]["message"]["content"], answer["x_g0dm0d3"]


@WAYS
@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS)
def test_whatever_a_stage_gives_the_client_gets_the_raw_text(
    serve: Callable[..., Served],
    upstream: DemoUpstream,
    caplog: pytest.LogCaptureFixture,
    deed: Callable[[Any], Any],
    stream: bool,
) -> None:
    """Something that is no chunk, or no JSON, or an exception of any kind costs the stage's effect and nothing else."""
    served = only(serve, _BadStage(deed))
    upstream.play([{"text": WORDS}])

    with served.ask(stream=stream) as response:
        text, facts = told(response, stream)

    assert "".join(WORDS) == text
    assert ["bad"] == [error["stage"] for error in facts["stage_errors"]]
    assert "stage bad failed in transform" in caplog.text
    record = served.record()
    assert ("completed", 200, len(text)) == (record.end_reason, record.status, record.characters)


@WAYS
def test_half_a_character_is_json_and_passes(
    serve: Callable[..., Served], upstream: DemoUpstream, stream: bool
) -> None:
    """A lone surrogate is written as its escape, as it is where upstream sends one."""
    served = only(serve, _BadStage(lambda chunk: with_delta(chunk, content="\ud83d")))
    upstream.play([{"text": WORDS}])

    with served.ask(stream=stream) as response:
        text, facts = told(response, stream)

    assert ("one two \ud83d three four", []) == (text, facts["stage_errors"])


def test_what_a_stage_gave_cannot_be_changed_later() -> None:
    """A stage that keeps what it gave, and changes it, changes nothing of what goes out."""
    given: list[Any] = []
    run = Pipeline([_BadStage(lambda chunk: given.append(chunk) or [chunk])]).run(REQUEST)

    out = run.feed(chunk_of(0, "boom"))
    given[0]["choices"][0]["delta"]["content"] = {"boom"}

    assert "boom" == texts(out)


class _Ending(Transform):
    """Holds all text and ends badly."""

    def __init__(self, gives: Any) -> None:
        self.gives, self.kept = gives, []  # type: ignore[var-annotated]

    def feed(self, chunk: Any) -> Iterable[Any]:
        """Keep."""
        self.kept.append(chunk)
        return []

    def finish(self) -> Iterable[Any]:
        """Give something else."""
        found: Iterable[Any] = self.gives()
        return found

    def held(self) -> Iterable[Any]:
        """Give what is kept."""
        return self.kept


@WAYS
@pytest.mark.parametrize(
    "gives",
    [
        lambda: None,
        lambda: "text",
        lambda: [{"choices": {}}],
        lambda: leave(Leave()),
        lambda: [chunk_of(0, float("nan"))],
    ],
    ids=["nothing", "text", "no chunk", "a way out", "NaN"],
)
def test_a_bad_end_gives_what_was_held(
    serve: Callable[..., Served], upstream: DemoUpstream, gives: Callable[[], Any], stream: bool
) -> None:
    """What the stage kept goes out raw, whatever it gives at its end, and choices end as upstream said."""
    stage = _BadStage(leave)
    stage.start = lambda request, notes: _Ending(gives)  # type: ignore[method-assign]
    served = only(serve, stage)
    upstream.play([{"text": WORDS}, {"finish": {"reason": "length"}}])

    with served.ask(stream=stream) as response:
        text, facts = told(response, stream)

    assert "".join(WORDS) == text
    assert ["bad"] == [error["stage"] for error in facts["stage_errors"]]
    assert "length" == served.record().end_reason


class _AtEnds(Transform):
    """Gives something else than the chunk that ends a choice."""

    def __init__(self, gives: Callable[[Any], Any]) -> None:
        self.gives = gives

    def feed(self, chunk: Any) -> Iterable[Any]:
        """Give it."""
        is_end = chunk["choices"] and chunk["choices"][0].get("finish_reason") is not None
        found: Iterable[Any] = self.gives(chunk) if is_end else [chunk]
        return found


@WAYS
@pytest.mark.parametrize(
    "gives",
    [lambda chunk: [], lambda chunk: [chunk, chunk], lambda chunk: [chunk_of(0, "!"), chunk, chunk_of(0, "?")]],
    ids=["nothing", "two", "text around it"],
)
def test_each_choice_ends_once_as_upstream_said(
    serve: Callable[..., Served], upstream: DemoUpstream, gives: Callable[[Any], Any], stream: bool
) -> None:
    """Whether a stage drops a choice's end, doubles it or puts text around it."""
    stage = _BadStage(leave)
    stage.start = lambda request, notes: _AtEnds(gives)  # type: ignore[method-assign]
    served = only(serve, stage)
    upstream.play([{"choices": {"texts": [WORDS, WORDS]}}, {"finish": {"reason": "length"}}])

    with served.ask(stream=stream, n=2) as response:
        if stream:
            choices = [choice for chunk in response.data()[:-1] for choice in chunk["choices"]]
            ends = [(choice["index"], choice["finish_reason"]) for choice in choices if choice.get("finish_reason")]
        else:
            ends = [(choice["index"], choice["finish_reason"]) for choice in response.json()["choices"]]

    assert [(0, "length"), (1, "stop")] == sorted(ends)
    assert "length" == served.record().end_reason


PREPARED: dict[str, Callable[[ChatRequest], Any]] = {
    "a set in the body": lambda request: request.with_body({**request.body, "x": {1}}),
    "NaN in the body": lambda request: request.with_body({**request.body, "temperature": float("nan")}),
    "no body": lambda request: request.with_body(None),  # type: ignore[arg-type]
    "a list as body": lambda request: request.with_body([]),  # type: ignore[arg-type]
    "no messages": lambda request: request.with_body({**request.body, "messages": []}),
    "messages of text": lambda request: request.with_body({**request.body, "messages": ["Hello"]}),
    "spoilt in place": lambda request: (request.body["messages"].clear(), leave(ValueError()))[0],
    "in place and no JSON": lambda request: (request.body.update(x=b"x"), request)[1],
    "an exit": lambda request: leave(SystemExit(3)),
    "a way out of everything": lambda request: leave(Leave()),
    "text": lambda request: "request",
}


@WAYS
@pytest.mark.parametrize("deed", PREPARED.values(), ids=PREPARED)
def test_whatever_a_stage_makes_of_the_request_upstream_gets_the_clients(
    serve: Callable[..., Served], upstream: DemoUpstream, deed: Callable[[ChatRequest], Any], stream: bool
) -> None:
    """A request that is none, or no JSON, goes up as it was without the stage."""
    stage = _BadStage(lambda chunk: [chunk])
    stage.prepare = lambda request, notes: deed(request)  # type: ignore[method-assign]
    served = only(serve, stage)
    upstream.play([{"text": WORDS}])

    with served.ask(stream=stream) as response:
        text, facts = told(response, stream)

    assert "".join(WORDS) == text
    assert [("bad", "prepare")] == [(error["stage"], error["in"]) for error in facts["stage_errors"]]
    assert "Say something." == upstream.requests[0].body["messages"][0]["content"]


def test_a_stage_cannot_turn_a_stream_into_a_whole_answer(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """Whether the answer is streamed is the client's word."""

    def prepare(request: Any, notes: Any) -> Any:
        return type(request)(request.body, request.options, stream=False)

    stage = _BadStage(lambda chunk: [chunk])
    stage.prepare = prepare  # type: ignore[method-assign]
    served = only(serve, stage)
    upstream.play([{"text": WORDS}])

    with served.ask() as response:
        assert "".join(WORDS) == told(response, True)[0]


OPTIONS: dict[str, Callable[[ChatRequest], Any]] = {
    "changed, then an error": lambda request: (
        request.options.update(stm_modules=[], autotune=True),
        leave(ValueError()),
    ),
    "a set": lambda request: replace(request, options={**request.options, "x": {1}}),
    "NaN, in place": lambda request: (request.options.update(x=float("nan")), request)[1],
    "a number as name": lambda request: replace(request, options={**request.options, 1: 2}),
    "a list": lambda request: replace(request, options=["stm_mode"]),
    "gone, with no body": lambda request: (request.options.clear(), replace(request, body={}))[1],
    "names that are none": lambda request: replace(request, options={}, sent=5),
}


@WAYS
@pytest.mark.parametrize("deed", OPTIONS.values(), ids=OPTIONS)
def test_a_stage_that_fails_leaves_the_options_to_the_others(
    serve: Callable[..., Served], upstream: DemoUpstream, deed: Callable[[ChatRequest], Any], stream: bool
) -> None:
    """The stages behind it do what the client asked for."""
    stage = _BadStage(lambda chunk: [chunk])
    stage.prepare = lambda request, notes: deed(request)  # type: ignore[method-assign]
    stage.order = 5  # type: ignore[misc]
    served = serve(SLUICE_PIPELINE="on")
    served.gateway.pipeline = Pipeline([*served.gateway.pipeline.stages, stage])
    upstream.play([{"text": ["I think it works."]}])

    with served.ask(stream=stream, stm_mode="live", stm_modules=["hedge_reducer"], autotune=False) as response:
        text, facts = told(response, stream)

    assert "It works." == text
    assert [("bad", "prepare")] == [(error["stage"], error["in"]) for error in facts["stage_errors"]]
    assert facts["pipeline"]["autotune"] is None
    assert not {"temperature", "top_p", "x"} & upstream.requests[0].body.keys()


@WAYS
def test_a_stage_may_change_the_options_for_those_behind_it(
    serve: Callable[..., Served], upstream: DemoUpstream, stream: bool
) -> None:
    """In place or in a copy, and what it keeps of them changes nothing later."""
    kept: list[dict[str, Any]] = []

    def prepare(request: ChatRequest, notes: Any) -> ChatRequest:
        request.options["stm_modules"] = []
        kept.append(request.options)
        return request

    def start(request: ChatRequest, notes: Any) -> Transform:
        return _Bad(lambda chunk: [chunk])

    stage = _BadStage(lambda chunk: [chunk])
    stage.prepare = prepare  # type: ignore[method-assign]
    stage.start = start  # type: ignore[method-assign]
    stage.order = 5  # type: ignore[misc]
    served = serve(SLUICE_PIPELINE="on")
    served.gateway.pipeline = Pipeline([*served.gateway.pipeline.stages, stage])
    upstream.play([{"text": ["I think it works."]}])

    with served.ask(stream=stream, stm_modules=["hedge_reducer"]) as response:
        text, facts = told(response, stream)

    assert ("I think it works.", []) == (text, facts["stage_errors"])
    assert kept[0]["stm_modules"] == []


class _Bare(RequestError):
    def __init__(self) -> None:
        """Leave the base alone."""


class _Odd(RequestError):
    def to_object(self) -> dict[str, Any]:
        """Fail where the error is written out."""
        raise ValueError

    @property
    def type(self) -> Any:
        """Fail too."""
        raise ValueError


class _Raising(RequestError):
    @property
    def code(self) -> Any:  # type: ignore[override]
        """Fail where the error is looked at."""
        raise ValueError


class _Own(PermissionDenied):
    code = "no_mail"


def refusal(message: Any = "no: expected less", **parts: Any) -> RequestError:
    """Make a refusal of what may be no parts of one."""
    return RequestError(message, **parts)


NO_REASON = "the stage bad refuses the request and gives no reason"
REFUSALS: dict[str, tuple[Callable[[], RequestError], tuple[int, str, str, str | None]]] = {
    "sound": (lambda: refusal(code="less", param="x", status=422), (422, "no: expected less", "less", "x")),
    "of a class": (lambda: _Own("not you"), (403, "not you", "no_mail", None)),
    "a number as message": (lambda: refusal(5), (400, NO_REASON, "invalid_request", None)),
    "an object as message": (lambda: refusal({"a": {1}}), (400, NO_REASON, "invalid_request", None)),
    "no message": (lambda: refusal(""), (400, NO_REASON, "invalid_request", None)),
    "a param that is an instance": (
        lambda: refusal(param=object()),
        (400, "no: expected less", "invalid_request", None),
    ),
    "no code": (
        lambda: (error := refusal(), setattr(error, "code", None))[0],
        (400, "no: expected less", "invalid_request", None),
    ),
    "a number as code": (lambda: refusal(code=7), (400, "no: expected less", "invalid_request", None)),
    **{
        f"status {status!r}": (
            lambda status=status: refusal(status=status),  # type: ignore[misc]
            (400, "no: expected less", "invalid_request", None),
        )
        for status in (99, 200, 302, 1000, -1, True, "400", 400.0, None)
    },
    "a set as metadata": (lambda: refusal(metadata={1}), (400, "no: expected less", "invalid_request", None)),
    "NaN as metadata": (lambda: refusal(metadata=float("nan")), (400, "no: expected less", "invalid_request", None)),
    "a number as Retry-After": (lambda: refusal(retry_after=[5]), (400, "no: expected less", "invalid_request", None)),
    "a line end in Retry-After": (
        lambda: refusal(retry_after="5\r\nx: y"),
        (400, "no: expected less", "invalid_request", None),
    ),
    **{
        f"headers {number}": (
            lambda headers=headers: refusal(headers=headers),  # type: ignore[misc]
            (400, "no: expected less", "invalid_request", None),
        )
        for number, headers in enumerate(
            [
                {"x-a": "b\r\nx-bad: c"},
                {"x-a\r\nx-bad": "c"},
                {"Content-Length": "3", "content-type": "text/html", "Transfer-Encoding": "chunked", "Connection": "x"},
                {"x-a": 5, 6: "x", "": "x", "x bad": "y", "x-ü": "y", "x-u": "ü€"},
                ["x-bad"],
            ]
        )
    },
    "a base left alone": (_Bare, (400, NO_REASON, "invalid_request", None)),
    "odd to write out": (lambda: _Odd("no"), (400, "no", "invalid_request", None)),
    "odd to look at": (lambda: _Raising("no"), (400, "no", "invalid_request", None)),
}


def seen(response: RawStream) -> tuple[int, str, str, str | None]:
    """Give what a refused client sees."""
    raw = response.read()
    error = json.loads(raw)["error"]
    assert {"message", "type", "param", "code"} == error.keys()
    assert "application/json" == response.headers["content-type"]
    assert str(len(raw)) == response.headers["content-length"]
    assert not response.headers.keys() & {"x-bad", "retry-after", "transfer-encoding"}
    return response.status, error["message"], error["code"], error["param"]


@WAYS
@pytest.mark.parametrize(("make", "expected"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_of_a_stage_is_one_however_it_is_made(
    serve: Callable[..., Served],
    upstream: DemoUpstream,
    make: Callable[[], RequestError],
    expected: tuple[int, str, str, str | None],
    stream: bool,
) -> None:
    """The client gets an error that its library understands, upstream gets nothing, the record says rejected."""
    stage = _BadStage(lambda chunk: [chunk])
    stage.prepare = lambda request, notes: leave(make())  # type: ignore[method-assign]
    served = only(serve, stage)

    with served.ask(stream=stream) as response:
        assert expected == seen(response)

    record = served.record()
    assert ("rejected", expected[0], expected[2]) == (record.end_reason, record.status, record.error_code)
    assert [] == upstream.requests


@pytest.mark.parametrize(("make", "expected"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_of_a_stages_endpoint_is_one_too(
    host: Callable[..., Served], make: Callable[[], RequestError], expected: tuple[int, str, str, str | None]
) -> None:
    """The same from a route that a stage offers."""
    stage = _BadStage(lambda chunk: [chunk])
    stage.endpoints = lambda: [Endpoint("POST", "/bad", lambda body: leave(make()))]  # type: ignore[method-assign]
    served = host(lambda app: None, stages=[stage], SLUICE_PIPELINE="on")

    with request("POST", f"{served.url}/v1/bad", b"{}") as response:
        assert expected == seen(response)


def test_a_sound_refusal_keeps_its_headers_and_metadata(serve: Callable[..., Served]) -> None:
    """What can be sent goes out as the stage said it."""
    stage = _BadStage(lambda chunk: [chunk])
    error = refusal(status=429, retry_after="7", headers={"x-quota": "none left"}, metadata={"left": [0]})
    stage.prepare = lambda request, notes: leave(error)  # type: ignore[method-assign]
    served = only(serve, stage)

    with served.ask() as response:
        headers, found = response.headers, response.json()["error"]

    assert ("7", "none left") == (headers["retry-after"], headers["x-quota"])
    assert ("rate_limit_error", {"left": [0]}) == (found["type"], found["metadata"])


@WAYS
@pytest.mark.parametrize(
    "note", [{1}, {"x": b""}, {"x": {1: 2}}, round_in_circles()], ids=["set", "bytes", "key", "circle"]
)
def test_notes_that_are_no_json_are_left_out(
    serve: Callable[..., Served], upstream: DemoUpstream, note: Any, stream: bool
) -> None:
    """The answer, its metadata and the record do without them."""
    stage = _BadStage(lambda chunk: [chunk])
    stage.prepare = lambda request, notes: (notes.update(bad=note), request)[1]  # type: ignore[method-assign]
    served = only(serve, stage)
    upstream.play([{"text": WORDS}])

    with served.ask(stream=stream) as response:
        text, facts = told(response, stream)

    assert ("".join(WORDS), {}) == (text, facts["pipeline"])
    assert [("bad", "notes")] == [(error["stage"], error["in"]) for error in facts["stage_errors"]]
    assert ("completed", {}) == (served.record().end_reason, served.record().pipeline)


@WAYS
def test_a_note_that_is_changed_after_its_last_look_changes_nothing(
    serve: Callable[..., Served], upstream: DemoUpstream, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """The metadata and the record hold what it said then, as a stage's own thread may go on with it."""
    note: dict[str, Any] = {"seen": 1}
    stage = _BadStage(lambda chunk: [chunk])
    stage.prepare = lambda request, notes: (notes.update(bad=note), request)[1]  # type: ignore[method-assign]
    served = only(serve, stage)
    look = Stream._notes

    def late(stream: Stream) -> dict[str, Any]:
        found = look(stream)
        note["seen"] = {1, 2}
        return found

    monkeypatch.setattr(Stream, "_notes", late)
    upstream.play([{"text": WORDS}])

    with served.ask(stream=stream) as response:
        text, facts = told(response, stream)

    assert ("".join(WORDS), {"bad": {"seen": 1}}) == (text, facts["pipeline"])
    assert ("completed", {"bad": {"seen": 1}}) == (served.record().end_reason, served.record().pipeline)


VANDALS: dict[str, Callable[[dict[Any, Any]], Any]] = {
    "all gone": lambda notes: notes.clear(),
    "figures": lambda notes: notes.update(autotune=5, stm=0.5, parseltongue=True),
    "texts and lists": lambda notes: notes.update(autotune="code", stm=[1], parseltongue=["x"]),
    "odd insides": lambda notes: notes.update(
        autotune={"detected_context": [1], "confidence": "high"}, stm={"changed": 7}
    ),
    "a key that is no text": lambda notes: notes.update({5: 6, None: {}}),
    "a lone surrogate": lambda notes: notes.update(bad="\ud800", autotune={"detected_context": "\ud800"}),
}


@WAYS
@pytest.mark.parametrize("vandal", VANDALS.values(), ids=VANDALS)
def test_a_stage_that_spoils_others_notes_spoils_no_more(
    serve: Callable[..., Served], upstream: DemoUpstream, vandal: Callable[[Any], Any], stream: bool
) -> None:
    """The answer comes, and its record is written."""
    stage = _BadStage(lambda chunk: [chunk])
    stage.prepare = lambda request, notes: (vandal(notes), request)[1]  # type: ignore[method-assign]
    served = serve(SLUICE_PIPELINE="on")
    served.gateway.pipeline = Pipeline([*served.gateway.pipeline.stages, stage])
    upstream.play([{"text": WORDS}])

    with served.ask(stream=stream) as response:
        text, _ = told(response, stream)

    assert "".join(WORDS) == text
    assert "completed" == served.record().end_reason
    assert served.gateway.journal is not None and served.gateway.journal.flush()
    assert 1 == len(asked(served, "events")["data"])


def test_an_endpoint_of_a_stage_that_fails_is_a_500(host: Callable[..., Served]) -> None:
    """Raising, leaving, and giving what is no JSON cost that request and no other; nothing of it is told."""
    deeds = [lambda body: leave(ValueError("secret")), lambda body: leave(SystemExit("secret")), lambda body: {1, 2}]
    deeds.append(lambda body: leave(Leave("secret")))
    deeds.append(lambda body: {"ok": True})
    stage = _BadStage(lambda chunk: [chunk])
    stage.endpoints = lambda: [  # type: ignore[method-assign]
        Endpoint("POST", f"/bad/{number}", deed) for number, deed in enumerate(deeds)
    ]
    served = host(lambda app: None, stages=[stage], SLUICE_PIPELINE="on")

    answers = []
    for number in range(len(deeds)):
        with request("POST", f"{served.url}/v1/bad/{number}", b"{}") as response:
            answers.append((response.status, response.read()))

    assert [500, 500, 500, 500, 200] == [status for status, _ in answers]
    assert all(b"internal_error" in body and b"secret" not in body for _, body in answers[:4])


REQUEST = ChatRequest({"messages": [{"role": "user", "content": "x"}]}, {"stm_mode": "live"}, True)
HEDGED = "It is good. I think it works. We can go. Perhaps it rains. It is probably fine."


def chunk_of(index: int, text: Any, **more: Any) -> Any:
    """Make a chunk of one choice's text."""
    choice = {"index": index, "delta": {"content": text} if text else {}, "finish_reason": None, **more}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


@pytest.fixture
def fails_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Give a function that makes the rules for hedges fail when they are asked for the given time."""
    decide = Hedges.decide
    left = 0

    def failing(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        return leave(ZeroDivisionError()) if left == 0 else decide(*arguments)

    def set_at(time: int) -> None:
        nonlocal left
        left = time

    monkeypatch.setattr(Hedges, "decide", failing)
    return set_at


@pytest.mark.parametrize("by_text", [False, True], ids=["chunks", "text"])
@pytest.mark.parametrize("size", [1, 3, 10, 1000])
def test_stm_that_fails_loses_and_doubles_nothing(fails_at: Callable[[int], None], size: int, by_text: bool) -> None:
    """Wherever a rule fails, each character that comes after it, or was held, comes out raw and once."""
    for time in range(1, 12):
        fails_at(time)
        run = Pipeline([Stm()]).run(REQUEST)
        out = ""
        for start in range(0, len(HEDGED), size):
            piece = HEDGED[start : start + size]
            found = (
                run.text(0, piece, lambda text: chunk_of(0, text))
                if by_text and start
                else run.feed(chunk_of(0, piece))
            )
            out += found if isinstance(found, str) else texts(found)
        out += texts(run.feed(chunk_of(0, "", finish_reason="stop"))) + texts(run.finish())

        whole = HEDGED
        for hedge, rest in (("I think it", "It"), ("Perhaps it", "It"), ("probably ", "")):
            if whole != out:
                whole = whole.replace(hedge, rest, 1)
        assert whole == out
        assert run.errors or time > 3


def test_stm_that_fails_in_one_choice_leaves_the_others_whole(fails_at: Callable[[int], None]) -> None:
    """Where one event holds several choices, those that went well before the failure lose and double nothing either."""
    fails_at(2)
    run = Pipeline([Stm()]).run(REQUEST)
    many = chunk_of(0, "So I think")
    many["choices"].append({"index": 1, "delta": {"content": "I think it works. I think so."}, "finish_reason": None})
    run.feed(chunk_of(0, "It is. "))

    out = run.feed(many)
    out += run.feed(chunk_of(0, " it works."))

    found = {0: "", 1: ""}
    for chunk in out:
        for choice in chunk["choices"]:
            found[choice["index"]] += choice["delta"].get("content", "")
    assert {0: "So I think it works.", 1: "I think it works. I think so."} == found
    assert "failed" == run.notes["stm"]["skipped"]


def test_stm_that_fails_in_mode_correct_sends_no_correction(fails_at: Callable[[int], None]) -> None:
    """The raw text stands, and the note says so."""
    fails_at(3)
    run = Pipeline([Stm()]).run(ChatRequest(REQUEST.body, {"stm_mode": "correct"}, True))

    out = run.feed(chunk_of(0, HEDGED)) + run.feed(chunk_of(0, "", finish_reason="stop")) + run.finish()

    assert HEDGED == texts(out)
    assert [] == [chunk for chunk in out if "x_g0dm0d3" in chunk]
    note = run.notes["stm"]
    assert (False, "failed", len(HEDGED)) == (note["changed"], note["skipped"], note["transformed_length"])
