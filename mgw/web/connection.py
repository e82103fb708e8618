"""Our HTTP/1.1 server side: one channel is one client's connection.

It reads heads (:mod:`mgw.http.request_head`) and bodies (:mod:`mgw.http.body`), opens a visit for each
request at its door (:mod:`mgw.web.door`), and writes one answer at a time (:mod:`mgw.http.response_writer`)::

      ┌──────────── finished, kept alive ────────────┐
    idle ── byte ──> head ── complete ──> serving ───┴─ finished, to be closed ──────────> closing ──> gone
                       └── refused ──────────┴─ finished before its body ended ──> lingering ─┘

Requests are answered strictly in order: the next one is looked at when the answer before it is finished and
the client has taken most of it.  Until then a channel goes on reading, so as to notice that the client has
left, but holds at most :data:`MAX_HELD` bytes of what comes behind the request.

Lingering (RFC 9112, 9.6): a client that still sends would lose its answer to the reset that closing causes,
so the channel ends its own side, then reads and discards until the client has ended the other, for a while.
Behind TLS the ends of both sides are alerts, and the transport goes on reading by itself.  What is read and
discarded is bounded; beyond that the channel stops reading, and the client has to.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final, cast

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IAddress, IPushProducer, ISSLTransport, ITCPTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.errors import GatewayError, Reason
from mgw.http.body import ChunkedRequestBody, SizedRequestBody, request_body
from mgw.http.request_head import RequestHead, RequestHeadReader
from mgw.http.response_writer import ResponseHeadBuilder, ResponseWriter
from mgw.reactor.deadline import Deadline
from mgw.reactor.eager_writer import EagerWriter
from mgw.reactor.transport import RelayTransport
from mgw.web.door import House, Visit
from mgw.web.progress import Progress, Taken, holds_input, is_owed_something, taken
from mgw.wire.headers import RawHeaders

if TYPE_CHECKING:
    from mgw.exchange.request import Producer

MAX_HELD: Final = 64 * 1024
"""The most bytes behind a request that wait for its answer; then the channel stops reading."""
LINGER_BYTES: Final = 1024 * 1024 * 1024
"""Above the largest files that vendors take: a client may send all of one before it looks at its answer."""
LINGER_SECONDS: Final = 30.0
DRAIN_SECONDS: Final = 0.2
"""How long a connection at rest may bring another request when the gateway stops, and how long it lingers."""
CLOSE_SECONDS: Final = 15.0
"""How long a client that has everything may take to agree to the end, as TLS asks it to."""

_INTERNET: Final = (IPv4Address, IPv6Address)
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class _State(Enum):
    OPEN = auto()
    LINGERING = auto()
    """Our side has ended, or will when everything is written; the client's has not."""
    CLOSING = auto()
    """What was written still goes out."""
    GONE = auto()


