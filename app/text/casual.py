"""casual_mode: plain words for stiff ones, where they mean the same."""

from __future__ import annotations

import re

from .english import (
    CLOSED_COMPOUNDS,
    DETERMINERS,
    FINITE,
    FOREIGN,
    HOSTS,
    LINKS,
    MODALS,
    PEOPLE,
    POINTERS,
    POSSESSIVES,
    PREPOSITIONS,
    SUBJECTS,
    folded,
)
from .phrases import Joints, prefix_patterns, prefix_regex
from .place import Place, Start
from .rule import AFTER_SENTENCE, NOT_LAST, Edit, Trigger
from .window import Window

__all__ = ["PHRASES", "Casual"]

_LINKERS = {
    "however,": "but",
    "therefore,": "so",
    "consequently,": "so",
    "furthermore,": "also,",
    "moreover,": "also,",
    "additionally,": "plus,",
    "nevertheless,": "still,",
}
_PHRASES = {
    "prior to": "before",
    "subsequent to": "after",
    "in order to": "to",
    "due to the fact that": "because",
    "at this point in time": "now",
    "in the event that": "if",
}
PHRASES = tuple(_PHRASES)
_VERBS = {
    "utilize": "use", "utilizes": "uses", "utilized": "used", "utilizing": "using",
    "obtain": "get", "obtains": "gets", "obtained": "got", "obtaining": "getting",
    "commence": "start", "commences": "starts", "commenced": "started", "commencing": "starting",
    "terminate": "end", "terminates": "ends", "terminated": "ended", "terminating": "ending",
    "purchase": "buy", "purchased": "bought",
}  # fmt: skip
_WORDS = _PHRASES | _VERBS
_LINKER = prefix_regex(_LINKERS)
_LINKER_FIRSTS = frozenset(char for word in _LINKERS for char in (word[0], word[0].upper()))
_WORD = prefix_regex(_WORDS)
_CLOSING = re.compile(r"[.,;:!?…)\]*\"”’]*")
_GETTERS = SUBJECTS | {"you"}
_OWNERS = POSSESSIVES | {"a", "an"}
_BUYERS = SUBJECTS - {"he", "she"} | {"you"}
_AFTER_EVENT = (
    SUBJECTS
    | DETERMINERS
    | frozenset(
        "you it this these those there any no one all some someone anyone something nothing either both".split()
    )
)
_BEFORE_ADJECTIVE = DETERMINERS | POINTERS - {"you", "it"} | frozenset("each every any no some all of".split())
_NO_OBJECT = PREPOSITIONS | LINKS | FINITE
_WANTING = frozenset(
    "want wants wanted need needs needed plan plans planned going like have has had try tries trying able ready decide "
    "decides decided intend intends intended wish wishes hope hopes afford how where when what whether".split()
)
_BEFORE_NOUN = frozenset(
    "add adds added subject prior up related due addition relating similar limited leading next".split()
)
_TERMINATORS = frozenset("nul null zero newline crlf cr lf comma semicolon".split())
_BE = frozenset({"is", "are", "was", "were", "be", "been", "being", "am"})
_COMMENCERS = frozenset("to not please and or i we you they it he she now then that which who let's".split()) | MODALS
_COMMENCED = (
    PREPOSITIONS
    | DETERMINERS
    | frozenset(
        "when after before once this that these immediately now today tomorrow and or work training operations".split()
    )
)


