"""Perturbing words: what each technique may change, how much, and that a seed fixes it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from importlib.resources import files
from math import ceil
from random import Random

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from app.text.perturb import INTENSITIES, TECHNIQUES, Perturbation, perturb, perturb_matches
from app.text.triggers import Match, TriggerSet, clusters_of, fold

INVISIBLE = "\u200b\u200c\u200d\ufeff"
WHOLE = ["leetspeak", "unicode", "mixedcase"]
"""The techniques that put one cluster for another."""

LETTERS = st.sampled_from(
    [
        *"abcdefghijklmnopqrstuvwxyzABCXQ 1-+",
        "é",
        "e\u0301",
        "ß",
        "İ",
        "я",
        "Й",
        "и\u0306",
        "λ",
        "ά",
        "각",
        "कि",
        "👩\u200d🔬",
    ]
)
WORDS = st.lists(LETTERS, min_size=1, max_size=12).map("".join)
CHOICES = {"intensity": st.sampled_from(INTENSITIES), "seed": st.integers(0, 2**32)}


def perturbed(
    text: str, matches: Iterable[Match], technique: str, intensity: str, rng: Random
) -> tuple[str, list[Perturbation]]:
    """The text with its matches perturbed, and those that did change."""
    changes: list[Perturbation] = []
    return perturb_matches(text, matches, technique, intensity, rng, changes.append), changes


def changed(word: str, technique: str, intensity: str = "heavy", seed: int = 1) -> str:
    """The word after one technique."""
    return perturb(word, technique, intensity, Random(seed)).transformed


def differences(word: str, other: str) -> list[int]:
    """Which clusters differ; both words must have as many."""
    pairs = zip(clusters_of(word), clusters_of(other), strict=True)
    return [place for place, (mine, its) in enumerate(pairs) if mine != its]


def allowed(intensity: str, length: int, possible: int) -> int:
    """How many clusters an intensity changes in a word."""
    return min({"light": 1, "medium": ceil(length / 2), "heavy": length}[intensity], possible)


@pytest.mark.parametrize("intensity", ["medium", "heavy"])
def test_phonetic_spells_as_it_sounds(intensity: str) -> None:
    """The spelling rules apply pairs first, c by what follows."""
    words = "phoenix quacks cactus circle"
    spelled = [changed(word, "phonetic", intensity) for word in words.split()]
    assert "foeniks kwaks kaktus sirkle" == " ".join(spelled)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("Phoenix", "Foeniks"),
        ("PHOENIX", "FOENIKS"),
        ("Quacks", "Kwaks"),
        ("QUACKS", "KWAKS"),
        ("Xylophone", "Ksylofone"),
        ("XYLO", "KSYLO"),
        ("FOX", "FOKS"),
        ("FoX", "FoKs"),
        ("Circle", "Sirkle"),
        ("cé", "sé"),
        ("café", "kafé"),
        ("façade", "façade"),
        ("c++", "k++"),
        ("lamp", "lamp"),
    ],
)
def test_phonetic_keeps_case_and_marked_letters(word: str, expected: str) -> None:
    """What replaces a letter has its case; a letter with a mark is another letter."""
    assert expected == changed(word, "phonetic")


def test_phonetic_has_no_randomness() -> None:
    """Every seed gives the same spelling at every intensity."""
    for intensity in INTENSITIES:
        assert 1 == len({changed("quickphoenix", "phonetic", intensity, seed) for seed in range(20)})


def test_phonetic_light_applies_one_rule() -> None:
    """Light changes one place of a word that has three."""
    spelled = changed("cactus-fox", "phonetic", "light")
    assert spelled in ("kactus-fox", "caktus-fox", "cactus-foks")


@pytest.mark.parametrize(
    ("intensity", "places"), [("light", [0]), ("medium", [0, 2, 4, 6]), ("heavy", [0, 1, 2, 3, 4, 5, 6, 7])]
)
def test_leetspeak_is_spread_evenly(intensity: str, places: list[int]) -> None:
    """The changed letters stand at even distances."""
    assert places == differences("lebasgot", changed("lebasgot", "leetspeak", intensity))


@settings(max_examples=80, deadline=None)
@given(word=WORDS, **CHOICES)
def test_leetspeak_puts_signs_and_digits_for_plain_letters(word: str, intensity: str, seed: int) -> None:
    """As many letters change as the intensity says, into ASCII signs or digits, and nothing else does."""
    other = changed(word, "leetspeak", intensity, seed)
    clusters, others = clusters_of(word), clusters_of(other)
    places = differences(word, other)
    possible = sum(cluster.lower() in set("abceghilostz") for cluster in clusters)
    assert allowed(intensity, len(clusters), possible) == len(places)
    assert all(others[place].isascii() and not others[place].isalpha() for place in places)


def script_of(letter: str) -> str:
    """The script of a letter, among those the tests use."""
    known = (
        "Latin",
        "Greek",
        "Cyrillic",
        "Armenian",
        "Georgian",
        "Cherokee",
        "Coptic",
        "Deseret",
        "Osage",
        "Warang_Citi",
    )
    return next(script for script in known if regex.match(rf"\p{{Script={script}}}", letter))


@pytest.mark.parametrize("word", ["pace", "OXHIDE", "Havoc", "Сорока", "αρχος", "Épée", "E\u0301pe\u0301e"])
def test_unicode_takes_letters_of_other_scripts_in_the_same_case(word: str) -> None:
    """Each changed cluster has another script's letter of the same case, with the same marks."""
    for seed in range(40):
        other = changed(word, "unicode", "heavy", seed)
        for place in differences(word, other):
            mine, its = (unicodedata.normalize("NFD", clusters_of(text)[place]) for text in (word, other))
            assert script_of(mine[0]) != script_of(its[0])
            assert (unicodedata.category(mine[0]), mine[1:]) == (unicodedata.category(its[0]), its[1:])


