"""Long work on text lets others have their turn, however long the text."""

from __future__ import annotations

from random import Random

import pytest

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
    matches = TriggerSet(["gate", "think", "wait", "the", "it"]).find(text, lambda: finding.append(None))

    perturb_matches(text, matches, "leetspeak", "medium", Random(1), lambda: perturbing.append(None))

    assert 5 < len(finding)
    assert len(matches) / 600 < len(perturbing)
