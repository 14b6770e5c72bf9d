"""Whether a whole clause stands where an introduction such as "I think" would be taken from."""

from __future__ import annotations

import re
from typing import NamedTuple

from .english import (
    CONTRACTIONS,
    DEMONSTRATIVE_VERBS,
    DETERMINERS,
    FINITE,
    MODALS,
    NOUNS_IN_S,
    POINTERS,
    PREPOSITIONS,
    SUBJECTS,
    folded,
)
from .window import Window

__all__ = ["ASIDE", "Frame", "begins_clause", "is_verb_in_s"]

ASIDE = re.compile(r", (?:i think|i believe|i would say|in my opinion|from my perspective),", re.IGNORECASE)
_ASIDE_LENGTH = 25
_SUBJECT_AND_WORD = re.compile(r"(?:I|[Ww]e|[Tt]hey|[Ss]?[Hh]e) [^\W\d_]+ ")
"""The most frequent beginning of a clause; what it does not match is looked at word by word."""
_LONERS = frozenset({"too", "all", "both", "either", "also", "alone", "mostly", "and", "or"})
_STOPS = SUBJECTS | frozenset(
    "you it who whom whose which that when where because if since while although though as so but until unless than "
    "and or what how why whether".split()
)
"""Words that begin another clause: a verb behind them need not be the noun phrase's."""
_IDIOMS = frozenset({"lot", "bit", "little", "while", "moment", "same", "opposite", "world", "way", "contrary"})
_MATES = {'"': '"', "“": "”", "«": "»", "`": "`", "(": ")", "[": "]"}
_AUXILIARY_ONLY = frozenset({"do", "does", "did"})
_OWNERS = frozenset({"have", "has", "had"})
_NOUN_OR_MODAL = frozenset({"can", "will", "might", "must"})
_NO_VERB_AFTER = PREPOSITIONS | frozenset({"and", "or"})


class Frame(NamedTuple):
    """What an introduction is followed by.

    Attributes:
        is_loose: a noun phrase behind it is a subject; otherwise it may be an object ("I believe the man").
        takes_verbs: a word in -s is looked at as a verb.
        is_whole: what follows is a clause, never a fragment.
        is_that: "that" before a word in -s may introduce the clause ("that dogs").
    """

    is_loose: bool = True
    takes_verbs: bool = True
    is_whole: bool = False
    is_that: bool = False


def is_verb_in_s(word: str) -> bool:
    """Tell whether *word* looks like a verb of the third person."""
    return (
        len(word) > 2
        and word.endswith("s")
        and not word.endswith(("ss", "us", "is", "'s"))
        and "-" not in word
        and word not in NOUNS_IN_S
    )


def begins_clause(view: Window, index: int, frame: Frame) -> bool:
    """Tell whether a clause that can stand alone begins at *index*."""
    if view.has(_SUBJECT_AND_WORD, index):
        return True
    word, trail, end = view.plain(index)
    if not word or trail or view.char(end) != " ":
        return False
    low = folded(word)
    if low in SUBJECTS:
        return _goes_on(view, end + 1)
    if low in CONTRACTIONS:
        return bool(view.word(end + 1))
    if low in POINTERS:
        return _points(view, low, end + 1, frame)
    return low in DETERMINERS and not _is_idiom(view, end + 1) and _has_verb(view, end + 1, is_loose=frame.is_loose)


def _goes_on(view: Window, index: int) -> bool:
    """Tell whether a word that can be a verb phrase stands at *index*, after a pronoun."""
    word, trail, _ = view.plain(index)
    if not word:
        return bool(view.word(index))
    return folded(word) not in _LONERS or not trail


def _points(view: Window, pointer: str, index: int, frame: Frame) -> bool:
    word, trail, end = view.plain(index)
    low = folded(word)
    if low in FINITE:
        return low not in _NOUN_OR_MODAL or bool(trail) or folded(view.word(end + 1)) not in _NO_VERB_AFTER
    if not frame.takes_verbs or not is_verb_in_s(low):
        return False
    if pointer in ("these", "those", "you"):
        return frame.is_whole or _has_verb(view, index, is_loose=frame.is_loose)
    if pointer == "that" and frame.is_that:
        return low in DEMONSTRATIVE_VERBS and (bool(trail) or folded(view.word(end + 1)) not in FINITE)
    return True


def _is_idiom(view: Window, index: int) -> bool:
    """Tell whether "a lot", "the same" and such stand there on their own."""
    word, trail, end = view.plain(index)
    if folded(word) not in _IDIOMS:
        return False
    following = "" if trail else folded(view.word(end + 1))
    return following != "of" and following not in FINITE


def _has_verb(view: Window, index: int, *, is_loose: bool) -> bool:
    """Tell whether an auxiliary or a form of be follows in the sentence, at least one word after *index*."""
    previous = ""
    while True:
        while view.char(index).isspace():
            index += 1
        first = view.char(index)
        if not first:
            return False
        if first in _MATES:
            mate = view.find(_MATES[first], index + 1)
            if mate < 0:
                return False
            index, previous = mate + 1, first
            continue
        word, trail, end = view.plain(index)
        low = folded(word)
        if low in FINITE and word != "May" and previous not in ("", "to"):
            if _carries(view, low, trail, end, is_loose=is_loose):
                return True
        elif low in _STOPS and not is_loose:
            return False
        if not word:
            trail = _trail(view.text, index, end)
        if not _stays_in_clause(view, trail, end, is_loose=is_loose):
            return False
        index, previous = _after_aside(view, trail, end), low or first


def _carries(view: Window, low: str, trail: str, end: int, *, is_loose: bool) -> bool:
    """Tell whether *low*, a finite form by its letters, is the verb here and not a noun or a relative clause's."""
    following = "" if trail else folded(view.word(end + 1))
    if low in _NOUN_OR_MODAL and (not following or following in _NO_VERB_AFTER):
        return False
    if is_loose:
        return True
    if low in _AUXILIARY_ONLY:
        return following == "not"
    if low in _OWNERS or low in MODALS:
        return bool(following) and (following == "to" or following not in PREPOSITIONS)
    return True


def _trail(text: str, index: int, end: int) -> str:
    """Give the punctuation that ends what is no plain word."""
    start = end
    while start > index and text[start - 1] in '.,;:!?…)]*"”’':
        start -= 1
    return text[start:end] if "—" not in text[index:end] else ";"


def _stays_in_clause(view: Window, trail: str, end: int, *, is_loose: bool) -> bool:
    if not trail:
        return True
    if any(sign in trail for sign in ".!?…;:"):
        return False
    return trail != "," or is_loose or _after_aside(view, trail, end) > end


def _after_aside(view: Window, trail: str, end: int) -> int:
    """Give the index behind an aside whose first comma is *trail*, which ends at *end*; *end* if there is none."""
    if trail != "," or view.char(end) != " ":
        return end
    if view.char(end + 1).lower() not in ("i", "f"):
        return end
    for place in range(end - 1, end - 1 + _ASIDE_LENGTH):
        if not view.char(place):
            break
    match = ASIDE.match(view.text, end - 1, view.end)
    return match.end() if match else end
