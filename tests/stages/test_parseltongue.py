"""Parseltongue as a stage: its fields, what it touches, what it notes, its routes and settings."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from app.errors import ConfigurationError, RequestError
from app.pipeline import ChatRequest, Notes, Pipeline
from app.settings import Settings
from app.stages import stage_classes
from app.stages.parseltongue import Parseltongue

ON: dict[str, Any] = {"parseltongue": True, "parseltongue_triggers": ["lantern"], "parseltongue_seed": 7}
WRONG: list[tuple[str, Any]] = [
    ("parseltongue", 1),
    ("parseltongue", "true"),
    ("parseltongue_technique", "rot13"),
    ("parseltongue_technique", "Leetspeak"),
    ("parseltongue_technique", True),
    ("parseltongue_technique", ["zwj"]),
    ("parseltongue_intensity", "extreme"),
    ("parseltongue_intensity", 2),
    ("parseltongue_triggers", "lantern"),
    ("parseltongue_triggers", {"lantern": 1}),
    ("parseltongue_triggers", ["lantern", 3]),
    ("parseltongue_triggers", ["lantern", None]),
    ("parseltongue_triggers", [""]),
    ("parseltongue_triggers", ["  "]),
    ("parseltongue_triggers", ["x" * 101]),
    ("parseltongue_triggers", ["x"] * 201),
    ("custom_triggers", "lantern"),
    ("custom_triggers", ["x"] * 201),
    ("parseltongue_seed", True),
    ("parseltongue_seed", 1.5),
    ("parseltongue_seed", "7"),
    ("parseltongue_seed", 2**63),
]


def user(text: str) -> dict[str, Any]:
    """A user message."""
    return {"role": "user", "content": text}


def prepared(
    options: dict[str, Any], messages: list[Any], stage: Parseltongue | None = None
) -> tuple[list[Any], dict[str, Any] | None]:
    """The messages that go upstream, and the stage's notes."""
    notes: Notes = {}
    body = {"model": "test/model", "messages": messages}
    request = (stage or Parseltongue()).prepare(ChatRequest(body, options, stream=True), notes)
    assert request.body["model"] == body["model"]
    return request.body["messages"], notes["parseltongue"]


def refused(call: Any, *args: Any) -> RequestError:
    """The error that a call raises."""
    with pytest.raises(RequestError) as caught:
        call(*args)
    return caught.value


