"""The HTTP/1.1 server side: one channel is one client's connection.

It reads heads (:mod:`mgw.http.request_head`) and bodies (:mod:`mgw.http.body`), and passes each request to
its :class:`RequestHandler`.  How it ends is another module's (:mod:`mgw.web.closing`, which draws
the states), and so is how it sends a response (:mod:`mgw.web.response_sender`).

Responses are sent strictly in order: the next request is looked at when the response before it is finished
and the client has received most of it.  Until then a channel goes on reading, so as to notice that the client
has disconnected, but holds at most :data:`MAX_HELD` bytes of what comes behind the request.

A request that comes whole and alone, as nearly all do, is passed on at once, head and body.
"""

from __future__ import annotations

from typing import Final, cast
from typing import Protocol as Interface

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IPushProducer, ISSLTransport, ITCPTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.http.body import ChunkedRequestBody, SizedRequestBody, request_body
from mgw.http.head_key import HeadKey, RepeatedHead, key_of_head
from mgw.http.request_head import HTTP_1_0, RequestHead, RequestHeadReader
from mgw.http.response_writer import ResponseWriter
from mgw.memo.known_head import KnownHead
from mgw.nouns.errors import GatewayError, Reason
from mgw.reactor import socket_state
from mgw.reactor.socket_state import PeerState
from mgw.reactor.transport import RelayTransport
from mgw.reactor.twisted_fast.eager_writer import EagerWriter
from mgw.web.closing import CLOSE_SECONDS, DRAIN_SECONDS, LINGER_SECONDS, ChannelState, ClosingChannel
from mgw.web.interfaces import ChannelContext, RequestReceiver, UpgradedConnection

MAX_HELD: Final = 64 * 1024
"""The most bytes behind a request that wait for its response; beyond that the channel stops reading."""

_HELD_BODY: Final = SizedRequestBody(1)
"""Stands for a body that has come and was not taken yet."""


class RequestHandler(Interface):
    """Handles the requests of all channels of a listener.  No method may raise."""

    def find_head(self, key: bytes) -> KnownHead | None:
        """Return what is known of a head that has come before (:mod:`mgw.http.head_key`)."""
        ...

    def on_known_request(
        self, channel: GatewayChannel, known: KnownHead, key: HeadKey
    ) -> RequestReceiver | None:
        """Take a request whose head is known; the response may start at once.

        ``None``: what it has of its own has to be looked at as in any other head.
        """
        ...

    def on_request(
        self, channel: GatewayChannel, head: RequestHead, key: HeadKey | None = None
    ) -> RequestReceiver:
        """Take a request whose head is complete; the response may start at once.

        :param key: under which what is found may be kept.
        """
        ...

    def on_malformed_request(
        self, channel: GatewayChannel, error: GatewayError, target: bytes | None
    ) -> None:
        """Respond at once to a malformed, too large or too slow request.  The channel then closes.

        :param target: as the client sent it, where the request line could be read.
        """
        ...


class ServerContext(ChannelContext, Interface):
    """What all channels of a listener share; the factory is one."""

    handler: RequestHandler

    def on_channel_opened(self, channel: GatewayChannel) -> None:
        """Count a connection in."""
        ...

    def on_channel_closed(self, channel: GatewayChannel) -> None:
        """Count a connection out."""
        ...


