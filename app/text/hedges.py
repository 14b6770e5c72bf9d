"""hedge_reducer: takes out "I think" and its kin before a clause, and adverbs of doubt after their verb.

Where the rule and good English part, the text stays.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .clauses import Frame, begins_clause, is_verb_in_s
from .english import (
    ADVERBS,
    BREAKING,
    DANGLING,
    DETERMINERS,
    FINITE,
    HOSTS,
    LINKS,
    NEGATIONS,
    POINTERS,
    SUBJECTS,
    folded,
)
from .phrases import Joints, prefix_patterns, prefix_regex
from .place import Place, Start
from .rule import AFTER_SENTENCE, NOT_LAST, Edit, Trigger
from .window import Window

__all__ = ["PHRASES", "Hedges"]


class _Opening(NamedTuple):
    """An opening phrase: what it is followed by, also with "that", and whether its comma goes with it."""

    frame: Frame
    with_that: Frame | None = None
    takes_comma: bool = False


_CLAUSE = Frame(is_whole=True)
_BELIEF = Frame(takes_verbs=False)
_FRAGMENT = Frame()
_OPENINGS = {
    "i think": _Opening(Frame(is_whole=True, is_that=True), _CLAUSE),
    "i believe": _Opening(Frame(is_loose=False, takes_verbs=False, is_that=True), _BELIEF),
    "i would say": _Opening(Frame(is_loose=False, is_that=True), _CLAUSE),
    "it seems like": _Opening(Frame(is_loose=False)),
    "it seems that": _Opening(_CLAUSE),
    "it appears that": _Opening(_CLAUSE),
    "in my opinion": _Opening(_FRAGMENT, takes_comma=True),
    "from my perspective": _Opening(_FRAGMENT, takes_comma=True),
}
PHRASES = tuple(_OPENINGS)
_ASIDES = tuple(phrase for phrase in _OPENINGS if not phrase.startswith("it "))

_OPENING = prefix_regex(_OPENINGS)
_ADVERB = prefix_regex(ADVERBS)
_COMMA_ASIDE = prefix_regex(f", {phrase}," for phrase in _ASIDES)
_BRACKETS = prefix_regex(f"({phrase})" for phrase in _ASIDES)
_EITHER = re.compile(r"[MmPp](?<!\w.)(?i:aybe|erhaps)\b")
_ADVERB_FIRSTS = frozenset("pPmM")
_CONTRAST = 80
"""Characters in which another "maybe" or "perhaps" keeps a "probably"."""
_BEFORE_ASIDE = frozenset(
    "which who because and but or if when since while as than though although where whether not only also".split()
)
_NOT_AFTER_ASIDE = frozenset({"therefore", "so", "but", "yet", "and"})
_DEGREES = frozenset(
    "quite very really pretty fairly much better best only just mostly mainly too almost always often".split()
)
_BEGINNERS = SUBJECTS | POINTERS | DETERMINERS
_LISTING = frozenset({"and", "or", "nor"})
_INTRODUCTIONS = DANGLING - _BEGINNERS | frozenset(
    "after before during since until without yes no first second third then finally also plus still well however thus "
    "therefore hence instead otherwise meanwhile sometimes often today yesterday tomorrow now here okay ok sure again "
    "once please thanks".split()
)
_SUBJECT_WORDS = 6
_AFTER_BARE_OPENER = r"(?<=[Bb][Uu][Tt] .)|(?<=[Ss][Oo] .)"


class Hedges:
    """The rule of hedge_reducer.

    Args:
        joints: what must not come together where something goes.
        has_shadows: openers lose their comma to another rule; see ``decide``.
    """

    def __init__(self, joints: Joints, *, has_shadows: bool) -> None:
        self._joints, self._has_shadows = joints, has_shadows
        starts = f"(?:{AFTER_SENTENCE}|{_AFTER_BARE_OPENER})" if has_shadows else AFTER_SENTENCE
        asides = prefix_patterns((f" {phrase}," for phrase in _ASIDES), r"(?<=[\w)\]*`\"”»]..)")
        brackets = prefix_patterns(f"({phrase})" for phrase in _ASIDES)
        self.heads = (
            *prefix_patterns((*_OPENINGS, *ADVERBS), end=NOT_LAST),
            *prefix_patterns((*(f", {phrase}," for phrase in _ASIDES), *(f"({phrase})" for phrase in _ASIDES))),
        )
        self.triggers = (
            Trigger(",", (*asides, r"\Z"), is_before=False, holds=True),
            Trigger(
                " ", (*prefix_patterns(_OPENINGS, starts, NOT_LAST), *prefix_patterns(ADVERBS, end=NOT_LAST), *brackets)
            ),
        )

    def decide(self, place: Place, view: Window) -> Edit | None:
        """Give the change to make at *place*, or None.

        In the shadow of "But" without a comma nothing goes, but a refusal counts as one after "However," does: the
        text is left alone alike before and after that opener has become a "But".
        """
        char = place.text[place.at]
        if char == ",":
            return self._aside(place, view)
        if char == "(":
            return self._bracket(place, view)
        start = place.start
        if start and (start is not Start.SHADOW or self._has_shadows):
            end = self._adverb(place, view, place.at) if char in "pPmM" else self._opening(place, view, place.at)
            if end is None:
                return None
            if start is not Start.SHADOW:
                return _removal(place, end)
        elif char in "pPmM":
            return self._inner_adverb(place, view)
        view.forget(place.at)
        return None

    def _opening(self, place: Place, view: Window, at: int) -> int | None:
        """Give the index after the opening phrase at *at* if it can go."""
        match = _OPENING.match(view.text, at, view.end)
        if match is None:
            return None
        opening, end = _OPENINGS.get(folded(match.group())), match.end()
        if opening is None:
            view.need()
            return None
        if view.char(end) == "," and opening.takes_comma:
            end += 1
        if view.char(end) != " ":
            return None
        found = self._introduced(place, view, end + 1, opening)
        return None if found is None or view.is_question(found) else found

    def _introduced(self, place: Place, view: Window, index: int, opening: _Opening) -> int | None:
        """Give the index of what *opening*, which ends before *index*, introduces if that can stand alone."""
        is_that = opening.with_that is not None and view.char(index).lower() == "t"
        if is_that and view.continues(index, "that") and view.char(index + 4) == " ":
            if self._leads(place, view, index + 5, opening.with_that or _CLAUSE):
                return index + 5
            return index if begins_clause(view, index, opening.frame) else None
        return index if self._leads(place, view, index, opening.frame) else None

    def _leads(self, place: Place, view: Window, index: int, frame: Frame) -> bool:
        """Tell whether a clause begins at *index*, hedges that would go themselves put aside."""
        if begins_clause(view, index, frame):
            return True
        char = view.char(index)
        if not char:
            return False
        if char in "pPmM":
            return self._adverb(place, view, index) is not None
        return char in "iIfF" and self._opening(place, view, index) is not None

    def _adverb(self, place: Place, view: Window, at: int) -> int | None:
        """Give the index after the adverb at *at*, which begins a sentence, if it can go."""
        end = _adverb_end(view, at)
        if end is None or not self._leads(place, view, end, _FRAGMENT):
            return None
        if self._has_rival(place, view, at, end) or view.is_question(end):
            return None
        return end

    def _inner_adverb(self, place: Place, view: Window) -> Edit | None:
        """Take out an adverb directly after an auxiliary."""
        at, host = place.at, place.word
        if host not in HOSTS:
            view.forget(at)
            return None
        end = _adverb_end(view, at)
        if end is None:
            return None
        following: int | None = end
        last = end
        while following is not None:
            last, following = following, _adverb_end(view, following)
        word = folded(view.plain(last)[0])
        if not word or word in NEGATIONS or word in BREAKING or word in ADVERBS:
            return None
        if self._joints.is_end(host) and self._joins(place.words, view, last):
            return None
        if self._has_rival(place, view, at, end):
            return None
        return end, "", False

    def _has_rival(self, place: Place, view: Window, at: int, end: int) -> bool:
        """Tell whether the sentence weighs the adverb from *at* to *end* against another "maybe" or "perhaps"."""
        text = view.text
        is_either = text[at] in "mM" or text[at : at + 3].lower() == "per"
        if not is_either and end + _CONTRAST <= view.end and _EITHER.search(text, place.floor, end + _CONTRAST) is None:
            return False
        if _EITHER.search(text, place.sentence, at):
            return True
        stop, _ = view.sentence_end(end) if is_either else view.sentence_end(end, _CONTRAST)
        return _EITHER.search(text, end, stop) is not None

    def _aside(self, place: Place, view: Window) -> Edit | None:
        """Take out an opening phrase between commas, both of them."""
        at, text = place.at, place.text
        match = _COMMA_ASIDE.match(text, at, view.end)
        if match is None or not _closes(text, at) or place.is_opener(at):
            view.forget(at)
            return None
        end = match.end()
        if match.group()[-1] != "," or end == at + 1:
            view.need()
            view.forget(at)
            return None
        if view.char(end) != " ":
            return None
        words = place.words_up_to(at)
        if not _may_meet(place, words, view, end + 1) or self._joins(words, view, end + 1):
            return None
        return end, "", False

    def _bracket(self, place: Place, view: Window) -> Edit | None:
        """Take out an opening phrase in parentheses, and the space behind it."""
        at, text = place.at, place.text
        match = _BRACKETS.match(text, at, view.end)
        if match is None or at < 2 or text[at - 1] != " " or not _closes(text, at - 1):
            view.forget(at)
            return None
        end = match.end()
        if match.group()[-1] != ")":
            view.need()
            view.forget(at)
            return None
        if view.char(end) != " " or not view.plain(end + 1)[0] or self._joins(place.words, view, end + 1):
            return None
        return end + 1, "", False

    def _joins(self, words: tuple[str, ...], view: Window, index: int) -> bool:
        """Tell whether *words* and what stands at *index* would make a phrase together."""
        return any(view.continues(index, right) for right in self._joints.after(words))


def _removal(place: Place, end: int) -> Edit:
    """Take out what begins a sentence; the next word takes its case."""
    text, at = place.text, place.at
    is_pronoun = text[at : at + 2].lower() == "i "
    if text[at].isupper() and not (place.start is Start.OPENED and is_pronoun):
        return end + 1, text[end].upper(), False
    return end, "", False


def _adverb_end(view: Window, at: int) -> int | None:
    """Give the index after the adverb at *at* and one space, None if there is none."""
    match = _ADVERB.match(view.text, at, view.end) if view.text[at : at + 1] in _ADVERB_FIRSTS else None
    if match is None:
        return None
    end = match.end()
    if folded(match.group()) not in ADVERBS:
        view.need()
        return None
    return end + 1 if view.char(end) == " " else None


def _closes(text: str, end: int) -> bool:
    """Tell whether a word, or what may stand for one, ends at *end*."""
    return end > 0 and (text[end - 1].isalnum() or text[end - 1] in ')]*`"”»')


def _may_meet(place: Place, words: tuple[str, ...], view: Window, index: int) -> bool:
    """Tell whether an aside may go between *words* and what stands at *index* without running two parts together."""
    word, trail, end = view.plain(index)
    following = folded(word)
    if following in _NOT_AFTER_ASIDE or not view.char(index).strip():
        return False
    previous = words[-1] if words else ""
    if previous in HOSTS or previous in FINITE or previous in SUBJECTS or previous in _BEFORE_ASIDE:
        return True
    if following in FINITE or following in LINKS:
        return True
    if previous == "that" and following in _BEGINNERS:
        return True
    if "," in trail or not following:
        return False
    if following in _DEGREES:
        return True
    if not is_verb_in_s(following) and not (following.endswith("ed") and len(following) > 4):
        return False
    return (bool(trail) or folded(view.word(end + 1)) not in _LISTING) and _is_subject(place)


def _is_subject(place: Place) -> bool:
    """Tell whether the sentence so far is nothing but a short noun phrase."""
    words = folded(place.text[place.sentence : place.at]).split()
    return (
        0 < len(words) <= _SUBJECT_WORDS
        and not any("," in word for word in words)
        and words[0] not in _INTRODUCTIONS
        and not words[0].endswith("ly")
        and FINITE.isdisjoint(words)
    )
