"""Signs of a text's kind other than its words: code's punctuation, tone, broken text, length."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["SIGNS", "signs"]

_MARKS = {
    "arrow": ("=>", "->"),
    "comparison operator": ("==", "!=", "&&", "||", ">=", "<="),
    "assignment": ("+=", ":=", " = "),
    "double colon": ("::",),
    "statement end": (");", ";\n", "};", "()"),
    "brace": ("{", "}"),
    "closing tag": ("</", "/>"),
    "long option": (" --",),
    "path": ("/usr/", "/var/", "/etc/", "/home/", "~/", "./", ":\\"),
    "link": ("http://", "https://", "www."),
    "hexadecimal": ("0x",),
    "traceback": ("Traceback", 'File "', "Error:", "Exception", "error:", "ERROR:", "npm ERR"),
    "sql statement": ("SELECT ", "INSERT INTO", "CREATE TABLE", "GROUP BY", "WHERE ", "UPDATE "),
}
_LOWER_MARKS = {
    "language with a sign": ("c++", "c#", "f#", ".net", "node.js", "vue.js", "next.js", "d3.js"),
    "no sense asked": ("zero sense", "no sense", "zero logic", "makes no", "no logic"),
}
_FILE = re.compile(
    r"\.(?:py|js|ts|tsx|jsx|java|go|rs|rb|php|cs|cpp|c|h|hpp|sh|sql|json|yaml|yml|toml|xml|html|css|csv|txt|md|env|log"
    r"|conf|cfg|ini|jar|exe|dll|so|zip|ipynb|kt|swift|lua|vue|svelte|scss|jpe?g|png|xlsx?|docx?|pdf)\b"
)
_CALL = re.compile(r"[A-Za-z_.]{2,}\((?!s\))")
_SNAKE = re.compile(r"[A-Za-z0-9]_[A-Za-z0-9]")
_CAMEL = re.compile(r"[a-z][A-Z][a-z]")
_OPTION = re.compile(r" -[a-zA-Z]+\b")
_TAG = re.compile(r"<[a-zA-Z][\w-]*[ >/]")
_ESCAPE = re.compile(r"\\[dwsbnt.]|\[[A-Za-z0-9]-[A-Za-z0-9]|\)\?|\.\*|\(\?")
_ERROR_NAME = re.compile(r"[a-z](?:Error|Exception|Warning)\b")
_LINE = re.compile(r"\bline \d|:\d+:\d|\bORA-\d|E\d{4}\b")
_SHOUT = re.compile(r"[A-Z]{4,}")
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{5,}")
_KEYBOARD = re.compile(
    r"asdf|sdfg|dfgh|fghj|ghjk|hjkl|jkl;|qwer|wert[yz]|zxcv|xcvb|cvbn|vbnm|lkjh|kjhg|poiu|aksj|ajsd|skdj|jsdh|sldk"
)
_REPEATED = re.compile(r"([^\W\d_])\1{3}")
_LEET = re.compile(r"[a-z][0134570][a-z]|[a-z]{2}[0134570]\b|\b[0134570][a-z]{3}")
_ACTION = re.compile(r"(?:^|\s)\*[^*\n]{3,}\*(?:\s|$)")
_COMBINING = re.compile(r"[\u0300-\u036f\u0489\u20d0-\u20ff]")
_BLOCKS = re.compile(r"[\u2500-\u259f\u25a0-\u25ff\ufffd\u2580-\u259f]")
_EMOJI = re.compile(r"[\u2190-\u21ff\u2600-\u27bf\U0001f000-\U0001faff]")
_FACE = re.compile(r"[\U0001f600-\U0001f64f\U0001f970\U0001f972\u263a\u2764\U0001f389]|[:;]-?[)D(]|\bxd\b|<3")
_LENGTHS = (
    (2, "1-2 words"),
    (4, "3-4 words"),
    (8, "5-8 words"),
    (16, "9-16 words"),
    (32, "17-32 words"),
    (80, "33-80 words"),
)
_LONG = "over 80 words"

_CODE = (
    "code fence",
    "inline code",
    "call",
    "snake case",
    "camel case",
    "file name",
    "option",
    "tag",
    "pattern syntax",
    "error name",
    "line number",
    "semicolon at line end",
)
_TONE = (
    "question mark at the end",
    "question mark",
    "exclamation mark",
    "exclamation run",
    "dots",
    "colon",
    "quotation",
    "lines",
    "many lines",
    "digits",
    "many digits",
    "per cent or currency",
    "capitals",
    "many capitals",
    "small first letter",
    "no final mark",
    "stage direction",
    "begins with a quotation",
    "smiley",
    "slash",
    "parentheses",
    "semicolon",
    "star",
    "dash",
)
_BROKEN = (
    "combining marks",
    "blocks",
    "emoji",
    "many emoji",
    "only emoji",
    "consonant run",
    "keyboard run",
    "repeated character",
    "leet",
    "repeated words",
    "few letters",
    "odd marks",
    "no known words",
)
SIGNS = (*_MARKS, *_LOWER_MARKS, *_CODE, *_TONE, *_BROKEN, *(name for _, name in _LENGTHS), _LONG)
"""Their names."""


def signs(text: str, lower: str, tokens: list[str]) -> Iterator[tuple[str, float]]:
    """Find the signs in *text*, with how strong each is; *lower* is the text case-folded, *tokens* its words."""
    for name, marks in _MARKS.items():
        for mark in marks:
            if mark in text:
                yield name, 1.0
                break
    for name, marks in _LOWER_MARKS.items():
        for mark in marks:
            if mark in lower:
                yield name, 1.0
                break
    yield from _code(text)
    yield from _tone(text)
    yield from _broken(text, lower, tokens)
    yield next((name for most, name in _LENGTHS if len(tokens) <= most), _LONG), 1.0


def _code(text: str) -> Iterator[tuple[str, float]]:
    if "```" in text:
        yield "code fence", 1.0
    elif text.count("`") > 1:
        yield "inline code", 1.0
    if "(" in text and (calls := len(_CALL.findall(text))):
        yield "call", min(calls, 3) / 2
    if "_" in text and _SNAKE.search(text):
        yield "snake case", 1.0
    if camels := len(_CAMEL.findall(text)):
        yield "camel case", min(camels, 3) / 2
    if "." in text and _FILE.search(text):
        yield "file name", 1.0
    if " -" in text and _OPTION.search(text):
        yield "option", 1.0
    if "<" in text and _TAG.search(text):
        yield "tag", 1.0
    if ("\\" in text or "[" in text or "(?" in text or ".*" in text) and _ESCAPE.search(text):
        yield "pattern syntax", 1.0
    if _ERROR_NAME.search(text):
        yield "error name", 1.0
    if _LINE.search(text):
        yield "line number", 1.0


def _tone(text: str) -> Iterator[tuple[str, float]]:
    stripped = text.rstrip()
    last = stripped[-1:]
    if last in ("?", "？", "؟"):
        yield "question mark at the end", 1.0
    elif "?" in text or "？" in text:
        yield "question mark", 1.0
    elif last.isalnum():
        yield "no final mark", 1.0
    shouts = text.count("!") + text.count("！")
    if shouts:
        yield "exclamation mark", 1.0
        if shouts > 1 and ("!!" in text or "！！" in text):
            yield "exclamation run", min(shouts, 6) / 3
    if "..." in text or "…" in text:
        yield "dots", 1.0
    if ":" in text:
        yield "colon", 1.0
    if text.count('"') > 1 or "“" in text or "«" in text or "„" in text or "「" in text:
        yield "quotation", 1.0
    lines = text.count("\n")
    if lines:
        yield ("many lines" if lines > 3 else "lines"), 1.0
    digits = sum(map(text.count, "0123456789"))
    if digits:
        yield ("many digits" if digits > 5 else "digits"), 1.0
    if "%" in text or "€" in text or "$" in text or "£" in text:
        yield "per cent or currency", 1.0
    shouted = _SHOUT.findall(text)
    if shouted:
        yield ("many capitals" if len(shouted) > 2 else "capitals"), 1.0
    first = text.lstrip()[:1]
    if first.islower():
        yield "small first letter", 1.0
    elif first in ('"', "“", "„", "«"):
        yield "begins with a quotation", 1.0
    if "*" in text:
        yield ("stage direction" if _ACTION.search(text) else "star"), 1.0
    if _FACE.search(text):
        yield "smiley", 1.0
    if "/" in text:
        yield "slash", 1.0
    if "(" in text:
        yield "parentheses", 1.0
    if ";" in text:
        yield "semicolon", 1.0
    if " - " in text or "—" in text or "–" in text:
        yield "dash", 1.0


def _broken(text: str, lower: str, tokens: list[str]) -> Iterator[tuple[str, float]]:
    if not text.isascii():
        if marks := len(_COMBINING.findall(text)):
            yield "combining marks", min(marks, 6) / 3
        if blocks := len(_BLOCKS.findall(text)):
            yield "blocks", min(blocks, 4) / 2
        if emoji := len(_EMOJI.findall(text)):
            yield ("many emoji" if emoji > 3 else "emoji"), 1.0
            if not tokens:
                yield "only emoji", 1.0
    if runs := len(_CONSONANTS.findall(lower)):
        yield "consonant run", min(runs, 4) / 2
    if _KEYBOARD.search(lower):
        yield "keyboard run", 1.0
    if _REPEATED.search(lower):
        yield "repeated character", 1.0
    if leet := len(_LEET.findall(lower)):
        yield "leet", min(leet, 4) / 2
    if len(tokens) > 2 and len(tokens) - len(set(tokens)) > len(tokens) * 0.4:
        yield "repeated words", 1.0
    if len(text) > 6 and sum(map(len, tokens)) < len(text) * 0.5:
        yield "few letters", 1.0
