"""The text pipeline's contract, and how its stages are put together for one request.

A ``Stage`` is one object, made once from settings and shared by every request of the process, so it keeps no state of
a request. It has two hooks, both optional: ``prepare`` may change the request before the upstream call, ``start`` may
answer with a ``Transform`` for this one answer. A stage writes what it decided into ``notes[stage.name]``; the notes
reach the client as ``x_g0dm0d3.pipeline`` and the record.

A ``Transform`` belongs to one stream and is called from one thread at a time. The chunks it is fed are normalised:
``choices`` is a list of objects with an integer ``index``, ``delta`` is an object, a chunk with a ``finish_reason``
holds no text and is the last one of its choice. It may pass, change (in place), drop, split or add chunks and keeps
their order. ``finish`` is called once, when the answer is over or has failed: what is held goes out, decided as end
of text. When any of them raises, or gives what is no chunk, ``held`` gives up what it kept before that call, raw, and
the transform is not asked again. What a host's stage gives is checked (see ``contract``) and copied.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from . import wire
from .contract import as_body, as_chunks, as_json, as_refusal
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

_OURS = f"{__package__}.stages"


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

    @property
    def wants_structure(self) -> bool:
        """Whether ``response_format`` asks for anything but text."""
        wanted = self.body.get("response_format")
        return wanted is not None and not (isinstance(wanted, dict) and wanted.get("type") == "text")

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

    def tell(self) -> None:
        """Bring the notes up to date: they are about to be read, perhaps by another thread than the one that feeds."""


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
        links: list[_Link] = []
        for stage in self.stages:
            try:
                prepared, transform = _prepared(stage, request, notes)
            except KeyboardInterrupt:
                raise
            except RequestError as error:
                raise as_refusal(error, stage.name) from error
            except BaseException as error:  # a stage that exits does not end the worker
                errors.append(_told(stage.name, "prepare", error))
                notes[stage.name] = None
                continue
            request = prepared
            if transform is not None:
                links.append(_Link(stage.name, transform, _is_ours(stage)))
        return Run(request, notes, errors, links)


def _prepared(stage: Stage, request: ChatRequest, notes: Notes) -> tuple[ChatRequest, Transform | None]:
    """Give what *stage* makes of *request*, and its transform; a host's stage works on a copy."""
    if _is_ours(stage):
        prepared = stage.prepare(request, notes)
        return prepared, stage.start(prepared, notes)
    before = wire.dumps([request.body, request.options])
    body, options = wire.loads(before)
    asked = replace(request, body=body, options=options)
    prepared = stage.prepare(asked, notes)
    if not isinstance(prepared, ChatRequest) or not isinstance(prepared.options, dict):
        raise TypeError("prepare gave no request")
    transform = stage.start(prepared, notes)
    if wire.dumps([prepared.body, prepared.options]) == before and prepared.sent == request.sent:
        return request, transform
    return (
        replace(request, body=as_body(prepared.body), options=as_json(prepared.options), sent=frozenset(prepared.sent)),
        transform,
    )


def _is_ours(stage: Stage) -> bool:
    return type(stage).__module__.rpartition(".")[0] == _OURS


class _Link(NamedTuple):
    """A transform in the chain of one answer; a host's own is checked."""

    name: str
    transform: Transform
    is_ours: bool

    def chunks(self, given: Iterable[Chunk]) -> list[Chunk]:
        """Give the chunks that a hook gave."""
        return list(given) if self.is_ours else as_chunks(given)


class Run:
    """One request's way through the pipeline: the prepared request, its notes, and the transforms of its answer."""

    def __init__(
        self,
        request: ChatRequest,
        notes: Notes,
        errors: list[dict[str, str]],
        links: list[_Link],
    ) -> None:
        self.request = request
        self.notes = notes
        self.errors = errors
        self._links = links
        self._ended: list[_Link] = []

    @property
    def is_plain(self) -> bool:
        """Whether no transform is left, so that chunks pass as they are."""
        return not self._links

    @property
    def is_ours(self) -> bool:
        """Whether all transforms are those that ship, which wait for nothing."""
        return all(link.is_ours for link in self._links)

    def feed(self, chunk: Chunk) -> list[Chunk]:
        """Pass one chunk through every transform."""
        return self._pass([chunk], 0)

    def text(self, index: int, text: str, chunk_of: Callable[[str], Chunk]) -> str | list[Chunk]:
        """Pass the text of a chunk that holds nothing else; give text, or chunks where a transform wants them.

        Args:
            index: of the choice.
            chunk_of: makes the chunk of a text.
        """
        for place, link in enumerate(self._links):
            try:
                out = link.transform.text(index, text)
                if out is not None and not isinstance(out, str):
                    raise TypeError("text gave no text")
            except BaseException as error:
                return self._pass([*self._fail(link, error), chunk_of(text)], place)
            if out is None:
                return self._pass([chunk_of(text)], place)
            if not out:
                return ""
            text = out
        return text

    def finish(self) -> list[Chunk]:
        """End the transforms in order, each one's rest passing through those behind it."""
        out: list[Chunk] = []
        while self._links:
            link = self._links[0]
            try:
                rest = link.chunks(link.transform.finish())
            except BaseException as error:
                rest = self._fail(link, error)
            else:
                self._ended.append(self._links.pop(0))
            out += self._pass(rest, 0)
        return out

    def tell(self) -> None:
        """Let the transforms bring their notes up to date. From any thread."""
        for link in (*self._ended, *self._links):
            try:
                link.transform.tell()
            except BaseException as error:
                self.errors.append(_told(link.name, "tell", error))

    def _pass(self, chunks: list[Chunk], start: int) -> list[Chunk]:
        index = start
        while index < len(self._links) and chunks:
            link = self._links[index]
            out: list[Chunk] = []
            for position, chunk in enumerate(chunks):
                raw = wire.dumps(chunk)  # a transform may have changed it in place before it fails
                try:
                    out += link.chunks(link.transform.feed(chunk))
                except BaseException as error:
                    out += [*self._fail(link, error), wire.loads(raw), *chunks[position + 1 :]]
                    break
            else:
                index += 1
            chunks = out
        return chunks

    def _fail(self, link: _Link, error: BaseException) -> list[Chunk]:
        """Take a transform that failed out of the chain; give what it held, raw."""
        self._links = [other for other in self._links if other is not link]
        self.errors.append(_told(link.name, "transform", error))
        try:
            return link.chunks(link.transform.held())
        except BaseException as worse:
            self.errors.append(_told(link.name, "held", worse))
            return []


def _told(name: str, where: str, error: BaseException) -> dict[str, str]:
    # NOTE: only the class is told: the message of a stage's exception may quote the text it worked on.
    log.warning("stage %s failed in %s with %s; its effect is dropped", name, where, type(error).__name__)
    return {"stage": name, "in": where, "error": type(error).__name__}
