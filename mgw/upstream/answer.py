"""An answer whose body is still unread, and how it reaches whoever wants it.

The body flows from the connection to one :class:`BodySink`, at the sink's pace::

    waiting --deliver_to--> flowing <--pause / resume--> paused
       |                       |
       |                       +--> body_ended | body_broke     exactly one of them, once, and last
       +------ abandon --------+--> nothing any more
       +------ release --------+--> nothing any more, while the connection may still see the answer's end

Until a sink is there, and while it is paused, nothing is read: what is held is what the last read gave.
"""

from __future__ import annotations

from typing import Final, Protocol

from twisted.logger import Logger

from mgw.errors import GatewayError, Reason
from mgw.http.response_reader import ResponseHead, ResponseReader
from mgw.wire.headers import RawHeaders

_log = Logger()


class BodySink(Protocol):
    """Who takes a body."""

    def body_arrived(self, data: bytes) -> None:
        """Take the next bytes, never empty."""

    def body_ended(self) -> None:
        """All of the body has arrived."""

    def body_broke(self, error: GatewayError) -> None:
        """The rest of the body will never arrive."""


class Source(Protocol):
    """What an answer asks of the connection that it comes from."""

    def read_on(self) -> None:
        """Read, and hand on what comes."""

    def halt(self) -> None:
        """Read nothing more for now."""

    def answered(self) -> None:
        """The answer was read to its end: the connection is free."""

    def abort(self) -> None:
        """Close at once."""

    def drain(self) -> None:
        """Nobody reads any more: wait for the end of the answer, though not for long."""


class _Nobody:
    """Takes what nobody wants."""

    def body_arrived(self, data: bytes) -> None:
        """Drop it."""

    def body_ended(self) -> None:
        """Tell nobody."""

    def body_broke(self, error: GatewayError) -> None:
        """Tell nobody."""


_NOBODY: Final = _Nobody()


class Answer:
    """The head of an upstream's answer, and the handle to its body."""

    __slots__ = (
        "_error",
        "_paused",
        "_pumping",
        "_reader",
        "_sink",
        "_source",
        "headers",
        "reason",
        "status",
    )

    def __init__(self, head: ResponseHead, reader: ResponseReader, source: Source) -> None:
        self.status: int = head.status
        self.reason: bytes = head.reason
        self.headers: RawHeaders = head.headers
        self._reader = reader
        self._source: Source | None = source
        self._sink: BodySink | None = None
        self._error: GatewayError | None = None
        self._paused = True
        self._pumping = False

    def __repr__(self) -> str:  # headers stay out: some hold session names
        return f"<Answer {self.status}>"

    @property
    def taken(self) -> bool:
        """Whether somebody was there to read the body, or no longer wants it."""
        return self._sink is not None or self._source is None

    @property
    def paused(self) -> bool:
        """Whether nothing is handed on for now."""
        return self._paused

    def deliver_to(self, sink: BodySink) -> None:
        """Hand the body to ``sink`` from now on; what has arrived goes to it before this returns."""
        assert self._sink is None, "an answer has one sink"
        self._sink = sink
        self.resume()

    def pause(self) -> None:
        """Hand nothing on, and read nothing, until :meth:`resume`."""
        if self._paused:
            return
        self._paused = True
        if self._source is not None and not self._reader.ended:
            self._source.halt()

    def resume(self) -> None:
        """Hand on what is held, then read on."""
        if not self._paused or self._sink is None:
            return
        self._paused = False
        self.pump()
        if not self._paused and self._source is not None and not self._reader.ended and not self.released:
            self._source.read_on()

    def abandon(self) -> None:
        """Want no more of it: the sink hears nothing further; the connection closes unless all was read."""
        if self.released:
            return
        source, self._source = self._source, None
        self._sink = None
        self._paused = True
        self._reader.pieces.clear()
        if source is None:
            return
        if self._reader.ended:
            source.answered()
        else:
            source.abort()

    @property
    def released(self) -> bool:
        """Whether nobody reads what comes."""
        return self._sink is _NOBODY

    def release(self) -> None:
        """Want no more of an answer that has said all: its connection lives on if its end comes soon."""
        if self._source is None:
            return
        self._sink = _NOBODY
        self._reader.pieces.clear()
        if not self._reader.ended:
            self._source.drain()

    def fail(self, error: GatewayError) -> None:
        """Called by the connection, which is gone: end with ``error`` what was not read to its end."""
        if not self._reader.ended:
            self._error = error
        self.pump()

    def pump(self) -> None:
        """Called by the connection when more was read: hand it on, unless paused."""
        if self._paused or self._pumping:
            return  # a sink that resumes while it takes a piece gets the next one from the loop below
        self._pumping = True
        try:
            self._hand_on()
        except Exception:  # a bug in the sink must not leave the connection half read
            _log.failure("a body could not be passed on")
            self._error = GatewayError(Reason.INTERNAL, "the response could not be passed on")
            self._reader.pieces.clear()
            if self._source is not None:
                self._source.abort()
        finally:
            self._pumping = False
        if not self._paused and (self._error is not None or self._reader.ended):
            self._finish()

    def _hand_on(self) -> None:
        pieces = self._reader.pieces
        while pieces and not self._paused:
            assert self._sink is not None
            if len(pieces) == 1:
                self._sink.body_arrived(pieces.popleft())
                continue
            together = b"".join(pieces)  # what came in one read costs one write
            pieces.clear()
            self._sink.body_arrived(together)

    def _finish(self) -> None:
        sink, source = self._sink, self._source
        self._sink = self._source = None
        self._paused = True
        if self._error is None and source is not None:
            source.answered()  # our own state first: the sink may send the next request at once
        if sink is None:
            return
        if self._error is None:
            sink.body_ended()
        else:
            sink.body_broke(self._error)
