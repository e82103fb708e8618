"""A response with its body unread, and the delivery of the body.

The body flows from the connection to one :class:`BodyReceiver`, at the receiver's pace::

    waiting --deliver_body--> flowing <--pause / resume--> paused
       |                         |
       |                         +--> on_body_end | on_body_error   exactly one of them, once, and last
       +-------- cancel ---------+--> nothing any more
       +----- discard_rest ------+--> nothing any more, while the connection may still see the response's end

Until a receiver is there, and while it is paused, nothing is read: only what the last read gave is held.  One
who decides by the beginning of a body has that read ahead; it stays there for the receiver.

While it flows nothing is held.  A chunk that is all that a read gave, as most are in a stream, then goes to
the receiver by the shortest way: as it is framed, if there is somebody who takes it so.
"""

from __future__ import annotations

from typing import Final, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mgw.http.response_head import ResponseHead
from mgw.http.upstream_connection import ResponseBody
from mgw.nouns.errors import GatewayError, Reason
from mgw.upstream.unframing import Unframing
from mgw.upstream.wires.wire import Unframer
from mgw.wire.headers import RawHeaders

_log = Logger()


class BodyReceiver(Protocol):
    """Receives the body of a response."""

    def on_body_data(self, data: bytes) -> None:
        """Take the next bytes, never empty."""

    def on_body_end(self) -> None:
        """All of the body has arrived."""

    def on_body_error(self, error: GatewayError) -> None:
        """The rest of the body will never arrive."""


class ChunkReceiver(Protocol):
    """Receives chunks of a body as they are framed, in place of the :class:`BodyReceiver`."""

    def pass_chunk(self, data: bytes, start: int, stop: int) -> bool:
        """Take one whole chunk, whose content is between the two places; false: nothing was done with it."""


class ResponseConnection(Protocol):
    """What a response asks of the connection that it comes from."""

    def resume_reading(self) -> None:
        """Read, and pass on what comes."""

    def pause_reading(self) -> None:
        """Read nothing more for now."""

    def leave_unclaimed(self) -> None:
        """Read nothing more until somebody takes the response, which must not last."""

    def on_response_end(self) -> None:
        """The response was read to its end: the connection is free."""

    def abort(self) -> None:
        """Close at once."""

    def wait_for_end(self) -> None:
        """Nobody reads any more: wait for the end of the response, though not for long."""


class NullReceiver:
    """Discards a body."""

    def on_body_data(self, data: bytes) -> None:
        """Discard it."""

    def on_body_end(self) -> None:
        """Nobody waits for it."""

    def on_body_error(self, error: GatewayError) -> None:
        """Nobody waits for the rest."""


_NULL_RECEIVER: Final = NullReceiver()


