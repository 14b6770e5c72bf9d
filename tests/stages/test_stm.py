"""STM as a stage: both modes, whole answers, several choices, and what it leaves alone, through a real gateway."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.demo import DemoUpstream
from app.errors import ConfigurationError, RequestError
from app.pipeline import ChatRequest, Pipeline
from app.stages.stm import Stm
from app.text.transducer import transform
from tests.conftest import Served
from tests.servers import open_stream, request
from tests.test_streaming import texts

ALL = ["hedge_reducer", "direct_mode", "casual_mode"]
RAW = "Sure, I think you should probably utilize a HashMap. Furthermore, it is perhaps the best approach."
DONE = "You should use a HashMap. Also, it is the best approach."
CORPUS = [
    json.loads(line)["text"]
    for line in (Path(__file__).parent.parent / "data" / "answers.jsonl").read_text().splitlines()
]


@pytest.fixture
def stm(serve: Callable[..., Served]) -> Served:
    """Give a gateway with the shipped pipeline."""
    return serve(SLUICE_PIPELINE="on")


def cut(text: str, size: int) -> list[str]:
    """Cut *text* into pieces of *size* characters."""
    return [text[i : i + size] for i in range(0, len(text), size)]


class Run:
    """What a client receives of *pieces*, by the stage alone."""

    def __init__(
        self, pieces: list[str], mode: str, *, stream: bool = True, modules: list[str] = ALL, messages: Any = None
    ) -> None:
        asked = {"stm_mode": mode, "stm_modules": modules}
        body = {"messages": messages or [{"role": "user", "content": "x"}]}
        self.run = Pipeline([Stm()]).run(ChatRequest(body, asked, stream))
        self.chunks: list[Any] = []
        for number, piece in enumerate(pieces):
            if number % 3 == 2:
                self._take(self.run.text(0, piece, self._chunk))
            else:
                self.chunks += self.run.feed(self._chunk(piece))
        self.chunks += self.run.feed(
            {**self._chunk(""), "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        )
        self.chunks += self.run.finish()
        self.note = self.run.notes["stm"]

    @staticmethod
    def _chunk(text: str) -> Any:
        return {"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}

    def _take(self, out: Any) -> None:
        self.chunks += out if isinstance(out, list) else [self._chunk(out)]

    @property
    def text(self) -> str:
        """What plain clients show."""
        return texts(self.chunks)

    @property
    def corrections(self) -> list[str]:
        """The corrected texts told beside the raw one."""
        return [chunk["x_g0dm0d3"]["final_content"] for chunk in self.chunks if "x_g0dm0d3" in chunk]


def is_json(text: str) -> bool:
    """Whether a choice's start shows that it is JSON."""
    start = text.lstrip()[:200]
    return start.startswith("{") or (start.startswith("[") and start[1:].lstrip()[:1] in ("{", "[", '"', "]"))


def expected(text: str) -> str:
    """Give what becomes of a whole answer."""
    return text if is_json(text) else transform(text, ALL)


def assert_all_modes_agree(pieces: list[str]) -> None:
    """Check that live, correct and whole answers come to the same text."""
    text = "".join(pieces)
    live, correct, whole = Run(pieces, "live"), Run(pieces, "correct"), Run(pieces, "correct", stream=False)

    assert expected(text) == live.text == whole.text
    assert text == correct.text
    assert ([expected(text)] if expected(text) != text else []) == correct.corrections
    assert live.note["held_chars_max"] <= 256
    assert not live.run.errors and not correct.run.errors and not whole.run.errors
    assert (len(text), len(expected(text))) == (live.note["original_length"], live.note["transformed_length"])


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_live_equals_whole_for_any_text_and_any_cut(data: st.DataObject) -> None:
    """Whatever the text and its pieces."""
    words = [
        "I think ",
        "perhaps ",
        "maybe ",
        "it is ",
        "Sure, ",
        "we can ",
        "\n",
        "```",
        "`",
        '"',
        "- ",
        ". ",
        "! ",
        "However, ",
        "utilize ",
        "In my opinion, ",
        "not ",
        "[",
        "{",
        "$",
        "https://x.y/z ",
        "é",
        "I ",
        "the plan is good",
    ]
    pieces = data.draw(st.lists(st.one_of(st.sampled_from(words), st.text(min_size=1, max_size=12)), max_size=25))
    text = "".join(pieces)
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12)) | {0, len(text)})
    parts = [text[a:b] for a, b in zip(places, places[1:], strict=False) if b > a]

    assert_all_modes_agree(parts)


