"""One connection to a provider, our HTTP/1.1 client side: one request at a time, kept alive (RFC 9112, 9).

::

    securing --handshake--> resting --send--> waiting --head--> answering --end--> resting
                                |                |                  |
                                +----------------+------------------+--> gone

``gone`` is entered when we close, abort or lose the connection, whichever comes first; then, once, its home
hears of it.  One deadline serves all states: it costs no timer per request (:mod:`mgw.reactor.deadline`).

A large body may still be on its way when the answer comes.  The answer is handed on at once, and the
connection is closed unless the rest was sent by the answer's end.  Behind an error nothing more of the body
is read (RFC 9112, 9.5); else the provider may yet want it, and each piece that it takes breaks its silence.
"""

from __future__ import annotations

from typing import Final, cast
from typing import Protocol as Interface

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import (
    IHandshakeListener,
    INegotiated,
    IReactorTime,
)
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.bodies.source import BodySource, HeldBody, unreadable
from mgw.errors import Cause, GatewayError
from mgw.http.response_reader import NOT_HTTP, ResponseReader
from mgw.reactor.deadline import Deadline
from mgw.reactor.eager_writer import EagerWriter
from mgw.reactor.transport import RelayTransport
from mgw.upstream.answer import Answer
from mgw.upstream.failure import Phase, UpstreamFailure, broken, too_slow
from mgw.upstream.peek import Found, peek, send_now
from mgw.upstream.request import UpstreamLimits
from mgw.upstream.upload import Upload

REST_SECONDS: Final = 55.0
"""How long an idle connection is kept: below the 60 to 75 s after which common servers close theirs."""
UNTAKEN_SECONDS: Final = 60.0
"""How long an answer may wait to be read or abandoned: longer than a credential takes to be renewed."""
DRAIN_SECONDS: Final = 1.0
"""How long the end of an answer may take of which nobody wants the rest."""
LINGER_SECONDS: Final = 5.0
"""How long an orderly close may take before the connection is aborted."""
MAX_JOINED_BYTES: Final = 16 * 1024
"""A body up to this size is copied to its head, which saves a write."""
MAX_UNWATCHED_BYTES: Final = 256 * 1024
"""A body above this size is watched until it is written."""
_NO_HTTP_1: Final = "insists on a protocol other than HTTP/1.1"
_BROKE_OFF: Final = "closed the connection in the middle of the response"


class Home(Interface):
    """Where a connection belongs: its pool."""

    def rested(self, connection: Connection) -> None:
        """The connection is free for another request."""

    def lost(self, connection: Connection) -> None:
        """The connection is gone; told once."""


