"""The text pipeline's contract, and how its stages are put together for one request.

A ``Stage`` is one object, made once from settings and shared by every request of the process, so it keeps no state of
a request. It has two hooks, both optional: ``prepare`` may change the request before the upstream call, ``start`` may
answer with a ``Transform`` for this one answer. A stage writes what it decided into ``notes[stage.name]``; the notes
reach the client as ``x_g0dm0d3.pipeline`` and the record.

A ``Transform`` belongs to one stream and is called from one thread at a time. The chunks it is fed are normalised:
``choices`` is a list of objects with an integer ``index``, ``delta`` is an object, a chunk with a ``finish_reason``
holds no text and is the last one of its choice. It may pass, change (in place), drop, split or add chunks and keeps
their order. ``finish`` is called once, when the answer is over or has failed: what is held goes out, decided as end
of text. When any of them raises, ``held`` gives up what it keeps, raw, and the transform is not asked again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from .errors import RequestError

if TYPE_CHECKING:
    from .settings import Settings

__all__ = ["ChatRequest", "Chunk", "Endpoint", "Learned", "Notes", "Pipeline", "Run", "Schema", "Stage", "Transform"]

Chunk = dict[str, Any]
"""One ``chat.completion.chunk`` as parsed JSON."""
Learned = Callable[[str], Mapping[str, float]]
"""Gives what feedback taught for a context: what to add to each sampling parameter."""
Notes = dict[str, Any]
"""What the stages of one request decided, by stage name; JSON values only."""
Schema = Mapping[str, Any]
"""A JSON Schema, in the dialect of OpenAPI 3.1."""

log = logging.getLogger("sluice.pipeline")


class Endpoint(NamedTuple):
    """A route that a stage offers below ``/v1``.

    ``handler`` takes the request's JSON object (``{}`` for GET) and gives the response's; a ``RequestError`` is
    answered with its status. ``summary``, ``takes`` and ``gives`` are for the OpenAPI document: what it does, and the
    schemas of both objects.
    """

    method: str
    path: str
    handler: Callable[[dict[str, Any]], dict[str, Any]]
    summary: str = ""
    takes: Schema | None = None
    gives: Schema | None = None


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One chat completion request on its way to upstream.

    Attributes:
        body: what goes upstream. Never changed in place: ``with_body`` takes a changed copy.
        options: our own fields as the client sent them, by name.
        stream: whether the client wants a stream.
        include_usage: whether the client asked for the usage chunk.
        sent: names of the fields that the client itself gave a value (not null).
    """

    body: dict[str, Any]
    options: dict[str, Any]
    stream: bool
    include_usage: bool = False
    sent: frozenset[str] = field(default_factory=frozenset)

    def with_body(self, body: dict[str, Any]) -> ChatRequest:
        """Give the same request with another upstream body."""
        return replace(self, body=body)


class Transform:
    """What a stage does to one answer; see the module's contract."""

    def feed(self, chunk: Chunk) -> Iterable[Chunk]:
        """Take one chunk, give those that may go out now."""
        return (chunk,)

    def text(self, index: int, text: str) -> str | None:
        """Take a chunk that holds nothing but *text* of one choice; give the text that may go out, perhaps none.

        A short cut that a transform need not offer: None says that it wants the chunk, and that nothing has happened.
        """
        return None

    def finish(self) -> Iterable[Chunk]:
        """Give what is left, decided as end of text."""
        return ()

    def held(self) -> Iterable[Chunk]:
        """Give what is kept, raw."""
        return ()


class Stage:
    """One step of the pipeline; see the module's contract.

    Attributes:
        name: its key in the notes and the metadata.
        order: its place in the chain: 10 AutoTune, 20 Parseltongue, 30 STM, 100 and on a host's own.
        fields: request fields it owns, taken out of the body before the upstream call.
    """

    name: ClassVar[str]
    order: ClassVar[int] = 100
    fields: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_settings(cls, settings: Settings) -> Stage:
        """Make the stage from settings.

        Raises:
            ConfigurationError: a setting of this stage has a value it cannot take.
        """
        return cls()

    def prepare(self, request: ChatRequest, notes: Notes) -> ChatRequest:
        """Give the request as it shall go upstream.

        Raises:
            RequestError: one of this stage's fields has a value it cannot take.
        """
        return request

    def start(self, request: ChatRequest, notes: Notes) -> Transform | None:
        """Give the transform for this answer, or None to leave it alone."""
        return None

    def endpoints(self) -> Sequence[Endpoint]:
        """Give the routes that this stage offers."""
        return ()

    def schema(self) -> Schema:
        """Give what the stage accepts in a request: ``properties`` for its fields, ``allOf`` for rules between them."""
        return {"properties": {name: {} for name in self.fields}}

    def learn_from(self, learned: Learned) -> None:
        """Take the way to what feedback taught; called once, before the first request."""


