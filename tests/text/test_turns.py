"""Long work on text lets others have their turn, however long the text."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.stages.stm import Stm
from app.text import transducer, triggers
from app.text.perturb import perturb_matches
from app.text.transducer import MODULES, Transducer, transform
from app.text.triggers import TriggerSet

SENTENCE = "I think we should probably utilize the gate, and it is perhaps better to wait. "


@pytest.mark.parametrize("size", [10_000, 100_000])
def test_stm_pauses_after_every_thousand_characters(size: int) -> None:
    """What is worked on between two pauses is bounded by characters, so that no other stream waits for the rest."""
    pauses: list[None] = []

    transform(SENTENCE * (size // len(SENTENCE)), MODULES, lambda: pauses.append(None))

    assert size / 1100 < len(pauses)


def test_pauses_change_nothing() -> None:
    """The text that comes out is the same with and without them."""
    text = SENTENCE * 200

    assert transform(text, MODULES) == transform(text, MODULES, lambda: None)


def test_a_short_piece_takes_no_pause() -> None:
    """A stream's own chunks cost no turn of the event loop."""
    pauses: list[None] = []
    transducer = Transducer(MODULES, pause=lambda: pauses.append(None))
    for word in SENTENCE.split(" "):
        transducer.feed(word + " ")
    transducer.finish()

    assert [] == pauses


def test_finding_and_perturbing_pause() -> None:
    """A message of 100 KB with a match at every other word is worked on in parts."""
    finding: list[None] = []
    perturbing: list[None] = []
    text = SENTENCE * 1250
    matches = list(TriggerSet(["gate", "think", "wait", "the", "it"]).find(text, lambda: finding.append(None)))

    perturb_matches(
        text, matches, "leetspeak", "medium", Random(1), lambda change: None, lambda: perturbing.append(None)
    )

    assert 5 < len(finding)
    assert len(matches) / 600 < len(perturbing)


@pytest.mark.parametrize("text", ["你好世界" * 20_000, "😀👨‍👩‍👧" * 20_000, "the\n" * 20_000, "é" * 80_000 + " the"])
def test_text_without_spaces_is_cut_into_tokens_in_parts_too(text: str) -> None:
    """What is looked at between two pauses is bounded whatever the script."""
    pauses: list[None] = []

    list(TriggerSet(["the"]).find(text, lambda: pauses.append(None)))

    assert len(triggers._tokens_of(text, None)[0]) / triggers._PART < len(pauses)


@given(text=st.text(alphabet=st.sampled_from("ab \n\r\u0301\u200d\u0600é世😀c"), max_size=60), part=st.integers(1, 9))
def test_parts_change_no_token(text: str, part: int) -> None:
    """Wherever the parts end, tokens are those of the whole text."""
    whole = triggers._tokens_of(text, None)
    kept, triggers._PART = triggers._PART, part
    try:
        assert whole == triggers._tokens_of(text, None)
    finally:
        triggers._PART = kept


def test_patterns_are_compiled_before_the_first_request() -> None:
    """Making the stage leaves nothing to compile for any choice of modules."""
    transducer._plan.cache_clear()
    Stm()
    misses = transducer._plan.cache_info().misses
    for modules in ([], MODULES[:1], MODULES[1:], MODULES[::2], MODULES):
        transform(SENTENCE, modules)

    assert misses == transducer._plan.cache_info().misses