class Casual:
    """The rule of casual_mode.

    Args:
        joints: what must not come together where a phrase becomes shorter.
    """

    triggers = (
        Trigger(" ", prefix_patterns(_WORDS), holds=True),
        Trigger(" ", prefix_patterns(_LINKERS, AFTER_SENTENCE, NOT_LAST)),
        Trigger(r"\t", prefix_patterns(_WORDS), holds=True),
        Trigger(r"\(", prefix_patterns(_WORDS, r"(?<=\s\(.)"), holds=True),
        Trigger(r"\*", prefix_patterns(_WORDS, r"(?:(?<=\s\*.)|(?<=\s\*\*.))"), holds=True),
    )

    heads = (*prefix_patterns(_LINKERS, end=NOT_LAST), *prefix_patterns(_WORDS))

    def __init__(self, joints: Joints) -> None:
        self._joints = joints

    def decide(self, place: Place, view: Window) -> Edit | None:
        """Give the change to make at *place*, or None."""
        text, at = place.text, place.at
        if text[at] in _LINKER_FIRSTS:
            linker = _LINKER.match(text, at, view.end)
            if linker is not None and place.start in (Start.SENTENCE, Start.OPENED):
                edit = _linker(place, view, linker)
                if edit is not None:
                    return edit
        match = _WORD.match(text, at, view.end)
        if match is None:
            view.forget(at)
            return None
        phrase, end = folded(match.group()), match.end()
        new = _WORDS.get(phrase)
        if new is None:
            view.need()
            view.forget(at)
            return None
        if view.char(end) != " ":
            if view.is_letter(end):
                view.forget(at)
                return None
            if not _CLOSING.fullmatch(view.token(end)):
                return None
        takes = self._takes_phrase if phrase in _PHRASES else _takes_verb
        return (end, _cased(match.group(), new), False) if takes(place, view, phrase, end) else None

    def _takes_phrase(self, place: Place, view: Window, phrase: str, end: int) -> bool:
        words, new = place.words, _WORDS[phrase]
        if self._joints.after((*words, new)) or any(right.split()[0] == new for right in self._joints.after(words)):
            return False  # what stands before and the replacement would be a phrase, or begin to read as one
        if phrase == "at this point in time":
            return True
        if view.char(end) != " " or view.char(end + 1).isspace() or not view.char(end + 1):
            return False
        return phrase != "in the event that" or folded(view.plain(end + 1)[0]) in _AFTER_EVENT


def _linker(place: Place, view: Window, match: re.Match[str]) -> Edit | None:
    linker, end = folded(match.group()), match.end()
    if linker not in _LINKERS:
        view.need()
        return None
    if view.char(end) != " " or not view.char(end + 1).strip():
        return None
    new = _cased(match.group(), _LINKERS[linker])
    return (end, new, False) if new.endswith(",") else (end + 1, new + " ", True)


def _cased(old: str, new: str) -> str:
    """Give *new* in the case pattern of *old*."""
    if old.islower():
        return new
    if old.isupper():
        return new.upper()
    return new[0].upper() + new[1:] if old[0].isupper() else new


def _takes_verb(place: Place, view: Window, word: str, end: int) -> bool:
    """Tell whether the plain verb can stand for *word* here."""
    before = place.word
    if before in FOREIGN:
        return False
    following, trail = "", ""
    if view.char(end) == " ":
        following, trail, end = view.plain(end + 1)
        following = folded(following)
        if following in FOREIGN or not following.isascii():
            return False
    if before in _BEFORE_ADJECTIVE and word.endswith(("ed", "ing")):
        return False
    takes = _TAKERS.get(word)
    return takes is None or takes(place, view, word, following, -1 if trail else end + 1)


def _takes_get(place: Place, view: Window, word: str, following: str, behind: int) -> bool:
    if not following or following in _NO_OBJECT:
        return False
    if word != "obtained":
        return True
    if place.word in HOSTS:
        return False
    return place.word in _GETTERS or following in _OWNERS


def _takes_start(place: Place, view: Window, word: str, following: str, behind: int) -> bool:
    return following in _COMMENCED or not _COMMENCERS.isdisjoint(place.words)


def _takes_end(place: Place, view: Window, word: str, following: str, behind: int) -> bool:
    """Processes end, people are not ended, and strings that a sign ends are something else."""
    if following in PEOPLE or place.word in _TERMINATORS:
        return False
    if following in _BEFORE_ADJECTIVE and behind >= 0 and folded(view.plain(behind)[0]) in PEOPLE:
        return False
    is_passive = word == "terminated" and place.word in _BE
    return not (is_passive and len(place.words) > 1 and place.words[-2] in PEOPLE)


def _takes_buy(place: Place, view: Window, word: str, following: str, behind: int) -> bool:
    """To purchase is to buy; a purchase is none of ours."""
    if following in CLOSED_COMPOUNDS:
        return False
    before = place.word
    if word == "purchased" or before in _BUYERS:
        return before in _BUYERS
    if before == "to":
        wanting = place.words[-2] if len(place.words) > 1 else ""
        if not following:
            return wanting in _WANTING
        return following not in _NO_OBJECT and wanting not in _BEFORE_NOUN
    return before in MODALS or before == "please"


_TAKERS = {
    **dict.fromkeys(("obtain", "obtains", "obtained", "obtaining"), _takes_get),
    **dict.fromkeys(("commence", "commences"), _takes_start),
    **dict.fromkeys(("terminate", "terminates", "terminated", "terminating"), _takes_end),
    **dict.fromkeys(("purchase", "purchased"), _takes_buy),
}
"""What else has to be asked about a verb."""
