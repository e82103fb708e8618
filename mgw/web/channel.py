"""The HTTP/1.1 server side: one channel is one client's connection.

What the bytes mean, and which may be sent, is :class:`~mgw.http.server_connection.ServerConnection`'s to say,
which also has the state.  The transport and its pauses are :mod:`mgw.web.client_transport`'s.  The channel
passes each request to its handler, and has the time that a client may take.
"""

from __future__ import annotations

from typing import cast

from twisted.internet.interfaces import IPushProducer, ISSLTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.exchange.response_channel import Producer
from mgw.http.head_key import HeadKey
from mgw.http.request_head import RequestHead
from mgw.http.response_writer import CHUNKED, RelayedHead
from mgw.http.server_connection import Refused, ServerConnection
from mgw.http.server_state import AT_REST, AWAITING, IDLE, OPEN, RECEIVING, SERVING, ServerEvent, ServerState
from mgw.memo.known_head import KnownHead
from mgw.nouns.errors import GatewayError, Reason
from mgw.reactor import socket_state
from mgw.reactor.deadline import Deadline
from mgw.reactor.socket_state import PeerState
from mgw.reactor.transport import RelayTransport
from mgw.web.client_transport import DRAIN_SECONDS, LINGER_SECONDS, READING, ClientTransport, Reading
from mgw.web.interfaces import RequestReceiver, ServerContext, UpgradedConnection
from mgw.wire.headers import RawHeaders


