"""Signs of a text's kind other than its words: code's punctuation, tone, style, broken text, length."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator

__all__ = ["SIGNS", "signs"]

_MARKS = {
    "code fence": ("```",),
    "arrow": ("=>", "->"),
    "comparison operator": ("==", "!=", "&&", "||", ">=", "<="),
    "assignment": ("+=", ":=", " = "),
    "double colon": ("::",),
    "statement end": (");", ";\n", "};", "()"),
    "brace": ("{",),
    "closing tag": ("</", "/>"),
    "long option": (" --",),
    "path": ("/usr/", "/var/", "/etc/", "/home/", "~/", "./", ":\\"),
    "link": ("http://", "https://", "www."),
    "hexadecimal": ("0x",),
    "traceback": ("Traceback", 'File "', "Error:", "Exception", "error:", "ERROR:", "npm ERR"),
    "sql statement": ("SELECT ", "INSERT INTO", "CREATE TABLE", "GROUP BY", "WHERE ", "UPDATE "),
    "language with a sign": ("C++", "c++", "C#", "c#", "F#", ".NET", ".net", ".js"),
    "dots": ("...", "…"),
    "colon": (":",),
    "quotation": ('"', "“", "«", "„", "「"),
    "per cent or currency": ("%", "€", "$", "£"),
    "slash": ("/",),
    "parentheses": ("(",),
    "semicolon": (";",),
    "dash": (" - ", "—", "–"),
    "exclamation mark": ("!", "！"),
    "smiley": (
        ":)",
        ":-)",
        ":(",
        ";)",
        ":D",
        ":-D",
        "<3",
        "xD",
        "😂",
        "😊",
        "😄",
        "😅",
        "😭",
        "❤",
        "🎉",
        "🙏",
        "👍",
        "🙄",
    ),
}
"""Named by any of these, looked for as they are."""
_MARKS_BY_RAREST: dict[str, list[tuple[str, str]]] = {}
"""By a character without which the mark is not there: no letter if it has another."""
for _name, _marks in _MARKS.items():
    for _mark in _marks:
        _rarest = min(_mark, key=lambda character: (character.isalnum() or character == " ", character.islower()))
        _MARKS_BY_RAREST.setdefault(_rarest, []).append((_mark, _name))
_RAREST = frozenset(_MARKS_BY_RAREST)
_DIGITS = frozenset("0123456789")
_CODE = frozenset("`(_.-<\\[*")
"""One of these is in any text with a sign of code that is not of capitals."""
_CAPITALS = re.compile(r"[A-Z](?:(?<=[a-z].)|[A-Z]{3})")
"""Shows before any of the next three can."""
_CAMEL = re.compile(r"[a-z][A-Z][a-z]")
_ERROR_NAME = re.compile(r"[a-z](?:Error|Exception|Warning)\b")
_SHOUT = re.compile(r"[A-Z]{4,}")
_FILE = re.compile(
    r"\.(?:py|js|ts|tsx|jsx|java|go|rs|rb|php|cs|cpp|c|h|hpp|sh|sql|json|yaml|yml|toml|xml|html|css|csv|txt|md|env|log"
    r"|conf|cfg|ini|jar|exe|dll|so|zip|ipynb|kt|swift|lua|vue|svelte|scss|jpe?g|png|xlsx?|docx?|pdf)\b"
)
_CALL = re.compile(r"[A-Za-z_.]{2}\((?!s\))")
_SNAKE = re.compile(r"[A-Za-z0-9]_[A-Za-z0-9]")
_OPTION = re.compile(r" -[a-zA-Z]+\b")
_TAG = re.compile(r"<[a-zA-Z][\w-]*[ >/]")
_ESCAPE = re.compile(r"\\[dwsbnt.]|\[[A-Za-z0-9]-[A-Za-z0-9]|\)\?|\.\*|\(\?")
_LINE = re.compile(r"line \d")
_PLACE = re.compile(r":\d+:\d")
_ACTION = re.compile(r"(?:^|\s)\*[^*\n]{3,60}\*(?:\s|$)")
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{5}")
_KEYBOARD = re.compile(
    r"asdf|sdfg|dfgh|fghj|ghjk|hjkl|jkl;|qwer|wert[yz]|zxcv|xcvb|cvbn|vbnm|lkjh|kjhg|poiu|aksj|ajsd|skdj|jsdh|sldk|йцук|фыва"
)
_REPEATED = re.compile(r"([^\W\d_])\1{3}")
_LEET = re.compile(r"[a-z][0134570][a-z]|[a-z]{2}[0134570]\b|\b[0134570][a-z]{3}")
_RARE = re.compile(
    r"[bcdfgjkmpqvwxz]q|q[^u\W\d_]|[jv][bcdfghkmpqtvwxz]|[bcdfgkpqtvwxz]j|[bcdfghjklmpqstvwz]x|[cdfghjkpqtvwx]z[bcdfghjkmpqtvwx]"
    r"|[fhjkmpqvwxz]{3}|[bcdfghjkmpqtvwxz]{4}|[bdfgjkpqvwxz][fhjkmvwxz][bdfgjkpqvwxz]"
)
_SYMBOL = re.compile(r"[\u0300-\u036f\u0489\u20d0-\u27bf\ufffd\U0001f000-\U0001faff]")
"""Any of the next three."""
_COMBINING = re.compile(r"[\u0300-\u036f\u0489\u20d0-\u20ff]")
_BLOCKS = re.compile(r"[\u2500-\u25ff\ufffd]")
_EMOJI = re.compile(r"[\u2190-\u21ff\u2600-\u27bf\U0001f000-\U0001faff]")
_ABSTRACT = frozenset(
    "tion sion ment ance ence ical logy alism vity lity rity cción ción ção ções zione ismus ität tung kung lung rung"
    " ismo isme dade idad ость ение ание ення ання ość enie anie heit keit ning else ság ség".split()
)
"""How nouns of ideas end, as far as the last four letters tell."""
_ENDINGS = frozenset(ending[-4:] for ending in _ABSTRACT)
_LENGTHS = ("1-2 words", "3-4 words", "5-8 words", "9-16 words", "17-32 words", "33-80 words", "over 80 words")
_MOST = (2, 4, 8, 16, 32, 80)
"""How many words the lengths are up to."""
_FEW_UNKNOWN = 0.2
"""Share of unknown words up to which a text is no gibberish."""
_MAX_UNKNOWN = 80
"""Letters of unknown words that are tried for gibberish."""

SIGNS = (
    *_MARKS,
    "inline code", "call", "snake case", "camel case", "file name", "option", "tag", "pattern syntax", "error name",
    "line number",
    "question mark at the end", "question mark", "no final mark", "exclamation run", "lines", "many lines", "digits",
    "many digits", "capitals", "many capitals", "small first letter", "begins with a quotation", "stage direction",
    "star",
    "abstract word", "abstract words", "two sentences", "many sentences", "long words",
    "short words",
    "combining marks", "blocks", "emoji", "many emoji", "only emoji", "consonant run", "keyboard run",
    "repeated character", "leet", "rare letters", "repeated words", "few letters", "no word known", "few words known",
    "some words known", "most words known", "all words known",
    *_LENGTHS,
)  # fmt: skip
"""Their names."""

Sign = tuple[str, float]


def signs(text: str, tokens: list[str], distinct: Collection[str], unknown: Collection[str]) -> Iterator[Sign]:
    """Find the signs in *text*, each with how strong it is.

    Args:
        tokens: the text's words, case-folded.
        distinct: the same, each once.
        unknown: those of them that mean nothing to us.
    """
    characters = set(text)
    for rarest in characters & _RAREST:
        for mark, name in _MARKS_BY_RAREST[rarest]:
            if mark in text:
                yield name, 1.0
    if not characters.isdisjoint(_CODE):
        yield from _code(text, characters)
    if _CAPITALS.search(text):
        yield from _capitals(text)
    yield from _tone(text, characters)
    yield from _style(text, tokens, distinct)
    if tokens:
        yield from _knowledge(len(unknown) / len(distinct), unknown)
    if not text.isascii() and _SYMBOL.search(text):
        yield from _symbols(text, tokens)
    yield _LENGTHS[bisect_left(_MOST, len(tokens))], 1.0


def _code(text: str, characters: set[str]) -> Iterator[Sign]:
    if "`" in characters and "```" not in text:
        yield "inline code", 1.0
    if "(" in characters and (calls := len(_CALL.findall(text))):
        yield "call", min(calls, 3) / 2
    if "_" in characters and _SNAKE.search(text):
        yield "snake case", 1.0
    if "." in characters and _FILE.search(text):
        yield "file name", 1.0
    if "-" in characters and _OPTION.search(text):
        yield "option", 1.0
    if "<" in characters and _TAG.search(text):
        yield "tag", 1.0
    if ("\\" in characters or "[" in characters or "(?" in text or ".*" in text) and _ESCAPE.search(text):
        yield "pattern syntax", 1.0


def _capitals(text: str) -> Iterator[Sign]:
    if camels := len(_CAMEL.findall(text)):
        yield "camel case", min(camels, 3) / 2
    if _ERROR_NAME.search(text):
        yield "error name", 1.0
    if shouted := len(_SHOUT.findall(text)):
        yield ("many capitals" if shouted > 2 else "capitals"), 1.0


def _tone(text: str, characters: set[str]) -> Iterator[Sign]:
    stripped = text.strip()
    first, last = stripped[:1], stripped[-1:]
    if last in ("?", "？", "؟"):
        yield "question mark at the end", 1.0
    elif "?" in characters or "？" in characters:
        yield "question mark", 1.0
    elif last.isalnum():
        yield "no final mark", 1.0
    if "!!" in text or "！！" in text:
        yield "exclamation run", min(text.count("!") + text.count("！"), 6) / 3
    if "\n" in characters:
        yield ("many lines" if text.count("\n") > 3 else "lines"), 1.0
    if not characters.isdisjoint(_DIGITS):
        yield ("many digits" if sum(map(text.count, _DIGITS)) > 5 else "digits"), 1.0
        if _LINE.search(text) or _PLACE.search(text):
            yield "line number", 1.0
    if first.islower():
        yield "small first letter", 1.0
    elif first in ('"', "“", "„", "«"):
        yield "begins with a quotation", 1.0
    if "*" in characters:
        yield ("stage direction" if _ACTION.search(text) else "star"), 1.0


def _style(text: str, tokens: list[str], distinct: Collection[str]) -> Iterator[Sign]:
    if abstract := len({word[-4:] for word in distinct if len(word) > 6} & _ENDINGS):
        yield ("abstract words" if abstract > 1 else "abstract word"), 1.0
    if sentences := text.count(". ") + text.count("? ") + text.count("! "):
        yield ("many sentences" if sentences > 2 else "two sentences"), 1.0
    letters = sum(map(len, tokens))
    if len(tokens) > 3:
        if letters > 5.2 * len(tokens):
            yield "long words", 1.0
        elif letters < 3.8 * len(tokens):
            yield "short words", 1.0
        if len(tokens) - len(distinct) > len(tokens) * 0.4:
            yield "repeated words", 1.0
    if letters < len(text) * 0.5 and len(text) > 6:
        yield "few letters", 1.0


def _knowledge(share: float, unknown: Collection[str]) -> Iterator[Sign]:
    """Tell how large a share of the words is unknown, and how those look."""
    if share < _FEW_UNKNOWN:
        yield "all words known" if share == 0 else "most words known", 1.0
        return
    yield "no word known" if share == 1 else "few words known" if share > 0.5 else "some words known", 1.0
    odd = " ".join(sorted(unknown))[:_MAX_UNKNOWN]
    if runs := len(_CONSONANTS.findall(odd)):
        yield "consonant run", min(runs, 4) / 2
    if rare := len(_RARE.findall(odd)):
        yield "rare letters", min(rare, 6) / 3
    if _KEYBOARD.search(odd):
        yield "keyboard run", 1.0
    if _REPEATED.search(odd):
        yield "repeated character", 1.0
    if leet := len(_LEET.findall(odd)):
        yield "leet", min(leet, 4) / 2


def _symbols(text: str, tokens: list[str]) -> Iterator[Sign]:
    if marks := len(_COMBINING.findall(text)):
        yield "combining marks", min(marks, 6) / 3
    if blocks := len(_BLOCKS.findall(text)):
        yield "blocks", min(blocks, 4) / 2
    if emoji := len(_EMOJI.findall(text)):
        yield ("many emoji" if emoji > 3 else "emoji"), 1.0
        if not tokens:
            yield "only emoji", 1.0