@pytest.mark.parametrize("size", [1, 4, 17, 1000])
def test_live_equals_whole_over_the_corpus(size: int) -> None:
    """The same for realistic answers."""
    for text in CORPUS:
        assert_all_modes_agree(cut(text, size))


def test_the_corpus_is_large_and_varied() -> None:
    """At least two hundred answers, many of which change and many of which do not."""
    changed = sum(expected(text) != text for text in CORPUS)

    assert len(CORPUS) >= 200
    assert changed >= 60 and len(CORPUS) - changed >= 40


def test_correct_mode_streams_raw_and_corrects_before_the_finish(stm: Served, upstream: DemoUpstream) -> None:
    """The raw text at once, one correction chunk, then the finish chunk that tells."""
    upstream.play([{"text": RAW}])

    with stm.ask(stm_modules=ALL) as stream:
        data = stream.data()

    correction, finish = data[-3], data[-2]
    assert RAW == texts(data)
    assert ["id", "object", "created", "model", "choices", "x_g0dm0d3"] == list(correction)
    assert [{"index": 0, "delta": {}, "finish_reason": None}] == correction["choices"]
    assert {"stm_applied": True, "final_content": DONE} == correction["x_g0dm0d3"]
    assert {
        "modules_applied": ALL,
        "mode": "correct",
        "changed": True,
        "original_length": len(RAW),
        "transformed_length": len(DONE),
        "held_chars_max": 0,
        "skipped": None,
    } == finish["x_g0dm0d3"]["pipeline"]["stm"]


@pytest.mark.parametrize("size", [1, 7, 500])
def test_live_mode_streams_the_corrected_text(stm: Served, upstream: DemoUpstream, size: int) -> None:
    """Plain clients show the corrected text; nothing else is told before the finish chunk."""
    upstream.play([{"text": cut(RAW, size)}])

    with stm.ask(stm_modules=ALL, stm_mode="live") as stream:
        data = stream.data()

    assert DONE == texts(data)
    assert not [chunk for chunk in data[:-2] if "x_g0dm0d3" in chunk]
    note = data[-2]["x_g0dm0d3"]["pipeline"]["stm"]
    assert ("live", True) == (note["mode"], note["changed"]) and 0 < note["held_chars_max"] <= 256
    assert "assistant" == data[0]["choices"][0]["delta"]["role"]


@pytest.mark.parametrize("mode", ["correct", "live"])
def test_a_whole_answer_is_corrected_in_either_mode(stm: Served, upstream: DemoUpstream, mode: str) -> None:
    """message.content is the corrected text; the mode is told as asked."""
    upstream.play([{"text": RAW}])

    with stm.ask(stream=False, stm_modules=ALL, stm_mode=mode) as response:
        answer = response.json()

    assert DONE == answer["choices"][0]["message"]["content"]
    assert mode == answer["x_g0dm0d3"]["pipeline"]["stm"]["mode"]


@pytest.mark.parametrize("mode", ["correct", "live"])
def test_each_choice_is_a_text_of_its_own(stm: Served, upstream: DemoUpstream, mode: str) -> None:
    """With n > 1 every choice is corrected by itself."""
    upstream.play([{"choices": {"texts": [cut("I think we can go.", 4), cut("Nothing here.", 3)]}}])

    with stm.ask(n=2, stm_mode=mode) as stream:
        data = stream.data()

    got = [texts(data, 0), texts(data, 1)]
    corrections = {c["choices"][0]["index"]: c["x_g0dm0d3"]["final_content"] for c in data[:-2] if "x_g0dm0d3" in c}
    assert (["We can go.", "Nothing here."] if mode == "live" else ["I think we can go.", "Nothing here."]) == got
    assert ({} if mode == "live" else {0: "We can go."}) == corrections


