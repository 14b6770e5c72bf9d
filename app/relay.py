"""One stream's life: open upstream, decode, run the stages, hand on, end properly whatever happens, account.

Three parties meet in a ``Stream``. The **reader**, a thread of its own, does everything from the upstream call to the
encoded ending. The **consumer**, who is the server's thread for the request or a caller of the library, takes what
the reader put into the mailbox. The **ticker** looks at each stream that something is due for, a few times a second:
heartbeats, time limits, a client that left or stalled, the drain. Whoever finds a reason to end states it by ``fail``;
the first one counts. The ending itself is written once: by the reader, or by the ticker while the reader is still
waiting for a response.

Under gevent the reader ends once upstream has answered, and the consumer reads for itself from then on: a greenlet
less for each stream, and a wake-up less for each chunk. It can be woken for a heartbeat there, as no thread can.
"""

from __future__ import annotations

import _thread
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, Protocol

from . import wire
from .chunks import Normalizer
from .drain import drain
from .errors import (
    ClientGone,
    Draining,
    GatewayError,
    InternalError,
    Overloaded,
    UpstreamCut,
)
from .faults import forget_frames, told
from .intake import Intake, Response
from .limits import Limits
from .peer import Peer
from .pipeline import Chunk, Run
from .record import Record
from .settings import Settings
from .sinks import END, Last, Sink
from .sse import PAUSE, Comment, EventTooLong, encode_comment
from .template import content_of
from .ticker import Ticker
from .transport import Broken, Call, Cancelled
from .turns import EVENT_WORK, TURN_WORK, give_way

__all__ = ["HEARTBEAT", "Stream", "Upstream"]

log = logging.getLogger("sluice")

HEARTBEAT = encode_comment(b" keep-alive")
_PARAMS = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "top_a",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "max_tokens",
    "max_completion_tokens",
    "seed",
)
_END_REASONS = {"length": "length", "tool_calls": "tool_calls", "content_filter": "content_filter"}
_TAIL_SECONDS = 1.0
_LONGEST = 0.1
"""Seconds after which what has been relayed goes out, though more of what was read with it is to come."""
_OVER = object()
_HEAD = frozenset({"id", "object", "created", "model"})
_BESIDE = ("reasoning", "reasoning_content", "refusal")
_CHARACTERS_PER_TOKEN = 4  # what upstream did not count is estimated


class Upstream(Protocol):
    """What the relay needs of the upstream client."""

    def open(self, call: Call, body: bytes, key: str | None, *, own_key: bool) -> Any:
        """Send the request and give the response of a success."""

    def broken(self, call: Call, error: Exception) -> GatewayError:
        """Make our error of one that reading raised."""


def _says_something(choices: list[Chunk]) -> bool:
    return any(value for choice in choices for key, value in choice["delta"].items() if key != "role")


def _characters_beside(delta: Chunk) -> int:
    """Count what a model generates, and is paid for, beside the content: reasoning, a refusal, tool arguments."""
    found = sum(len(delta[name]) for name in _BESIDE if isinstance(delta.get(name), str))
    calls = delta.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        arguments = function.get("arguments") if isinstance(function, dict) else None
        found += len(arguments) if isinstance(arguments, str) else 0
    return found


def _id_of(response: Response) -> str | None:
    found = response.headers.get("X-Generation-Id")
    return found if isinstance(found, str) and len(found) <= 100 and found.isascii() and found.isprintable() else None


def _without_words(note: Any) -> Any:
    """Leave out of a stage's note what may quote the prompt."""
    return {key: value for key, value in note.items() if key != "reasoning"} if isinstance(note, dict) else note


def _read_on(reading: Iterator[None]) -> None:
    for _ in reading:
        pass


def _began(reading: Iterator[None]) -> bool:
    """Let a thread of its own read on: who closes a stream has the client's connection to close, or to read from."""
    try:
        _thread.start_new_thread(_read_on, (reading,))
    except RuntimeError:
        return False
    return True