class TestRequest:
    """The chat completion's fields and messages."""

    @pytest.mark.parametrize("options", [{}, {"parseltongue": False}, {"parseltongue": None, "custom_triggers": ["a"]}])
    def test_is_off_unless_asked_for(self, options: dict[str, Any]) -> None:
        """Without the field, or with false or null, the request is passed on as it is."""
        body = {"messages": [user("a lantern")]}
        request = ChatRequest(body, options, stream=False)
        notes: Notes = {}
        assert request is Parseltongue().prepare(request, notes)
        assert {"parseltongue": None} == notes

    def test_perturbs_user_text_only(self) -> None:
        """System, developer, assistant and tool messages and everything that is no text part stay the same."""
        image = {"type": "image_url", "image_url": {"url": "https://example.org/lantern.png"}, "text": "lantern"}
        kept: list[Any] = [
            {"role": "system", "content": "lantern"},
            {"role": "developer", "content": "lantern"},
            {"role": "assistant", "content": "lantern", "tool_calls": [{"function": {"arguments": '{"a":"lantern"}'}}]},
            {"role": "tool", "content": "lantern", "tool_call_id": "lantern"},
            {"role": "assistant", "content": None},
            {"role": "user", "content": None},
            {"role": "user", "content": [image, {"type": "text", "text": None}, {"type": "lantern"}, "lantern"]},
        ]
        parts = {"role": "user", "name": "lantern", "content": [image, {"type": "text", "text": "a lantern", "x": 1}]}
        messages, notes = prepared({**ON, "parseltongue_technique": "phonetic"}, [*kept, user("lantern"), parts])
        assert [*kept, user("lantern"), parts] == messages
        options = {**ON, "parseltongue_technique": "mixedcase"}
        messages, notes = prepared(options, [*kept, user("the lantern"), parts])
        assert kept == messages[: len(kept)]
        assert user("the LaNtErN") == messages[-2]
        expected = {**parts, "content": [image, {"type": "text", "text": "a LaNtErN", "x": 1}]}
        assert expected == messages[-1]
        assert notes is not None
        assert 2 == notes["transformations_count"]

    def test_never_changes_the_body_it_was_given(self) -> None:
        """What changes is copied, down to the text part."""
        messages = [user("lantern"), {"role": "user", "content": [{"type": "text", "text": "lantern"}]}]
        before = copy.deepcopy(messages)
        assert before != prepared(ON, messages)[0]
        assert before == messages

    def test_counts_over_all_messages_and_names_no_word(self) -> None:
        """The notes hold counts and choices: different triggers found, and occurrences that changed."""
        options = {**ON, "parseltongue_triggers": ["Lantern", "river", "absent"]}
        notes = prepared(options, [user("lantern river LANTERN"), user("a river")])[1]
        expected = {
            "triggers_found": 2,
            "technique_used": "leetspeak",
            "intensity": "medium",
            "seed": 7,
            "transformations_count": 4,
        }
        assert expected == notes

    def test_an_occurrence_without_a_substitute_is_found_but_not_counted_as_changed(self) -> None:
        """A word that the technique cannot change is found and stays."""
        options = {**ON, "parseltongue_triggers": ["my"], "parseltongue_technique": "phonetic"}
        messages, notes = prepared(options, [user("my")])
        assert notes is not None
        assert ([user("my")], 1, 0) == (messages, notes["triggers_found"], notes["transformations_count"])

    @pytest.mark.parametrize("seed", [7, 0, -1, 2**63 - 1, -(2**63)])
    def test_the_same_seed_gives_the_same_text(self, seed: int) -> None:
        """Two requests with one seed go upstream alike, and the seed is noted."""
        options = {**ON, "parseltongue_technique": "random", "parseltongue_seed": seed}
        messages = [user("lantern " * 20), user("lantern")]
        first, second = prepared(options, messages), prepared(options, messages)
        assert first == second
        assert first[1] is not None
        assert seed == first[1]["seed"]

    def test_a_longer_conversation_keeps_what_was_sent_before(self) -> None:
        """With the same seed, earlier messages come out the same when a later one is added."""
        options = {**ON, "parseltongue_technique": "random"}
        first = prepared(options, [user("lantern " * 20)])[0]
        assert first == prepared(options, [user("lantern " * 20), user("lantern")])[0][:1]

    def test_without_a_seed_one_is_chosen_and_noted(self) -> None:
        """The noted seed replays the text; two requests have different ones."""
        options = {**ON, "parseltongue_technique": "random", "parseltongue_seed": None}
        messages = [user("lantern " * 20)]
        made, notes = prepared(options, messages)
        assert notes is not None
        assert made == prepared({**options, "parseltongue_seed": notes["seed"]}, messages)[0]
        seeds = {(prepared(options, messages)[1] or {})["seed"] for _ in range(5)}
        assert len(seeds) > 1
        assert all(0 <= seed < 2**31 for seed in seeds)

    @pytest.mark.parametrize(("technique", "expected"), [("phonetic", "kaktus"), ("mixedcase", "CaCtUs")])
    def test_custom_triggers_is_another_name(self, technique: str, expected: str) -> None:
        """Both names of the list do the same; null counts as left out; both alike are accepted."""
        base = {"parseltongue": True, "parseltongue_technique": technique}
        for names in ({"custom_triggers": ["cactus"]}, {"parseltongue_triggers": ["cactus"]}):
            assert [user(expected)] == prepared({**base, **names}, [user("cactus")])[0]
        both = {"custom_triggers": ["cactus"], "parseltongue_triggers": None}
        assert [user(expected)] == prepared({**base, **both}, [user("cactus")])[0]
        alike = {"custom_triggers": ["cactus"], "parseltongue_triggers": ["cactus"]}
        assert [user(expected)] == prepared({**base, **alike}, [user("cactus")])[0]

    def test_two_different_lists_are_refused(self) -> None:
        """A request that names both lists with different words does not say which it means."""
        error = refused(prepared, {**ON, "custom_triggers": ["river"]}, [user("x")])
        assert ("custom_triggers", 400) == (error.param, error.status)

    @pytest.mark.parametrize(("field", "value"), WRONG)
    @pytest.mark.parametrize("is_on", [True, False, None])
    def test_wrong_values_are_refused(self, field: str, value: Any, is_on: bool | None) -> None:
        """Each field is checked, whether Parseltongue is asked for or not, and the error names it."""
        options: dict[str, Any] = {"parseltongue": is_on, "parseltongue_triggers": ["a"], field: value}
        if field == "custom_triggers":
            del options["parseltongue_triggers"]
        error = refused(prepared, options, [user("x")])
        assert (field, 400) == (error.param, error.status)
        assert error.message.startswith(f"{field}: expected ")

    def test_messages_say_what_is_allowed(self) -> None:
        """An unknown word is answered with the words there are; limits are told."""
        said = [
            refused(prepared, {field: value}, [user("x")]).message
            for field, value in (
                ("parseltongue_technique", "rot13"),
                ("parseltongue_intensity", "z" * 90),
                ("parseltongue_triggers", ["x"] * 201),
                ("parseltongue_triggers", ["ok", "secret" * 20]),
            )
        ]
        expected = [
            "parseltongue_technique: expected one of leetspeak, unicode, zwj, mixedcase, phonetic, random, got 'rot13'",
            f"parseltongue_intensity: expected one of light, medium, heavy, got '{'z' * 40}…'",
            "parseltongue_triggers: expected up to 200 words or phrases, got 201",
            "parseltongue_triggers: expected 1 to 100 characters each, got 120 in number 2",
        ]
        assert expected == said

    def test_takes_two_hundred_triggers_of_a_hundred_characters(self) -> None:
        """The limits themselves are allowed."""
        triggers = [f"{number:03}".ljust(100, "x") for number in range(200)]
        options = {**ON, "parseltongue_triggers": triggers}
        notes = prepared(options, [user(" ".join(triggers))])[1]
        assert notes is not None
        assert 200 == notes["triggers_found"]

    @pytest.mark.parametrize("triggers", [None, []])
    def test_asked_for_without_triggers_is_refused(self, triggers: Any) -> None:
        """With no words from the request or the operator the error says so."""
        error = refused(prepared, {"parseltongue": True, "parseltongue_triggers": triggers}, [user("x")])
        assert ("parseltongue_triggers", 400) == (error.param, error.status)
        assert "got none" in error.message
        assert "SLUICE_PARSELTONGUE_TRIGGERS" in error.message

    def test_an_endless_text_is_refused(self) -> None:
        """Over a million characters of user text would hold up the worker's other streams."""
        messages = [user("x" * 600_000), user("x" * 400_001)]
        assert "parseltongue" == refused(prepared, ON, messages).param
        assert messages == prepared({}, messages)[0]

    def test_takes_its_fields_out_of_the_body(self) -> None:
        """All six names are the stage's own."""
        names = ["custom_triggers", "parseltongue"]
        names += [f"parseltongue_{what}" for what in ("intensity", "seed", "technique", "triggers")]
        assert names == sorted(Pipeline([Parseltongue()]).fields)

    def test_is_found_among_the_shipped_stages(self) -> None:
        """Its file is all that is needed."""
        assert Parseltongue in stage_classes()