@implementer(IHandshakeListener)
class Connection(Protocol):
    """The client's side of one connection; :meth:`send` starts an exchange on it when it rests."""

    def __init__(self, provider: str, limits: UpstreamLimits, clock: IReactorTime, home: Home) -> None:
        self._provider = provider
        self._limits = limits
        self._home = home
        self._deadline = Deadline(clock, self._expired)
        self._transport: RelayTransport
        self._out: EagerWriter
        self._secure = False
        self._securing: Deferred[None] | None = None
        self._gone = False
        self._lost: Failure | None = None
        self._used = False
        self._reader: ResponseReader | None = None
        self._waiting: Deferred[Answer] | None = None
        self._answer: Answer | None = None
        self._upload: Upload | None = None
        self._halted = False

    def __repr__(self) -> str:
        return f"<Connection to {self._provider}, {'gone' if self._gone else 'open'}>"

    # What the pool and the client ask.

    def secured(self) -> Deferred[None]:
        """Fire when requests may be sent; fail with what Twisted or OpenSSL says."""
        if self._lost is not None:
            return fail(self._lost)
        if self._secure:
            return succeed(None)
        self._securing = Deferred(self._give_up_securing)
        return self._securing

    def send(self, method: bytes, head: bytes, body: bytes | BodySource) -> Deferred[Answer]:
        """Send one request; fires with the answer when its head is there.

        Cancelling aborts the connection at once.  Fails with :class:`UpstreamFailure`, or with
        :class:`GatewayError` OVERLOADED where the body cannot be read.
        """
        assert self._secure
        assert self._reader is None
        self._reader = ResponseReader(method)
        waiting: Deferred[Answer] = Deferred(self._give_up_waiting)
        self._waiting = waiting
        self._deadline.start(self._limits.first_byte)
        self._write(head, body)
        send_now(self._transport)  # an answer that is there before its request is on its way is none
        return waiting

    def is_silent(self) -> bool:
        """Whether a connection that rests may be lent out; one that may not is closed before this returns."""
        found = peek(self._transport)  # which may have us read it
        if found is Found.BYTES:
            self.abort()  # what it says of its own accord cannot be trusted, nor can what it says next
        elif found is Found.END:
            self.close()
        return not self._gone

    def rest(self) -> None:
        """Called by the pool that keeps it: wait for another request, but not for ever."""
        self._deadline.start(REST_SECONDS)

    def close(self) -> None:
        """Close in order; only for a connection that rests."""
        if not self._gone:
            self._leave()
            self._transport.loseConnection()
            self._deadline.start(LINGER_SECONDS)

    # What an answer asks (mgw.upstream.answer.Source).

    def read_on(self) -> None:
        """Read, and hand on what comes; from now on the provider's silence counts."""
        if self._gone:
            return
        self._deadline.start(self._limits.idle)
        if self._halted:
            self._halted = False
            self._transport.resumeProducing()

    def halt(self) -> None:
        """Read nothing more for now; the provider's silence does not count."""
        if not self._gone and not self._halted:
            self._deadline.stop()
            self._halted = True
            self._transport.pauseProducing()

    def answered(self) -> None:
        """The answer was read to its end: rest, if both sides may go on, else close."""
        reader, self._reader, self._answer = self._reader, None, None
        if self._gone:
            return
        self._deadline.stop()
        if self._upload is not None and not self._upload.over:
            self.abort()  # an early answer: the rest of the request would be read as the next one
        elif reader is None or not reader.reusable:
            self.close()
        else:
            self._used = True
            self._upload = None
            if self._halted:
                self._halted = False
                self._transport.resumeProducing()
            self._home.rested(self)

    def drain(self) -> None:
        """Wait for the end of an answer that nobody reads, though not for long."""
        if not self._gone:
            self._deadline.start(DRAIN_SECONDS)

    def abort(self) -> None:
        """Close at once, whatever is under way; nobody is told but the pool."""
        if not self._gone:
            self._deadline.close()
            self._leave()
            self._reader = self._answer = None
            self._transport.abortConnection()

    # What Twisted calls.

    def connectionMade(self) -> None:
        """The TCP connection stands; where TLS is spoken the handshake begins."""
        self._transport = cast(RelayTransport, self.transport)
        self._secure = not INegotiated.providedBy(self.transport)
        self._out = EagerWriter(self._transport)

    def handshakeCompleted(self) -> None:
        """The handshake is done, and the certificate is the right one."""
        protocol = INegotiated(self.transport).negotiatedProtocol
        securing, self._securing = self._securing, None
        if protocol not in {None, b"http/1.1"}:
            self.abort()
            if securing is not None:
                securing.errback(broken(self._provider, _NO_HTTP_1, Phase.CONNECT, Cause.NOT_HTTP))
            return
        self._secure = True
        if securing is not None:
            securing.callback(None)

    def dataReceived(self, data: bytes) -> None:
        """Bytes of the answer."""
        reader = self._reader
        if reader is None or self._gone:
            self.abort()  # nobody asked: see is_silent
            return
        reader.feed(data)
        answer = self._answer
        if answer is None:
            self._look_for_head(reader)
        elif reader.fault is not None:
            self._break(answer, self._unreadable_answer(reader.fault, Phase.BODY))
        else:
            if not answer.paused and not answer.released:
                self._deadline.start(self._limits.idle)
            answer.pump()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The connection has ended, by whomever."""
        self._deadline.close()
        reader, waiting, answer, securing = self._reader, self._waiting, self._answer, self._securing
        self._waiting = self._securing = None
        self._lost = reason
        self._leave()
        if securing is not None:
            securing.errback(reason)
        elif waiting is not None and reader is not None:
            waiting.errback(self._loss_before_head(reader))
        elif answer is not None and reader is not None and not reader.ended:
            if isinstance(reason.value, ConnectionDone) and reader.on_close():
                answer.pump()
            elif reader.fault is None:
                answer.fail(broken(self._provider, _BROKE_OFF, Phase.BODY, Cause.TRUNCATED))

    # The rest.

    def _write(self, head: bytes, body: bytes | BodySource) -> None:
        if isinstance(body, bytes) and len(body) <= MAX_UNWATCHED_BYTES:
            if len(body) <= MAX_JOINED_BYTES:
                self._out.write(head + body)
            else:
                self._out.write(head)
                self._out.write(body)
            return
        self._out.write(head)
        upload = self._upload = Upload(self._transport, self._out, self._uploaded, self._unreadable)
        upload.start(HeldBody(body) if isinstance(body, bytes) else body)

    def _uploaded(self) -> None:
        """Count from here: the provider has taken the body, or a piece of it."""
        answer = self._answer
        if self._waiting is not None:
            self._deadline.start(self._limits.first_byte)
        elif answer is not None and not answer.paused and not answer.released:
            self._deadline.start(self._limits.idle)

    def _unreadable(self) -> None:
        """The rest of the body will never come."""
        if self._waiting is not None:
            self._fail(self._waiting, unreadable())
        elif self._answer is not None:
            self._break(self._answer, unreadable())

    def _unreadable_answer(self, fault: str, phase: Phase) -> UpstreamFailure:
        cause = Cause.NOT_HTTP if fault == NOT_HTTP else Cause.UNREADABLE
        return broken(self._provider, fault, phase, cause)

    def _look_for_head(self, reader: ResponseReader) -> None:
        waiting = self._waiting
        assert waiting is not None
        if reader.head is None:
            if reader.fault is not None:
                self._fail(waiting, self._unreadable_answer(reader.fault, Phase.HEAD))
            return
        answer = self._answer = Answer(reader.head, reader, self)
        self._waiting = None
        self._deadline.stop()
        if self._upload is not None and answer.status >= 400:
            self._upload.stop()
        if reader.fault is not None:
            self.abort()
            answer.fail(self._unreadable_answer(reader.fault, Phase.BODY))
        waiting.callback(answer)
        if self._answer is answer and not answer.taken:
            if not reader.ended:
                self.halt()
            self._deadline.start(UNTAKEN_SECONDS)

    def _fail(self, waiting: Deferred[Answer], failure: GatewayError) -> None:
        self._waiting = None
        self.abort()
        waiting.errback(failure)

    def _break(self, answer: Answer, failure: GatewayError) -> None:
        self.abort()
        answer.fail(failure)

    def _loss_before_head(self, reader: ResponseReader) -> UpstreamFailure:
        if reader.began:
            what = "closed the connection in the middle of the response head"
            return broken(self._provider, what, Phase.HEAD, Cause.RESET)
        what = "closed the connection before it responded"
        return broken(self._provider, what, Phase.SENT, Cause.RESET, stale=self._used)

    def _expired(self) -> None:
        limits = self._limits
        if self._gone:
            self._transport.abortConnection()
        elif self._upload is not None and self._upload.reading:
            self._unreadable()  # the provider waits as we do
        elif self._waiting is not None:
            phase = Phase.HEAD if self._reader is not None and self._reader.began else Phase.SENT
            what = f"sent no response within {limits.first_byte:g} s"
            failure = too_slow(self._provider, what, phase, Cause.FIRST_BYTE_TIMEOUT)
            self._fail(self._waiting, failure)
        elif self._answer is not None:
            what = f"was silent for {limits.idle:g} s in the middle of the response"
            if not self._answer.taken:
                what = f"responded, but nobody read the response for {UNTAKEN_SECONDS:g} s"
            self._break(self._answer, too_slow(self._provider, what, Phase.BODY, Cause.IDLE_TIMEOUT))
        else:
            self.close()

    def _give_up_securing(self, _: Deferred[None]) -> None:
        self._securing = None
        self.abort()

    def _give_up_waiting(self, _: Deferred[Answer]) -> None:
        self._waiting = None
        self.abort()

    def _leave(self) -> None:
        if not self._gone:
            self._gone = True
            upload, self._upload = self._upload, None
            if upload is not None:
                upload.stop()
            if self._reader is not None:
                self._reader.close()
            self._home.lost(self)
