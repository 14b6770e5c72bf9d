"""Parseltongue perturbs chosen words of the user's messages, to test how a model copes with disturbed input.

It is off unless the request or the operator asks for it, and it has no words of its own: they come from the request or
from SLUICE_PARSELTONGUE_TRIGGERS. Cost: one pass over the user's text, about 0.2 ms for a thousand characters, and no
delay of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import ConfigurationError, RequestError
from ..pipeline import ChatRequest, Endpoint, Notes, Schema, Stage
from ..shape import BOOLEAN, COUNT, STRING, array_of, object_of, one_of, or_null
from ..text.perturb import INTENSITIES, TECHNIQUES, Perturbation, perturb, perturb_matches
from ..text.triggers import Match, TriggerSet
from ..turns import give_way

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ..settings import Settings

__all__ = ["Parseltongue"]

MAX_TRIGGERS = 200
MAX_TRIGGER_CHARS = 100
MAX_TEXT_CHARS = 100_000
MAX_REQUEST_CHARS = 1_000_000
_SEED_BOUND = 2**63
# Seeds we choose are small enough for every JSON reader to keep.
_CHOSEN_SEED_BOUND = 2**31
_EXAMPLE = ("phonetics", "medium", 3)

_TEXT = {**STRING, "minLength": 1, "maxLength": MAX_TEXT_CHARS, "examples": ["the quick brown fox"]}
# NOTE: as str.strip has it; what \S means differs from one reader of patterns to the next.
_BLANK = r"\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_TRIGGER = {**STRING, "pattern": f"[^{_BLANK}]", "maxLength": MAX_TRIGGER_CHARS}
_TRIGGERS = or_null(array_of(_TRIGGER, maxItems=MAX_TRIGGERS, examples=[["quick"]]))
_SEED = {"type": ["integer", "null"], "minimum": -_SEED_BOUND, "maximum": _SEED_BOUND - 1}
_TECHNIQUE, _INTENSITY = or_null(one_of(TECHNIQUES)), or_null(one_of(INTENSITIES))
_CHANGE = object_of({"original": STRING, "transformed": STRING, "technique": STRING})
_ENCODED = object_of(
    {
        "original_text": STRING,
        "transformed_text": STRING,
        "triggers_found": array_of(STRING),
        "technique_used": one_of(TECHNIQUES),
        "transformations": array_of(_CHANGE),
    }
)
_DETECTED = object_of({"text": STRING, "triggers_found": array_of(STRING), "count": COUNT})
_LISTED = object_of(
    {"techniques": array_of(object_of({"id": one_of(TECHNIQUES), "description": STRING, "example": STRING}))}
)

# What a plan's attributes are called, by where they come from.
_SETTINGS = {what: f"SLUICE_PARSELTONGUE_{what.upper()}" for what in ("technique", "intensity", "triggers")}
_REQUEST = {what: f"parseltongue_{what}" for what in ("technique", "intensity", "triggers", "seed")}
_ENCODE = {"technique": "technique", "intensity": "intensity", "triggers": "custom_triggers", "seed": "seed"}


@dataclass(frozen=True, slots=True)
class Plan:
    """How a text is to be perturbed.

    Attributes:
        triggers: what to look for; None if nobody named any.
        seed: None: one is to be chosen.
    """

    technique: str = "leetspeak"
    intensity: str = "medium"
    triggers: TriggerSet | None = None
    seed: int | None = None


class Perturber:
    """One request's use of a plan: the random choices and the count go on from text to text."""

    def __init__(self, plan: Plan, triggers: TriggerSet) -> None:
        self.seed = SystemRandom().randrange(_CHOSEN_SEED_BOUND) if plan.seed is None else plan.seed
        self.found: dict[str, None] = {}
        self.count = 0
        self._plan = plan
        self._triggers = triggers
        self._rng = Random(self.seed)

    def perturb(self, text: str, note: Callable[[Perturbation], object] | None = None) -> str:
        """Give *text* with its triggers perturbed; *note* is told each change."""
        plan = self._plan
        matches = self._seen(self._triggers.find(text, give_way))
        return perturb_matches(text, matches, plan.technique, plan.intensity, self._rng, self._counter(note), give_way)

    def _seen(self, matches: Iterable[Match]) -> Iterator[Match]:
        for match in matches:
            self.found[match.trigger] = None
            yield match

    def _counter(self, note: Callable[[Perturbation], object] | None) -> Callable[[Perturbation], object]:
        def count(change: Perturbation) -> None:
            self.count += 1
            if note is not None:
                note(change)

        return count

    def to_notes(self) -> dict[str, Any]:
        """Give what is recorded: counts and choices, never a word."""
        return {
            "triggers_found": len(self.found),
            "technique_used": self._plan.technique,
            "intensity": self._plan.intensity,
            "seed": self.seed,
            "transformations_count": self.count,
        }