class Pipeline:
    """The stages of a process, in order."""

    def __init__(self, stages: Iterable[Stage] = ()) -> None:
        self.stages = sorted(stages, key=lambda stage: stage.order)
        self.fields = frozenset(name for stage in self.stages for name in stage.fields)

    def run(self, request: ChatRequest) -> Run:
        """Pass *request* through every stage.

        Raises:
            RequestError: a stage refuses one of its fields; any other exception of a stage costs only its effect.
        """
        notes: Notes = {stage.name: None for stage in self.stages}
        errors: list[dict[str, str]] = []
        transforms: list[tuple[str, Transform]] = []
        for stage in self.stages:
            try:
                prepared = stage.prepare(request, notes)
                if not isinstance(prepared, ChatRequest):
                    raise TypeError("prepare gave no request")
                transform = stage.start(prepared, notes)
            except RequestError:
                raise
            except Exception as error:
                errors.append(_told(stage.name, "prepare", error))
                notes[stage.name] = None
                continue
            request = prepared
            if transform is not None:
                transforms.append((stage.name, transform))
        return Run(request, notes, errors, transforms)


class Run:
    """One request's way through the pipeline: the prepared request, its notes, and the transforms of its answer."""

    def __init__(
        self,
        request: ChatRequest,
        notes: Notes,
        errors: list[dict[str, str]],
        transforms: list[tuple[str, Transform]],
    ) -> None:
        self.request = request
        self.notes = notes
        self.errors = errors
        self._transforms = transforms

    @property
    def is_plain(self) -> bool:
        """Whether no transform is left, so that chunks pass as they are."""
        return not self._transforms

    def feed(self, chunk: Chunk) -> list[Chunk]:
        """Pass one chunk through every transform."""
        return self._pass([chunk], 0)

    def text(self, index: int, text: str, chunk_of: Callable[[str], Chunk]) -> str | list[Chunk]:
        """Pass the text of a chunk that holds nothing else; give text, or chunks where a transform wants them.

        Args:
            index: of the choice.
            chunk_of: makes the chunk of a text.
        """
        for place, (name, transform) in enumerate(self._transforms):
            try:
                out = transform.text(index, text)
            except Exception as error:
                return self._pass([*self._fail(name, transform, error), chunk_of(text)], place)
            if out is None:
                return self._pass([chunk_of(text)], place)
            if not out:
                return ""
            text = out
        return text

    def finish(self) -> list[Chunk]:
        """End the transforms in order, each one's rest passing through those behind it."""
        out: list[Chunk] = []
        while self._transforms:
            name, transform = self._transforms[0]
            try:
                rest = list(transform.finish())
            except Exception as error:
                rest = self._fail(name, transform, error)
            else:
                del self._transforms[0]
            out += self._pass(rest, 0)
        return out

    def _pass(self, chunks: list[Chunk], start: int) -> list[Chunk]:
        index = start
        while index < len(self._transforms) and chunks:
            name, transform = self._transforms[index]
            out: list[Chunk] = []
            for position, chunk in enumerate(chunks):
                try:
                    out += tuple(transform.feed(chunk))
                except Exception as error:
                    out += [*self._fail(name, transform, error), *chunks[position:]]
                    break
            else:
                index += 1
            chunks = out
        return chunks

    def _fail(self, name: str, transform: Transform, error: Exception) -> list[Chunk]:
        """Take a transform that raised out of the chain; give what it held, raw."""
        self._transforms = [pair for pair in self._transforms if pair[1] is not transform]
        self.errors.append(_told(name, "transform", error))
        try:
            return list(transform.held())
        except Exception as worse:
            self.errors.append(_told(name, "held", worse))
            return []


def _told(name: str, where: str, error: Exception) -> dict[str, str]:
    # NOTE: only the class is told: the message of a stage's exception may quote the text it worked on.
    log.warning("stage %s failed in %s with %s; its effect is dropped", name, where, type(error).__name__)
    return {"stage": name, "in": where, "error": type(error).__name__}