def test_the_shipped_defaults(stm: Served, upstream: DemoUpstream) -> None:
    """Hedges and openers in mode correct; stiff words stay."""
    upstream.play([{"text": RAW}])

    with stm.ask() as stream:
        data = stream.data()

    note = data[-2]["x_g0dm0d3"]["pipeline"]["stm"]
    assert (["hedge_reducer", "direct_mode"], "correct") == (note["modules_applied"], note["mode"])
    assert "utilize" in data[-3]["x_g0dm0d3"]["final_content"]


@pytest.mark.parametrize(
    "asked",
    [
        {"stm_modules": []},
        {"response_format": {"type": "json_object"}},
        {"response_format": "json_object"},
        {"response_format": {}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}},
    ],
)
def test_where_it_does_not_run(stm: Served, upstream: DemoUpstream, asked: dict[str, Any]) -> None:
    """Without modules and for structured answers there is no STM, and the metadata says null."""
    upstream.play([{"text": RAW}])

    with stm.ask(**asked) as stream:
        data = stream.data()

    assert RAW == texts(data)
    assert data[-2]["x_g0dm0d3"]["pipeline"]["stm"] is None


@pytest.mark.parametrize("text", ['{"a": "I think we can go."}', ' [ "I think we can go."]', "[]", "[[1]]"])
@pytest.mark.parametrize("mode", ["correct", "live"])
def test_json_answers_are_left_alone(stm: Served, upstream: DemoUpstream, text: str, mode: str) -> None:
    """A choice that begins as JSON passes raw."""
    upstream.play([{"text": cut(text, 1)}])

    with stm.ask(stm_mode=mode) as stream:
        data = stream.data()

    assert text == texts(data)
    assert "structured" == data[-2]["x_g0dm0d3"]["pipeline"]["stm"]["skipped"]


def test_a_prefill_has_no_start(stm: Served, upstream: DemoUpstream) -> None:
    """After an assistant message at the end of the request openers stay."""
    upstream.play([{"text": "Sure! I think we can go."}])
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "Well, "}]

    with stm.ask(messages=messages, stm_mode="live") as stream:
        data = stream.data()

    assert texts(data).startswith("Sure!")
    assert ["hedge_reducer"] == data[-2]["x_g0dm0d3"]["pipeline"]["stm"]["modules_applied"]


FENCED = "x = 1  # it is probably so\n```\n"


@pytest.mark.parametrize(
    ("before", "text", "expected"),
    [
        ("```python\n", f"{FENCED}I think we can go.", f"{FENCED}We can go."),
        ([{"type": "text", "text": "Hello. "}], "Sure. I think we can go.", "Sure. We can go."),
        (None, "I think we can go. Perhaps it rains.", "I think we can go. It rains."),
    ],
)
@pytest.mark.parametrize("mode", ["live", "correct"])
def test_an_answer_that_goes_on_is_read_in_the_light_of_its_beginning(
    before: Any, text: str, expected: str, mode: str
) -> None:
    """What the prefill opened protects the answer's text; its first characters begin no sentence."""
    run = Run(cut(text, 3), mode, messages=[{"role": "user", "content": "x"}, {"role": "assistant", "content": before}])

    assert expected == (run.text if mode == "live" else run.corrections[0])


def test_an_answer_that_goes_on_in_json_is_left_alone() -> None:
    """Its own first character need not show it."""
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": ' {"answer": '}]
    run = Run(["I think we can go."], "live", messages=messages)

    assert "I think we can go." == run.text
    assert run.note is None


