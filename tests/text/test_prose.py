"""What is protected, and where it ends: nothing changes inside, everything is as ever behind."""

from __future__ import annotations

import pytest

from app.text.transducer import MODULES, transform

INSIDE = "I think we should probably utilize it. However, perhaps it is possibly late."
AGAIN = "I think we can go."
GONE = "We can go."


def check(text: str) -> None:
    """See that *text* stays as it is."""
    assert text == transform(text, MODULES)


@pytest.mark.parametrize("fence", ["```", "~~~", "````", "~~~~~", "   ```"])
@pytest.mark.parametrize("info", ["", "python", "js title=x", " "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_fence_protects_to_its_closing_fence(fence: str, info: str, end: str) -> None:
    """What stands behind it is prose again."""
    block = f"{fence}{info}{end}{INSIDE}{end}{end}{INSIDE}{end}{fence}{end}"
    check(block)
    assert block + GONE == transform(block + AGAIN, MODULES)


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{INSIDE}",
        f"```\n{INSIDE}\n\n{INSIDE}",
        f"````\n```\n{INSIDE}\n```\n{INSIDE}\n",
        f"```\n~~~\n{INSIDE}\n~~~\n{INSIDE}",
        f"```\n{INSIDE}\n``` python\n{INSIDE}",
        f"~~~\n```\n{INSIDE}",
        f"- ```\n{INSIDE}\n  ```",
        f"1. Step:\n\n    ```bash\n{INSIDE}\n    ```",
    ],
)
def test_a_fence_goes_to_the_end_without_its_mate(text: str) -> None:
    """Other fences inside, and shorter ones, close nothing."""
    check(text)


def test_a_longer_fence_closes() -> None:
    """As Markdown has it."""
    assert f"```\n{INSIDE}\n`````  \n{GONE}" == transform(f"```\n{INSIDE}\n`````  \n{AGAIN}", MODULES)


@pytest.mark.parametrize(
    "line",
    [
        f"    {INSIDE}",
        f"\t{INSIDE}",
        f"  \t{INSIDE}",
        f"> {INSIDE}",
        f">{INSIDE}",
        f"> - {INSIDE}",
        f"| {INSIDE} | x |",
        f"|{INSIDE}|",
        f"<p>{INSIDE}",
        f"</p>{INSIDE}",
        f"<!-- {INSIDE} -->",
        f"   > {INSIDE}",
        f"- > {INSIDE}",
        f"        - {INSIDE}",
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_that_are_protected_as_a_whole(line: str, end: str) -> None:
    """Indented code, quotations, tables, markup; the next line is prose again."""
    check(line)
    assert f"{line}{end}{GONE}" == transform(f"{line}{end}{AGAIN}", MODULES)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("< I think we can go.", "< I think we can go."),
        ("<3 is it. I think we can go.", "<3 is it. We can go."),
        ("a | b. I think we can go.", "a | b. We can go."),
    ],
)
def test_lines_that_only_look_so(line: str, expected: str) -> None:
    """A less-than sign is no tag, and a table without leading pipes is prose."""
    assert expected == transform(line, MODULES)


@pytest.mark.parametrize(
    "quoted",
    [f'"{INSIDE}"', f"“{INSIDE}”", f"«{INSIDE}»", f"‘{INSIDE}’", f"'{INSIDE}'", f"`{INSIDE}`", f"`` ` {INSIDE} ``"],
)
def test_quotations_and_code_protect_to_their_mate(quoted: str) -> None:
    """In mid-line, at a line's start, in parentheses; what follows is prose again."""
    check(f"He wrote {quoted} there")
    check(quoted)
    check(f"He wrote ({quoted}) there")
    assert f"He wrote {quoted} there. {GONE}" == transform(f"He wrote {quoted} there. {AGAIN}", MODULES)


