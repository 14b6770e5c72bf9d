"""Where an answer goes: an event stream, one whole object, or Python values.

A sink's methods are called by the stream's reader (``failed`` also by the ticker, when the reader has not begun). It
writes into the stream's mailbox, which one consumer empties.
"""

from __future__ import annotations

from . import wire
from .answer import Answer
from .errors import GatewayError, UpstreamProtocolError
from .mailbox import Mailbox
from .pipeline import Chunk
from .sse import encode_comment, encode_data

__all__ = ["DONE", "END", "AnswerSink", "ChunkSink", "EventSink", "Last", "Sink"]


class Last(bytes):
    """The last item of a mailbox; what it holds is still to be written."""

    __slots__ = ()


DONE = Last(encode_data(b"[DONE]"))
END = Last()


class Sink:
    """The contract, and the least a sink does.

    Args:
        mailbox: taken from by the consumer.
    """

    wants_comments = False
    wants_bytes = False
    """Takes chunks as JSON too, by ``block``."""

    def __init__(self, mailbox: Mailbox) -> None:
        self.mailbox = mailbox

    def chunk(self, chunk: Chunk) -> None:
        """Take one chunk; waits while the consumer is behind."""

    def block(self, data: bytes) -> None:
        """Take one chunk as JSON."""

    def comment(self, text: bytes) -> None:
        """Take a comment of upstream."""

    def done(self) -> None:
        """End after a whole answer."""
        self.mailbox.slip(END)

    def failed(self, last: Chunk | None, error: GatewayError) -> None:
        """End after a failure; *last* is the chunk that says so to clients that only know chunks."""
        self.mailbox.slip(END)


class EventSink(Sink):
    """Server-Sent Events, encoded here so that the consumer only joins and writes."""

    wants_comments = True
    wants_bytes = True

    def chunk(self, chunk: Chunk) -> None:
        self.block(wire.dumps(chunk))

    def block(self, data: bytes) -> None:
        block = encode_data(data)
        self.mailbox.put(block, len(block))

    def comment(self, text: bytes) -> None:
        block = encode_comment(text)
        self.mailbox.put(block, len(block))

    def done(self) -> None:
        self.mailbox.slip(DONE)

    def failed(self, last: Chunk | None, error: GatewayError) -> None:
        if last is not None:
            self.mailbox.slip(encode_data(wire.dumps(last)))
        # The one form that every tested client library raises on: no choices, no id.
        self.mailbox.slip(encode_data(wire.dumps({"error": error.to_object()})))
        self.done()


class AnswerSink(Sink):
    """Collects the whole answer.

    Args:
        limit: most bytes of its chunks, as JSON.
    """

    def __init__(self, mailbox: Mailbox, limit: int) -> None:
        super().__init__(mailbox)
        self.answer = Answer()
        self._left = limit

    def chunk(self, chunk: Chunk) -> None:
        """Take one chunk.

        Raises:
            UpstreamProtocolError: the answer is too large to be held.
        """
        self._left -= len(wire.dumps(chunk))
        if self._left < 0:
            raise UpstreamProtocolError(
                "the answer is too large to be given whole (SLUICE_MAX_ANSWER_BYTES): stream it"
            )
        self.answer.add(chunk)


class ChunkSink(Sink):
    """Hands out the chunks themselves; each counts as one against the mailbox's limit."""

    def chunk(self, chunk: Chunk) -> None:
        self.mailbox.put(chunk, 1)

    def failed(self, last: Chunk | None, error: GatewayError) -> None:
        self.mailbox.slip(error)
        self.done()
