"""Sets of phrases as patterns that also find a phrase cut off by the text's end, and where two parts would join."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["Joints", "prefix_patterns", "prefix_regex"]

_Tree = dict[str, "_Tree"]
_END = ""


def prefix_patterns(phrases: Iterable[str], behind: str = "", end: str = "") -> tuple[str, ...]:
    """Give patterns, one for each first character, for *phrases* in any case or their beginning at the end of the text.

    The longest phrase is found; an apostrophe stands for the curly one too. *behind* is looked for behind the first
    character: a pattern that begins with a set of characters is passed over faster than one that looks around first.
    *end* is looked for behind the whole.
    """
    tree: _Tree = {}
    for phrase in phrases:
        node = tree
        for char in phrase:
            node = node.setdefault(char, {})
        node[_END] = {}
    return tuple(f"[{char}{char.upper()}]{behind}(?i:{_pattern(rest)}){end}" for char, rest in tree.items())


def prefix_regex(phrases: Iterable[str]) -> re.Pattern[str]:
    """Compile the patterns of ``prefix_patterns`` into one."""
    return re.compile("|".join(prefix_patterns(phrases)))


def _pattern(tree: _Tree) -> str:
    branches = [_escaped(char) + _pattern(rest) for char, rest in tree.items() if char != _END]
    branches.append("" if _END in tree else r"\Z")
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


def _escaped(char: str) -> str:
    return "['’]" if char == "'" else re.escape(char)


class Joints:
    """Tells which words must not come to stand side by side, as they would read as one of *phrases* together."""

    def __init__(self, phrases: Iterable[str]) -> None:
        self._splits: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for phrase in phrases:
            words = phrase.split()
            for cut in range(1, len(words)):
                split = (tuple(words[:cut]), " ".join(words[cut:]))
                self._splits.setdefault(words[cut - 1], []).append(split)

    def is_end(self, word: str) -> bool:
        """Tell whether anything must not follow on *word*."""
        return word in self._splits

    def after(self, words: tuple[str, ...]) -> list[str]:
        """Give what must not follow directly on the last of *words*."""
        splits = self._splits.get(words[-1]) if words else None
        return [right for left, right in splits if left == words[-len(left) :]] if splits else []