@implementer(IPushProducer)
class GatewayChannel(Protocol):
    """One connection of a client.

    Who serves a request calls :meth:`start`, :meth:`write` and :meth:`finish`, or :meth:`abort`; once the
    connection is closed they do nothing.
    """

    # Many are idle, and what has more than thirty attributes has a large dictionary of its own.
    __slots__ = (
        *("_client", "_connection", "_context", "_deadline", "_limits", "_processing", "_receiver"),
        *("_upgraded", "clock", "is_secure", "peer"),
    )

    _client: ClientTransport

    def __init__(self, context: ServerContext[GatewayChannel]) -> None:
        self.clock = context.clock
        self.peer = ""
        """The client's address, without its port."""
        self.is_secure = False
        """Whether the client speaks TLS."""
        self._context = context
        self._limits = limits = context.limits
        self._connection = ServerConnection(limits.max_head_bytes, limits.max_headers)
        self._deadline = Deadline(context.wheel, self._on_deadline)
        self._processing = False
        """Whether what the client has sent is being passed on: whatever that causes must not do so again."""
        self._receiver: RequestReceiver | None = None
        """It receives the request that is being served."""
        self._upgraded: UpgradedConnection | None = None

    @property
    def requests(self) -> int:
        """How many requests have been opened, counting refusals."""
        return self._connection.requests

    def connectionMade(self) -> None:
        """Begin: the first head must arrive in time."""
        transport = cast(RelayTransport, self.transport)
        self._client = ClientTransport(transport, self.clock.seconds())
        self.is_secure = bool(ISSLTransport.providedBy(transport))
        self.peer = str(getattr(transport.getPeer(), "host", ""))
        transport.registerProducer(self, streaming=True)
        self._deadline.start(self._limits.client_headers)
        self._context.on_channel_opened(self)

    def dataReceived(self, data: bytes) -> None:
        """Take the next bytes of the client; a request that is whole and alone, as most are, at once."""
        connection = self._connection
        if self._upgraded is not None:
            self._upgraded.on_data(data)
        elif connection.state in OPEN:
            key = connection.receive(data)
            if key is not None and not self._client.is_full and not self._processing:
                self._processing = True
                try:
                    known = self._context.handler.find_head(key[0])
                    if known is None or not self._take_known(known, key):
                        self._read_head(key)
                finally:
                    self._processing = False
            if connection.held:
                self._process_input()
        elif connection.state is ServerState.LINGERING:
            self._client.discard(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: ARG002  Twisted's signature
        """Tell the receiver that the client has disconnected."""
        receiver = self._receiver
        self._leave(ServerEvent.LOST)
        self._deadline.close()
        if receiver is not None:
            receiver.on_disconnect()
        upgraded, self._upgraded = self._upgraded, None  # first: its session ends us in turn
        if upgraded is not None:
            upgraded.on_lost()
        self._context.on_channel_closed(self)

    def pauseProducing(self) -> None:
        """The transport's buffer is full."""
        self._client.on_full()

    def resumeProducing(self) -> None:
        """The transport's buffer is empty: the client has received everything."""
        self._client.on_drained()
        if self._connection.state in OPEN:
            self._process_input()

    def stopProducing(self) -> None:
        """The connection is lost, which :meth:`connectionLost` says too."""

    def _process_input(self) -> None:
        """Process as much of the input as is possible now."""
        if self._processing:  # called back from below: the loop goes on by itself
            return
        connection = self._connection
        self._processing = True
        try:
            while connection.held and self._process_part():
                pass
        finally:
            self._processing = False
        if connection.state in OPEN:
            self._client.update_reading(len(connection.held))
            if connection.state in RECEIVING and self._client.reading is not Reading.BODY_PAUSED:
                self._deadline.start(self._limits.client_body_idle)

    def _process_part(self) -> bool:
        """Take the next part of a message; say whether there may be another."""
        connection = self._connection
        if connection.state in AWAITING:
            if self._client.is_full:
                return False
            key = connection.head_key()
            known = None if key is None else self._context.handler.find_head(key[0])
            if key is not None and known is not None and self._take_known(known, key):
                return True
            return self._read_head(key)
        receiver, is_paused = self._receiver, self._client.reading is Reading.BODY_PAUSED
        if connection.state not in RECEIVING or receiver is None or is_paused:
            return False
        self._read_body(receiver)
        return True

    def _take_known(self, known: KnownHead, key: HeadKey) -> bool:
        """Take a request whose head is known; most often its body has come with it."""
        connection = self._connection
        held = connection.held
        content = connection.take_known(known.head, known.repeated, key)
        self._deadline.stop()  # first: a refusal starts the next one
        if self._context.draining:
            connection.make_last()
        receiver = self._context.handler.on_known_request(self, known, key)
        if receiver is None:
            connection.take_back(held)
            return False
        if connection.state in SERVING:  # else it has been responded to
            self._receiver = receiver
            if content is not None:
                receiver.on_whole_body(content)
            else:
                self._client.expect(connection.left_to_read)
        return True

    def _read_head(self, key: HeadKey | None) -> bool:
        """Read a head, or on in one, that is not known; say whether it has ended."""
        connection = self._connection
        before = connection.state
        head = connection.read_head()
        if isinstance(head, RequestHead):
            self._deadline.stop()
            self._on_head(head, key)
        elif head is not None:
            self._context.handler.on_malformed_request(self, head.error, head.target)
        elif before is ServerState.IDLE and connection.state is ServerState.HEAD:
            self._deadline.start(self._limits.client_headers)  # the first head's runs since the connection
        return head is not None

    def _on_head(self, head: RequestHead, key: HeadKey | None, *, waited: bool = False) -> None:
        """Have the request handled, and take its body if that has come already."""
        connection = self._connection
        if self._context.draining:
            connection.make_last()
        receiver = self._context.handler.on_request(self, head, key, waited=waited)
        if connection.state not in SERVING:  # responded already
            return
        self._receiver = receiver
        if connection.state is ServerState.RESPONDING:
            receiver.on_body_end()
        elif self._client.reading is not Reading.BODY_PAUSED:
            content = connection.take_whole_body()
            if content is not None:
                receiver.on_whole_body(content)
            else:
                self._client.expect(connection.left_to_read)

    def _read_body(self, receiver: RequestReceiver) -> None:
        connection = self._connection
        content = connection.read_body()
        if isinstance(content, Refused):
            receiver.on_malformed_body(content.error)
            return
        if connection.state is ServerState.RESPONDING:
            self._deadline.stop()
            self._client.expect(0)
        if content:
            receiver.on_body_data(content)
        if connection.state is ServerState.RESPONDING:
            receiver.on_body_end()

    def pause_body(self) -> None:
        """Take nothing more of the body for now."""
        if self._connection.state in SERVING:
            self._deadline.stop()
            self._client.pause_body()

    def resume_request(self, head: RequestHead, key: HeadKey | None) -> None:
        """Have a request handled anew whose receiver has waited, with its body paused."""
        if self._connection.state in SERVING:
            self._client.resume_body()
            self._processing = True  # else the request behind a refused one is taken before that is done
            try:
                self._on_head(head, key, waited=True)
            finally:
                self._processing = False
            self._process_input()

    def resume_body(self) -> None:
        """Go on taking the body."""
        if self._client.resume_body():
            self._process_input()

    def register(self, producer: Producer) -> None:
        """Name what is paused while the client receives less than is written."""
        self._client.register(producer)

    def unregister(self) -> None:
        """There is nothing to pause any more."""
        self._client.producer = None

    def serves_another(self, receiver: RequestReceiver) -> bool:
        """Whether the request behind that of ``receiver`` is served: the response to that one has ended."""
        return self._receiver not in (None, receiver)

    def skip_body(self) -> bool:
        """Drop the body of the request that is being refused, if all of it has come; whether it has."""
        return self._connection.skip_body()

    def send_continue(self) -> None:
        """Let a client that waits for it send its body (RFC 9110 10.1.1)."""
        self._write_head(self._connection.send_continue())

    def start(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        """Start the response; see :meth:`~mgw.http.server_connection.ServerConnection.start`."""
        self._write_head(self._connection.start(status, reason, headers))

    def relay_head(self, head: RelayedHead, lines: bytes) -> None:
        """Start a response that is passed on; see :class:`~mgw.exchange.response_channel.ResponseChannel`."""
        self._write_head(self._connection.relay_head(head, lines))

    def relay_whole(self, head: RelayedHead, lines: bytes, body: bytes) -> None:
        """Send a response that is passed on, and is all there: in one write, if nothing is unusual."""
        response = self._connection.relay_whole(head, lines, body)
        if response is None:
            self.relay_head(head, lines)
            self.finish(body)
        else:
            self._client.out.write(response)
            self._on_response_end()

    def write(self, data: bytes) -> None:
        """Send a piece of the body.  More than the head announced breaks the connection."""
        pieces = self._connection.write(data)
        if pieces is None:
            self.abort()
        else:
            for piece in pieces:
                self._client.out.write(piece)

    def write_chunk(self, data: bytes, start: int, stop: int) -> None:
        """Send a whole chunk of HTTP/1.1 with its framing, or its content where chunks cannot be sent."""
        if self._connection.framing is CHUNKED:
            self._client.out.write(data)
        else:
            self.write(data[start:stop])

    def flush(self) -> None:
        """Send a head that waits for the first bytes of its body."""
        self._write_head(self._connection.flush())

    def finish(self, last_piece: bytes = b"") -> None:
        """End the response behind a last piece; a length that was not announced breaks the connection."""
        connection = self._connection
        if connection.state not in SERVING:
            return
        pieces = connection.finish(last_piece)
        for piece in connection.write(last_piece) or () if pieces is None else pieces:
            self._client.out.write(piece)
        if pieces is None:
            self.abort()
        else:
            self._on_response_end()

    def _write_head(self, head: bytes) -> None:
        if head:  # else it waits for the body, or there is none
            self._client.out.write(head)

    def _on_response_end(self) -> None:
        connection, client = self._connection, self._client
        self._receiver = None
        if client.producer is not None or client.reading is not READING:
            client.release()
        if connection.state is IDLE:
            self._deadline.start(self._limits.client_idle)
            if connection.held or client.reading is not READING:
                self._process_input()
        elif connection.state is ServerState.LINGERING:
            self._linger(LINGER_SECONDS)
        elif connection.state is ServerState.ENDED:
            self._end()

    def switch_protocols(self, upgraded: UpgradedConnection) -> None:
        """Let another protocol be spoken from now on: ``upgraded`` reads and writes in our place."""
        client, data = self._client, self._connection.held
        if self._connection.state is not ServerState.RESPONDING:  # the client has left
            return
        self._leave(ServerEvent.SWITCH)
        self._deadline.stop()
        self._upgraded = client.producer = upgraded
        client.update_reading(0)
        upgraded.start(client.transport, client.out.write, data)

    def truncate(self) -> None:
        """End a response that will stay incomplete, where the client sees that the rest is missing."""
        if self._connection.state not in SERVING:  # truncated already: what was written is on its way
            return
        self.flush()
        if self._connection.truncate():
            self._on_response_end()
        else:
            self.abort()

    def abort(self) -> None:
        """Break the connection, so that the client cannot take what it has for a complete response."""
        if self._connection.state is not ServerState.CLOSED:
            self._leave(ServerEvent.ABORT)
            self._deadline.close()
            self._client.transport.abortConnection()

    def close_after(self) -> None:
        """Close the connection after the response, which says so unless it has started."""
        self._connection.make_last()
        if self._connection.state in AT_REST:
            self._end()

    def drain(self) -> None:
        """Close the connection after its response; an idle one after a moment for a request on its way."""
        connection = self._connection
        if not connection.is_last:
            connection.make_last()
            if connection.state in AT_REST:
                self._deadline.start(DRAIN_SECONDS)

    def end_upgraded(self) -> None:
        """Close in order, once everything is written; what still comes is discarded."""
        if self._connection.state is ServerState.UPGRADED:
            self._upgraded = self._client.producer = None
            self._end()

    def check_progress(self, now: float) -> None:
        """Break the connection if its client has gone, has stopped reading, or does not agree to its end.

        A client that leaves is heard of where its connection is read, and seen here where that is paused.
        """
        client, is_closing = self._client, self._connection.state is ServerState.CLOSING
        state = client.peer_state(now, self._limits.write_stall, is_closing=is_closing)
        if state is PeerState.GONE:
            client.transport.abortConnection()
        elif state is PeerState.ENDED and self._upgraded is not None:
            self._upgraded.on_client_ended()

    def _leave(self, event: ServerEvent) -> None:
        """Go where no request is served any more."""
        self._connection.leave(event)
        self._receiver = None
        self._client.release()

    def _end(self) -> None:
        """End a connection on which nothing is under way, once everything is written."""
        if self.is_secure or not self._client.can_half_close:
            self._client.transport.unregisterProducer()
            self._close()
        else:
            self._linger(DRAIN_SECONDS if self._context.draining else LINGER_SECONDS)

    def _linger(self, seconds: float) -> None:
        """End our side once everything is written, and read what the client still sends."""
        self._connection.leave(ServerEvent.LINGER)
        self._client.update_reading(0)
        self._deadline.start(seconds)
        self._client.end_our_side(is_secure=self.is_secure)

    def _close(self) -> None:
        """Close once everything is written."""
        self._connection.leave(ServerEvent.CLOSE)
        self._deadline.close()
        self._client.transport.loseConnection()

    def _on_deadline(self) -> None:
        """The deadline has passed; what that means follows from what the channel is doing."""
        connection = self._connection
        if connection.state is ServerState.LINGERING:
            self._on_linger_timeout()
        elif connection.state in SERVING:
            connection.make_last()
            if self._receiver is not None:
                self._receiver.on_body_timeout()
        elif self._client.is_full:  # the client is still busy with our last response
            self._deadline.start(self._limits.client_idle)
        elif connection.state is ServerState.HEAD:
            error = GatewayError(Reason.CLIENT_TOO_SLOW, "the request head stopped arriving")
            self._context.handler.on_malformed_request(self, error, connection.refuse(error).target)
        elif socket_state.has_unread_input(self._client.transport):  # a request that came this very moment
            self._deadline.start(DRAIN_SECONDS)
        else:
            self._end()

    def _on_linger_timeout(self) -> None:
        """Close, unless the client is still busy with our response: a reset would take it away."""
        if socket_state.has_pending_output(self._client.transport):
            self._deadline.start(LINGER_SECONDS)
        elif self.is_secure:  # which would wait for the other side once more
            self.abort()
        else:
            self._close()