@pytest.mark.parametrize("opening", ['"', "“", "«", "'", "`", "``", "$x "])
def test_without_a_mate_they_protect_to_the_end_of_the_line(opening: str) -> None:
    """The next line is prose again."""
    text = f"He wrote {opening}{INSIDE}\n"
    check(text)
    assert text + GONE == transform(text + AGAIN, MODULES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's late. I think we can go.", "It's late. We can go."),
        ("The users' idea. I think we can go.", "The users' idea. We can go."),
        ("In the '90s. I think we can go.", "In the '90s. We can go."),
        ("'don't say maybe' it is. I think we can go.", "'don't say maybe' it is. We can go."),
        ("I think it's late, isn't it.", "It's late, isn't it."),
    ],
)
def test_apostrophes_are_no_quotation_marks(text: str, expected: str) -> None:
    """One opens a quotation only after a space and before a letter; one before a letter closes none."""
    assert expected == transform(text, MODULES)


@pytest.mark.parametrize(
    "formula",
    [f"$x {INSIDE}$", f"$${INSIDE}$$", f"\\({INSIDE}\\)", f"\\[{INSIDE}\\]", f"\\begin{{align}}{INSIDE}\\end{{align}}"],
)
def test_formulas_protect_to_their_mate(formula: str) -> None:
    """What follows is prose again."""
    check(f"Let {formula} be")
    assert f"Let {formula} be. {GONE}" == transform(f"Let {formula} be. {AGAIN}", MODULES)


@pytest.mark.parametrize("opening", ["$$", "\\(", "\\[", "\\begin{align}", "\\begin"])
def test_long_formulas_go_on_to_a_blank_line(opening: str) -> None:
    """Over line ends, unlike quotations."""
    text = f"Let {opening}\n{INSIDE}\n{INSIDE}\n \n"
    check(text)
    assert text + GONE == transform(text + AGAIN, MODULES)


def test_another_environment_closes_nothing() -> None:
    """The mate bears the same name."""
    check(f"\\begin{{align}}\n\\begin{{cases}}\n{INSIDE}\n\\end{{cases}}\n{INSIDE}\n\\end{{align}}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is $5. I think we can go.", "It is $5. We can go."),
        ("It is 5 $ and $ 6. I think we can go.", "It is 5 $ and $ 6. We can go."),
        ("US$ is it. I think we can go.", "US$ is it. We can go."),
        ("C:\\a\\x is it. I think we can go.", "C:\\a\\x is it. We can go."),
    ],
)
def test_money_and_paths_are_no_formulas(text: str, expected: str) -> None:
    """A dollar sign before a digit or a space is none."""
    assert expected == transform(text, MODULES)


@pytest.mark.parametrize(
    "text",
    [
        "https://x.y/maybe?is=probably&a=perhaps",
        "mailto:i.think@we.should",
        "It is/probably late",
        "a_is probably_late",
        "utilize/obtain utilize.py obtain_token() --terminate -utilize utilize=1 @utilize #obtain",
        "user.purchase to/purchase /to/obtain",
    ],
)
def test_tokens_that_are_no_words_stay(text: str) -> None:
    """Addresses, paths, identifiers."""
    check(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* I think we can go.\n\n\n* Maybe later.", "* We can go.\n\n\n* Maybe later."),
        ("1.  I think we can go.", "1.  We can go."),
        ("   I think we can go.  \n", "   We can go.  \n"),
        ("Hi.  \r\nI think we can go.\r\n", "Hi.  \r\nWe can go.\r\n"),
        ("a\u2028I think we can go.", "a\u2028I think we can go."),
        ("\ufeffI think we can go.", "\ufeffI think we can go."),
        ("x\tI think we can go.", "x\tI think we can go."),
    ],
)
def test_white_space_and_markers_stay(text: str, expected: str) -> None:
    """All of it but what follows directly on something removed."""
    assert expected == transform(text, MODULES)


def test_protection_begins_anew_after_an_opener() -> None:
    """What remains at a line's start is read as such."""
    assert f"> {INSIDE}" == transform(f"Sure!\n> {INSIDE}", MODULES)
    assert f"```\n{INSIDE}" == transform(f"Sure!\n\n```\n{INSIDE}", MODULES)