class UpstreamResponse:
    """The head of a provider's response, and the handle to its body."""

    __slots__ = (
        "_body",
        "_connection",
        "_delivering",
        "_error",
        "_paused",
        "_read_ahead",
        "_read_ahead_bytes",
        "_receiver",
        "_unframing",
        "all_delivered",
        "chunk_receiver",
        "direct",
        "head",
        "status",
    )

    def __init__(self, head: ResponseHead, body: ResponseBody, connection: ResponseConnection) -> None:
        self.head = head
        self.status: int = head.status
        self._body = body
        self._connection: ResponseConnection | None = connection
        self._receiver: BodyReceiver | None = None
        self._error: GatewayError | None = None
        self._paused = True
        self._delivering = False
        self._read_ahead: Deferred[None] | None = None
        self._read_ahead_bytes = 0
        self._unframing: Unframing | None = None
        self.all_delivered = False
        """Whether the piece that the receiver is given, or was given last, is the last one of the body."""
        self.direct: BodyReceiver | None = None
        """The receiver while the body flows as it comes, and nothing is held: then it may be given the next
        piece without us, which is not the last one."""
        self.chunk_receiver: ChunkReceiver | None = None
        """It is given whole chunks before ``direct`` is; whoever receives the body may name one."""

    def __repr__(self) -> str:  # headers stay out: some hold session names
        return f"<UpstreamResponse {self.status}>"

    @property
    def headers(self) -> RawHeaders:
        """The header pairs as received."""
        return self.head.headers

    @property
    def reason(self) -> bytes:
        """The reason phrase."""
        return self.head.reason

    @property
    def arrived(self) -> bytes:
        """What of the body has arrived and was not delivered; it stays there."""
        return b"".join(self._body.pieces)

    @property
    def claimed(self) -> bool:
        """Whether somebody was there to read the body, or its beginning, or no longer wants it."""
        return self._receiver is not None or self._connection is None or self._read_ahead is not None

    @property
    def paused(self) -> bool:
        """Whether nothing is delivered for now."""
        return self._paused

    @property
    def discarding(self) -> bool:
        """Whether nobody reads what comes."""
        return self._receiver is _NULL_RECEIVER

    @property
    def flowing(self) -> bool:
        """Whether somebody reads what comes, as it comes."""
        return not self._paused and self._receiver is not _NULL_RECEIVER

    def read_ahead(self, max_bytes: int) -> Deferred[None]:
        """Read the beginning of the body, which stays there.

        Fires when so much has arrived, or all there is, in order or not: the provider's silence ends it, too.
        Cancelling leaves the response as it is.
        """
        assert self._receiver is None, "nobody takes the body yet"
        self._read_ahead_bytes = max_bytes
        done: Deferred[None] = Deferred(lambda _: self._stop_read_ahead())
        self._read_ahead = done
        if self._has_read_ahead():
            self._stop_read_ahead()
            done.callback(None)
        elif self._connection is not None:
            self._connection.resume_reading()
        return done

    def _has_read_ahead(self) -> bool:
        is_all = self._body.ended or self._error is not None or self._connection is None
        return is_all or sum(map(len, self._body.pieces)) >= self._read_ahead_bytes

    def _stop_read_ahead(self) -> None:
        self._read_ahead = None
        if self._connection is not None:
            self._connection.leave_unclaimed()

    def unframe(self, head: ResponseHead, unframer: Unframer) -> None:
        """Deliver the body as ``unframer`` makes it, under another head."""
        self.head, self._unframing = head, Unframing(unframer)

    def deliver_body(self, receiver: BodyReceiver) -> None:
        """Deliver the body to ``receiver`` from now on, and before this returns what has already arrived."""
        assert self._receiver is None, "a response has one receiver"
        self._receiver = receiver
        self._flow()

    def take_whole(self) -> bytes | None:
        """Return all of the body if it has arrived already and nobody reads it; else ``None``.

        The connection is free then.  What has to be unframed is delivered, since its frames may be broken.
        """
        connection, arrived = self._connection, self._body
        if (
            not arrived.ended
            or connection is None
            or self._receiver is not None
            or self._unframing is not None
        ):
            return None
        pieces = arrived.pieces
        body = pieces.pop() if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._connection = None
        connection.on_response_end()
        return body

    def pause(self) -> None:
        """Deliver nothing, and read nothing, until :meth:`resume`."""
        if self._paused:
            return
        self._paused = True
        self.direct = None
        if self._connection is not None and not self._body.ended:
            self._connection.pause_reading()

    def resume(self) -> None:
        """Deliver what is held, then read on."""
        if self._paused and self._receiver is not None:
            self._flow()

    def _flow(self) -> None:
        """Deliver what is held, then what comes."""
        self._paused = False
        self.deliver_pending()
        receiver, connection = self._receiver, self._connection
        if connection is None or receiver is None or self._paused or self._body.ended or self.discarding:
            return
        if self._unframing is None:
            self.direct = receiver
        connection.resume_reading()

    def cancel(self) -> None:
        """Deliver nothing more; the connection closes unless the response was read to its end."""
        connection = self._connection
        if connection is None or self._receiver is _NULL_RECEIVER:
            return
        self._connection = self._receiver = self.direct = self.chunk_receiver = None
        self._paused = True
        self._body.pieces.clear()
        if self._body.ended:
            connection.on_response_end()
        else:
            connection.abort()

    def discard_rest(self) -> None:
        """Deliver nothing more; the connection stays open if the response ends soon."""
        if self._connection is None:
            return
        self._receiver = _NULL_RECEIVER
        self._unframing = self.direct = self.chunk_receiver = None
        self._body.pieces.clear()
        if not self._body.ended:
            self._connection.wait_for_end()

    def fail(self, error: GatewayError) -> None:
        """Called by the connection when it is closed: unless all was read, the body ends with ``error``."""
        if not self._body.ended:
            self._error = error
        self.deliver_pending()

    def deliver_pending(self) -> None:
        """Called by the connection when more was read: deliver it, unless paused."""
        if self._read_ahead is not None and self._has_read_ahead():
            done = self._read_ahead
            self._stop_read_ahead()
            done.callback(None)
            return
        if self._paused or self._delivering:
            return  # a receiver that resumes while it takes a piece gets the next one from the loop below
        self._delivering = True
        pieces = self._body.pieces
        try:
            while pieces and not self._paused:
                assert self._receiver is not None
                self.all_delivered = self._body.ended
                if self._unframing is not None:
                    self._deliver_unframed(self._receiver, self._unframing)
                    continue
                if len(pieces) == 1:
                    self._receiver.on_body_data(pieces.pop())
                    continue
                joined = b"".join(pieces)  # what came in one read costs one write
                pieces.clear()
                self._receiver.on_body_data(joined)
        except Exception:  # a bug in the receiver must not leave the connection half read
            self._on_bug()
        finally:
            self._delivering = False
        if not self._paused and (self._error is not None or self._body.ended):
            if self._error is None and self._unframing is not None:
                pieces.append(b"")  # the end came alone
                self.deliver_pending()
            else:
                self._finish()

    def fail_receiver(self) -> None:
        """Called by the connection where one who was given a piece without us has raised: there is a bug."""
        self._on_bug()
        if not self._paused:
            self._finish()

    def _on_bug(self) -> None:
        _log.failure("a body could not be passed on")
        self._error = GatewayError(Reason.INTERNAL, "the response could not be passed on")
        self._body.pieces.clear()
        if self._connection is not None:
            self._connection.abort()

    def _deliver_unframed(self, receiver: BodyReceiver, unframing: Unframing) -> None:
        """Deliver what the pieces complete; behind that a fault in their frames ends the body."""
        pieces, ends = self._body.pieces, self._body.ended
        unframed = unframing.feed(b"".join(pieces), ends=ends)
        pieces.clear()
        if ends or unframing.fault is not None:
            self._unframing = None
        if unframing.fault is not None:
            self._error, self.all_delivered = unframing.fault, False
            if self._connection is not None:
                self._connection.abort()
        if unframed:
            receiver.on_body_data(unframed)

    def _finish(self) -> None:
        receiver, connection = self._receiver, self._connection
        self._receiver = self._connection = self.direct = self.chunk_receiver = None
        self._paused = True
        if self._error is None and connection is not None:
            connection.on_response_end()  # first: the receiver may send the next request at once
        if receiver is None:
            return
        if self._error is None:
            receiver.on_body_end()
        else:
            receiver.on_body_error(self._error)