class TestSettings:
    """The operator's defaults."""

    def test_the_shipped_settings_leave_it_off(self) -> None:
        """Out of the box there are no words and nothing is perturbed."""
        stage = Parseltongue.from_settings(Settings())
        assert ([user("lantern")], None) == prepared({}, [user("lantern")], stage)

    def test_the_operator_can_turn_it_on_and_a_request_off(self) -> None:
        """The operator's technique, intensity and words hold where the request is silent."""
        settings = Settings.from_mapping(
            {
                "SLUICE_PARSELTONGUE": "on",
                "SLUICE_PARSELTONGUE_TECHNIQUE": "phonetic",
                "SLUICE_PARSELTONGUE_INTENSITY": "heavy",
                "SLUICE_PARSELTONGUE_TRIGGERS": "cactus, quiet fox",
            }
        )
        stage = Parseltongue.from_settings(settings)
        messages, notes = prepared({}, [user("cactus quiet fox")], stage)
        assert [user("kaktus kwiet foks")] == messages
        assert notes is not None
        assert ("phonetic", "heavy") == (notes["technique_used"], notes["intensity"])
        assert None is prepared({"parseltongue": False}, [user("cactus")], stage)[1]

    def test_the_request_goes_before_the_operator(self) -> None:
        """Words and technique of the request replace the operator's; an empty list has no words."""
        stage = Parseltongue(on=True, technique="zwj", triggers=["cactus"])
        options = {"parseltongue_triggers": ["fox"], "parseltongue_technique": "phonetic"}
        assert [user("cactus foks")] == prepared(options, [user("cactus fox")], stage)[0]
        for name in ("parseltongue_triggers", "custom_triggers"):
            assert name == refused(prepared, {name: []}, [user("x")], stage).param

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("SLUICE_PARSELTONGUE_TECHNIQUE", {"parseltongue_technique": "rot13"}),
            ("SLUICE_PARSELTONGUE_INTENSITY", {"parseltongue_intensity": "extreme"}),
            ("SLUICE_PARSELTONGUE_TRIGGERS", {"parseltongue_triggers": ("x" * 101,)}),
            ("SLUICE_PARSELTONGUE_TRIGGERS", {"parseltongue_triggers": ("x",) * 201}),
            ("SLUICE_PARSELTONGUE_TRIGGERS", {"parseltongue_triggers": ("x", " ")}),
            ("SLUICE_PARSELTONGUE_TRIGGERS", {"parseltongue": True}),
        ],
    )
    def test_wrong_settings_stop_the_start(self, name: str, values: dict[str, Any]) -> None:
        """A value that cannot be used, or on without words, is one line with the setting's name."""
        with pytest.raises(ConfigurationError, match=f"{name}.*got") as caught:
            Parseltongue.from_settings(Settings(**values))
        assert "\n" not in caught.value.message