@pytest.mark.parametrize(
    ("text", "is_left"),
    [
        ("[", False),
        ("[1] I think we can go.", False),
        ("[x] I think we can go.", False),
        ("[  {", True),
        ('\n [\n"I think we can go."', True),
        ("[ ]", True),
        ("  {", True),
        ("<a> {", False),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 99])
def test_what_counts_as_json(text: str, is_left: bool, size: int) -> None:
    """A brace, or a bracket before a brace, bracket or quotation mark, however it was cut."""
    live = Run(cut(text, size), "live")

    assert ("structured" if is_left else None) == live.note["skipped"]
    assert (text if is_left else transform(text, ALL)) == live.text


@pytest.mark.parametrize("asked", [{"logprobs": True}, {}])
def test_live_becomes_correct_where_logprobs_name_the_tokens(
    stm: Served, upstream: DemoUpstream, asked: dict[str, Any]
) -> None:
    """Whether they are asked for or just come."""
    upstream.play([{"text": {"content": "I think we can go.", "logprobs": 1}}])

    with stm.ask(stm_mode="live", **asked) as stream:
        data = stream.data()

    assert "I think we can go." == texts(data)
    assert "We can go." == data[-3]["x_g0dm0d3"]["final_content"]
    assert "correct" == data[-2]["x_g0dm0d3"]["pipeline"]["stm"]["mode"]


@pytest.mark.parametrize("mode", ["correct", "live"])
def test_over_the_limit_the_rest_passes_raw(serve: Callable[..., Served], upstream: DemoUpstream, mode: str) -> None:
    """No correction is sent then, and the metadata says too_long."""
    served = serve(SLUICE_PIPELINE="on", SLUICE_STM_MAX_CHARS="20")
    text = "I think we can go. I think we can stay."
    upstream.play([{"text": cut(text, 3)}])

    with served.ask(stm_mode=mode) as stream:
        data = stream.data()

    assert ("We can go. I think we can stay." if mode == "live" else text) == texts(data)
    assert not [chunk for chunk in data[:-2] if "x_g0dm0d3" in chunk]
    assert "too_long" == data[-2]["x_g0dm0d3"]["pipeline"]["stm"]["skipped"]


def test_other_fields_overtake_held_text(stm: Served, upstream: DemoUpstream) -> None:
    """Reasoning and tool calls do not wait for text that is held back."""
    upstream.play([{"text": ["I think "]}, {"reasoning": "hm"}, {"text": ["we can go."]}, {"tool_call": "f"}])

    with stm.ask(stm_mode="live") as stream:
        data = stream.data()

    deltas = [chunk["choices"][0]["delta"] for chunk in data[:-2]]
    kinds = [next((k for k in ("content", "reasoning", "tool_calls") if delta.get(k)), "") for delta in deltas]
    assert "We can go." == texts(data)
    assert kinds.index("reasoning") < kinds.index("tool_calls") < kinds.index("content")


def test_citations_move_with_the_text(stm: Served, upstream: DemoUpstream) -> None:
    """In live mode places in the text are told as the client sees them; in mode correct as they were."""
    citation = {"type": "url_citation", "url_citation": {"url": "https://x.y", "start_index": 8, "end_index": 14}}
    for _ in range(2):
        upstream.play(
            [{"text": "I think we can go. That is all there is to say. "}, {"annotations": {"items": [citation]}}]
        )

    places = []
    for mode in ("live", "correct"):
        with stm.ask(stm_mode=mode) as stream:
            data = stream.data()
        deltas = [choice["delta"] for chunk in data[:-1] for choice in chunk["choices"]]
        moved = next(delta["annotations"][0] for delta in deltas if "annotations" in delta)
        places.append((moved["url_citation"]["start_index"], moved["url_citation"]["end_index"]))

    assert [(0, 6), (8, 14)] == places


