"""casual_mode: each sentence of its rules, both ways."""

from __future__ import annotations

import pytest

from app.text.transducer import transform

CASUAL = ["casual_mode"]


def check(text: str, expected: str) -> None:
    """Compare, and see that a second pass finds nothing more."""
    assert expected == transform(text, CASUAL)
    assert expected == transform(expected, CASUAL)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("However,", "But"),
        ("Therefore,", "So"),
        ("Consequently,", "So"),
        ("Furthermore,", "Also,"),
        ("Moreover,", "Also,"),
        ("Additionally,", "Plus,"),
        ("Nevertheless,", "Still,"),
    ],
)
def test_linking_words(old: str, new: str) -> None:
    """At a sentence start with a comma; But and So lose it."""
    check(f"{old} it fell.", f"{new} it fell.")
    check(f"It rose. {old} it fell.", f"It rose. {new} it fell.")
    check(f"- {old} it fell.", f"- {new} it fell.")
    check(f"Well, {old.lower()} it fell.", f"Well, {new.lower()} it fell.")
    check(f"{old.upper()} it fell.", f"{new.upper()} it fell.")
    check(f"{old[:-1]} it fell.", f"{old[:-1]} it fell.")
    check(f"It is, {old.lower()} late.", f"It is, {old.lower()} late.")
    check(f'"{old} it fell."', f'"{old} it fell."')
    check(old, old)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We utilize it.", "We use it."),
        ("He utilizes it.", "He uses it."),
        ("It was utilized.", "It was used."),
        ("Utilizing this, we won.", "Using this, we won."),
        ("You can obtain a token.", "You can get a token."),
        ("He obtains a token.", "He gets a token."),
        ("We obtained the results.", "We got the results."),
        ("The team obtained a permit.", "The team got a permit."),
        ("After obtaining a token, go.", "After getting a token, go."),
        ("Commence the attack.", "Start the attack."),
        ("The meeting commences at 9.", "The meeting starts at 9."),
        ("We commenced work.", "We started work."),
        ("Commencing now, we run.", "Starting now, we run."),
        ("Terminate the process.", "End the process."),
        ("The loop terminates.", "The loop ends."),
        ("The contract was terminated.", "The contract was ended."),
        ("Terminating it is easy.", "Ending it is easy."),
        ("UTILIZE THE API", "USE THE API"),
    ],
)
def test_verbs(text: str, expected: str) -> None:
    """With their inflections and in their case."""
    check(text, expected)


@pytest.mark.parametrize(
    "text",
    [
        "Utilization is high.",
        "The under-utilized node",
        "The utilized memory is high.",
        "utilize/obtain",
        "user/utilize",
        "See utilize.py and utilize() here.",
        "`utilize`",
        '"utilize"',
        "The results obtained are good.",
        "The results were obtained by hand.",
        "He has obtained a permit.",
        "This relation obtains when x is 1.",
        "To obtain, call us.",
        "A null-terminated string.",
        "It takes NUL terminated output.",
        "The terminated process is gone.",
        "They terminated the employee.",
        "They will terminate employees.",
        "He was terminated.",
        "Le projet commence demain.",
        "On commence par le début.",
        "terminate il programma",
    ],
)
def test_verbs_that_mean_something_else_stay(text: str) -> None:
    """Adjectives, people, parts of other words, protected tokens, other languages."""
    check(text, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("To purchase a car, go.", "To buy a car, go."),
        ("I want to purchase tickets.", "I want to buy tickets."),
        ("I want to purchase.", "I want to buy."),
        ("You can purchase it here.", "You can buy it here."),
        ("He will purchase the car.", "He will buy the car."),
        ("Please purchase a ticket.", "Please buy a ticket."),
        ("They purchase cars.", "They buy cars."),
        ("We purchased a car.", "We bought a car."),
    ],
)
def test_purchase_as_a_verb(text: str, expected: str) -> None:
    """After to, a modal, please, I, we, you and they."""
    check(text, expected)


@pytest.mark.parametrize(
    "text",
    [
        "Purchase a car.",
        "The purchase was late.",
        "purchase orders are late",
        "The purchase order is late.",
        "Proof of purchase is required.",
        "Subject to purchase terms.",
        "Add to purchase list.",
        "You may purchase orders.",
        "She purchased a car.",
        "It was purchased by him.",
        "He purchases it.",
    ],
)
def test_purchase_otherwise_stays(text: str) -> None:
    """It may be a noun."""
    check(text, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Prior to launch, test it.", "Before launch, test it."),
        ("It was so prior to 2020.", "It was so before 2020."),
        ("Subsequent to this, it fell.", "After this, it fell."),
        ("In order to win, play.", "To win, play."),
        ("IN ORDER TO WIN", "TO WIN"),
        ("We waited due to the fact that it rained.", "We waited because it rained."),
        ("At this point in time, we wait.", "Now, we wait."),
        ("We wait at this point in time.", "We wait now."),
        ("In the event that it fails, retry.", "If it fails, retry."),
        ("Call us in the event that you fail.", "Call us if you fail."),
        ("We test prior to purchase.", "We test before purchase."),
    ],
)
def test_phrases(text: str, expected: str) -> None:
    """In their case."""
    check(text, expected)


@pytest.mark.parametrize(
    "text",
    [
        "The version prior to.",
        "He has a prior  to show.",
        "prior\nto launch",
        "in order not to fail",
        "sorted in order, to be clear",
        "in the event that took place",
        "in the event of failure",
        "prior to-do items",
        "prior in order to launch",
    ],
)
def test_phrases_that_are_none_stay(text: str) -> None:
    """Other words, other lines, other meanings."""
    check(text, text)


def test_all_together() -> None:
    """The worked example."""
    check(
        "However, you must utilize the API prior to launch. In order to win, obtain tokens.",
        "But you must use the API before launch. To win, get tokens.",
    )