class Stream:
    """See the module.

    Args:
        upstream: the client that opens the call.
        ticker: watches the stream until it is closed.
        settings: limits.
        run: the prepared request and its transforms.
        sink: where the answer goes.
        record: closed exactly once, by ``close``.
        key: upstream key. *own_key*: it is the operator's.
        peer: the client's connection, if a server shows it.
        on_end: is called with upstream's usage before the client can know that the stream is over; maybe again later.
        on_close: is called once, when the stream is closed.
    """

    def __init__(
        self,
        upstream: Upstream,
        ticker: Ticker,
        settings: Settings,
        run: Run,
        sink: Sink,
        record: Record,
        *,
        key: str | None,
        own_key: bool,
        peer: Peer | None = None,
        on_end: Callable[[dict[str, Any] | None], None] | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        body = run.request.body
        debug = body.get("debug")
        self._upstream, self._ticker, self._settings = upstream, ticker, settings
        self._run, self._record, self._peer = run, record, peer
        self._key, self._own_key = key, own_key
        self.sink, self.mailbox, self.call = sink, sink.mailbox, Call(record.trace)
        self.chunks = Normalizer(
            record.completion_id or "",
            own_key=own_key,
            secret=key,
            keep_debug=isinstance(debug, dict) and debug.get("echo_upstream_body") is True,
        )
        self.error: GatewayError | None = None
        """Why the stream failed, or None."""
        self.first_event = threading.Event()
        """Set when the first chunk that says something, or the ending, is in the mailbox."""
        self._on_end, self._on_close = on_end, on_close
        self._ends: list[Chunk] = []
        self._beside = 0
        self._offered_id: str | None = None  # upstream's id of the answer, before its first chunk has told it
        self._lock = threading.Lock()
        self._is_open = False  # upstream has answered: the ending is the reader's to write
        self._is_ending = False  # someone writes the ending
        self._is_closed = False
        self._reader_started = False
        # A trace's context is the reader's own; who calls the library may break off a wait and come again; and a
        # host's stage may wait for something itself, while what came before it, and heartbeats, go out.
        self._may_hand_over = record.trace is None and peer is not None and run.is_ours
        self._reading: Generator[None, None, None] | None = None  # what the reader has left to the consumer
        self._intake = Intake(settings.max_event_bytes)
        self._limits = Limits(settings, self._intake)
        self._silent_until = settings.heartbeat - ticker.period  # seconds after which the next tick would be too late
        self._wrote_at = self._taken_at = time.monotonic()
        self._is_away = True  # the consumer is not waiting in ``take``
        self._is_served = False  # the consumer has come at least once
        self._reached_end = False
        self._facts: dict[str, Any] | None = None  # the metadata that the ending was written with
        descriptor = peer.descriptor if peer is not None else -1
        # Where nobody tells that the client left, though its socket can be seen, each tick has to look.
        self._is_told = ticker.add(self, descriptor) or descriptor < 0

    # The consumer's side.

    def start(self) -> None:
        """Start the reader. Nothing has gone upstream before."""
        if self._reader_started:
            return
        self._reader_started = True
        try:
            trace = self._record.trace
            _thread.start_new_thread(self._read if trace is None else lambda: trace.run(self._read), ())
        except RuntimeError:
            log.error("no thread can be started for a stream: raise the process' limit, or lower SLUICE_MAX_STREAMS")
            self.fail(Overloaded("this worker has all the threads it may have", retry_after="1"))

    def take(self) -> list[Any]:
        """Wait for items; a ``Last`` at the end of the list says that nothing follows."""
        self._is_served = True
        self._is_away = False
        items = self._items()
        self._is_away = True
        self._wrote_at = time.monotonic()
        last = items[-1]
        if last is not HEARTBEAT:
            self._taken_at = self._wrote_at
            if type(last) is Last:
                self._reached_end = True
                self._tell_end()
        return items

    def _items(self) -> list[Any]:
        items: list[Any] = []
        while not items:
            if self._reading is None:
                items = self.mailbox.take()
            elif next(self._reading, _OVER) is _OVER:
                items = self.mailbox.take_now() or [END]
            else:
                items = self.mailbox.take_now()
        return items

    @property
    def has_begun(self) -> bool:
        """Whether the answer has said anything yet."""
        return self._record.first_chunk_ms is not None

    def mark_ended(self) -> None:
        """Note that the consumer knows the ending without taking it from the mailbox."""
        self._reached_end = True

    def wait_for_word(self, seconds: float) -> None:
        """Wait until the answer has said something, or ended, for at most *seconds*."""
        self._may_hand_over = False
        self._is_served = True
        self._wrote_at = time.monotonic() + seconds  # nothing is given to the client meanwhile, so it cannot stall
        self.first_event.wait(seconds)
        self._wrote_at = time.monotonic()
        self._is_served = False  # whether the body will be asked for is open again

    def wrote(self) -> None:
        """Note that the server came back for more of what it was given."""
        self._is_served = True
        self._wrote_at = time.monotonic()

    def close(self) -> None:
        """Account for the stream and, if it has not ended, end it. Idempotent, from any thread."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._ticker.remove(self)
        if self._peer is not None:
            self._peer.let_go()
        if not self._reached_end:
            self.fail(ClientGone("the client left"))
        self._tell_end()
        self._account()
        if self._on_close is not None:
            self._on_close()
        self._read_out()

    def _read_out(self) -> None:
        """Finish what the reader has left to the consumer: read on to the body's end, or give up the connection."""
        reading = self._reading
        if reading is None:
            return
        if self.error is None:
            if self._intake.is_over or not _began(reading):
                _read_on(reading)
        else:
            with contextlib.suppress(ValueError):  # the consumer is in it, and about to be told
                reading.close()

    def _tell_end(self) -> None:
        if self._on_end is not None:
            self._on_end(self.chunks.usage)

    # Anyone's side.

    def fail(self, error: GatewayError) -> None:
        """End the stream with *error*, unless it is ending already. From any thread."""
        with self._lock:
            # A client can still be lost while the ending waits for it, and not once it has taken that.
            is_late = self._reached_end if isinstance(error, ClientGone) else self._is_ending
            if self.error is None and not is_late:
                self.error = error
            early = not self._is_open and not self._is_ending
            if early:
                self._is_ending = True
        self.call.cancel()
        self.mailbox.lift()
        if self._is_away and not self._is_closed:
            self._take_back()
        if early:
            # The reader is still waiting for a connection or a response, and may be for seconds.
            self._write_failure(self.error or error)

    def _take_back(self) -> None:
        """Take reading from the consumer again: it is stuck in a write, and may not come back to end anything."""
        if self._reading is not None and _began(self._reading):
            self._reading = None
            self.mailbox.take_back()

    # The ticker's side.

    def check(self, now: float) -> float | None:
        """Do what is due at monotonic time *now*, and give the time before which nothing will be."""
        peer = self._peer
        if peer is not None:
            if peer.is_gone():
                self._give_up(peer, ClientGone("the client left"))
                return None
            if self._is_away and now - self._wrote_at > self._settings.client_stall_timeout:
                error = ClientGone("the client took nothing for SLUICE_CLIENT_STALL_TIMEOUT")
                error.end_reason = "client_stalled"
                self._give_up(peer, error)
                return None
        if self._is_ending:
            if drain.is_over() and peer is not None and self._is_served:
                peer.cut()  # the ending is written and nobody takes it
        elif drain.is_over():
            self.fail(Draining("this worker is shutting down; send the request again"))
        elif (passed := self._limit_passed(now)) is not None:
            self.fail(passed)
        elif self.sink.wants_comments and not self._is_away and now - self._wrote_at > self._silent_until:
            with self._lock:
                if not self._is_ending:  # nothing may follow the ending
                    self.mailbox.slip(HEARTBEAT)
                    self._record.heartbeats += 1
                    if self._reading is not None:
                        self.call.wake()
        return self._quiet_until(now) if self._is_told else None

    def _quiet_until(self, now: float) -> float:
        since = min(self._wrote_at, now)  # it is ahead in ``wait_for_word``
        stall = self._settings.client_stall_timeout
        return min(self._limits.next_look, since + self._silent_until, since + stall)

    def _give_up(self, peer: Peer, error: ClientGone) -> None:
        self.fail(error)
        if not self._is_served:
            # The host never came for the body and never will; what is on the connection now is none of ours.
            self.close()
        elif self._is_away:
            peer.cut()  # wakes a server that is stuck in a write

    def _limit_passed(self, now: float) -> GatewayError | None:
        is_full = self.mailbox.is_full if self._reading is None else self._is_away
        return self._limits.passed(now, sent_at=self.call.sent_at, taken_at=self._taken_at, is_full=is_full)

    # The reader's side.

    def _read(self) -> None:
        response: Response | None = None
        try:
            body = wire.dumps(self._run.request.body)
            response = self._upstream.open(self.call, body, self._key, own_key=self._own_key)
            reading = self._finish(response)
            next(reading)  # a generator that has not begun does not close what it is to close
            with self._lock:
                if self._is_ending:
                    return
                self._is_open = True
                if self._may_hand_over and response.can_pause and self.call.can_wake:
                    response.pauses = True
                    self._reading = reading
            self._record.headers_ms = self._record.elapsed_ms()
            self._offered_id = _id_of(response)
            if self._reading is not None:
                self.mailbox.hand_over()
                return
            _read_on(reading)
        except BaseException as error:  # whatever happens, the client is told the end
            self._end_with(error)
        finally:
            if response is not None and self._reading is None:
                response.close()

    def _finish(self, response: Response) -> Generator[None, None, None]:
        """Relay *response* and end the stream; yields at the start, and wherever something may go out."""
        try:
            yield
            yield from self._relay(response)
        except Exception as error:
            self._end_with(error)
        except BaseException:
            self._end_badly(ClientGone("cancelled"))
            raise
        finally:
            response.close()

    def _end_with(self, error: BaseException) -> None:
        failure = self._failure(error)
        forget_frames(error)  # request and answer go when the stream does, not with the garbage
        self._end_badly(failure)

    def _failure(self, error: BaseException) -> GatewayError:
        if isinstance(error, GatewayError):
            return error
        if isinstance(error, Cancelled):
            return ClientGone("cancelled")
        if isinstance(error, Broken):
            return self._upstream.broken(self.call, error)
        log.error("relaying for record %s failed: %s", self._record.record_id, told(error))
        return InternalError("the gateway failed; its log says why")

    def _relay(self, response: Response) -> Iterator[None]:
        """Relay the body to its end, then end the stream; yields where something may go out, and after the ending."""
        note_gap: Any = self._record.gaps.note
        work = 0
        try:
            for item in self._intake.items(response):
                work += EVENT_WORK
                if type(item) is str:
                    self._text(item)
                    note_gap(self._intake.event_at)
                    work += len(item)
                elif type(item) is Comment:
                    self.sink.comment(item)
                elif item is PAUSE:
                    yield
                else:
                    self._chunk(item)
                    note_gap(self._intake.event_at)
                    work += len(self._intake.data)
                if work > TURN_WORK:  # upstream may send faster than we read, and then nothing here ever waits
                    work = 0
                    give_way()
                    if time.monotonic() - self._wrote_at > _LONGEST:  # their turns took long, and more of them come
                        yield
        except Broken as error:
            if isinstance(error, EventTooLong) or not self.chunks.is_whole:
                raise  # otherwise all that was to come has come
        if self.call.cancelled.is_set() and self.error is not None:
            raise self.error
        self._end_well()
        yield
        if self._intake.is_done:
            self.call.limit_reads(_TAIL_SECONDS)
            self._intake.read_tail(_TAIL_SECONDS)

    def _chunk(self, value: Any) -> None:
        templates = self._intake.templates
        text = content_of(value) if self.sink.wants_bytes and templates.may_learn else None
        chunks = self.chunks.feed(value)
        if text is not None:
            templates.learn(self._intake.data, text, chunks)
        for chunk in chunks:
            self._pass(chunk)
        if self.chunks.failure is not None:
            raise self.chunks.failure

    def _pass(self, chunk: Chunk) -> None:
        """Hand one chunk through the transforms to the sink; finish chunks wait for upstream's end."""
        for out in (chunk,) if self._run.is_plain else self._run.feed(chunk):
            self._emit(out)

    def _text(self, text: str) -> None:
        """Hand on the text of an event that fits a template; otherwise as ``_pass``."""
        templates = self._intake.templates
        out = text if self._run.is_plain else self._run.text(templates.index, text, templates.chunk)
        if isinstance(out, list):
            for chunk in out:
                self._emit(chunk)
        elif out:
            self.sink.block(templates.render(out))
            self._count(len(out))

    def _count(self, characters: int) -> None:
        """Account for a chunk that says something; end here if someone has found a reason to."""
        record = self._record
        record.chunks += 1
        record.characters += characters
        if record.first_chunk_ms is None:
            record.first_chunk_ms = record.elapsed_ms()
            self.first_event.set()
        if self.error is not None:
            raise Cancelled

    def _emit(self, chunk: Chunk) -> None:
        choices = chunk["choices"]
        chunk = self._headed(chunk)
        if choices and choices[0].get("finish_reason") is not None:
            self._keep_end(chunk)
            return
        self._tally(choices)
        self.sink.chunk(chunk)
        record = self._record
        if record.first_chunk_ms is None and _says_something(choices):
            record.first_chunk_ms = record.elapsed_ms()
            self.first_event.set()
        if self.error is not None:
            raise Cancelled

    def _keep_end(self, chunk: Chunk) -> None:
        """Keep a finish chunk until upstream's end; a choice ends once, whatever a stage makes of it."""
        index = chunk["choices"][0]["index"]
        if all(end["choices"][0]["index"] != index for end in self._ends):
            self._ends.append(chunk)

    def _tally(self, choices: list[Chunk]) -> None:
        record = self._record
        record.chunks += 1
        for choice in choices:
            text = choice["delta"].get("content")
            if isinstance(text, str):
                record.characters += len(text)
            if len(choice["delta"]) > 1:
                self._beside += _characters_beside(choice["delta"])

    def _headed(self, chunk: Chunk) -> Chunk:
        """Give *chunk* with the head of the stream's chunks; one that a stage made may lack it."""
        return chunk if _HEAD <= chunk.keys() else {**self.chunks.head(), **chunk}

    def _end_well(self) -> None:
        chunks = self.chunks
        if not chunks.begun:
            raise self._intake.nothing()
        unfinished = chunks.unfinished()
        if unfinished and not self._intake.is_done:
            raise UpstreamCut("upstream ended the answer without finishing it")
        for index in unfinished:
            self._pass(chunks.finish_chunk(index))
        for chunk in self._run.finish():
            self._emit(chunk)
        with self._lock:
            if self._is_ending or self.error is not None:
                raise self.error or Cancelled()
            self._is_ending = True
        try:
            self._write_success()
        except Exception as error:
            log.error("the ending of record %s cannot be written: %s", self._record.record_id, told(error))
            self.error = InternalError("the gateway failed; its log says why")
            self._write_failure(self.error)

    def _write_success(self) -> None:
        chunks = self.chunks
        ended = {end["choices"][0]["index"] for end in self._ends}
        self._ends += [chunks.finish_chunk(index) for index in chunks.begun if index not in ended]
        self._ends[-1]["x_g0dm0d3"] = self._facts = self.metadata()
        for end in self._ends:
            self.sink.chunk(end)
        if self._run.request.include_usage and chunks.usage is not None:
            self.sink.chunk({**chunks.head(), "choices": [], "usage": chunks.usage})
        self.sink.done()
        self.first_event.set()

    def _end_badly(self, error: GatewayError) -> None:
        with self._lock:
            if self._is_ending:
                return
            self._is_ending = True
            error = self.error = self.error or error
        self.mailbox.lift()
        try:
            for chunk in self._run.finish():
                choices = chunk["choices"]
                if choices and choices[0].get("finish_reason") is not None:
                    self._keep_end(self._headed(chunk))
                elif choices:
                    self._tally(choices)
                    self.sink.chunk(self._headed(chunk))
            for end in self._ends:
                self.sink.chunk(end)
        except Exception as further:  # an answer that is too large takes no more of it either
            self._failure(further)
        finally:
            self._write_failure(error)

    def _write_failure(self, error: GatewayError) -> None:
        begun = bool(self.chunks.begun)
        indices = self.chunks.unfinished() if begun else [0]
        last = {
            **self.chunks.head(),
            "choices": [{"index": index, "delta": {}, "finish_reason": "error"} for index in indices],
            "x_g0dm0d3": {"error": error.to_object(), **self.metadata()},
        }
        self.sink.failed(last if indices else None, error)
        self.first_event.set()

    # The account.

    def metadata(self) -> dict[str, Any]:
        """Give the facts that ride on the last chunk as ``x_g0dm0d3``."""
        record, chunks, run = self._record, self.chunks, self._run
        attempts: list[dict[str, Any]] = [dict(attempt) for attempt in self.call.failed]
        if self._is_open:
            attempts.append({"status": 200})
        elif self.call.is_trying:
            attempts.append({"error": "no answer"})
        return {
            "record_id": record.record_id,
            "generation_id": chunks.generation_id or self._offered_id,
            "model": chunks.model,
            "params_used": {name: run.request.body[name] for name in _PARAMS if name in run.request.body},
            "pipeline": self._notes(),
            "stage_errors": run.errors,
            "attempts": attempts,
            "timing": {"first_chunk_ms": record.first_chunk_ms, "total_ms": record.elapsed_ms()},
        }

    def _notes(self) -> dict[str, Any]:
        """Give copies of the stages' notes, which no stage can change any more, without those that are no JSON."""
        run = self._run
        run.tell()
        found: dict[str, Any] = {}
        for name, note in tuple(run.notes.items()):
            try:
                found |= wire.loads(wire.dumps({name: note}))
            except Exception as error:
                del run.notes[name]
                run.errors.append({"stage": str(name), "in": "notes", "error": type(error).__name__})
        return found

    def _account(self) -> None:
        record, chunks, error = self._record, self.chunks, self.error
        facts = self._facts or self.metadata()
        record.generation_id, record.served_model = facts["generation_id"], chunks.model
        record.provider = chunks.provider
        record.params_used, record.attempts = facts["params_used"], facts["attempts"]
        record.pipeline = {name: _without_words(note) for name, note in facts["pipeline"].items()}
        record.usage = chunks.usage
        generated = record.characters + self._beside
        if chunks.usage is None and generated:
            record.usage = {"completion_tokens": math.ceil(generated / _CHARACTERS_PER_TOKEN)}
            record.is_estimate = True
        if error is None:
            first = chunks.finishes.get(min(chunks.finishes, default=0), "stop")
            record.close(_END_REASONS.get(first, "completed"))
            return
        record.note_error(error)
        record.close(error.end_reason)
