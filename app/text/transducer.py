"""STM's text transducer: reads an answer from left to right in pieces of any size and gives it out with its edits.

What comes out is the same for every way of cutting the text. It holds back text only from the first place on where it
cannot decide yet, never more than ``LOOK_AHEAD`` characters. Where a refusal looked at text, that text is left alone
by later edits: so a second pass sees the same and refuses the same, and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

from ..turns import Pause
from . import casual, hedges, openers
from .casual import Casual
from .edits import Edits
from .hedges import Hedges
from .lines import Lines
from .openers import Openers
from .phrases import Joints
from .place import Place
from .prose import Prose
from .rule import Edit, Rule
from .window import LOOK_AHEAD, More, Undecided, Window

__all__ = ["MODULES", "Transducer", "make_ready", "transform"]

MODULES = ("hedge_reducer", "direct_mode", "casual_mode")
"""Names of the modules, in the order in which they apply."""

_SLICE = 1024
"""Characters worked on at a time: an edit moves what stands behind it, and others want their turn."""
_ANCHORS = frozenset(" \t(*")
"""Characters with which a trigger may begin one character before its place."""
_KEPT = 256
"""Characters kept of what has gone out, for looking back."""


def transform(text: str, modules: Iterable[str], pause: Pause | None = None) -> str:
    """Give *text* as *modules* leave it; *pause* as for ``Transducer``."""
    transducer = Transducer(modules, pause=pause)
    return transducer.feed(text) + transducer.finish()


def make_ready() -> None:
    """Compile the patterns of every choice of modules: half a second's work, which no request shall wait for."""
    for count in range(len(MODULES) + 1):
        for modules in combinations(MODULES, count):
            _plan(modules)


class _Asker(NamedTuple):
    """The rule to ask about what a group of the pattern of places has found, and how that trigger behaves."""

    rules: tuple[Rule]
    offset: int
    holds: bool


class _Plan(NamedTuple):
    """What a choice of modules comes to.

    Attributes:
        rules: those that look at places anywhere.
        openers: the rule for the start of the answer, if chosen.
        lines: patterns of the places to look at; an empty group ends each alternative of a trigger.
        askers: what each group stands for, by number.
    """

    rules: tuple[Rule, ...]
    openers: Openers | None
    lines: Lines
    askers: tuple[_Asker, ...]


@cache
def _plan(modules: tuple[str, ...]) -> _Plan:
    joints = Joints((*hedges.PHRASES, *openers.PHRASES, *casual.PHRASES))
    rules: list[Rule] = []
    if "hedge_reducer" in modules:
        rules.append(Hedges(joints, has_shadows="casual_mode" in modules))
    if "casual_mode" in modules:
        rules.append(Casual(joints))
    # NOTE: triggers that hold come first: at the end of the text, where several may match, waiting is right for all.
    pairs = sorted(((rule, trigger) for rule in rules for trigger in rule.triggers), key=lambda pair: not pair[1].holds)
    askers, branches, candidates = [], [], []
    for anchor in dict.fromkeys(trigger.anchor for _, trigger in pairs):
        alternatives = []
        for rule, trigger in pairs:
            if trigger.anchor == anchor:
                alternatives += [f"{pattern}()" for pattern in trigger.patterns]
                askers += [_Asker((rule,), int(trigger.is_before), trigger.holds)] * len(trigger.patterns)
        branches.append(f"{anchor}(?:{'|'.join(alternatives)})")
        candidates.append(branches[-1].replace("()", ""))
    lines = Lines.without(branches, candidates, ["|".join(rule.heads) for rule in rules])
    return _Plan(tuple(rules), Openers() if "direct_mode" in modules else None, lines, tuple(askers))


