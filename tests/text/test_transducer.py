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


def fenced_and_outside(text: str) -> tuple[list[str], str]:
    """Take fenced code out of *text*, line by line, by a simple look of its own."""
    blocks: list[str] = []
    outside, mate = [], ""
    for line in text.splitlines(keepends=True):
        run = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if mate:
            blocks[-1] += line
            if run and run.group(1).startswith(mate) and not line.strip().strip(mate[0]):
                mate = ""
        elif run and "`" not in line.strip().lstrip("`"):
            mate = run.group(1)
            blocks.append(line)
        else:
            outside.append(line)
    return blocks, "".join(outside)


def protected_parts(text: str) -> list[str]:
    """Find what no module may touch."""
    parts, outside = fenced_and_outside(text)
    parts += re.findall(r"https?://[^\s)\"'<>]+", outside)
    parts += re.findall(r"^[|>].*$", outside, re.MULTILINE)
    parts += re.findall(r"^(?: {4}|\t).*$", outside, re.MULTILINE)
    parts += re.findall(r"\"[^\"\n]+\"|“[^”\n]+”|«[^»\n]+»", re.sub(r"`[^`\n]*`", "", outside))
    return [part for part in parts if part.strip()]


def shape(text: str) -> tuple[list[str], int]:
    """Give list markers and the count of blank lines, which stay."""
    return re.findall(r"^\s*(?:[-*+]|\d+[.)])(?=\s)", text, re.MULTILINE), len(re.findall(r"^\s*$", text, re.MULTILINE))


def test_protected_parts_of_the_corpus_come_out_byte_for_byte() -> None:
    """Code, links, quotations, tables, list markers and blank lines."""
    for text in CORPUS:
        out = transform(text, MODULES)
        for part in protected_parts(text):
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
    "\r\n", "I would ", "say ", "due to the fact that ", "Additionally, ", "But ", "obtain ", "prior ", "to ",
]  # fmt: skip
SOUP = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=4)), max_size=30).map("".join)
PARTS = (
    ["", "", "I think ", "I think that ", "I believe ", "I would say ", "It seems like ", "It appears that ",
     "Perhaps ", "Maybe ", "perhaps ", "In my opinion, ", "However, ", "Additionally, ", "Sure, ", "So, ", "But "],
    ["", "", "I think ", "perhaps ", "probably ", "in my opinion, ", "however, ", "Therefore, "],
    ["we", "I", "it", "this", "that", "those", "you", "the server", "a bug", "my team", "the man who", "it's", "users"],
    ["", "", "", ", I think,", ", in my opinion,", " (I believe)", ", as you know,"],
    [" is", " should", " has", " isn't", " would", " works", " I would", " due", " in order", " to", ""],
    ["", "", " probably", " perhaps", " maybe", " possibly perhaps", " quite possibly", ", I think,", " (I think)"],
    [" late", " use it", " say we go", " utilize the API", " obtain a token", " purchase a car", " not done", " at 3",
     " prior to launch", " in order to win", " `code`", " to the fact that it is", " be happy to help. Yes", ""],
    [". ", ". ", "? ", "! ", ".\n", "\n\n- ", ", maybe. ", ", don't you? ", ", and ", ", but ", ": ", "... "],
)  # fmt: skip
LINES = [
    "", " ", "a", "and", ",", "(", "- ", "- a", "- [x] a", "1. a", "1) (I think) we go", "# a", "> a", "| a |",
    "<a", "    a", "\ta", "   a", "- - - a", "a" * 62, "# " + "a" * 62, "a" * 61 + ",", "```", "~~~", "``` a",
    "    ```", "`a``", "``", "`a`", '"a"', '"a', "“a”", "“a", "‘a’s’", "‘a", "'a'", "'a", "it's", "$a$", "$a",
    "$ 5", "$²$", "$$", "$$a", "\\(a", "a\\)", "\\[", "\\b", "\\beg", "\\begin{a}", "\\end{a}", "maybe", "I think",
    "However,", "In order to", "utilize", "Sure", "Sure!", "Of course.", "Perhaps it is", "Therefore, we",
    "I think we can", "is probably late", "a, I think, is", "the \r", "\r",
]  # fmt: skip
LINE_SOUP = st.lists(st.sampled_from(LINES), max_size=12).map("\n".join)
SENTENCE = st.tuples(*(st.sampled_from(part) for part in PARTS)).map("".join)
TEXTS = st.one_of(SOUP, st.lists(SENTENCE, max_size=6).map("".join), LINE_SOUP)
CHOSEN = st.sampled_from(
    [MODULES, MODULES, MODULES[:1], MODULES[1:2], MODULES[2:], MODULES[:2], (MODULES[0], MODULES[2])]
)
NASTY = [
    "I think ", "(", '"', "`", "word ", "a", "\n", "perhaps ", "is probably ", "utilize ", "so, ", "However, ", "$",
    "'", "- ", "> a\n", "1. a\n", "(I think) ", "a, I think, is ", "```\n", "It seems like the ", "``` ", ", I",
    "\\begin{a", "(\n", "`\n", "'\n", "maybe\n", "utilize\n", "Sure\n", "sure, ", "Of course.\n", "\\(\n\n", "$$\n",
    "$$a\n", "a\n~~~\n", "\r\n", "- - a\n", "'a' ", "a, ", "<a\n", "\\b\n",
]  # fmt: skip


