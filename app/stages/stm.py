"""STM post-processes the answer's text: hedges, openers and stiff words go.

In mode ``correct`` the raw text is relayed at once and a correction follows before the finish chunk; in mode ``live``
the stream itself is corrected, and at most 256 characters are held back while a candidate is undecided. A whole answer
is corrected in either mode. Cost: about a microsecond for a chunk in ``correct``, two or three in ``live``; 1 MB of
text takes 0.1 to 0.5 s of CPU, spread over the stream. An answer that goes on from an assistant message is read in the
light of it: it has no start of its own, and may begin inside code or a quotation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import ConfigurationError, RequestError
from ..pipeline import ChatRequest, Chunk, Endpoint, Notes, Schema, Stage, Transform
from ..settings import Settings
from ..shape import STRING, array_of, object_of, one_of, or_null
from ..text.transducer import MODULES, Transducer, make_ready, transform
from ..turns import give_way

__all__ = ["MODES", "Stm"]

MODES = ("correct", "live")
_BLOCK = 1024
"""Characters of raw text that are worked on at a time in mode ``correct``, to spread the cost over the stream."""
_MAX_TEXT = 50_000
_LEAD = 200
"""Characters within which a choice shows whether it is JSON."""
_JSON = re.compile(r"\s*(?:\{|\[\s*[\[{\"\]])")
_MAY_BE_JSON = re.compile(r"\s*(?:\[\s*)?\Z")
_FIRST = ("id", "object", "created", "model")
_HEAD = frozenset({*_FIRST, "provider", "choices", "system_fingerprint", "service_tier"})
"""What every chunk has; one that holds nothing else says nothing."""
_ABOUT = {
    "hedge_reducer": ("Hedge reducer", 'Takes out hedges such as "I think" and "perhaps".'),
    "direct_mode": ("Direct mode", 'Takes openers such as "Sure!" off the start of the answer.'),
    "casual_mode": ("Casual mode", "Replaces stiff words by plain ones."),
}
_NAMES = array_of(one_of(MODULES))
_TEXT = {**STRING, "minLength": 1, "maxLength": _MAX_TEXT, "examples": ["I think it works."]}
_TAKEN = object_of({"text": _TEXT, "modules": or_null(_NAMES)}, ["text"])
_GIVEN = object_of(
    {"original_text": STRING, "transformed_text": STRING, "modules_applied": _NAMES, "available_modules": _NAMES}
)
_LISTED = object_of({"modules": array_of(object_of({"id": one_of(MODULES), "name": STRING, "description": STRING}))})


class Stm(Stage):
    """See the module.

    Args:
        modules: applied where a request does not say.
        mode: one of ``MODES``, where a request does not say.
        max_chars: characters of a choice after which the rest passes raw.

    Raises:
        ConfigurationError: there is no such module or mode.
    """

    name = "stm"
    order = 30
    fields = ("stm_modules", "stm_mode")

    def __init__(
        self, *, modules: Sequence[str] = MODULES[:2], mode: str = "correct", max_chars: int = 1_000_000
    ) -> None:
        unknown = [name for name in modules if name not in MODULES]
        if unknown:
            raise ConfigurationError(
                f"SLUICE_STM_MODULES: expected any of {', '.join(MODULES)}, got {unknown[0][:40]!r}"
            )
        if mode not in MODES:
            raise ConfigurationError(f"SLUICE_STM_MODE: expected {' or '.join(MODES)}, got {mode[:40]!r}")
        self._modules, self._mode, self._max_chars = _in_order(modules), mode, max_chars
        make_ready()

    @classmethod
    def from_settings(cls, settings: Settings) -> Stm:
        """Make the stage from settings."""
        return cls(modules=settings.stm_modules, mode=settings.stm_mode, max_chars=settings.stm_max_chars)

    def prepare(self, request: ChatRequest, notes: Notes) -> ChatRequest:
        """Check the request's fields."""
        _modules(request.options.get("stm_modules"), self._modules, "stm_modules")
        _mode(request.options.get("stm_mode"), self._mode)
        return request

    def start(self, request: ChatRequest, notes: Notes) -> Transform | None:
        """Give the transform of the answer, or None where there is nothing to do."""
        modules = _modules(request.options.get("stm_modules"), self._modules, "stm_modules")
        before = _prefill(request.body["messages"][-1])
        if before is not None:
            modules = tuple(name for name in modules if name != "direct_mode")
        if not modules or request.wants_structure or _JSON.match(before or ""):
            return None
        mode = _mode(request.options.get("stm_mode"), self._mode)
        if mode == "live" and request.stream and request.body.get("logprobs") is True:
            mode = "correct"  # logprobs name the raw tokens
        note = notes[self.name] = {
            "modules_applied": list(modules),
            "mode": mode,
            "changed": False,
            "original_length": 0,
            "transformed_length": 0,
            "held_chars_max": 0,
            "skipped": None,
        }
        return _Answer(note, modules, self._max_chars, before, is_live=mode == "live", is_whole=not request.stream)

    def endpoints(self) -> Sequence[Endpoint]:
        """Offer the modules without a completion."""
        return (
            Endpoint("POST", "/transform", self._transform, "Post-process a text", _TAKEN, _GIVEN),
            Endpoint(
                "GET", "/transform/modules", lambda body: {"modules": _described()}, "List the modules", None, _LISTED
            ),
        )

    def schema(self) -> Schema:
        """Describe the request's fields."""
        modules = or_null(_NAMES, default=[*self._modules], description="What the answer goes through; [] for nothing.")
        return {"properties": {"stm_modules": modules, "stm_mode": or_null(one_of(MODES), default=self._mode)}}

    def _transform(self, body: dict[str, Any]) -> dict[str, Any]:
        text = body.get("text")
        if not isinstance(text, str) or not 1 <= len(text) <= _MAX_TEXT:
            raise RequestError(f"text: expected text of 1 to {_MAX_TEXT} characters", param="text")
        modules = _modules(body.get("modules"), self._modules, "modules")
        return {
            "original_text": text,
            "transformed_text": transform(text, modules, give_way),
            "modules_applied": list(modules),
            "available_modules": list(MODULES),
        }


