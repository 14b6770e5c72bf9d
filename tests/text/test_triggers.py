"""Finding triggers: whole words, any case and normalisation form, longest first, clusters whole."""

from __future__ import annotations

import re
from unicodedata import category, normalize

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from app.text.triggers import Match, TriggerSet, clusters_of, fold

PIECES = [
    *"aAsSiIk ++-_1'\n\r",
    "é",
    "e\u0301",
    "\u0301",
    "ß",
    "ẞ",
    "İ",
    "ı",
    "i\u0307",
    "ﬁ",
    "\u212a",
    "Å",
    "\u212b",
    "σ",
    "ς",
    "Σ",
    "\u200d",
    "👩",
    "🏽",
    "❤\ufe0f",
    "🇫",
    "각",
    "ᄀ",
    "ᅡ",
    "\u0600",
    "\u0d4e",
    "न",
    "ि",
    "\r\n",
    "²",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)
TRIGGERS = st.lists(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join).filter(str.strip), min_size=1, max_size=6
)


def found(triggers: list[str], text: str) -> list[str]:
    """The matched slices of *text*."""
    return [text[match.start : match.end] for match in TriggerSet(triggers).find(text)]


def is_word(cluster: str) -> bool:
    """Whether a cluster counts as a word character: it holds a letter, digit or connector, or begins with a mark.

    What is prepended to the mark does not count.
    """
    bare = regex.sub(r"^\p{GCB=Prepend}+", "", cluster)
    kinds = [category(char) for char in cluster]
    return any(kind[0] in "LN" or kind == "Pc" for kind in kinds) or category(bare[:1] or " ")[0] == "M"


def searched_plainly(triggers: list[str], text: str) -> list[tuple[int, int]]:
    """What the rules say, tried out at every pair of cluster boundaries."""
    clusters = regex.findall(r"\X", text)
    wanted = {fold(trigger.strip()) for trigger in triggers}
    offsets = [sum(map(len, clusters[:count])) for count in range(len(clusters) + 1)]
    spans = []
    start = 0
    while start < len(clusters):
        ends = [
            end
            for end in range(start + 1, len(clusters) + 1)
            if fold("".join(clusters[start:end])) in wanted
            and not (start and is_word(clusters[start - 1]))
            and not (end < len(clusters) and is_word(clusters[end]))
        ]
        if ends:
            spans.append((offsets[start], offsets[max(ends)]))
        start = max(ends, default=start + 1)
    return spans


@settings(max_examples=250, deadline=None)
@given(triggers=TRIGGERS, text=TEXTS)
def test_finds_what_the_rules_say(triggers: list[str], text: str) -> None:
    """One backward pass finds the same spans as trying every pair of cluster boundaries from left to right."""
    assert searched_plainly(triggers, text) == [(m.start, m.end) for m in TriggerSet(triggers).find(text)]


@settings(max_examples=100, deadline=None)
@given(triggers=TRIGGERS, text=TEXTS)
def test_a_text_made_of_its_triggers_is_searched_as_the_rules_say(triggers: list[str], text: str) -> None:
    """The same holds where matches are dense, overlap and touch the text's ends."""
    dense = f"{triggers[0]} {text} " + "+".join([*triggers, *triggers])
    assert searched_plainly(triggers, dense) == [(m.start, m.end) for m in TriggerSet(triggers).find(dense)]


FEW = st.text("ab +", min_size=1, max_size=7).filter(str.strip)


@settings(max_examples=250, deadline=None)
@given(triggers=st.lists(FEW, min_size=1, max_size=8), text=st.text("ab +", max_size=40))
def test_overlapping_triggers_are_resolved_as_the_rules_say(triggers: list[str], text: str) -> None:
    """The same holds for triggers that contain, start and end each other."""
    assert searched_plainly(triggers, text) == [(m.start, m.end) for m in TriggerSet(triggers).find(text)]


@settings(max_examples=100, deadline=None)
@given(triggers=TRIGGERS, text=TEXTS)
def test_matches_never_cut_a_cluster(triggers: list[str], text: str) -> None:
    """Both ends of a match are cluster boundaries of the whole text."""
    boundaries = {0, *(match.end() for match in regex.finditer(r"\X", text))}
    assert {end for match in TriggerSet(triggers).find(text) for end in (match.start, match.end)} <= boundaries


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.sampled_from(["a", "\r", "\n", "é", "\u0301", "👩", "\u200d"]), max_size=12))
def test_clusters_are_those_of_unicode_also_for_plain_text(text: str) -> None:
    """The short cut for ASCII gives what the full rules give."""
    assert regex.findall(r"\X", text) == clusters_of(text)