@pytest.mark.parametrize("place", [10**30, -(10**30), -5, 2**63, 1.5, "3", None, True])
@pytest.mark.parametrize("stream", [True, False])
def test_a_citation_of_an_odd_place_ends_no_answer(
    stm: Served, upstream: DemoUpstream, place: Any, stream: bool
) -> None:
    """Whatever upstream says of where it stands, the text and the citation arrive."""
    citation = {"type": "url_citation", "url_citation": {"url": "https://x.y", "start_index": 3, "end_index": place}}
    upstream.play([{"text": "I think we can go. That is all. "}, {"annotations": {"items": [citation]}}])

    with stm.ask(stream=stream, stm_mode="live") as response:
        data = response.data() if stream else [response.json()]

    assert 200 == response.status and not [answer for answer in data if "error" in answer]
    assert [citation["url_citation"]["url"]] == [
        item["url_citation"]["url"]
        for answer in (data[:-1] if stream else data)
        for choice in answer["choices"]
        for item in (choice.get("delta") or choice.get("message") or {}).get("annotations", ())
    ]


def test_a_cut_stream_gives_what_was_held(stm: Served, upstream: DemoUpstream) -> None:
    """A failure decides held text as the end of the text; no correction follows."""
    upstream.play([{"text": ["We go. I think "]}, {"cut": "fin"}])

    with stm.ask(stm_mode="live") as stream:
        data = stream.data()

    assert "We go. I think " == texts(data[:-2])
    assert "upstream_cut" == data[-2]["error"]["code"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stm_modules", "hedge_reducer"),
        ("stm_modules", ["nope"]),
        ("stm_modules", [1]),
        ("stm_mode", "slow"),
        ("stm_mode", 1),
    ],
)
def test_wrong_values_are_a_400(stm: Served, upstream: DemoUpstream, field: str, value: Any) -> None:
    """The error names the field and what is allowed; nothing goes upstream."""
    with stm.ask(**{field: value}) as response:
        error = response.json()["error"]

    assert (400, field) == (response.status, error["param"])
    assert ("hedge_reducer" if field == "stm_modules" else "live") in error["message"]
    assert not upstream.requests


@pytest.mark.parametrize("options", [{"modules": ["nope"]}, {"mode": "slow"}])
def test_wrong_settings_stop_the_start(options: dict[str, Any]) -> None:
    """With the setting's name."""
    with pytest.raises(ConfigurationError, match="SLUICE_STM_"):
        Stm(**options)


def test_transform_gives_the_same_as_a_stream(stm: Served) -> None:
    """The endpoint's result is the whole-text one."""
    with open_stream(f"{stm.url}/v1/transform", {"text": RAW, "modules": ALL}) as response:
        answer = response.json()

    assert {"original_text": RAW, "transformed_text": DONE, "modules_applied": ALL, "available_modules": ALL} == answer


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "text"),
        ({"text": ""}, "text"),
        ({"text": "x" * 50_001}, "text"),
        ({"text": 5}, "text"),
        ({"text": "x", "modules": ["y"]}, "modules"),
    ],
)
def test_transform_refuses_what_it_cannot_take(stm: Served, body: dict[str, Any], param: str) -> None:
    """Text of 1 to 50,000 characters and known modules."""
    with open_stream(f"{stm.url}/v1/transform", body) as response:
        assert (400, param) == (response.status, response.json()["error"]["param"])


def test_the_modules_are_listed(stm: Served) -> None:
    """With a description each."""
    with request("GET", f"{stm.url}/v1/transform/modules") as response:
        assert ALL == [module["id"] for module in response.json()["modules"]]


def test_fields_are_checked_before_anything_runs() -> None:
    """Also where STM would not run."""
    request_ = ChatRequest({"messages": [{"role": "user", "content": "x"}]}, {"stm_mode": "x", "stm_modules": []}, True)

    with pytest.raises(RequestError):
        Pipeline([Stm()]).run(request_)


def chunk_of(*choices: dict[str, Any]) -> Any:
    """Make a chunk of choices, each given by its index, delta and whatever else."""
    ended = [{"finish_reason": None, **choice} for choice in choices]
    return {"id": "c", "object": "o", "created": 1, "model": "m", "choices": ended}