class Transducer:
    """One answer's way through *modules*.

    Args:
        modules: any of ``MODULES``.
        at_start: the text begins an answer; otherwise it goes on in one and has no start.
        before: what stands before the text, when it goes on: it tells what is protected.
        pause: is called after each part of a long piece of text, a millisecond or two of work.

    Attributes:
        edits: what was changed so far, by position in the raw text.
        held_max: most characters held so far.
    """

    def __init__(
        self, modules: Iterable[str], *, at_start: bool = True, before: str = "", pause: Pause | None = None
    ) -> None:
        chosen = frozenset(modules)
        plan = _plan(tuple(name for name in MODULES if name in chosen))
        self._rules, self._askers = plan.rules, plan.askers
        self._openers = plan.openers if at_start else None
        self._search, self._match_head = plan.lines.events.search, plan.lines.heads.match
        self._prose = Prose(plan.lines.dull, is_start=at_start or bool(before))
        self._place, self._view = Place(self._prose), Window()
        self.edits = Edits()
        self.held_max = 0
        self._buffer = ""
        self._at = 0
        self._out = 0
        self._raw = 0
        self._from = 0
        self._due = self._frozen = self._opened = -1
        self._wake: re.Pattern[str] | None = None
        self._is_waiting = False
        self._is_plain = False
        self._pause = pause
        if before:
            self._skip(before)

    @property
    def held(self) -> str:
        """What is held back, waiting for a decision."""
        return self._buffer[self._out :]

    def feed(self, text: str) -> str:
        """Take the next piece; give what may go out. Raising, it has taken nothing: ``held`` is what it was."""
        buffer, out = self._buffer, self._out
        try:
            return self._feed(text) if len(text) <= _SLICE else "".join(self._feed_in_parts(text))
        except BaseException:
            self._buffer, self._out = buffer, out
            raise

    def finish(self, text: str = "") -> str:
        """Take the last piece; give what is left, decided as end of text. Raising, as ``feed``."""
        buffer, out = self._buffer, self._out
        try:
            found = self.feed(text)
            self._is_plain = False
            self._run(is_final=True)
            return found + self._emit(len(self._buffer))
        except BaseException:
            self._buffer, self._out = buffer, out
            raise

    def _feed_in_parts(self, text: str) -> Iterator[str]:
        for start in range(0, len(text), _SLICE):
            yield self._feed(text[start : start + _SLICE])
            if self._pause is not None:
                self._pause()

    def _feed(self, text: str) -> str:
        buffer = self._buffer = self._buffer + text
        if not self._is_plain:
            return "" if self._is_asleep(text) else self._go_on()
        match = self._search(buffer, self._from)
        if match is None:
            end = len(buffer)
            self._from = end - (buffer[-1:] in _ANCHORS)
        elif match.end() == len(buffer) and (end := self._held_from(match)) >= 0:
            self._from = match.start()
            self.held_max = max(self.held_max, len(buffer) - end)
        else:
            return self._go_on()
        out = buffer[self._out : end]
        self._at = self._out = end
        if end > 4 * _KEPT:
            self._trim()
        return out

    def _held_from(self, match: re.Match[str]) -> int:
        """Give the index from which what was found at the end of the text is held unasked; -1 if it is not."""
        number = match.lastindex
        if number is None or not self._askers[number - 1].holds:
            return -1
        start = match.start() + self._askers[number - 1].offset
        return start if start >= self._frozen else -1

    def _go_on(self) -> str:
        self._run(is_final=False)
        return self._emit(self._at if self._is_waiting else len(self._buffer))

    def _is_asleep(self, text: str) -> bool:
        """Tell whether the held decision need not be looked at again yet."""
        if not self._is_waiting or self._wake is None or self._wake.search(text):
            return False
        held = len(self._buffer) - self._at
        if held >= LOOK_AHEAD:
            return False
        self.held_max = max(self.held_max, held)
        return True

    def _emit(self, end: int) -> str:
        out = self._buffer[self._out : end]
        self._out = end
        self.held_max = max(self.held_max, len(self._buffer) - end)
        if self._at > 4 * _KEPT:
            self._trim()
        return out

    def _trim(self) -> None:
        count = min(self._at, self._out) - _KEPT
        if count > 0:
            self._buffer = self._buffer[count:]
            self._at -= count
            self._out -= count
            self._raw += count
            self._from -= count
            self._due -= count
            self._frozen -= count
            self._opened -= count
            self._prose.shift(count)

    def _skip(self, before: str) -> None:
        """Go through *before* without changing anything."""
        search, self._search = self._search, _plan(()).lines.events.search
        match_head, self._match_head = self._match_head, _plan(()).lines.heads.match
        self.feed(before)
        self._search, self._match_head = search, match_head
        self._out = len(self._buffer)
        self._raw = -self._out
        self._due = -1
        self._frozen = self._out + 1  # the seam is no place to change anything

    def _run(self, *, is_final: bool) -> None:
        """Go on as far as can be decided."""
        self._is_waiting = self._is_plain = False
        try:
            while self._prose.is_inside or self._enter(is_final):
                if not self._step(is_final):
                    return
        except More as more:
            self._is_waiting, self._wake, self._due = True, more.wake, self._at

    def _enter(self, is_final: bool) -> bool:
        """Go through what is protected to the next prose; False if the text ends before."""
        prose = self._prose
        self._at = prose.advance(self._buffer, self._at, is_final)
        if prose.is_inside and self._at == prose.head:
            self._due = self._at
        return prose.is_inside

    def _step(self, is_final: bool) -> bool:
        """Go on in prose to the next place to look at, and do what is to be done there; False if there is none."""
        buffer = self._buffer
        if self._at == self._due:
            if self._begin(is_final):
                return True
            self._due = -1
            self._prose.is_fresh = False
            asked = self._at
        else:
            asked = -1
        at = self._at
        match = self._search(buffer, at - 1 if at and buffer[at - 1] in _ANCHORS else at)
        if match is None:
            self._at = len(buffer)
            self._from = self._at - (buffer[-1:] in _ANCHORS)
            self._is_plain = True
            return False
        number = match.lastindex
        if number is None:
            return self._pass(match.start(), match.end(), is_final)
        asker = self._askers[number - 1]
        self._at = start = match.start() + asker.offset
        is_cut = match.end() == len(buffer) and not is_final
        if start != asked and start >= self._frozen:
            if is_cut and asker.holds:
                self._is_waiting = self._is_plain = True
                self._wake, self._from = None, match.start()
                return False
            if self._ask(self._rules if is_cut else asker.rules, is_final):
                return True
        self._at = start + 1
        return True

    def _pass(self, start: int, end: int, is_final: bool) -> bool:
        """Go into or over the protected place at *start*, or to the next line; False if more text must come first."""
        if end - start > 1:
            self._prose.cross(self._buffer, start, end)
            self._at = end
            return True
        found = self._prose.open(self._buffer, start, is_final)
        self._at = start if found < 0 else found
        return found >= 0

    def _begin(self, is_final: bool) -> bool:
        """Make the edit that any rule wants where a line's prose begins; False if they want none."""
        text, at = self._buffer, self._at
        openers = self._openers if self._prose.is_fresh and at == self._prose.head else None  # not behind a linker
        if openers is not None and openers.may_begin(text, at):
            self._place.move(text, at, self._opened)
            self._view.move(text, at, is_final, True)
            edit = self._judge(openers.decide)
            if edit is not None:
                self._apply(edit)
                self._prose.leave()
                self._at = self._prose.line
                return True
        match = self._match_head(text, at)
        if match is None or match.lastindex is None:
            return False
        is_cut = match.end() == len(text) and not is_final
        return self._ask(self._rules if is_cut else self._rules[match.lastindex - 1 : match.lastindex], is_final)

    def _ask(self, rules: Sequence[Rule], is_final: bool) -> bool:
        """Make the edit that *rules* want at the place reached; False if they want none."""
        buffer, at, view = self._buffer, self._at, self._view
        self._place.move(buffer, at, self._opened)
        view.move(buffer, at, is_final)
        for rule in rules:
            if at < self._frozen:
                break
            view.reach = at
            edit = self._judge(rule.decide)
            if edit is not None:
                self._apply(edit)
                return True
        return False

    def _judge(self, decide: Callable[[Place, Window], Edit | None]) -> Edit | None:
        """Ask a rule; leave alone what its refusal looked at."""
        view = self._view
        try:
            edit = decide(self._place, view)
        except Undecided:
            edit, view.reach = None, view.end
        if edit is None and view.reach > self._frozen:
            self._frozen = view.reach
        return edit

    def _apply(self, edit: Edit) -> None:
        (end, text, opens), start, buffer = edit, self._at, self._buffer
        self._buffer = f"{buffer[:start]}{text}{buffer[end:]}"
        behind, raw = start + len(text), self._raw
        self.edits.add(start + raw, end + raw, len(text))
        self._raw = raw + end - behind
        if opens:
            self._at = self._due = self._opened = behind