@pytest.mark.parametrize(
    ("trigger", "text", "expected"),
    [
        ("lantern", "The Lantern, a LANTERN; lanterns and planterns", ["Lantern", "LANTERN"]),
        ("café", "Café, CAFE\u0301 and cafés or cafe", ["Café", "CAFE\u0301"]),
        ("cafe\u0301", "café", ["café"]),
        ("cafe", "cafe\u0301 cafe", ["cafe"]),
        ("c++", "C++ and c++, c++11 or xc++ (c++)", ["C++", "c++", "c++"]),
        ("+", "a + b+ +c ++", ["+", "+", "+"]),
        ("quiet library", "Quiet Library, quiet  library, quiet library card", ["Quiet Library", "quiet library"]),
        ("straße", "STRASSE strasse Straße STRAẞE straßen", ["STRASSE", "strasse", "Straße", "STRAẞE"]),
        ("strasse", "x straße y", ["straße"]),
        ("i\u0307stanbul", "İstanbul", ["İstanbul"]),
        ("istanbul", "İstanbul istanbul", ["istanbul"]),
        ("όσος", "ΌΣΟΣ όσοσ", ["ΌΣΟΣ", "όσοσ"]),
        ("cat", "cat_ _cat cat's cat-like 2cat cat² cat", ["cat", "cat", "cat"]),
        ("ёж", "Ёж и ЕЖ, ёжик", ["Ёж"]),
        ("猫", "猫 黒猫 猫。", ["猫", "猫"]),
        ("👩\u200d🔬", "👩 👩\u200d🔬 👩\u200d🔬s", ["👩\u200d🔬"]),
    ],
)
def test_matches_whole_words_in_any_case_and_form(trigger: str, text: str, expected: list[str]) -> None:
    """A trigger matches where no word character stands beside it, after NFC and case folding."""
    assert expected == found([trigger], text)


def test_offsets_are_those_of_the_original_where_folding_changes_lengths() -> None:
    """Letters that fold to more than one do not shift the offsets behind them."""
    text = "ßßß İİ ﬁﬁ lamp"
    assert [Match(10, 14, "lamp")] == list(TriggerSet(["lamp"]).find(text))


def test_longer_triggers_go_first_without_overlap() -> None:
    """At one place the longest trigger wins, and what it covers is not matched again."""
    triggers = ["new", "new york", "york city", "new york city hall"]
    assert ["new york", "new york city hall", "new", "york city"] == found(
        triggers, "new york, new york city hall, new x york city"
    )


def test_a_shorter_trigger_is_taken_where_the_longer_one_fails_at_its_end() -> None:
    """A longer trigger with a word character behind it does not hide the shorter one."""
    assert ["a b", "a b"] == found(["a b", "a b++"], "a b++1 a b c")


def test_a_trigger_is_found_inside_the_end_of_another_that_fails() -> None:
    """A longer trigger whose start is missing does not hide a shorter one inside it."""
    assert ["b"] == found(["a b c", "b"], "x b c")


def test_the_first_spelling_of_a_trigger_names_it() -> None:
    """Triggers that are the same after folding count once, under the name that came first."""
    triggers = TriggerSet(["Lamp", "LAMP", "lamp "])
    assert (1, [Match(0, 4, "Lamp")]) == (triggers.size, list(triggers.find("lamp")))


def test_white_space_around_a_trigger_does_not_count() -> None:
    """A trigger is found without the white space it was typed with."""
    assert ["lamp"] == found(["  lamp "], "(lamp)")


@pytest.mark.parametrize("text", ["", " ", "\n", "no word of it"])
def test_nothing_is_found_where_there_is_nothing(text: str) -> None:
    """Texts without a trigger, and empty ones, have no matches."""
    assert [] == list(TriggerSet(["lamp"]).find(text))


def test_long_overlapping_prefixes_find_the_longest() -> None:
    """Triggers that are prefixes and suffixes of each other are resolved as one left-to-right regex would."""
    triggers = ["a " * count + "a" for count in range(1, 50)] + ["a " * 49 + "b"]
    text = "a " * 1000 + "b"
    ordered = sorted(triggers, key=len, reverse=True)
    pattern = re.compile("|".join(rf"(?<!\w){trigger}(?!\w)" for trigger in ordered))
    assert pattern.findall(text) == found(triggers, text)


@given(text=TEXTS)
def test_folding_does_not_depend_on_the_normalisation_form(text: str) -> None:
    """Canonically equivalent texts fold to the same text."""
    assert fold(normalize("NFD", text)) == fold(normalize("NFC", text)) == fold(text)


def test_folding_sorts_marks_first() -> None:
    """A mark that folds to a letter does not change places with another mark."""
    assert fold("\u1fb4") == fold("\u03b1\u0345\u0301") == fold("\u03b1\u0301\u0345")
