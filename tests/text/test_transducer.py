"""STM's text transducer: the worked examples, what is protected, and what holds for every text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.text.transducer import MODULES, Transducer, transform

NAMES = {"h": "hedge_reducer", "d": "direct_mode", "c": "casual_mode"}
CORPUS = [
    json.loads(line)["text"]
    for line in (Path(__file__).parent.parent / "data" / "answers.jsonl").read_text().splitlines()
]
EXAMPLES = [
    ("h", "I think we should probably use Redis.", "We should use Redis."),
    ("h", "It seems like the server, in my opinion, is possibly down.", "The server is down."),
    ("h d", "Sure, I think this works. Maybe later.", "This works. Maybe later."),
    ("h", "Perhaps it rains. Maybe not.", "It rains. Maybe not."),
    (
        "h",
        "The meeting is probably at 3, and it is probably not cancelled.",
        "The meeting is at 3, and it is probably not cancelled.",
    ),
    ("d", "That's a great question! I'd be happy to help you with that. The answer is 4.", "The answer is 4."),
    ("d", "Sure! Here is the code.", "Here is the code."),
    ("d", "Certainly. The file is ready.", "The file is ready."),
    ("d", "Great question! Sure, here it is.", "Here it is."),
    (
        "c",
        "However, you must utilize the API prior to launch. In order to win, obtain tokens.",
        "But you must use the API before launch. To win, get tokens.",
    ),
    (
        "c",
        "Do not terminate the process; purchase orders are late.",
        "Do not end the process; purchase orders are late.",
    ),
    (
        "h d c",
        "Sure, I think you should probably utilize a HashMap. Furthermore, it is perhaps the best approach.",
        "You should use a HashMap. Also, it is the best approach.",
    ),
    ("h", "I think perhaps it works.", "It works."),
    ("h", "However, I think we should wait.", "However, we should wait."),
    ("h", "- I think we can go.\n- Perhaps you can stay.", "- We can go.\n- You can stay."),
]
UNCHANGED = [
    ("h", "I don't think so."),
    ("h", "What do you think?"),
    ("h", "That is what I think"),
    ("h", "I think so."),
    ("h", "I believe you."),
    ("h", "I think, therefore I am."),
    ("h", "It seems like a bug."),
    ("h", 'She said "I think maybe so" and left.'),
    ("h", "```python\nfor i in range(3):\n    print(i)\n```\nDone."),
    ("h", "- maybe\n- apples\nabc"),
    ("d", "Surely you jest."),
    ("d", "Sure-fire ways to win"),
    ("d", "Absolutely not. It is dangerous."),
    ("d", "I understand that you are upset."),
    ("d", "Absolutely."),
    ("c", "It is, however, late."),
    ("h", "> I think we can go."),
    ("h", "    I think we can go."),
    ("h", "`I think we can go.`"),
    ("h", "| I think we can go. |"),
    ("h", "It is perhaps red and perhaps blue."),
    ("h", "$x = I think we can$ and so on"),
    ("h", "«I think we can go.»"),
]


def modules_of(letters: str) -> list[str]:
    """Give the modules that stand behind letters."""
    return [NAMES[letter] for letter in letters.split()]


@pytest.mark.parametrize(("letters", "text", "expected"), EXAMPLES)
def test_examples(letters: str, text: str, expected: str) -> None:
    """What is to change, changes so."""
    assert expected == transform(text, modules_of(letters))


@pytest.mark.parametrize(("letters", "text"), UNCHANGED)
def test_examples_that_stay(letters: str, text: str) -> None:
    """What is to stay, stays, with that module and with all."""
    assert text == transform(text, modules_of(letters))
    if letters == "h":
        assert text == transform(text, ["hedge_reducer"])


def protected_parts(text: str) -> list[str]:
    """Find what no module may touch, by a simple look of its own."""
    parts = re.findall(r"^```.*?(?:^```[^\n]*$|\Z)", text, re.DOTALL | re.MULTILINE)
    outside = re.sub(r"^```.*?(?:^```[^\n]*$|\Z)", "", text, flags=re.DOTALL | re.MULTILINE)
    parts += re.findall(r"https?://[^\s)\"'<>]+", outside)
    parts += re.findall(r"^[|>].*$", outside, re.MULTILINE)
    parts += re.findall(r"^(?: {4}|\t).*$", outside, re.MULTILINE)
    return [part for part in parts if part.strip()]


def shape(text: str) -> tuple[list[str], int]:
    """Give list markers and the count of blank lines, which stay."""
    return re.findall(r"^\s*(?:[-*+]|\d+[.)])(?=\s)", text, re.MULTILINE), len(re.findall(r"^\s*$", text, re.MULTILINE))


def test_protected_parts_of_the_corpus_come_out_byte_for_byte() -> None:
    """Code, links, quotations, tables, list markers and blank lines."""
    for text in CORPUS:
        out = transform(text, MODULES)
        for part in sorted(protected_parts(text), key=text.index):
            assert part in out, (part, out)
        assert shape(transform(text, ["hedge_reducer", "casual_mode"])) == shape(text)


def test_a_second_pass_changes_nothing_over_the_corpus() -> None:
    """Idempotent."""
    for text in CORPUS:
        once = transform(text, MODULES)
        assert once == transform(once, MODULES)


WORDS = [
    "I think ", "I believe that ", "perhaps ", "maybe ", "probably ", "is ", "we can ", "the plan ", "not ", "Sure, ",
    "Sure! ", "However, ", "Therefore, ", "utilize ", "In my opinion, ", "from my perspective", ", ", ". ", "? ", "! ",
    "\n", "\n\n", "- ", "> ", "    ", "```", "`", '"', "'", "(", ")", "$", "\\(", "|", "«", "»", "it seems like ",
    "it ", "in order to ", "purchase ", "I'd be happy to help.", "—", ":", "é", "漢", "https://x.y ", "a_b ", "don't ",
    "\r\n",
]  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=4)), max_size=30).map("".join)


@settings(max_examples=300, deadline=None)
@given(text=TEXTS, data=st.data())
def test_every_cut_gives_the_same(text: str, data: st.DataObject) -> None:
    """The concatenation is the one-piece result; what is held stays within its bound."""
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=15)) | {0, len(text)})
    transducer = Transducer(MODULES)
    out = ""
    for start, end in zip(places, places[1:], strict=False):
        out += transducer.feed(text[start:end])
        assert len(transducer.held) <= 256
        assert transform(text, MODULES).startswith(out)
    out += transducer.finish()

    assert transform(text, MODULES) == out
    assert transducer.held_max <= 256


@settings(max_examples=300, deadline=None)
@given(text=TEXTS)
def test_a_second_pass_changes_nothing(text: str) -> None:
    """Idempotent for any text."""
    once = transform(text, MODULES)

    assert once == transform(once, MODULES)


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.characters(min_codepoint=0x370), max_size=80))
def test_other_scripts_stay(text: str) -> None:
    """Rules are for English."""
    assert text == transform(text, MODULES)


@settings(max_examples=150, deadline=None)
@given(text=TEXTS)
def test_positions_can_be_told(text: str) -> None:
    """The edits lead from raw places to places in the result, in order and within it."""
    transducer = Transducer(MODULES)
    out = transducer.feed(text) + transducer.finish()
    places = [transducer.edits.moved(place) for place in range(len(text) + 1)]

    assert sorted(places) == places
    assert places[-1] == len(out)