@implementer(IPushProducer)
class GatewayChannel(Protocol):
    """One connection of a client.

    The visit of the request that is being served calls :meth:`start`, :meth:`write` and :meth:`finish`, or
    :meth:`abort`; once the connection is gone they do nothing.
    """

    peer: str = ""
    """The client's address, without its port."""
    is_secure: bool = False

    def __init__(self, house: House) -> None:
        self.clock = house.clock
        self.requests = 0
        """How many requests have been opened, counting refusals."""
        self._house = house
        self._limits = house.limits
        self._deadline = Deadline(house.clock, self._expired)
        self._state = _State.GONE
        # what the client sends
        self._input = b""
        self._reader: RequestHeadReader | None = None
        self._body: SizedRequestBody | ChunkedRequestBody | None = None
        self._body_paused = False
        self._reading = True
        self._advancing = self._was_idle = self._is_last_call = False
        self._discarded = 0
        # the request that is being served, only while the state is OPEN
        self._serving = False
        self._visit: Visit | None = None
        self._method = self._version = b""
        self._keep_alive = self._may_continue = False
        # what the client takes
        self._source: Producer | None = None
        self._is_producer = self._full = False
        self._emptied = 0

    # What the transport calls

    def connectionMade(self) -> None:
        """Begin: the first head must arrive in time."""
        self._transport = cast(RelayTransport, self.transport)
        self._out = EagerWriter(self._transport)
        self._answer = ResponseWriter(self._out.write)
        self._progress = Progress(self.clock.seconds())
        self._state = _State.OPEN
        self.is_secure = bool(ISSLTransport.providedBy(self.transport))
        self._addresses = self._transport.getPeer(), self._transport.getHost()
        self.peer = str(getattr(self._addresses[0], "host", ""))
        if ITCPTransport.providedBy(self.transport) and isinstance(self._addresses[0], _INTERNET):
            # A token does not wait until the client has acknowledged the one before (RFC 9293 3.7.4).
            self.transport.setTcpNoDelay(True)
        self._transport.registerProducer(self, streaming=True)
        self._is_producer = True
        self._deadline.start(self._limits.client_headers)
        self._house.opened(self)

    def dataReceived(self, data: bytes) -> None:
        """Take the next bytes of the client."""
        if self._state is _State.OPEN:
            self._input = self._input + data if self._input else data
            self._advance()
        elif self._state is _State.LINGERING:
            self._discarded += len(data)
            if self._discarded > LINGER_BYTES:
                self._transport.pauseProducing()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: ARG002  Twisted's signature
        """Tell the visit that nobody hears its answer any more."""
        self._state = _State.GONE
        self._deadline.close()
        self._input = b""
        self._reader = self._body = None
        visit = self._end_serving()
        if visit is not None:
            visit.left()
        self._house.closed(self)

    def pauseProducing(self) -> None:
        """The transport's buffer is full."""
        self._full = True
        if self._source is not None:
            self._source.pause()

    def resumeProducing(self) -> None:
        """The transport's buffer is empty."""
        self._full = False
        self._emptied += 1
        self._out.on_drained()
        if self._source is not None:
            self._source.resume()
        if self._state is _State.OPEN:
            self._advance()

    def stopProducing(self) -> None:
        """The connection is lost, which :meth:`connectionLost` hears too."""

    # What the visit calls

    def start(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        """Begin the answer.

        The end of the body is marked by a ``Content-Length`` among the headers; without one by chunks, in
        HTTP/1.0 by the end of the connection.  The head of a counted answer waits for the first bytes of its
        body.
        """
        if not self._serving:
            return
        head = ResponseHeadBuilder(status, reason, headers)
        head.choose_framing(self._method, self._version)
        if self._body is not None or not self._keep_alive or self._house.draining:
            head.close = True
        self._keep_alive = not head.close
        self._answer.start(head)

    def write(self, data: bytes) -> None:
        """Send a piece of the body.  More than the head announced breaks the connection."""
        if data and self._serving and not self._answer.write(data):
            self.abort()

    def finish(self) -> None:
        """End the answer.  Less than the head announced breaks the connection."""
        if not self._serving:
            return
        if not self._answer.finish():
            self.abort()
            return
        self._end_serving()
        if self._body is not None:
            self._linger(LINGER_SECONDS)
        elif not self._keep_alive or self._house.draining:
            self._end()
        else:
            self._was_idle = True
            self._deadline.start(self._limits.client_idle)
            self._advance()

    def flush(self) -> None:
        """Send a head that waits for the first bytes of its body."""
        if self._serving:
            self._answer.flush()

    def abort(self) -> None:
        """Break the connection, so that the client cannot take what it has for a whole answer."""
        if self._state is not _State.GONE:
            self._end_serving()
            self._state = _State.CLOSING
            self._deadline.close()
            self._transport.abortConnection()

    def truncate(self) -> None:
        """End an answer that will never be whole: behind what was written, where the client sees the gap."""
        if not self._serving:  # broken off already: what was written is on its way
            return
        if self._answer.truncate():
            self._end_serving()
            self._end()
        else:
            self.abort()

    def close_after(self) -> None:
        """Close the connection behind the answer, which says so unless it has begun."""
        self._keep_alive = False
        if self._is_idle():
            self._end()

    def send_continue(self) -> None:
        """Let a client that waits for it send its body (RFC 9110 10.1.1)."""
        if self._serving and self._may_continue and not self._answer.started:
            self._may_continue = False
            self._out.write(_CONTINUE)

    def register(self, source: Producer) -> None:
        """Name what is told to pause while the client takes less than is written."""
        self._source = source
        if self._full:
            source.pause()

    def unregister(self) -> None:
        """There is nothing to pause any more."""
        self._source = None

    def pause_body(self) -> None:
        """Take nothing more of the body for now."""
        if self._serving:
            self._body_paused = True
            self._deadline.stop()
            self._read_or_not()

    def resume_body(self) -> None:
        """Go on taking the body."""
        if self._body_paused:
            self._body_paused = False
            self._advance()

    def getPeer(self) -> IAddress:
        """Return the client's address."""
        return self._addresses[0]

    def getHost(self) -> IAddress:
        """Return our own address, as the client knows it."""
        return self._addresses[1]

    # What the factory calls

    def drain(self) -> None:
        """Close the connection if no request is under way; the house says that it is draining.

        A request may be on its way already, so there is a moment for it.
        """
        if self._is_idle() and not self._is_last_call:
            self._is_last_call = True
            self._deadline.start(DRAIN_SECONDS)

    def look(self, now: float) -> None:
        """Break the connection if its client has stopped reading, or does not agree to its end."""
        closing = self._state is _State.CLOSING
        at = taken(self._transport) or Taken(self._emptied, waiting=self._full or closing)
        idle = self._progress.idle_seconds(at.total, now, owed=at.waiting or closing)
        if idle >= (self._limits.write_stall if at.waiting else CLOSE_SECONDS):
            self._transport.abortConnection()

    # Reading

    def _advance(self) -> None:
        """Take from the input what can be taken now."""
        if self._advancing:  # called back from below: the loop goes on by itself
            return
        self._advancing = True
        try:
            while self._input and self._state is _State.OPEN and self._step():
                pass
        finally:
            self._advancing = False
        if self._state is _State.OPEN:
            self._read_or_not()
            if self._body is not None and not self._body_paused:
                self._deadline.start(self._limits.client_body_idle)

    def _step(self) -> bool:
        """Take the next part of a message; say whether there may be another."""
        if not self._serving:
            return not self._full and self._take_head()
        if self._body is None or self._body_paused or self._visit is None:
            return False
        self._take_body(self._visit, self._body)
        return True

    def _take_head(self) -> bool:
        reader = self._reader
        if reader is None:
            self._input = self._input.lstrip(b"\r\n")  # RFC 9112 2.2: empty lines before a request
            if not self._input:
                return False
            self._reader = reader = RequestHeadReader(self._limits.max_head_bytes, self._limits.max_headers)
        try:
            end = reader.feed(self._input)
            head = None if end is None else reader.head()
        except GatewayError as error:
            self._refuse(error)
            return False
        if head is None:
            self._input = b""
            if self._was_idle:  # the limit of the first head runs since the connection
                self._was_idle = False
                self._deadline.start(self._limits.client_headers)
            return False
        self._input = self._input[end:]
        self._reader = None
        self._deadline.stop()
        self._open(head)
        return True

    def _open(self, head: RequestHead) -> None:
        self._begin_serving(head.method, head.version, keep_alive=head.keep_alive)
        self._may_continue = head.expects_continue
        self._body = request_body(head)
        visit = self._house.door.open(self, head)
        if not self._serving:  # answered already
            return
        self._visit = visit
        if self._body is None:
            visit.on_body_end()

    def _take_body(self, visit: Visit, body: SizedRequestBody | ChunkedRequestBody) -> None:
        try:
            content, self._input = body.feed(self._input)
        except GatewayError as error:
            self._input = b""
            self._keep_alive = False
            visit.broken(error)
            return
        self._may_continue = False
        if body.ended:
            self._body = None
            self._deadline.stop()
        if content:
            visit.on_body_data(content)
        if body.ended and self._visit is visit:
            visit.on_body_end()

    def _read_or_not(self) -> None:
        wanted = not self._body_paused and len(self._input) <= MAX_HELD
        if wanted is not self._reading:
            self._reading = wanted
            (self._transport.resumeProducing if wanted else self._transport.pauseProducing)()

    # The ends of requests and connections

    def _begin_serving(self, method: bytes, version: bytes, *, keep_alive: bool) -> None:
        self.requests += 1
        self._serving = True
        self._method, self._version = method, version
        self._keep_alive = keep_alive

    def _end_serving(self) -> Visit | None:
        visit, self._visit = self._visit, None
        self._serving = False
        self._source = None
        self._body_paused = False
        self._answer.reset()
        return visit

    def _refuse(self, error: GatewayError) -> None:
        """Have the door answer what is no request, and close."""
        target = None if self._reader is None else self._reader.target
        self._input = b""
        self._reader = None
        self._begin_serving(b"", b"1.1", keep_alive=False)
        self._body = SizedRequestBody(1)  # whatever else comes is discarded
        self._house.door.refused(self, error, target)

    def _is_idle(self) -> bool:
        return self._state is _State.OPEN and not self._serving and self._reader is None

    def _end(self) -> None:
        """End a connection on which nothing is under way, once everything is written."""
        if self.is_secure or not hasattr(self._transport, "loseWriteConnection"):
            self._close()
        else:
            self._linger(DRAIN_SECONDS if self._house.draining else LINGER_SECONDS)

    def _linger(self, seconds: float) -> None:
        """End our side once everything is written, and read what the client still sends."""
        self._state = _State.LINGERING
        self._input = b""
        self._read_or_not()
        self._deadline.start(seconds)
        if hasattr(self._transport, "loseWriteConnection"):
            self._let_go()
            end = self._transport.loseConnection if self.is_secure else self._transport.loseWriteConnection
            end()

    def _close(self) -> None:
        """Close once everything is written."""
        self._state = _State.CLOSING
        self._deadline.close()
        self._input = b""
        self._let_go()
        self._transport.loseConnection()

    def _let_go(self) -> None:
        """A transport with a producer waits for more to write and never ends."""
        if self._is_producer:
            self._is_producer = False
            self._transport.unregisterProducer()

    def _stop_lingering(self) -> None:
        """Close, unless the client is still busy with our answer: a reset would take it away."""
        if is_owed_something(self._transport):
            self._deadline.start(LINGER_SECONDS)
        elif self.is_secure:  # which would wait for the other side once more
            self.abort()
        else:
            self._close()

    def _expired(self) -> None:
        """The deadline has passed; what that means follows from what the channel is doing."""
        if self._state is _State.LINGERING:
            self._stop_lingering()
        elif self._serving:
            self._keep_alive = False
            if self._visit is not None:
                self._visit.too_slow()
        elif self._full:  # the client is still busy with our last answer
            self._deadline.start(self._limits.client_idle)
        elif self._reader is not None:
            self._refuse(GatewayError(Reason.CLIENT_TOO_SLOW, "the request head stopped arriving"))
        elif holds_input(self._transport):  # a request that came this very moment
            self._deadline.start(DRAIN_SECONDS)
        else:
            self._end()