@settings(max_examples=80, deadline=None)
@given(word=st.text("acehijopsxyACEHIJOPSX", min_size=1, max_size=12), **CHOICES)
def test_unicode_changes_as_many_letters_as_the_intensity_says(word: str, intensity: str, seed: int) -> None:
    """In words whose every letter has a confusable one, the count is the intensity's."""
    places = differences(word, changed(word, "unicode", intensity, seed))
    assert allowed(intensity, len(word), len(word)) == len(places)


def test_unicode_leaves_what_has_no_look_alike() -> None:
    """Digits, signs, emoji and letters without a look-alike of their case stay."""
    assert "12+ 👩\u200d🔬 kmt" == changed("12+ 👩\u200d🔬 kmt", "unicode")


def test_confusables_go_both_ways() -> None:
    """The table is symmetric, holds single letters only, never a letter as its own look-alike, and keeps case."""
    table = json.loads(files("app.text").joinpath("confusables.json").read_text("ascii"))["letters"]
    pairs = {(letter, other) for letter, others in table.items() for other in others}
    assert {(other, letter) for letter, other in pairs} == pairs
    assert all(a != b and unicodedata.category(a) == unicodedata.category(b) for a, b in pairs)


@settings(max_examples=100, deadline=None)
@given(word=WORDS, **CHOICES)
def test_zwj_puts_invisible_characters_between_clusters_only(word: str, intensity: str, seed: int) -> None:
    """One invisible character follows each changed cluster, none the last, and nothing else changes."""
    other = changed(word, "zwj", intensity, seed)
    clusters = clusters_of(word)
    pattern = f"([{INVISIBLE}]?)".join(map(regex.escape, clusters))
    matched = regex.fullmatch(pattern, other)
    assert matched is not None
    assert allowed(intensity, len(clusters), len(clusters) - 1) == sum(map(len, matched.groups()))


def test_zwj_uses_all_four_invisible_characters() -> None:
    """Over many words every one of the four is drawn."""
    drawn = {char for seed in range(50) for char in changed("lantern", "zwj", "heavy", seed)}
    assert set(INVISIBLE) | set("lantern") == drawn


@settings(max_examples=100, deadline=None)
@given(word=WORDS, **CHOICES)
def test_mixedcase_stays_the_same_word(word: str, intensity: str, seed: int) -> None:
    """Only case differs, cluster by cluster, and at least one letter does where there is one to flip."""
    other = changed(word, "mixedcase", intensity, seed)
    places = differences(word, other)
    possible = sum(bool(regex.match(r"[\p{Lu}\p{Ll}]", cluster)) and cluster != "ß" for cluster in clusters_of(word))
    assert fold(word) == fold(other)
    if intensity == "heavy":
        assert min(1, possible) <= len(places) <= possible
    else:
        assert allowed(intensity, len(clusters_of(word)), possible) == len(places)


@pytest.mark.parametrize(
    ("word", "expected"), [("hello", "HeLlO"), ("lantern", "LaNtErN"), ("HELLO", "hElLo"), ("cactus", "CaCtUs")]
)
def test_mixedcase_medium_alternates(word: str, expected: str) -> None:
    """Every other letter is flipped, the same with every seed."""
    assert {expected} == {changed(word, "mixedcase", "medium", seed) for seed in range(10)}