def fed(transducer: Transducer, pieces: list[str]) -> str:
    """Give what comes out of *pieces*, in all."""
    return "".join(transducer.feed(piece) for piece in pieces) + transducer.finish()


def cut(text: str, size: int) -> list[str]:
    """Cut *text* into pieces of *size* characters."""
    return [text[i : i + size] for i in range(0, len(text), size)]


@settings(max_examples=500, deadline=None)
@given(text=TEXTS, modules=CHOSEN, data=st.data())
def test_every_cut_gives_the_same(text: str, modules: tuple[str, ...], data: st.DataObject) -> None:
    """The concatenation is the one-piece result, and so is each beginning; what is held stays within its bound."""
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=15)) | {0, len(text)})
    transducer, whole = Transducer(modules), transform(text, modules)
    out = ""
    for start, end in zip(places, places[1:], strict=False):
        out += transducer.feed(text[start:end])
        assert len(transducer.held) <= 256
        assert whole.startswith(out)
    out += transducer.finish()

    assert whole == out
    assert "" == transducer.held
    assert transducer.held_max <= 256


def test_a_line_end_of_two_characters_may_come_in_two_pieces() -> None:
    """The empty line before an opener is one either way."""
    text = "\r\nSure! Here is the code."

    assert "\r\nHere is the code." == transform(text, MODULES) == fed(Transducer(MODULES), ["\r", text[1:]])


@settings(max_examples=500, deadline=None)
@given(text=TEXTS, modules=CHOSEN)
def test_a_second_pass_changes_nothing(text: str, modules: tuple[str, ...]) -> None:
    """Idempotent for any text."""
    once = transform(text, modules)

    assert once == transform(once, modules)


@pytest.mark.parametrize("unit", NASTY)
def test_monotonous_texts_hold_the_same(unit: str) -> None:
    """Long enough to go over every inner border."""
    text = (unit * 5000)[:9000]
    whole = transform(text, MODULES)

    assert whole == fed(Transducer(MODULES), cut(text, 5))
    assert whole == transform(whole, MODULES)


def test_long_lines_hold_the_same() -> None:
    """Prose without a line end, much longer than what is kept for looking back."""
    text = " ".join(answer.replace("\n", " ") for answer in CORPUS).replace('"', "").replace("`", "").replace("$", "")
    whole = transform(text, MODULES)

    assert len(text) > 20_000 and whole != text
    assert whole == fed(Transducer(MODULES), cut(text, 7))
    assert whole == fed(Transducer(MODULES), cut(text, 3000))
    assert whole == transform(whole, MODULES)


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.characters(min_codepoint=0x370), max_size=80))
def test_other_scripts_stay(text: str) -> None:
    """Rules are for English."""
    assert text == transform(text, MODULES)


