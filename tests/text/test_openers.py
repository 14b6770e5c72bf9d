"""direct_mode: each sentence of its rules, both ways."""

from __future__ import annotations

import pytest

from app.text.openers import PHRASES
from app.text.transducer import Transducer, transform

DIRECT = ["direct_mode"]


def check(text: str, expected: str) -> None:
    """Compare, and see that a second pass finds nothing more."""
    assert expected == transform(text, DIRECT)
    assert expected == transform(expected, DIRECT)


@pytest.mark.parametrize("phrase", PHRASES)
@pytest.mark.parametrize("mark", [", ", "! ", ". ", ": ", "—", " — ", "\n", "\n\n", "!\n\n", ".\r\n\r\n"])
def test_every_opener_goes_with_each_mark(phrase: str, mark: str) -> None:
    """And the white space behind it; the next word takes its capital."""
    opener = phrase[0].upper() + phrase[1:]
    check(f"{opener}{mark}the file is ready.", "The file is ready.")
    check(f"{opener.replace(chr(39), '’')}{mark}The file is ready.", "The file is ready.")


@pytest.mark.parametrize(
    "text",
    [
        "Surely you jest.",
        "Sure-fire ways to win",
        "Sure thing! Here.",
        "Sure enough, it works.",
        "Sure? Here it is.",
        "Sure; here it is.",
        "Sure - here it is.",
        "Sure... here it is.",
        "Sure,here it is.",
        "Sure.com is a site.",
        "Of course not.",
        "Of course you can.",
        "Absolutely not. It is dangerous.",
        "Great question about Python!",
        "Great questions! Here.",
        "I understand that you are upset.",
        "I understand you. Go on.",
        "I'd be happy to help you move.",
        "Let me help you with that file.",
        "Thanks for asking me.",
    ],
)
def test_it_goes_only_when_set_off(text: str) -> None:
    """By a comma, exclamation mark, full stop, colon, em dash or line break."""
    check(text, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Great question! Sure, here it is.", "Here it is."),
        ("Great question! Great question! The answer is 4.", "The answer is 4."),
        ("Sure!\n\nI'd be happy to help you with that! Here:\n\n```js\nx\n```", "Here:\n\n```js\nx\n```"),
        ("Certainly. Of course. Absolutely. Yes.", "Yes."),
        ("Sure!! Here it is.", "Here it is."),
    ],
)
def test_it_goes_repeatedly(text: str, expected: str) -> None:
    """As long as another one stands at the start."""
    check(text, expected)


@pytest.mark.parametrize(
    "text",
    ["Hello. Sure, here it is.", "- Sure, here it is.", "# Sure, here", '"Sure, here it is."', "**Sure!** Here it is."],
)
def test_only_at_the_start_of_the_answer(text: str) -> None:
    """Not in a later sentence, a list, a heading, a quotation or emphasis."""
    check(text, text)


def test_white_space_before_it_stays() -> None:
    """It is no text."""
    check("\n\n Sure! Here it is.", "\n\n Here it is.")


@pytest.mark.parametrize("text", ["Absolutely.", "Sure", "Sure!", "Sure!\n", "Of course.\n\n  ", "I understand."])
def test_it_stays_if_nothing_would_remain(text: str) -> None:
    """An answer is never emptied."""
    check(text, text)


def test_the_last_of_several_stays() -> None:
    """The others go."""
    check("Great question! Absolutely.", "Absolutely.")


@pytest.mark.parametrize("word", ["but", "if", "unless", "though", "only", "except", "But", "although"])
def test_it_stays_before_a_condition(word: str) -> None:
    """It is granted under that condition only."""
    check(f"Sure, {word} it is late.", f"Sure, {word} it is late.")


def test_a_word_that_only_begins_like_one_is_none() -> None:
    """Buttons are no "but"."""
    check("Sure, buttons are nice.", "Buttons are nice.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sure, iPhone sales rose.", "iPhone sales rose."),
        ("Sure, main.py is the file.", "main.py is the file."),
        ("Sure, foo_bar is it.", "foo_bar is it."),
        ("Sure, `foo` is it.", "`foo` is it."),
        ("Sure, npm installs it.", "npm installs it."),
        ("Sure, x is 5.", "x is 5."),
        ("Sure, a file is there.", "A file is there."),
        ("Sure, https://x.y is it.", "https://x.y is it."),
        ("Sure, print() writes.", "print() writes."),
        ("Sure! 4 is the answer.", "4 is the answer."),
        ("Sure! **here** it is.", "**here** it is."),
        ("Sure! 这是答案。", "这是答案。"),
        ("sure, here it is.", "here it is."),
        ("SURE, here it is.", "Here it is."),
    ],
)
def test_the_next_word_takes_the_case_unless_it_has_its_own(text: str, expected: str) -> None:
    """Names, identifiers, code, addresses and other scripts keep theirs."""
    check(text, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sure!\n- one\n- two", "- one\n- two"),
        ("Sure!\n\n```python\nx\n```", "```python\nx\n```"),
        ("Sure!\n    indented", "    indented"),
        ("Sure!\n\tindented", "\tindented"),
        ("Sure!\n  - one", "  - one"),
        ("Sure!\n| a | b |", "| a | b |"),
        ("Sure!\n\n\n\nHere.", "Here."),
    ],
)
def test_what_stands_on_the_next_lines_stays_as_it_is(text: str, expected: str) -> None:
    """Indentation belongs to what is indented."""
    check(text, expected)


@pytest.mark.parametrize(
    "text",
    ["Sure! ```python\nx\n```", "Sure! - one\n- two", "Sure! 1. one", "Sure! > quoted", "Sure! | a | b |", "Sure! # x"],
)
def test_it_stays_where_the_rest_would_become_something_else(text: str) -> None:
    """At a line's start these signs mean code, lists, quotations, tables, headings."""
    check(text, text)


def test_an_answer_that_goes_on_has_no_start() -> None:
    """After a prefill nothing of it goes."""
    transducer = Transducer(DIRECT, at_start=False)

    assert "Sure! Here it is." == transducer.feed("Sure! Here it is.") + transducer.finish()


def test_much_white_space_behind_it_keeps_it() -> None:
    """It would have to be held back."""
    text = "Sure!" + "\n" * 300 + "Here it is."
    check(text, text)


@pytest.mark.parametrize(
    "text", ["However, Sure! Of course. We go on to the next.", "Therefore, certainly, sure, it works."]
)
def test_behind_a_linker_that_became_shorter_it_is_no_start(text: str) -> None:
    """The answer starts with the linker, in one piece or in many."""
    modules = ("direct_mode", "casual_mode")
    long = text + " And so it goes on and on." * 10
    for whole in (text, long):
        transducer = Transducer(modules)
        live = "".join(map(transducer.feed, whole)) + transducer.finish()

        assert transform(whole, ("casual_mode",)) == transform(whole, modules) == live