class TestEndpoints:
    """The routes below /parseltongue."""

    def test_routes(self) -> None:
        """Encode and detect are posted to, techniques are read."""
        expected = [
            ("POST", "/parseltongue/encode"),
            ("POST", "/parseltongue/detect"),
            ("GET", "/parseltongue/techniques"),
        ]
        assert expected == [(endpoint.method, endpoint.path) for endpoint in Parseltongue().endpoints()]

    def test_encode_lists_each_change(self) -> None:
        """The whole answer, for the technique without randomness."""
        body = {"text": "A Phoenix, my phoenix.", "technique": "phonetic", "custom_triggers": ["my", "phoenix", "owl"]}
        expected = {
            "original_text": "A Phoenix, my phoenix.",
            "transformed_text": "A Foeniks, my foeniks.",
            "triggers_found": ["phoenix", "my"],
            "technique_used": "phonetic",
            "transformations": [
                {"original": "Phoenix", "transformed": "Foeniks", "technique": "phonetic"},
                {"original": "phoenix", "transformed": "foeniks", "technique": "phonetic"},
            ],
        }
        assert expected == Parseltongue().encode(body)

    def test_encode_tells_what_random_drew(self) -> None:
        """Each change names the technique that made it; the answer names the one asked for."""
        body = {"text": "lantern " * 40, "technique": "random", "custom_triggers": ["lantern"], "seed": 1}
        answer = Parseltongue().encode(body)
        assert "random" == answer["technique_used"]
        used = {change["technique"] for change in answer["transformations"]}
        assert {"leetspeak", "unicode", "zwj", "mixedcase"} == used
        assert answer == Parseltongue().encode(body)

    def test_encode_does_what_the_stage_does(self) -> None:
        """The same seed gives the same text by either way."""
        options = {**ON, "parseltongue_technique": "random", "parseltongue_intensity": "heavy"}
        body = {"text": "lantern " * 9, "technique": "random", "intensity": "heavy", "custom_triggers": ["lantern"]}
        transformed = Parseltongue().encode({**body, "seed": 7})["transformed_text"]
        assert [user(transformed)] == prepared(options, [user("lantern " * 9)])[0]

    def test_detect_finds_each_trigger_once(self) -> None:
        """Triggers are listed as given, in the order in which they first occur."""
        body = {"text": "Lantern fox lantern", "custom_triggers": ["fox", "owl", "lantern"]}
        expected = {"text": "Lantern fox lantern", "triggers_found": ["lantern", "fox"], "count": 2}
        assert expected == Parseltongue().detect(body)

    def test_techniques_are_described_with_an_example(self) -> None:
        """Six techniques, each with an example that its word and the code make."""
        listed = Parseltongue().techniques({})["techniques"]
        ids = ["leetspeak", "unicode", "zwj", "mixedcase", "phonetic", "random"]
        assert ids == [technique["id"] for technique in listed]
        assert all({"id", "description", "example"} == technique.keys() for technique in listed)
        assert "phonetics → fonetiks" == listed[4]["example"]
        json.dumps(listed)

    def test_the_operators_words_are_used_where_none_are_given(self) -> None:
        """Encode and detect fall back to the setting, also while the stage is off."""
        stage = Parseltongue(technique="phonetic", triggers=["fox"])
        assert "foks" == stage.encode({"text": "fox"})["transformed_text"]
        assert ["fox"] == stage.detect({"text": "fox", "custom_triggers": None})["triggers_found"]

    @pytest.mark.parametrize("triggers", [None, []])
    def test_no_words_at_all_are_refused(self, triggers: Any) -> None:
        """Without words from the body or the operator both routes answer 400."""
        stage = Parseltongue()
        for handler in (stage.encode, stage.detect):
            error = refused(handler, {"text": "x", "custom_triggers": triggers})
            assert ("custom_triggers", 400) == (error.param, error.status)

    @pytest.mark.parametrize("text", [None, "", 3, ["a"], "x" * 100_001])
    def test_text_is_checked(self, text: Any) -> None:
        """Texts have 1 to 100,000 characters."""
        stage = Parseltongue(triggers=["fox"])
        for handler in (stage.encode, stage.detect):
            assert "text" == refused(handler, {"text": text}).param
            assert handler({"text": "x" * 100_000})["triggers_found"] == []

    @pytest.mark.parametrize(("field", "value"), [pair for pair in WRONG if pair[0] != "parseltongue"])
    def test_wrong_values_are_refused(self, field: str, value: Any) -> None:
        """The routes check as the chat field does, under their own names."""
        name = "custom_triggers" if field.endswith("triggers") else field.removeprefix("parseltongue_")
        error = refused(Parseltongue(triggers=["fox"]).encode, {"text": "x", name: value})
        assert (name, 400) == (error.param, error.status)