@settings(max_examples=100, deadline=None)
@given(text=TEXTS)
def test_without_modules_nothing_is_held_or_changed(text: str) -> None:
    """Each piece comes out as it went in."""
    transducer = Transducer(())

    assert cut(text, 3) == [transducer.feed(piece) for piece in cut(text, 3)]


@pytest.mark.parametrize("modules", [MODULES[:2], MODULES])
def test_text_without_candidates_is_never_held(modules: tuple[str, ...]) -> None:
    """Piece for piece, white space and line ends included, as nothing in it can become a candidate."""
    pieces = ["Hello ", "there! ", "Run ", "`make` ", "now.\n", "\n", "- ", "one ", "\n", "We ", "go", " now", "\n"]
    transducer = Transducer(modules)

    assert pieces == [transducer.feed(piece) for piece in pieces]
    assert 0 == transducer.held_max


def test_held_text_begins_at_the_first_undecided_candidate() -> None:
    """What stands before it is out, what stands behind it waits with it."""
    transducer = Transducer(MODULES)

    assert "It is " == transducer.feed("It is prob")
    assert "prob" == transducer.held
    assert "" == transducer.feed("ably")
    assert "probably" == transducer.held
    assert "" == transducer.feed(" ")
    assert transducer.feed("late. ").startswith("late") and "" == transducer.held


def test_a_candidate_is_let_go_as_soon_as_it_is_none() -> None:
    """The next characters show it."""
    transducer = Transducer(MODULES)

    assert "It is " == transducer.feed("It is prob")
    assert "problematic" == transducer.feed("lematic")


def test_the_end_decides_what_is_held() -> None:
    """As the end of the text."""
    transducer = Transducer(MODULES)

    assert "" == transducer.feed("I think we can")
    assert "We can" == transducer.finish()


@settings(max_examples=200, deadline=None)
@given(text=TEXTS, modules=CHOSEN)
def test_positions_can_be_told(text: str, modules: tuple[str, ...]) -> None:
    """The edits lead from raw places to places in the result, in order and within it."""
    transducer = Transducer(modules)
    out = transducer.feed(text) + transducer.finish()
    places = [transducer.edits.moved(place) for place in range(len(text) + 1)]

    assert sorted(places) == places
    assert places[-1] == len(out)
    assert bool(len(transducer.edits)) == (out != text)


def test_a_position_leads_to_the_same_word() -> None:
    """What is cited is found in the new text."""
    text = "Sure! I think we can use alpha. However, it is probably beta. In order to win, obtain gamma."
    transducer = Transducer(MODULES)
    out = fed(transducer, cut(text, 4))

    assert "We can use alpha. But it is beta. To win, get gamma." == out
    for word in ("alpha", "beta", "gamma", "can", "win"):
        assert out.index(word) == transducer.edits.moved(text.index(word))


@pytest.mark.parametrize(
    ("before", "text", "expected"),
    [
        ("Well, ", "I think we can go. I think it works.", "I think we can go. It works."),
        ("```python\n", "x = 1 # is probably it\n```\nI think we can.", "x = 1 # is probably it\n```\nWe can."),
        ('He said "', 'I think we" and left. I think we can.', 'I think we" and left. We can.'),
        ("The answer is", " probably Redis.", " Redis."),
        ("I think", " we should go.", " we should go."),
        ("    ", "I think we can.", "I think we can."),
        ("Hello.\n", "Yes. I think we can.", "Yes. We can."),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_text_that_goes_on_is_read_in_the_light_of_what_stands_before(
    before: str, text: str, expected: str, size: int
) -> None:
    """It has no start of its own, and may begin inside something protected."""
    transducer = Transducer(MODULES, at_start=False, before=before)

    assert expected == fed(transducer, cut(text, size))
    assert len(expected) == transducer.edits.moved(len(text))