class _Answer(Transform):
    """One answer; each choice is a text of its own."""

    def __init__(
        self,
        note: dict[str, Any],
        modules: tuple[str, ...],
        limit: int,
        before: str | None,
        *,
        is_live: bool,
        is_whole: bool,
    ) -> None:
        self._note, self._modules, self._limit, self._before = note, modules, limit, before
        self._is_live, self._is_whole = is_live or is_whole, is_whole
        self._choices: dict[int, _Choice] = {}
        self._held: list[tuple[int, str]] | None = None

    def feed(self, chunk: Chunk) -> Iterable[Chunk]:
        """Transform a chunk's texts, and end the choice that it ends."""
        held = self._holding() if len(chunk["choices"]) > 1 else None
        try:
            return self._fed(chunk)
        except BaseException:
            self._held = held  # a choice that went well before has given its text to nobody
            raise

    def _fed(self, chunk: Chunk) -> Iterable[Chunk]:
        before: list[Chunk] = []
        for choice in chunk["choices"]:
            if choice.get("finish_reason") is not None:
                before += self._end(choice["index"], chunk)
            else:
                self._change(choice)
        if before or not self._is_live:
            return [*before, chunk]
        chunk["choices"] = [choice for choice in chunk["choices"] if _says_something(choice)] or chunk["choices"][:1]
        return [chunk] if any(map(_says_something, chunk["choices"])) or _has_more(chunk) else []

    def text(self, index: int, text: str) -> str | None:
        """Take a text by itself, once its choice is under way."""
        state = self._choices.get(index)
        return state.feed(text) if state is not None and state.is_under_way else None

    def finish(self) -> Iterable[Chunk]:
        """Give what is held of the choices that were not ended."""
        held = self._holding()
        try:
            return [chunk for index in list(self._choices) for chunk in self._rest(index, {})]
        except BaseException:
            self._held = held
            raise

    def held(self) -> Iterable[Chunk]:
        """Give what was held before the call that failed, raw."""
        held = self._holding() if self._held is None else self._held
        for state in self._choices.values():
            state.fail()
        self.tell()
        return [_text_chunk(index, text, {}) for index, text in held]

    def tell(self) -> None:
        """Sum up what came of the choices so far."""
        note = self._note
        raw = given = held = 0
        skipped, is_changed = None, False
        for state in list(self._choices.values()):
            raw += state.raw_length
            given += state.given_length
            held = max(held, state.held_max)
            is_changed = is_changed or state.is_changed
            skipped = skipped or state.skipped
            if not state.is_live:
                note["mode"] = "correct"
        note["original_length"], note["transformed_length"], note["held_chars_max"] = raw, given, held
        note["changed"], note["skipped"] = is_changed, skipped

    def _holding(self) -> list[tuple[int, str]]:
        return [(index, held) for index, state in self._choices.items() if (held := state.held)]

    def _change(self, choice: Chunk) -> None:
        delta = choice["delta"]
        text = delta.get("content")
        if isinstance(text, str) and text:
            state = self._choices.get(choice["index"])
            if state is None:
                # Logprobs name the raw tokens of a stream; a whole answer's stay beside the corrected text.
                is_live = self._is_live and (self._is_whole or choice.get("logprobs") is None)
                state = self._choices[choice["index"]] = _Choice(self._modules, self._limit, self._before, is_live)
            delta["content"] = state.feed(text)
            if not delta["content"] and "role" not in delta:
                del delta["content"]
        if self._is_live and isinstance(delta.get("annotations"), list) and choice["index"] in self._choices:
            self._choices[choice["index"]].shift(delta["annotations"])

    def _end(self, index: int, chunk: Chunk) -> list[Chunk]:
        """Give what goes out before a choice's finish chunk: held text, or the correction."""
        state = self._choices.get(index)
        if state is None or state.is_live:
            return self._rest(index, chunk)
        self._rest(index, chunk)
        correction = state.take_correction()
        self.tell()
        if correction is None:
            return []
        head: Chunk = {key: chunk[key] for key in _FIRST if key in chunk}
        choices = [{"index": index, "delta": {}, "finish_reason": None}]
        return [{**head, "choices": choices, "x_g0dm0d3": {"stm_applied": True, "final_content": correction}}]

    def _rest(self, index: int, like: Chunk) -> list[Chunk]:
        state = self._choices.get(index)
        if state is None or state.is_over:
            return []
        text = state.finish()
        self.tell()
        return [_text_chunk(index, text, like)] if text and state.is_live else []


