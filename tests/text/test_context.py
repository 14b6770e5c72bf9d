"""The context detector: what has to come out, how good it is on messages it was not fitted to, and hostile input."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from app.text.context import CONTEXTS, detect

DATA = Path(__file__).parent.parent / "data" / "contexts"
HELDOUT: list[dict[str, Any]] = [json.loads(line) for line in (DATA / "heldout.jsonl").read_text().splitlines()]
EXAMINED: list[dict[str, Any]] = [json.loads(line) for line in (DATA / "examined.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("message", "context"),
    [
        ("Write a Python function to sort a list of integers and debug the error in it", "code"),
        ("What is the CAP theorem?", "code"),
        ("Compose a haiku about the sea and its slow winter tides", "creative"),
        ("Compare the pros and cons of solar and wind power, and explain the trade-offs", "analytical"),
        ("Hello!", "conversational"),
        ("Unleash total madness upon the quiet library tonight!!!!", "chaotic"),
    ],
)
def test_contexts_that_must_come_out(message: str, context: str) -> None:
    """Plain cases."""
    assert context == detect(message).context


@pytest.mark.parametrize(
    ("message", "context"),
    [
        ("The type of return we import from Spain is olives and wine mostly", "code"),
        ("Break this down for me step by step", "chaotic"),
    ],
)
def test_contexts_that_must_not(message: str, context: str) -> None:
    """Cases in which single words mislead."""
    assert context != detect(message).context


@pytest.mark.parametrize("kept", ["heldout", "examined"])
def test_the_set_apart_messages_are_the_ones_fixed_before_fitting(kept: str) -> None:
    """The file's hash is the committed one."""
    digest, name = (DATA / f"{kept}.sha256").read_text().split()

    assert digest == hashlib.sha256((DATA / name).read_bytes()).hexdigest()


def test_no_set_apart_message_or_family_was_fitted_to() -> None:
    """Neither a text nor a family stands on both sides."""
    fitted = [
        json.loads(line)
        for name in ("train", "train_extra", "train_more", "train_wide")
        for line in (DATA / f"{name}.jsonl").read_text().splitlines()
    ]

    for kept in (HELDOUT, EXAMINED):
        assert not {row["text"] for row in kept} & {row["text"] for row in fitted}
        assert not {row["family"] for row in kept} & {row["family"] for row in fitted}


@pytest.mark.parametrize(
    ("kept", "of_all", "of_hard"),
    [(HELDOUT, 0.93, 0.83), (EXAMINED, 0.97, 0.94), (HELDOUT + EXAMINED, 0.96, 0.9)],
    ids=["heldout", "examined", "both"],
)
def test_confidence_is_higher_where_it_is_right(kept: list[dict[str, Any]], of_all: float, of_hard: float) -> None:
    """On the messages set apart; the shares of right ones are kept from falling behind what is documented."""
    found = [(detect(row["text"], [m["content"] for m in row.get("history", ())]), row) for row in kept]
    right = [d.confidence for d, row in found if d.context == row["label"]]
    wrong = [d.confidence for d, row in found if d.context != row["label"]]
    hard = [d.context == row["label"] for d, row in found if row["difficulty"] == "hard"]

    assert sum(right) / len(right) > sum(wrong) / len(wrong) + 0.1
    assert len(right) / len(found) >= of_all
    assert sum(hard) / len(hard) >= of_hard


@pytest.mark.parametrize(
    "message", ["", " \n", "\0", "\ud800", "a" * 1_000_000, "😀" * 5000, "é" * 9, "```", "\u0301" * 100, "漢" * 5000]
)
def test_any_input_is_decided(message: str) -> None:
    """Hostile input gives some context, a confidence within bounds, and short evidence."""
    found = detect(message, [message, message])

    assert found.context in CONTEXTS
    assert 0 <= found.confidence <= 1
    assert all(len(piece.pattern) <= 40 and piece.source in ("current", "history") for piece in found.evidence)
    assert 1 == pytest.approx(sum(share for _, _, share in found.ranked()))


def test_decisions_are_deterministic_and_explained() -> None:
    """The same message gives the same decision, with the evidence that spoke for it."""
    message = "Compare two databases for me and explain the trade-offs"

    assert detect(message) == detect(message)
    assert "compare" in [piece.pattern for piece in detect(message).evidence]


def test_the_middle_of_a_very_long_message_is_not_looked_at() -> None:
    """Work is bounded: only both ends of a message count."""
    ends = "Please sort this list. " * 200, " Thank you." * 100

    assert detect(ends[0] + "x" * 10_000 + ends[1]).scores == detect(ends[0] + "y" * 900_000 + ends[1]).scores
