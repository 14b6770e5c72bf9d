"""Perturbing chosen words: the techniques, how much each changes, and their use on the matches of a text.

A word is worked on as grapheme clusters, which are changed whole or not at all. Every random choice is taken from the
``random.Random`` that is passed in, and only by its ``random()``, the one method whose sequence Python promises to
keep for a seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from random import Random
from typing import NamedTuple, TypeVar
from unicodedata import category, normalize

from .triggers import Match, clusters_of, fold

__all__ = ["INTENSITIES", "TECHNIQUES", "Perturbation", "perturb", "perturb_matches"]

INTENSITIES = ("light", "medium", "heavy")

_Item = TypeVar("_Item")
_Change = Callable[[list[str], str, Random], str]

_LEET = {
    "a": "4@",
    "b": "8",
    "c": "(",
    "e": "3",
    "g": "9",
    "h": "#",
    "i": "1!",
    "l": "1|",
    "o": "0",
    "s": "5$",
    "t": "7+",
    "z": "2",
}
_INVISIBLE = "\u200b\u200c\u200d\ufeff"
_PAIRS = {"ph": "f", "ck": "k", "qu": "kw"}


class Perturbation(NamedTuple):
    """One match that was changed, and by which technique."""

    original: str
    transformed: str
    technique: str


class _Sound(NamedTuple):
    """A place where a spelling rule applies: which clusters, and what they become."""

    place: int
    width: int
    spelling: str


def _amount(intensity: str, length: int) -> int:
    """Give how many of *length* clusters an intensity changes, if that many can be changed."""
    return {"light": 1, "medium": (length + 1) // 2, "heavy": length}[intensity]


def _spread(items: Sequence[_Item], count: int) -> list[_Item]:
    """Take *count* items, or all there are, at even distances from the first on; half of them are every other one."""
    count = min(count, len(items))
    return [items[-(-step * len(items) // count)] for step in range(count)]


def _pick(items: Sequence[_Item], rng: Random) -> _Item:
    return items[int(rng.random() * len(items))]


def _sample(items: Iterable[_Item], count: int, rng: Random) -> list[_Item]:
    """Take *count* different items, or all there are, at random."""
    pool = list(items)
    count = min(count, len(pool))
    for index in range(count):
        other = index + int(rng.random() * (len(pool) - index))
        pool[index], pool[other] = pool[other], pool[index]
    return pool[:count]


def _leetspeak(clusters: list[str], intensity: str, rng: Random) -> str:
    places = [index for index, cluster in enumerate(clusters) if cluster.lower() in _LEET]
    out = list(clusters)
    for index in _spread(places, _amount(intensity, len(clusters))):
        out[index] = _pick(_LEET[clusters[index].lower()], rng)
    return "".join(out)


@cache
def _confusable_letters() -> dict[str, str]:
    text = files(__package__).joinpath("confusables.json").read_text(encoding="ascii")
    letters: dict[str, str] = json.loads(text)["letters"]
    return letters


@lru_cache(maxsize=1024)
def _confusables(cluster: str) -> tuple[str, ...]:
    """Give the clusters that look like this one: its letter from another script, with its marks if it has any."""
    letters = _confusable_letters()
    if cluster in letters:
        return tuple(letters[cluster])
    decomposed = normalize("NFD", cluster)
    base, marks = decomposed[0], decomposed[1:]
    if any(category(mark) != "Mn" for mark in marks):
        return ()
    return tuple(normalize("NFC", letter + marks) for letter in letters.get(base, ""))


def _unicode(clusters: list[str], intensity: str, rng: Random) -> str:
    choices = {index: found for index, cluster in enumerate(clusters) if (found := _confusables(cluster))}
    out = list(clusters)
    for index in sorted(_sample(choices, _amount(intensity, len(clusters)), rng)):
        out[index] = _pick(choices[index], rng)
    return "".join(out)


def _zwj(clusters: list[str], intensity: str, rng: Random) -> str:
    out = list(clusters)
    for index in sorted(_sample(range(len(clusters) - 1), _amount(intensity, len(clusters)), rng)):
        out[index] += _pick(_INVISIBLE, rng)
    return "".join(out)


@lru_cache(maxsize=1024)
def _flipped(cluster: str) -> str | None:
    """Give the cluster in its other case, or None where that is no single cluster of the same word (``ß``)."""
    other = cluster.swapcase()
    fits = other != cluster and fold(other) == fold(cluster) and len(clusters_of(other)) == 1
    return other if fits else None


def _mixedcase(clusters: list[str], intensity: str, rng: Random) -> str:
    flips = {index: other for index, cluster in enumerate(clusters) if (other := _flipped(cluster)) is not None}
    places = list(flips)
    if not places:
        chosen = []
    elif intensity == "light":
        chosen = [_pick(places, rng)]
    elif intensity == "medium":
        chosen = _spread(places, _amount(intensity, len(clusters)))
    else:
        chosen = [index for index in places if rng.random() < 0.5] or [_pick(places, rng)]
    return "".join(flips[index] if index in chosen else cluster for index, cluster in enumerate(clusters))


def _phonetic(clusters: list[str], intensity: str, rng: Random) -> str:
    out = list(clusters)
    for sound in _spread(_sounds(clusters), _amount(intensity, len(clusters))):
        out[sound.place : sound.place + sound.width] = [sound.spelling] + [""] * (sound.width - 1)
    return "".join(out)


def _sounds(clusters: list[str]) -> list[_Sound]:
    """Find the places of the spelling rules, pairs first, from left to right."""
    found = []
    index = 0
    while index < len(clusters):
        here, following = clusters[index], clusters[index + 1] if index + 1 < len(clusters) else ""
        pair = _PAIRS.get((here + following).lower())
        if pair is not None:
            found.append(_Sound(index, 2, _in_case_of(here, following, pair)))
            index += 2
            continue
        if here in ("x", "X"):
            neighbour = following or (clusters[index - 1] if index else "")
            found.append(_Sound(index, 1, _in_case_of(here, neighbour if here == "X" else here, "ks")))
        elif here in ("c", "C"):
            soft = normalize("NFD", following)[:1].lower() in ("e", "i", "y")
            found.append(_Sound(index, 1, _in_case_of(here, "", "s" if soft else "k")))
        index += 1
    return found


def _in_case_of(first: str, second: str, spelling: str) -> str:
    """Give one or two letters the case of two clusters."""
    letters = zip(spelling, (first, second), strict=False)
    return "".join(letter.upper() if cluster.isupper() else letter for letter, cluster in letters)


_CHANGES: dict[str, _Change] = {
    "leetspeak": _leetspeak,
    "unicode": _unicode,
    "zwj": _zwj,
    "mixedcase": _mixedcase,
    "phonetic": _phonetic,
}
_DRAWN = ("leetspeak", "unicode", "zwj", "mixedcase")
TECHNIQUES = {
    "leetspeak": "letters become look-alike digits and signs, spread evenly over the word",
    "unicode": "letters become confusable letters of other scripts, case kept",
    "zwj": "an invisible character after each changed character, never after the last",
    "mixedcase": "case flipped: one letter (light), every other letter (medium), letters at random (heavy)",
    "phonetic": "spelling follows sound: ph to f, ck to k, x to ks, qu to kw, c to s before e, i and y, else to k",
    "random": "one of leetspeak, unicode, zwj and mixedcase, drawn for each occurrence",
}
"""What each technique does, by its id."""


def perturb(word: str, technique: str, intensity: str, rng: Random) -> Perturbation:
    """Perturb one *word*; ``random`` draws the technique, and the result names the one drawn."""
    used = _pick(_DRAWN, rng) if technique == "random" else technique
    return Perturbation(word, _CHANGES[used](clusters_of(word), intensity, rng), used)


def perturb_matches(
    text: str, matches: Iterable[Match], technique: str, intensity: str, rng: Random
) -> tuple[str, list[Perturbation]]:
    """Perturb the *matches* of a *text*; give the new text and the matches that did change."""
    pieces: list[str] = []
    changes: list[Perturbation] = []
    done = 0
    for match in matches:
        change = perturb(text[match.start : match.end], technique, intensity, rng)
        pieces += (text[done : match.start], change.transformed)
        done = match.end
        if change.transformed != change.original:
            changes.append(change)
    return "".join((*pieces, text[done:])), changes