class _Choice:
    """One choice's text on its way."""

    def __init__(self, modules: tuple[str, ...], limit: int, before: str | None, is_live: bool) -> None:
        self._transducer = Transducer(modules, at_start=before is None, before=before or "", pause=give_way)
        self._limit = limit
        self._lead: str | None = ""
        self._waiting: list[str] = []
        self._waiting_length = 0
        self._out: list[str] = []
        self._is_raw = self._is_corrected = False
        self.is_live = is_live
        self.is_over = False
        self.raw_length = self.out_length = 0
        self.skipped: str | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether the text has shown that it is no JSON, or that it is."""
        return self._lead is None

    @property
    def held(self) -> str:
        """What is held back from the client, raw."""
        return self._transducer.held if self.is_live and not self._is_raw else ""

    @property
    def held_max(self) -> int:
        """Most characters held back from the client at a time."""
        return self._transducer.held_max if self.is_live else 0

    @property
    def is_changed(self) -> bool:
        """Whether what the client got, by text or by correction, differs from the raw text."""
        return bool(self._transducer.edits) if self.is_live else self._is_corrected

    @property
    def given_length(self) -> int:
        """How many characters the client got, or got as a correction."""
        return self.out_length if self.is_live or self._is_corrected else self.raw_length

    def take_correction(self) -> str | None:
        """Give the whole corrected text, if it differs and none of it was left raw."""
        self._is_corrected = bool(self._transducer.edits) and self.skipped is None
        return "".join(self._out) if self._is_corrected else None

    def fail(self) -> None:
        """Leave the rest of the text alone."""
        self.skipped = self.skipped or "failed"

    def feed(self, text: str) -> str:
        """Take the next text; give what the client gets now."""
        self.raw_length += len(text)
        if self._lead is not None and self._is_json(text):
            text = self.held + text
            self._is_raw, self.skipped = True, "structured"
        if self._is_raw:
            self.out_length += len(text)
            return text
        if self.raw_length > self._limit:
            return self._end_at_limit(text)
        if self.is_live:
            return self._worked(text)
        self._waiting.append(text)
        self._waiting_length += len(text)
        if self._waiting_length >= _BLOCK:
            self._work_off()
        return text

    def finish(self) -> str:
        """End the text; give what was still held."""
        self.is_over = True
        rest = ""
        if not self._is_raw:
            self._work_off()
            rest = self._transducer.finish()
            self._keep(rest)
        return rest

    def shift(self, annotations: list[Any]) -> None:
        """Move the places of citations by the edits before them."""
        for item in annotations:
            citation = item.get("url_citation") if isinstance(item, dict) else None
            if isinstance(citation, dict):
                for key in ("start_index", "end_index"):
                    place = citation.get(key)
                    if isinstance(place, int) and not isinstance(place, bool):
                        citation[key] = self._transducer.edits.moved(place)

    def _is_json(self, text: str) -> bool:
        """Find out whether the choice is JSON, which is left alone; False too while that is open."""
        lead = ((self._lead or "") + text)[:_LEAD]
        is_open = len(lead) < _LEAD and _MAY_BE_JSON.match(lead)
        self._lead = lead if is_open else None
        return not is_open and _JSON.match(lead) is not None

    def _end_at_limit(self, text: str) -> str:
        room = len(text) - (self.raw_length - self._limit)
        self._work_off()
        out = self._transducer.finish(text[:room]) + text[room:]
        self._keep(out)
        self._is_raw, self.skipped = True, "too_long"
        return out if self.is_live else text

    def _work_off(self) -> None:
        if self._waiting:
            text = "".join(self._waiting)
            self._waiting, self._waiting_length = [], 0
            self._worked(text)

    def _worked(self, text: str) -> str:
        out = self._transducer.feed(text)
        self._keep(out)
        return out

    def _keep(self, out: str) -> None:
        self.out_length += len(out)
        if not self.is_live:
            self._out.append(out)


def _in_order(modules: Iterable[str]) -> tuple[str, ...]:
    chosen = frozenset(modules)
    return tuple(name for name in MODULES if name in chosen)


def _modules(value: Any, default: tuple[str, ...], field: str) -> tuple[str, ...]:
    if value is None:
        return default
    if not isinstance(value, list) or not all(isinstance(name, str) and name in MODULES for name in value):
        raise RequestError(f"{field}: expected a list of any of {', '.join(MODULES)}", param=field)
    return _in_order(value)


def _mode(value: Any, default: str) -> str:
    if value is None:
        return default
    if value not in MODES:
        raise RequestError(f"stm_mode: expected {' or '.join(MODES)}", param="stm_mode")
    return str(value)


def _prefill(message: Chunk) -> str | None:
    """Give the text of an assistant message that the answer goes on from; None if *message* is none."""
    if message.get("role") != "assistant":
        return None
    content = message.get("content")
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _says_something(choice: Chunk) -> bool:
    """Whether a choice of a chunk still holds anything after its text was held back."""
    return bool(choice["delta"]) or any(
        value is not None for key, value in choice.items() if key not in ("index", "delta")
    )


def _has_more(chunk: Chunk) -> bool:
    return any(value is not None for key, value in chunk.items() if key not in _HEAD)


def _text_chunk(index: int, text: str, like: Chunk) -> Chunk:
    head: Chunk = {key: like[key] for key in _FIRST if key in like}
    return {**head, "choices": [{"index": index, "delta": {"content": text}, "finish_reason": None}]}


def _described() -> list[dict[str, str]]:
    return [{"id": name, "name": _ABOUT[name][0], "description": _ABOUT[name][1]} for name in MODULES]