def start(mode: str) -> Any:
    """Give the pipeline's run of one request."""
    body = {"messages": [{"role": "user", "content": "x"}]}
    return Pipeline([Stm()]).run(ChatRequest(body, {"stm_mode": mode, "stm_modules": ALL}, True))


def test_chunks_left_with_nothing_are_dropped() -> None:
    """But a role, logprobs, other choices and further fields still go out."""
    run = start("live")

    assert [chunk_of({"index": 0, "delta": {"role": "assistant", "content": ""}})] == run.feed(
        chunk_of({"index": 0, "delta": {"role": "assistant", "content": "I "}})
    )
    assert [] == run.feed(chunk_of({"index": 0, "delta": {"content": "think "}}))
    assert [chunk_of({"index": 0, "delta": {}, "logprobs": {"content": []}})] == run.feed(
        chunk_of({"index": 0, "delta": {"content": "we "}, "logprobs": {"content": []}})
    )
    other = {"index": 1, "delta": {"role": "assistant", "content": "Hello"}}
    assert [chunk_of(other)] == run.feed(chunk_of({"index": 0, "delta": {"content": "can"}}, dict(other)))
    assert [{**chunk_of({"index": 0, "delta": {}}), "debug": {"x": 1}}] == run.feed(
        {**chunk_of({"index": 0, "delta": {"content": " go"}}), "debug": {"x": 1}}
    )


def test_held_text_goes_out_right_before_its_finish_chunk() -> None:
    """With the head of the finish chunk, each choice's before its own."""
    run = start("live")
    for index in (0, 1):
        run.feed(chunk_of({"index": index, "delta": {"content": "I think we can go"}}))
    finish = chunk_of({"index": 1, "delta": {}, "finish_reason": "stop"})

    assert [chunk_of({"index": 1, "delta": {"content": "We can go"}}), finish] == run.feed(dict(finish))
    assert ["We can go"] == [chunk["choices"][0]["delta"]["content"] for chunk in run.finish()]


def test_a_correction_stands_right_before_its_finish_chunk() -> None:
    """One for each choice that changed, also when a chunk ends several."""
    run = start("correct")
    for index, text in enumerate(["I think we can go.", "Nothing.", "Perhaps it rains."]):
        run.feed(chunk_of({"index": index, "delta": {"content": text}}))
    finish = chunk_of(*({"index": index, "delta": {}, "finish_reason": "stop"} for index in range(3)))

    *corrections, last = run.feed(finish)

    assert finish == last
    assert [(0, "We can go."), (2, "It rains.")] == [
        (chunk["choices"][0]["index"], chunk["x_g0dm0d3"]["final_content"]) for chunk in corrections
    ]
    assert ["id", "object", "created", "model", "choices", "x_g0dm0d3"] == list(corrections[0])


def test_the_metadata_counts_over_all_choices() -> None:
    """Lengths add up; the most held is that of any choice."""
    run = start("live")
    raw = ["I think we can go.", "Nothing.", "Perhaps it rains."]
    for index, text in enumerate(raw):
        run.feed(chunk_of({"index": index, "delta": {"content": text}}))
        run.feed(chunk_of({"index": index, "delta": {}, "finish_reason": "stop"}))
    note = run.notes["stm"]

    assert sum(map(len, raw)) == note["original_length"]
    assert len("We can go.Nothing.It rains.") == note["transformed_length"]
    assert note["changed"] and len("I think we can go.") >= note["held_chars_max"] > 0


def test_content_that_is_no_text_passes() -> None:
    """null, and whatever else an upstream may send."""
    run = start("live")
    for content in (None, "", 5, [{"type": "text", "text": "I think we can go."}]):
        chunk = chunk_of({"index": 0, "delta": {"content": content}})
        assert [json.loads(json.dumps(chunk))] == run.feed(chunk)
