"""The techniques of perturbing a word: for each, what may be done to a given word, and then a use of chance.

A word is worked on as grapheme clusters, which are changed whole or not at all. What a technique can do to a word is
worked out once and gives a ``Recipe``, as words repeat; a recipe takes its random choices from the ``random.Random`` it
is given, and only by its ``random()``, the one method whose sequence Python promises to keep for a seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from random import Random
from typing import NamedTuple, TypeVar
from unicodedata import category, normalize

from .triggers import clusters_of, fold

__all__ = ["DRAWN", "INTENSITIES", "TECHNIQUES", "Recipe", "pick", "recipe"]

INTENSITIES = ("light", "medium", "heavy")

Recipe = Callable[[Random], str]
"""Gives one word, perturbed."""
_Item = TypeVar("_Item")
_Slots = Sequence[tuple[int, Sequence[str]]]
"""Places in a word, each with what may stand there."""

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
_BITS = 32
"""Choices of one in two that are made of one draw."""
_PAIRS = {"ph": "f", "ck": "k", "qu": "kw"}


class _Sound(NamedTuple):
    """A place where a spelling rule applies: which clusters, and what they become."""

    place: int
    width: int
    spelling: str


def recipe(word: str, technique: str, intensity: str) -> Recipe:
    """Give the recipe of a *technique* for a *word*."""
    return _RECIPES[technique](clusters_of(word), intensity)


def pick(items: Sequence[_Item], rng: Random) -> _Item:
    """Take one of *items*."""
    return items[int(rng.random() * len(items))]


def _amount(intensity: str, length: int) -> int:
    """Give how many of *length* clusters an intensity changes, if that many can be changed."""
    return {"light": 1, "medium": (length + 1) // 2, "heavy": length}[intensity]


def _spread(items: Sequence[_Item], count: int) -> list[_Item]:
    """Take *count* items, or all there are, at even distances from the first on; half of them are every other one."""
    count = min(count, len(items))
    return [items[-(-step * len(items) // count)] for step in range(count)]


def _always(clusters: Sequence[str]) -> Recipe:
    word = "".join(clusters)
    return lambda rng: word


def _filled(clusters: Sequence[str], slots: _Slots) -> Recipe:
    """Put one of its choices into each of *slots*; where there is one only, nothing is drawn."""
    template = list(clusters)
    for place, choices in slots:
        template[place] = choices[0]
    open_slots = [(place, choices, len(choices)) for place, choices in slots if len(choices) > 1]
    if not open_slots:
        return _always(template)

    def fill(rng: Random) -> str:
        out, draw = template.copy(), rng.random
        for place, choices, count in open_slots:
            out[place] = choices[int(draw() * count)]
        return "".join(out)

    return fill


def _leetspeak(clusters: list[str], intensity: str) -> Recipe:
    places = [index for index, cluster in enumerate(clusters) if cluster.lower() in _LEET]
    chosen = _spread(places, _amount(intensity, len(clusters)))
    return _filled(clusters, [(place, _LEET[clusters[place].lower()]) for place in chosen])


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


def _unicode(clusters: list[str], intensity: str) -> Recipe:
    slots = [(place, found) for place, cluster in enumerate(clusters) if (found := _confusables(cluster))]
    return _sampled(clusters, slots, _amount(intensity, len(clusters)))


def _zwj(clusters: list[str], intensity: str) -> Recipe:
    slots = [(place, [cluster + sign for sign in _INVISIBLE]) for place, cluster in enumerate(clusters[:-1])]
    return _sampled(clusters, slots, _amount(intensity, len(clusters)))


def _sampled(clusters: list[str], slots: _Slots, count: int) -> Recipe:
    """Put one of its choices into each of *count* of *slots*, taken at random."""
    if count >= len(slots):
        return _filled(clusters, slots)

    pool = [(place, choices, len(choices)) for place, choices in slots]

    def fill(rng: Random) -> str:
        out, left, draw = clusters.copy(), pool.copy(), rng.random
        size = len(left)
        for _ in range(count):
            taken = int(draw() * size)
            place, choices, options = left[taken]
            size -= 1
            left[taken] = left[size]
            out[place] = choices[int(draw() * options)]
        return "".join(out)

    return fill


@lru_cache(maxsize=1024)
def _flipped(cluster: str) -> str | None:
    """Give the cluster in its other case, or None where that is no single cluster of the same word (``ß``)."""
    other = cluster.swapcase()
    fits = other != cluster and fold(other) == fold(cluster) and len(clusters_of(other)) == 1
    return other if fits else None


def _mixedcase(clusters: list[str], intensity: str) -> Recipe:
    slots = [(place, (other,)) for place, cluster in enumerate(clusters) if (other := _flipped(cluster)) is not None]
    if intensity == "light":
        return _sampled(clusters, slots, 1)
    if intensity == "medium":
        return _filled(clusters, _spread(slots, _amount(intensity, len(clusters))))

    return _flipped_at_random(clusters, [place for place, _ in slots], [other for _, (other,) in slots])


def _flipped_at_random(clusters: list[str], places: list[int], others: list[str]) -> Recipe:
    """Flip half of *places*, at least one."""
    pairs = [(place, other, 1 << bit) for bit, (place, other) in enumerate(zip(places, others, strict=True))]

    def fill(rng: Random) -> str:
        out, bits = clusters.copy(), 0
        for _ in range(0, len(pairs), _BITS):
            bits = bits << _BITS | int(rng.random() * 2**_BITS)
        chosen = [(place, other) for place, other, bit in pairs if bits & bit]
        for place, other in chosen or [pick(pairs, rng)[:2]]:
            out[place] = other
        return "".join(out)

    return fill if pairs else _always(clusters)


def _phonetic(clusters: list[str], intensity: str) -> Recipe:
    out = list(clusters)
    for sound in _spread(_sounds(clusters), _amount(intensity, len(clusters))):
        out[sound.place : sound.place + sound.width] = [sound.spelling] + [""] * (sound.width - 1)
    return _always(out)


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


_RECIPES: dict[str, Callable[[list[str], str], Recipe]] = {
    "leetspeak": _leetspeak,
    "unicode": _unicode,
    "zwj": _zwj,
    "mixedcase": _mixedcase,
    "phonetic": _phonetic,
}
DRAWN = ("leetspeak", "unicode", "zwj", "mixedcase")
"""What ``random`` draws from."""
TECHNIQUES = {
    "leetspeak": "letters become look-alike digits and signs, spread evenly over the word",
    "unicode": "letters become confusable letters of other scripts, case kept",
    "zwj": "an invisible character after each changed character, never after the last",
    "mixedcase": "case flipped: one letter (light), every other letter (medium), letters at random (heavy)",
    "phonetic": "spelling follows sound: ph to f, ck to k, x to ks, qu to kw, c to s before e, i and y, else to k",
    "random": "one of leetspeak, unicode, zwj and mixedcase, drawn for each occurrence",
}
"""What each technique does, by its id."""