class Parseltongue(Stage):
    """The stage; its arguments are the operator's defaults."""

    name = "parseltongue"
    order = 20
    fields = (
        "parseltongue",
        "parseltongue_technique",
        "parseltongue_intensity",
        "parseltongue_triggers",
        "custom_triggers",
        "parseltongue_seed",
    )

    def __init__(
        self,
        *,
        on: bool = False,
        technique: str = "leetspeak",
        intensity: str = "medium",
        triggers: Sequence[str] = (),
    ) -> None:
        """Take the defaults.

        Raises:
            ConfigurationError: an unknown technique or intensity, bad triggers, or on without any.
        """
        values = (technique, intensity, list(triggers) or None)
        try:
            self._defaults = _read_plan(dict(zip(_SETTINGS.values(), values, strict=True)), _SETTINGS, Plan())
        except RequestError as error:
            raise ConfigurationError(error.message) from None
        if on and not triggers:
            raise ConfigurationError("SLUICE_PARSELTONGUE: on needs words in SLUICE_PARSELTONGUE_TRIGGERS, got none")
        self._on = on

    @classmethod
    def from_settings(cls, settings: Settings) -> Parseltongue:
        """Make the stage from settings; raises as the class does."""
        return cls(
            on=settings.parseltongue,
            technique=settings.parseltongue_technique,
            intensity=settings.parseltongue_intensity,
            triggers=settings.parseltongue_triggers,
        )

    def prepare(self, request: ChatRequest, notes: Notes) -> ChatRequest:
        """Perturb the user's messages if asked to; the fields are checked in any case."""
        options = request.options
        is_on = _switch(options.get("parseltongue"), self._on)
        triggers = _trigger_field(options)
        plan = _read_plan(options, {**_REQUEST, "triggers": triggers}, self._defaults)
        notes[self.name] = None
        if not is_on:
            return request
        perturber = Perturber(plan, _needed(plan.triggers, triggers))
        body = _perturbed_body(request.body, perturber)
        notes[self.name] = perturber.to_notes()
        return request.with_body(body)

    def endpoints(self) -> Sequence[Endpoint]:
        """Give the routes below ``/parseltongue``."""
        required = ["text"] if self._defaults.triggers else ["text", "custom_triggers"]
        triggers = _TRIGGERS if self._defaults.triggers else {**_TRIGGERS, "type": "array"}
        found = {"text": _TEXT, "custom_triggers": {**triggers, "minItems": 1}}
        chosen = {"technique": _TECHNIQUE, "intensity": _INTENSITY, "seed": _SEED}
        encode, detect = object_of(found | chosen, required), object_of(found, required)
        return (
            Endpoint("POST", "/parseltongue/encode", self.encode, "Perturb a text", encode, _ENCODED),
            Endpoint("POST", "/parseltongue/detect", self.detect, "Find triggers in a text", detect, _DETECTED),
            Endpoint("GET", "/parseltongue/techniques", self.techniques, "List the techniques", None, _LISTED),
        )

    def schema(self) -> Schema:
        """Describe the request's fields, and that there must be triggers where words are to be perturbed."""
        what = "Perturb trigger words in user messages, to test a model that you may test."
        properties = {
            "parseltongue": or_null(BOOLEAN, default=self._on, description=what),
            "parseltongue_technique": {**_TECHNIQUE, "default": self._defaults.technique},
            "parseltongue_intensity": {**_INTENSITY, "default": self._defaults.intensity},
            "parseltongue_triggers": _TRIGGERS,
            "custom_triggers": {**_TRIGGERS, "description": "Another name for parseltongue_triggers."},
            "parseltongue_seed": _SEED,
        }
        names = ("parseltongue_triggers", "custom_triggers")
        given = [{"properties": {name: {"type": "array"}}, "required": [name]} for name in names]
        filled = [{"properties": {name: {"type": "array", "minItems": 1}}, "required": [name]} for name in names]
        is_on = {"properties": {"parseltongue": {"const": True}}, "required": ["parseltongue"]}
        is_off = {"properties": {"parseltongue": {"const": False}}, "required": ["parseltongue"]}
        left_out = {"properties": {name: {"type": "null"} for name in names}}
        enough = [*filled, left_out] if self._defaults.triggers else filled
        return {
            "properties": properties,
            "allOf": [{"not": {"allOf": given}}, {"anyOf": [is_off if self._on else {"not": is_on}, *enough]}],
        }

    def encode(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Answer ``POST /parseltongue/encode``: a text perturbed, with each change."""
        text = _text(body.get("text"))
        plan = _read_plan(body, _ENCODE, self._defaults)
        perturber = Perturber(plan, _needed(plan.triggers, "custom_triggers"))
        changes: list[dict[str, str]] = []
        perturbed = perturber.perturb(text, lambda change: changes.append(change._asdict()))
        return {
            "original_text": text,
            "transformed_text": perturbed,
            "triggers_found": list(perturber.found),
            "technique_used": plan.technique,
            "transformations": changes,
        }

    def detect(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Answer ``POST /parseltongue/detect``: which triggers a text holds, each once, as they first occur."""
        text = _text(body.get("text"))
        plan = _read_plan(body, {"triggers": "custom_triggers"}, self._defaults)
        matches = _needed(plan.triggers, "custom_triggers").find(text, give_way)
        found = list(dict.fromkeys(match.trigger for match in matches))
        return {"text": text, "triggers_found": found, "count": len(found)}

    def techniques(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Answer ``GET /parseltongue/techniques``."""
        word, intensity, seed = _EXAMPLE
        listed = []
        for technique, description in TECHNIQUES.items():
            example = perturb(word, technique, intensity, Random(seed)).transformed
            listed.append({"id": technique, "description": description, "example": f"{word} → {example}"})
        return {"techniques": listed}


def _read_plan(values: Mapping[str, Any], names: Mapping[str, str], defaults: Plan) -> Plan:
    """Read from *values* what *names* maps each attribute of a plan to; left out or null is the default's."""
    given = {what: (values[name], name) for what, name in names.items() if values.get(name) is not None}
    read = {what: _READERS[what](value, name) for what, (value, name) in given.items()}
    return replace(defaults, **read) if read else defaults


def _perturbed_body(body: dict[str, Any], perturber: Perturber) -> dict[str, Any]:
    """Give *body* with the text of user messages perturbed; whatever changes is a copy."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return body
    if sum(map(len, _user_texts(messages))) > MAX_REQUEST_CHARS:
        _refuse("parseltongue", f"expected at most {MAX_REQUEST_CHARS} characters of user text, got more")
    return {**body, "messages": [_perturbed_message(message, perturber) for message in messages]}


def _user_texts(messages: Iterable[Any]) -> Iterator[str]:
    for message in filter(_is_user, messages):
        content = message.get("content")
        if isinstance(content, str):
            yield content
        elif isinstance(content, list):
            yield from (part["text"] for part in content if _is_text(part))


def _perturbed_message(message: Any, perturber: Perturber) -> Any:
    content = message.get("content") if _is_user(message) else None
    if isinstance(content, str):
        return {**message, "content": perturber.perturb(content)}
    if isinstance(content, list):
        parts = [{**part, "text": perturber.perturb(part["text"])} if _is_text(part) else part for part in content]
        return {**message, "content": parts}
    return message


def _is_user(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "user"


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _switch(value: Any, default: bool) -> bool:
    if value is None:
        return default
    if not isinstance(value, bool):
        _refuse("parseltongue", f"expected true or false, got {_told(value)}")
    return value


def _one_of(allowed: Iterable[str]) -> Callable[[Any, str], str]:
    """Give a reader for one of the words *allowed*."""

    def read(value: Any, name: str) -> str:
        if not isinstance(value, str) or value not in allowed:
            _refuse(name, f"expected one of {', '.join(allowed)}, got {_told(value)}")
        return value

    return read


def _seed(value: Any, name: str) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # in JSON 7.0 is a whole number, and some clients write all numbers so
    if not isinstance(value, int) or isinstance(value, bool) or not -_SEED_BOUND <= value < _SEED_BOUND:
        _refuse(name, f"expected a whole number of at most 64 bits, got {_told(value)}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_TEXT_CHARS:
        found = f"{len(value)}" if isinstance(value, str) else _told(value)
        _refuse("text", f"expected text of 1 to {MAX_TEXT_CHARS} characters, got {found}")
    return value


def _trigger_field(options: Mapping[str, Any]) -> str:
    """Tell which of the two names of the trigger list the client used."""
    first, second = options.get("parseltongue_triggers"), options.get("custom_triggers")
    if first is not None and second is not None and first != second:
        _refuse("custom_triggers", "expected it left out, as it is another name for parseltongue_triggers, got both")
    return "parseltongue_triggers" if second is None else "custom_triggers"


def _triggers(value: Any, name: str) -> TriggerSet:
    """Read a list of triggers. What is refused is told by its place: a trigger may be part of a prompt."""
    if not isinstance(value, list):
        _refuse(name, f"expected a list of up to {MAX_TRIGGERS} words or phrases, got {_told(value)}")
    if len(value) > MAX_TRIGGERS:
        _refuse(name, f"expected up to {MAX_TRIGGERS} words or phrases, got {len(value)}")
    for number, trigger in enumerate(value, 1):
        if not isinstance(trigger, str):
            _refuse(name, f"expected text in the list, got {_told(trigger)} as number {number}")
        if not trigger.strip() or len(trigger) > MAX_TRIGGER_CHARS:
            found = f"{len(trigger)}" if trigger.strip() else "none but white space"
            _refuse(name, f"expected 1 to {MAX_TRIGGER_CHARS} characters each, got {found} in number {number}")
    return TriggerSet(value)


def _needed(triggers: TriggerSet | None, name: str) -> TriggerSet:
    if triggers is None or not triggers.size:
        _refuse(
            name, "expected words to perturb, got none: neither the request nor SLUICE_PARSELTONGUE_TRIGGERS has any"
        )
    return triggers


def _refuse(name: str, message: str) -> NoReturn:
    raise RequestError(f"{name}: {message}", param=name)


def _told(value: Any) -> str:
    """Name a value: a word clipped and quoted, anything else by its kind."""
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else f"{value[:40]}…")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return "a number"
    return "nothing" if value is None else "an object" if isinstance(value, dict) else "a list"


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "technique": _one_of(TECHNIQUES),
    "intensity": _one_of(INTENSITIES),
    "triggers": _triggers,
    "seed": _seed,
}