@implementer(IPushProducer)
class GatewayChannel(ClosingChannel, Protocol):
    """One connection of a client.

    The receiver of the request that is being served calls :meth:`start`, :meth:`write` and :meth:`finish`, or
    :meth:`abort`; once the connection is closed they do nothing.
    """

    # Many are idle, and what has more than thirty attributes has a large dictionary of its own.
    __slots__ = (
        *("_body_paused", "_likely_head", "_processing", "_reading", "_receiver", "_stall_timer"),
        *("_upgraded", "_was_idle"),
        *("clock", "peer", "requests"),
    )

    _context: ServerContext

    def __init__(self, context: ServerContext) -> None:
        super().__init__(context)
        self.peer = ""
        """The client's address, without its port."""
        self.clock = context.clock
        self.requests = 0
        """How many requests have been opened, counting refusals."""
        self._likely_head: RepeatedHead | None = None
        """The head of the request before, if it is easy to recognize."""
        self._body_paused = False
        self._reading = True
        self._processing = self._was_idle = False
        self._upgraded: UpgradedConnection | None = None
        self._receiver: RequestReceiver | None = None
        """It receives the request that is being served; set only while the state is OPEN."""

    # What the transport calls

    def connectionMade(self) -> None:
        """Begin: the first head must arrive in time."""
        self._transport = cast(RelayTransport, self.transport)
        self._out = EagerWriter(self._transport)
        self._response_writer = ResponseWriter(self._out.write)
        self._stall_timer = socket_state.StallTimer(self.clock.seconds())
        self._state = ChannelState.OPEN
        self.is_secure = bool(ISSLTransport.providedBy(self.transport))
        peer = self._transport.getPeer()
        self.peer = str(getattr(peer, "host", ""))
        if isinstance(peer, (IPv4Address, IPv6Address)) and ITCPTransport.providedBy(self.transport):
            # A token does not wait until the client has acknowledged the one before (RFC 9293 3.7.4).
            self.transport.setTcpNoDelay(True)
        self._transport.registerProducer(self, streaming=True)
        self._is_registered = True
        self._deadline.start(self._limits.client_headers)
        self._context.on_channel_opened(self)

    def dataReceived(self, data: bytes) -> None:
        """Take the next bytes of the client."""
        if self._state is ChannelState.OPEN:
            is_idle = not (self._serving or self._input or self._processing)
            self._input = self._input + data if self._input else data
            if not (is_idle and self._reader is None and self._take_whole(data)):
                self._process_input()
        elif self._upgraded is not None:
            self._upgraded.on_data(data)
        elif self._state is ChannelState.LINGERING:
            self._discard(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: ARG002  Twisted's signature
        """Tell the receiver that the client has disconnected."""
        self._state = ChannelState.CLOSED
        self._deadline.close()
        self._input = b""
        self._reader = self._body = None
        receiver = self._end_serving()
        if receiver is not None:
            receiver.on_disconnect()
        upgraded, self._upgraded = self._upgraded, None  # first: its session ends us in turn
        if upgraded is not None:
            upgraded.on_lost()
        self._context.on_channel_closed(self)

    def _on_drained(self) -> None:
        if self._state is ChannelState.OPEN:
            self._process_input()

    def _on_response_end(self) -> None:
        self._end_serving()
        if self._body is not None:
            self._linger(LINGER_SECONDS)
        elif not self._keep_alive or self._context.draining:
            self._end()
        else:
            self._was_idle = True
            self._deadline.start(self._limits.client_idle)
            if self._input or not self._reading:
                self._process_input()

    def serves_another(self, receiver: RequestReceiver) -> bool:
        """Whether the request behind that of ``receiver`` is served: the response to that one has ended."""
        return self._receiver is not None and self._receiver is not receiver

    def pause_body(self) -> None:
        """Take nothing more of the body for now."""
        if self._serving:
            self._body_paused = True
            self._deadline.stop()
            self._update_reading()

    def resume_body(self) -> None:
        """Go on taking the body."""
        if self._body_paused:
            self._body_paused = False
            self._process_input()

    def skip_body(self) -> bool:
        """Drop the body of the request that is being refused, if all of it has come; whether it has."""
        body = self._body
        if body is _HELD_BODY:  # whoever put it there drops it
            self._body = None
        elif isinstance(body, ChunkedRequestBody):
            try:
                self._input = body.feed(self._input)[1]
            except GatewayError:
                return False
            if body.ended:
                self._body = None
        return self._body is None

    def switch_protocols(self, upgraded: UpgradedConnection) -> None:
        """Let another protocol be spoken from now on: ``upgraded`` reads and writes in our place."""
        self._end_serving()
        self._deadline.stop()
        self._state = ChannelState.UPGRADED
        self._upgraded = self._producer = upgraded
        data, self._input = self._input, b""
        self._update_reading()
        upgraded.start(self._transport, self._out.write, data)

    def end_upgraded(self) -> None:
        """Close in order, once everything is written; what still comes is discarded."""
        if self._upgraded is not None:
            self._upgraded = self._producer = None
            self._end()

    def check_progress(self, now: float) -> None:
        """Break the connection if its client has gone, has stopped reading, or does not agree to its end.

        A client that leaves is heard of where its connection is read, and seen here where that is paused.
        """
        closing = self._state is ChannelState.CLOSING
        state = socket_state.connection_state(self._transport)
        state = state or socket_state.ConnectionState(self._drained_count, self._full or closing)
        idle = self._stall_timer.idle_seconds(state.acknowledged, now, pending=state.pending or closing)
        limit = self._limits.write_stall if state.pending else CLOSE_SECONDS
        if state.peer is PeerState.GONE or idle >= limit:
            self._transport.abortConnection()
        elif state.peer is PeerState.ENDED and self._upgraded is not None:
            self._upgraded.on_client_ended()

    # Reading

    def _process_input(self) -> None:
        """Process as much of the input as is possible now."""
        if self._processing:  # called back from below: the loop goes on by itself
            return
        self._processing = True
        try:
            while self._input and self._state is ChannelState.OPEN and self._process_part():
                pass
        finally:
            self._processing = False
        if self._state is ChannelState.OPEN:
            self._update_reading()
            if self._body is not None and not self._body_paused:
                self._deadline.start(self._limits.client_body_idle)

    def _process_part(self) -> bool:
        """Take the next part of a message; say whether there may be another."""
        if not self._serving:
            return not self._full and self._take_head()
        if self._body is None or self._body_paused or self._receiver is None:
            return False
        self._take_body(self._receiver, self._body)
        return True

    def _take_whole(self, data: bytes) -> bool:
        """Take a request that came whole and alone, without a turn of :meth:`_process_input` for each part.

        :returns: whether nothing is left to be done.
        """
        key = key_of_head(data, self._likely_head)
        if key is None or len(data) != key[1] + key[2] or self._full:
            return False
        self._processing = True
        try:
            known = self._context.handler.find_head(key[0])
            if known is None or not self._take_known(known, key):
                self._read_head(key)
        finally:
            self._processing = False
        return not self._input

    def _take_head(self) -> bool:
        """Take a head, or from one; say whether there may be more to take."""
        if self._reader is not None:
            return self._read_head(None)
        key = key_of_head(self._input, self._likely_head)
        if key is not None:
            known = self._context.handler.find_head(key[0])
            if known is not None and self._take_known(known, key):
                return True
        return self._read_head(key)

    def _read_head(self, key: HeadKey | None) -> bool:
        """Read a head, or on in one, that is not known."""
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
        self._on_head(head, key)
        return True

    def _take_known(self, known: KnownHead, key: HeadKey) -> bool:
        """Take a request whose head is known; most often its body has come with it."""
        _, end, length, _ = key
        head, data = known.head, self._input
        self._likely_head = known.repeated
        whole = len(data) - end >= length
        self._begin_serving(head.method, head.version, keep_alive=head.keep_alive)
        if not whole:
            self._body = SizedRequestBody(length)
        self._deadline.stop()  # first: a refusal starts the next one
        receiver = self._context.handler.on_known_request(self, known, key)
        if receiver is None:
            self._end_serving()
            self._body = None
            return False
        if whole:
            stop = end + length
            self._input = data[stop:] if len(data) > stop else b""
            if self._serving:
                self._receiver = receiver
                receiver.on_whole_body(data[end:stop])
        else:
            self._input = data[end:]
            if self._serving:
                self._receiver = receiver
        return True

    def _on_head(self, head: RequestHead, key: HeadKey | None) -> None:
        """Have the request handled, and take its body if that has come already."""
        length = head.content_length
        is_whole = length is not None and head.has_body and len(self._input) >= length
        self._begin_serving(head.method, head.version, keep_alive=head.keep_alive)
        self._may_continue = head.expects_continue
        self._body = _HELD_BODY if is_whole else request_body(head)
        receiver = self._context.handler.on_request(self, head, key)
        if not self._serving:  # responded already
            if is_whole and self._body is None and self._state is ChannelState.OPEN:
                self._input = self._input[length:]
            return
        self._receiver = receiver
        if self._body is None:
            receiver.on_body_end()
        elif is_whole and self._body_paused:
            self._body = request_body(head)
        elif is_whole:
            content, self._input = self._input[:length], self._input[length:]
            self._body = None
            self._may_continue = False
            receiver.on_whole_body(content)

    def _take_body(self, receiver: RequestReceiver, body: SizedRequestBody | ChunkedRequestBody) -> None:
        try:
            content, self._input = body.feed(self._input)
        except GatewayError as error:
            self._input = b""
            self._keep_alive = False
            receiver.on_malformed_body(error)
            return
        self._may_continue = False
        if body.ended:
            self._body = None
            self._deadline.stop()
        if content:
            receiver.on_body_data(content)
        if body.ended and self._receiver is receiver:
            receiver.on_body_end()

    def _update_reading(self) -> None:
        # While reading is paused, epoll does not tell that the client has left: check_progress asks.
        wanted = not self._body_paused and len(self._input) <= MAX_HELD
        if wanted is not self._reading:
            self._reading = wanted
            (self._transport.resumeProducing if wanted else self._transport.pauseProducing)()

    # The ends of requests and connections

    def _begin_serving(self, method: bytes, version: bytes, *, keep_alive: bool) -> None:
        self.requests += 1
        self._serving = True
        self._method, self._version = method, version
        self._takes_framed_body = method != b"HEAD" and version != HTTP_1_0
        self._keep_alive = keep_alive

    def _end_serving(self) -> RequestReceiver | None:
        receiver, self._receiver = self._receiver, None
        self._serving = False
        self._producer = None
        self._body_paused = False
        if self._response_writer.started:
            self._response_writer.reset()
        return receiver

    def _refuse(self, error: GatewayError) -> None:
        """Have the handler respond to what is not a request, and close."""
        target = None if self._reader is None else self._reader.target
        self._input = b""
        self._reader = None
        self._begin_serving(b"", b"1.1", keep_alive=False)
        self._body = SizedRequestBody(1)  # whatever else comes is discarded
        self._context.handler.on_malformed_request(self, error, target)

    def _on_deadline(self) -> None:
        """The deadline has passed; what that means follows from what the channel is doing."""
        if self._state is ChannelState.LINGERING:
            self._on_linger_timeout()
        elif self._serving:
            self._keep_alive = False
            if self._receiver is not None:
                self._receiver.on_body_timeout()
        elif self._full:  # the client is still busy with our last response
            self._deadline.start(self._limits.client_idle)
        elif self._reader is not None:
            self._refuse(GatewayError(Reason.CLIENT_TOO_SLOW, "the request head stopped arriving"))
        elif socket_state.has_unread_input(self._transport):  # a request that came this very moment
            self._deadline.start(DRAIN_SECONDS)
        else:
            self._end()