def test_mixedcase_heavy_is_random() -> None:
    """Different seeds flip different letters."""
    assert len({changed("lantern", "mixedcase", "heavy", seed) for seed in range(20)}) > 10


def test_random_draws_one_of_four_for_each_occurrence() -> None:
    """Over many occurrences of one text all four are used, each alone, and the result names it."""
    text = "lantern " * 200
    changes = perturbed(text, TriggerSet(["lantern"]).find(text), "random", "heavy", Random(5))[1]
    assert {"leetspeak", "unicode", "zwj", "mixedcase"} == {change.technique for change in changes}
    assert 200 == len(changes)


@pytest.mark.parametrize("technique", WHOLE)
@settings(max_examples=40, deadline=None)
@given(word=WORDS, **CHOICES)
def test_clusters_are_changed_whole(technique: str, word: str, intensity: str, seed: int) -> None:
    """A word keeps its number of clusters, so none is split and no mark is left alone."""
    assert len(clusters_of(word)) == len(clusters_of(changed(word, technique, intensity, seed)))


TRIGGERS = ["lantern", "c++", "café", "quiet library", "ß", "phoenix", "👩\u200d🔬"]
TEXTS = st.lists(st.sampled_from([*TRIGGERS, "LANTERN", "cafe\u0301", "x", " ", ", ", "\r\n", "я", "1", "İ"])).map(
    "".join
)


@pytest.mark.parametrize("technique", TECHNIQUES)
@settings(max_examples=40, deadline=None)
@given(text=TEXTS, **CHOICES)
def test_only_matches_change(technique: str, text: str, intensity: str, seed: int) -> None:
    """What stands between the matches comes out byte for byte, in its place."""
    matches = list(TriggerSet(TRIGGERS).find(text))
    bounds = [0, *(bound for match in matches for bound in (match.start, match.end)), len(text)]
    outside = [text[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True)]
    other, changes = perturbed(text, matches, technique, intensity, Random(seed))
    assert regex.fullmatch("(?s)" + "(.+)".join(map(regex.escape, outside)), other)
    assert len(changes) <= len(matches)
    assert all(change.original != change.transformed for change in changes)


@pytest.mark.parametrize("technique", TECHNIQUES)
@settings(max_examples=20, deadline=None)
@given(text=TEXTS, **CHOICES)
def test_a_seed_fixes_the_text(technique: str, text: str, intensity: str, seed: int) -> None:
    """The same seed gives the same text and the same list of changes."""
    matches = list(TriggerSet(TRIGGERS).find(text))
    first, second = (perturbed(text, matches, technique, intensity, Random(seed)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("technique", ["leetspeak", "unicode", "zwj", "mixedcase", "random"])
def test_seeds_differ(technique: str) -> None:
    """Different seeds give different texts where there is something to choose."""
    assert len({changed("lantern", technique, "light", seed) for seed in range(60)}) > 1


def test_a_seed_gives_the_text_it_always_gave() -> None:
    """Recorded seeds can be replayed by a later version; a change here is a change for users."""
    made = {technique: changed("phonetics", technique, "medium", 3) for technique in TECHNIQUES}
    assert {
        "leetspeak": "p#on37i($",
        "unicode": "\u2ca3\u0570\U0001042c\u0578etic\u0455",
        "zwj": "p\ufeffh\u200do\u200dn\u200betic\u200bs",
        "mixedcase": "PhOnEtIcS",
        "phonetic": "fonetiks",
        "random": "p#on3+i(5",
    } == made


@settings(max_examples=80, deadline=None)
@given(text=TEXTS, **CHOICES)
def test_mixedcase_keeps_the_count_of_matches(text: str, intensity: str, seed: int) -> None:
    """Only case has changed, so the same triggers are found again at the same number of places."""
    triggers = TriggerSet(TRIGGERS)
    once = perturbed(text, triggers.find(text), "mixedcase", intensity, Random(seed))[0]
    assert [match.trigger for match in triggers.find(text)] == [match.trigger for match in triggers.find(once)]


@pytest.mark.parametrize("technique", ["leetspeak", "unicode", "zwj"])
def test_a_heavily_perturbed_word_is_not_found_again(technique: str) -> None:
    """Perturbing twice changes nothing more: the count of a second pass is zero."""
    text = "The lantern of the phoenix."
    triggers = TriggerSet(["lantern", "phoenix"])
    once = perturbed(text, triggers.find(text), technique, "heavy", Random(1))[0]
    assert (once, []) == perturbed(once, triggers.find(once), technique, "heavy", Random(2))
