"""One connection to a provider, HTTP/1.1 client side: its transport, its time, and whom it serves.

What the provider's bytes mean is :class:`~mgw.http.upstream_connection.UpstreamConnection`'s to say, which
also has the state.  When we close, abort or lose the connection, whichever comes first, its owner hears of
it, once.  One deadline serves all states: it costs no timer per request (:mod:`mgw.reactor.deadline`).

A large body may still be on its way when the response comes.  The response is passed on at once, and the
connection is closed unless the rest was sent by the response's end.  After an error status nothing more of
the body is read (RFC 9112, 9.5); otherwise the provider may still want it, and each piece that it takes
restarts the deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast
from typing import Protocol as Interface

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHandshakeListener
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.bodies.source import BodySource, body_size, unreadable_error
from mgw.bodies.spliced import SplicedBody
from mgw.http.head_shape import HeadShapes
from mgw.http.upstream_connection import NOT_HTTP, UpstreamConnection
from mgw.http.upstream_state import AT_REST, AWAITING, IN_USE, OVER, RECEIVING, UpstreamEvent, UpstreamState
from mgw.nouns.errors import Cause, GatewayError
from mgw.reactor.deadline import Deadline, TimerWheel
from mgw.reactor.socket_state import InputProbe, PendingInput
from mgw.reactor.transport import RelayTransport
from mgw.reactor.twisted_fast.eager_writer import EagerWriter
from mgw.reactor.twisted_fast.tcp_transport import close_quiet, read_much
from mgw.reactor.twisted_fast.tls_transport import TlsTransport
from mgw.upstream.failure import Phase, UpstreamFailure, upstream_broken, upstream_too_slow
from mgw.upstream.request import BodyProducer, UpstreamLimits
from mgw.upstream.response import UpstreamResponse

IDLE_SECONDS: Final = 55.0
"""How long an idle connection is kept: below the 60 to 75 s after which common servers close theirs."""
UNCLAIMED_SECONDS: Final = 60.0
"""How long a response may wait to be read or cancelled: longer than a credential takes to be renewed."""
DISCARD_SECONDS: Final = 1.0
"""How long the rest of a response that nobody wants may take to arrive."""
LINGER_SECONDS: Final = 5.0
"""How long an orderly close may take before the connection is aborted."""
MAX_JOINED_BYTES: Final = 16 * 1024
"""A body up to this size is copied to its head, which saves a write."""
MAX_UNWATCHED_BYTES: Final = 256 * 1024
"""A body above this size is watched until it is written."""
LARGE_BYTES: Final = 64 * 1024
"""Of a response that is longer than this, more than usual is read at once."""
MOST_READ_MUCH: Final = 64
"""Of how many responses so much is read at once: what a slow client has not taken yet is held in memory."""
_LINE_END: Final = b"\r\n"
_LARGE_CHUNK: Final = 64 * 1024
"""The size of a chunk that is looked for no faster: the rest of its way costs far more."""
_NO_HTTP_1: Final = "insists on a protocol other than HTTP/1.1"
_BROKE_OFF: Final = "closed the connection in the middle of the response"
_COMPLETE: Final = UpstreamState.COMPLETE
"""Bound here, as every request needs it: to look a member up in its Enum costs 0.1 us in Python 3.11."""
_reading_much: Final[set[Connection]] = set()
"""The connections of the process that read more than usual at once."""


class ResponseSink(Interface):
    """Who has sent a request and gets its response; one of the two is called, once."""

    def on_response(self, response: UpstreamResponse) -> None:
        """The head of the response is there; its body is unread."""

    def on_failure(self, error: Exception) -> None:
        """No response will come; what is no :class:`GatewayError` is a bug."""


class ResponseWaiter:
    """A sink for somebody who awaits the response: ``deferred`` fires with it, or fails."""

    def __init__(self) -> None:
        self.deferred: Deferred[UpstreamResponse] = Deferred(self._on_cancel)
        self.cancel: Callable[[], None] | None = None
        """Stops the request; set by the caller that sends it."""

    def on_response(self, response: UpstreamResponse) -> None:
        """Fire."""
        self.cancel = None
        self.deferred.callback(response)

    def on_failure(self, error: Exception) -> None:
        """Fail."""
        self.cancel = None
        self.deferred.errback(error)

    def _on_cancel(self, _: Deferred[UpstreamResponse]) -> None:
        cancel, self.cancel = self.cancel, None
        if cancel is not None:
            cancel()


class ConnectionOwner(Interface):
    """Whom a connection belongs to: its pool."""

    def on_released(self, connection: Connection) -> None:
        """The connection is free for another request."""

    def on_closed(self, connection: Connection) -> None:
        """The connection is closed; called once."""


@implementer(IHandshakeListener)
class Connection(Protocol):
    """The client's side of one connection; :meth:`exchange` uses it while it is idle.

    :param head_shapes: of the provider's responses, on all of its connections.
    """

    def __init__(
        self,
        provider: str,
        limits: UpstreamLimits,
        wheel: TimerWheel,
        owner: ConnectionOwner,
        head_shapes: HeadShapes,
    ) -> None:
        self._provider = provider
        self._limits = limits
        self._owner = owner
        self._deadline = Deadline(wheel, self._on_deadline)
        self._transport: RelayTransport
        self._out: EagerWriter
        self._input: InputProbe
        self._http = UpstreamConnection(head_shapes)
        self._handshake: Deferred[None] | None = None
        self._close_reason: Failure | None = None
        self._sink: ResponseSink | None = None
        self._response: UpstreamResponse | None = None
        self._body_producer: BodyProducer | None = None
        self._reading_paused = False
        """Whether more than usual is read at once."""

    def __repr__(self) -> str:
        return f"<Connection to {self._provider}, {self._http.state.name.lower()}>"

    # What the pool and the client ask.

    @property
    def is_ready(self) -> bool:
        """Whether requests may be sent, as they may at once where no TLS is spoken."""
        return self._http.state in AT_REST

    def when_ready(self) -> Deferred[None]:
        """Fire when requests may be sent; fail with what Twisted or OpenSSL says."""
        if self._close_reason is not None:
            return fail(self._close_reason)
        if self.is_ready:
            return succeed(None)
        self._handshake = Deferred(self._cancel_handshake)
        return self._handshake

    def exchange(self, method: bytes, head: bytes, body: bytes | BodySource, sink: ResponseSink) -> None:
        """Send one request; ``sink`` gets the response when its head is there, or learns why none will come:
        :class:`UpstreamFailure`, or :class:`GatewayError` OVERLOADED where the body cannot be read.
        """
        self._http.send(method)
        self._sink = sink
        self._deadline.start(self._limits.first_byte)
        self._write(head, body)

    def cancel_exchange(self) -> None:
        """Close at once, and tell the sink nothing more."""
        self._sink = None
        self.abort()

    def check_idle(self) -> bool:
        """Say whether an idle connection may be used; one that may not is closed before this returns."""
        pending = self._input.find()  # which may have us read it
        if pending is not None:
            if pending is PendingInput.END:
                self.close()
            else:  # what it says of its own accord cannot be trusted, nor can what it says next
                self.abort()
        return self._http.state not in OVER

    def close(self) -> None:
        """Close in order; only for an idle connection."""
        if self._http.state not in OVER:
            self._leave(UpstreamEvent.CLOSE)
            if not close_quiet(self._transport):
                self._deadline.start(LINGER_SECONDS)

    # What a response asks (mgw.upstream.response.ResponseConnection).

    def resume_reading(self) -> None:
        """Read, and pass on what comes; from now on the provider's silence counts."""
        if self._http.state in OVER:
            return
        self._deadline.start(self._limits.idle)
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resumeProducing()

    def leave_unclaimed(self) -> None:
        """Read nothing more until somebody takes the response, which must not last."""
        state = self._http.state
        if state in RECEIVING:
            self.pause_reading()
        if state not in OVER:
            self._deadline.start(UNCLAIMED_SECONDS)

    def pause_reading(self) -> None:
        """Read nothing more for now; the provider's silence does not count."""
        if self._http.state not in OVER and not self._reading_paused:
            self._deadline.stop()
            self._reading_paused = True
            self._transport.pauseProducing()

    def on_response_end(self) -> None:
        """The response was read to its end: become idle, if both sides may go on, else close."""
        self._response = None
        state = self._http.state
        if state in OVER:
            return
        if self._body_producer is not None and not self._body_producer.done:
            self.abort()  # an early response: the rest of the request would be read as the next one
        elif state is not _COMPLETE:
            self.close()
        else:
            self._http.take()
            self._body_producer = None
            if self in _reading_much:
                self._read_much(much=False)
            if self._reading_paused:
                self._reading_paused = False
                self._transport.resumeProducing()
            self._deadline.start(IDLE_SECONDS)
            self._owner.on_released(self)

    def wait_for_end(self) -> None:
        """Wait for the end of a response that nobody reads, though not for long."""
        if self._http.state not in OVER:
            self._deadline.start(DISCARD_SECONDS)

    def abort(self) -> None:
        """Close at once, whatever is under way; nobody is told but the pool."""
        if self._http.state not in OVER:
            self._deadline.close()
            self._leave(UpstreamEvent.ABORT)
            self._response = None
            self._transport.abortConnection()

    # What Twisted calls.

    def connectionMade(self) -> None:
        """The TCP connection stands; where TLS is spoken the handshake begins."""
        self._transport = cast(RelayTransport, self.transport)
        if not isinstance(self.transport, TlsTransport):
            self._http.become_ready()
        self._out = EagerWriter(self._transport)
        self._input = InputProbe(self._transport)

    def handshakeCompleted(self) -> None:
        """The handshake is done, and the certificate is the right one."""
        if self._http.state is not UpstreamState.CONNECTING:
            return  # closed meanwhile
        protocol = cast(TlsTransport, self.transport).negotiated_protocol
        handshake, self._handshake = self._handshake, None
        if protocol not in {None, b"http/1.1"}:
            self.abort()
            if handshake is not None:
                handshake.errback(upstream_broken(self._provider, _NO_HTTP_1, Phase.CONNECT, Cause.NOT_HTTP))
            return
        self._http.become_ready()
        if handshake is not None:
            handshake.callback(None)

    def dataReceived(self, data: bytes) -> None:
        """Bytes of the response; in a stream most often one whole chunk behind others, which goes first."""
        http, response = self._http, self._response
        if http.at_chunk and response is not None and (receiver := response.direct) is not None:
            stop = len(data) - len(_LINE_END)
            start = 3 if stop < 19 else 4 if stop < 260 else 5 if stop < 4101 else 6  # behind the size
            size_line = b"%x\r\n" % (stop - start)
            if (
                0 < stop - start < _LARGE_CHUNK
                and len(size_line) == start
                and data.endswith(_LINE_END)
                and data.startswith((size_line, size_line.upper()))
            ):
                deadline = self._deadline  # what its start() does: here each call counts
                deadline.expires_at = expires_at = deadline.wheel.now() + self._limits.idle
                if expires_at < deadline.slot_at:
                    deadline.wheel.insert(deadline, self._limits.idle)
                chunk_receiver = response.chunk_receiver
                try:
                    if chunk_receiver is None or not chunk_receiver.pass_chunk(data, start, stop):
                        receiver.on_body_data(data[start:stop])
                except Exception:
                    response.fail_receiver()
                return
        if http.state not in IN_USE:
            self.abort()  # nobody asked: see check_idle
            return
        http.receive(data)
        response = self._response
        if response is None:
            self._check_for_head()
        elif http.fault is not None:
            self._fail_body(response, self._unreadable_response(http.fault, Phase.BODY))
        else:
            if response.flowing:
                self._deadline.start(self._limits.idle)
            response.deliver_pending()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The connection has ended, whoever ended it."""
        self._deadline.close()
        http, sink, response, handshake = self._http, self._sink, self._response, self._handshake
        self._sink = self._handshake = None
        self._close_reason = reason
        state = http.state
        if isinstance(reason.value, ConnectionDone):
            http.receive_end()
        self._leave(UpstreamEvent.LOST)
        if handshake is not None:
            handshake.errback(reason)
        elif sink is not None and state in AWAITING:
            sink.on_failure(self._failure_before_head(state))
        elif response is not None and state in RECEIVING:
            if http.body.ended:
                response.deliver_pending()
            else:
                response.fail(upstream_broken(self._provider, _BROKE_OFF, Phase.BODY, Cause.TRUNCATED))

    def _write(self, head: bytes, body: bytes | BodySource) -> None:
        if isinstance(body, bytes) and len(body) <= MAX_JOINED_BYTES:
            self._out.write(head + body)
            return
        parts = None
        if isinstance(body, (bytes, SplicedBody)):
            parts = (head, body) if isinstance(body, bytes) else (head, *body.parts)
            if body_size(body) <= MAX_UNWATCHED_BYTES:
                self._out.write_parts(parts)
                return
        producer = self._body_producer = BodyProducer(
            self._transport, self._out, self._on_body_progress, self._on_body_unreadable
        )
        if parts is not None:
            producer.start_parts(parts)
        elif not isinstance(body, bytes):
            self._out.write(head)
            producer.start(body)

    def _on_body_progress(self) -> None:
        """Restart the deadline: the provider has taken the body, or a piece of it."""
        response = self._response
        if self._sink is not None:
            self._deadline.start(self._limits.first_byte)
        elif response is not None and response.flowing:
            self._deadline.start(self._limits.idle)

    def _on_body_unreadable(self) -> None:
        """The rest of the request body will never come."""
        if self._sink is not None:
            self._fail_request(self._sink, unreadable_error())
        elif self._response is not None:
            self._fail_body(self._response, unreadable_error())

    def _unreadable_response(self, fault: str, phase: Phase) -> UpstreamFailure:
        cause = Cause.NOT_HTTP if fault == NOT_HTTP else Cause.UNREADABLE
        return upstream_broken(self._provider, fault, phase, cause)

    def _check_for_head(self) -> None:
        http, sink = self._http, self._sink
        assert sink is not None
        if http.head is None:
            if http.fault is not None:
                self._fail_request(sink, self._unreadable_response(http.fault, Phase.HEAD))
            return
        response = self._response = UpstreamResponse(http.head, http.body, self)
        self._sink = None
        if (http.head.content_length or 0) > LARGE_BYTES and len(_reading_much) < MOST_READ_MUCH:
            self._read_much(much=True)
        if self._body_producer is not None and response.status >= 400:
            self._body_producer.stop()
        if http.fault is not None:
            self.abort()
            response.fail(self._unreadable_response(http.fault, Phase.BODY))
        sink.on_response(response)
        if self._response is response and not response.claimed:
            self.leave_unclaimed()

    def _read_much(self, *, much: bool) -> None:
        (_reading_much.add if much else _reading_much.discard)(self)
        read_much(self._transport, much=much)

    def _fail_request(self, sink: ResponseSink, failure: GatewayError) -> None:
        self._sink = None
        self.abort()
        sink.on_failure(failure)

    def _fail_body(self, response: UpstreamResponse, failure: GatewayError) -> None:
        self.abort()
        response.fail(failure)

    def _failure_before_head(self, state: UpstreamState) -> UpstreamFailure:
        if state is UpstreamState.HEAD:
            what = "closed the connection in the middle of the response head"
            return upstream_broken(self._provider, what, Phase.HEAD, Cause.RESET)
        what = "closed the connection before it responded"
        return upstream_broken(self._provider, what, Phase.SENT, Cause.RESET, stale=self._http.requests > 1)

    def _on_deadline(self) -> None:
        limits, state = self._limits, self._http.state
        if state in OVER:
            self._transport.abortConnection()
        elif self._body_producer is not None and self._body_producer.waits_for_body:
            self._on_body_unreadable()  # the provider waits as we do
        elif self._sink is not None:
            phase = Phase.HEAD if state is UpstreamState.HEAD else Phase.SENT
            what = f"sent no response within {limits.first_byte:g} s"
            failure = upstream_too_slow(self._provider, what, phase, Cause.FIRST_BYTE_TIMEOUT)
            self._fail_request(self._sink, failure)
        elif self._response is not None:
            what = f"was silent for {limits.idle:g} s in the middle of the response"
            if not self._response.claimed:
                what = f"responded, but the response was not read for {UNCLAIMED_SECONDS:g} s"
            self._fail_body(
                self._response, upstream_too_slow(self._provider, what, Phase.BODY, Cause.IDLE_TIMEOUT)
            )
        else:
            self.close()

    def _cancel_handshake(self, _: Deferred[None]) -> None:
        self._handshake = None
        self.abort()

    def _leave(self, event: UpstreamEvent) -> None:
        """Go where nothing is sent or read any more; the first time, tell the owner."""
        was_over = self._http.state in OVER
        self._http.leave(event)
        if not was_over:
            producer, self._body_producer = self._body_producer, None
            if producer is not None:
                producer.stop()
            if self in _reading_much:
                self._read_much(much=False)
            self._owner.on_closed(self)
