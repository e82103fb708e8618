"""The provider's end of a session: switch protocols, then a stream of frames.

::

    connected ── TLS ──> asking ── 101 ──> open ──> closed
                            └── another status, its body ──> refused

How it is connected to is in :mod:`mgw.realtime.connect_socket`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast
from typing import Protocol as Interface

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from twisted.internet.interfaces import IHandshakeListener, IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.http.response_head import ResponseHead, judge_lines, read_response_head
from mgw.http.upstream_connection import MAX_HEAD_BYTES, UpstreamConnection
from mgw.nouns.errors import Cause, GatewayError
from mgw.reactor.deadline import Deadline, TimerWheel
from mgw.reactor.transport import RelayTransport
from mgw.reactor.twisted_fast.eager_writer import EagerWriter
from mgw.reactor.twisted_fast.tls_transport import TlsTransport
from mgw.realtime.handshake import ClientHandshake, HandshakeError
from mgw.upstream.client import Upstream
from mgw.upstream.failure import Phase, upstream_broken, upstream_too_slow
from mgw.wire.headers import RawHeaders, response_headers

MAX_REFUSAL_BYTES: Final = 64 * 1024
"""The most that is kept of the body of a refusal; the rest is cut off."""
LINGER_SECONDS: Final = 5.0
"""How long an orderly close may take before the connection is aborted."""
_SWITCHING: Final = b"HTTP/1.1 101 "
_HEAD_END: Final = b"\r\n\r\n"
_is_interim: Final = re.compile(rb"HTTP/1\.1 1(?!01)\d\d[ \r]").match
_BEGIN: Final = len(_SWITCHING)
_FIRST_REFUSAL: Final = 400
_OF_HANDSHAKE: Final = b"sec-websocket-"
_IN_HANDSHAKE: Final = (b"upgrade", b"connection", _OF_HANDSHAKE)
_NO_HTTP_1: Final = "insists on a protocol other than HTTP/1.1"


@dataclass(slots=True, frozen=True)
class UpstreamRefusal:
    """A provider that does not switch protocols."""

    status: int
    headers: RawHeaders = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(slots=True, frozen=True)
class SwitchedUpstream:
    """A provider that has switched protocols."""

    socket: UpstreamSocket
    subprotocol: str | None
    headers: RawHeaders = field(repr=False)
    """The headers of its response, but for those of the handshake and of the connection."""
    request_id: str | None


class FrameReceiver(Interface):
    """Takes what the provider sends, and hears of its connection."""

    def on_upstream_data(self, data: bytes) -> None:
        """Take bytes of frames."""

    def on_upstream_lost(self) -> None:
        """The connection is gone."""

    def on_upstream_full(self) -> None:
        """The provider takes less than is sent."""

    def on_upstream_drained(self) -> None:
        """The provider has taken everything."""


class _Callbacks:
    """The parser looks here for callbacks, and finds none."""

    __slots__ = ()


Answer = SwitchedUpstream | UpstreamRefusal


@implementer(IHandshakeListener, IPushProducer)
class UpstreamSocket(Protocol):
    """One connection to a provider: first the handshake, then frames."""

    def __init__(
        self,
        upstream: Upstream,
        handshake: ClientHandshake,
        wheel: TimerWheel,
    ) -> None:
        self._provider = upstream.name
        self._limits = upstream.limits
        self._deadline = Deadline(wheel, self._on_deadline)
        self._handshake: ClientHandshake | None = handshake
        self._on_answer: Callable[[Answer | GatewayError], None] | None = None
        self._on_ready: Callable[[], None] | None = None
        self._on_failed: Callable[[Exception], None] | None = None
        self._transport: RelayTransport | None = None
        self._out: EagerWriter
        self._is_ready = False
        self._head = b""
        self._interim_bytes = 0
        self._refusal: UpstreamConnection | None = None
        """Reads an answer other than the switch of protocols."""
        self._refusal_bytes = 0
        self._receiver: FrameReceiver | None = None
        self._is_closing = False
        self._is_lost = False
        self.write: Callable[[bytes], None] = _drop
        """Sends frames; bound here once there is a connection: one call less for every chunk."""

    # The handshake

    def ask_when_ready(
        self,
        on_ready: Callable[[], None],
        on_failed: Callable[[Exception], None],
        on_answer: Callable[[Answer | GatewayError], None],
    ) -> None:
        """Send the request as soon as TLS, where it is spoken, is done.

        :param on_ready: called when that is so, ``on_failed`` where it will not be.
        :param on_answer: called once, after ``on_ready``.
        """
        self._on_ready, self._on_failed, self._on_answer = on_ready, on_failed, on_answer
        if self._is_ready:
            self._ask()

    def connectionMade(self) -> None:
        """The TCP connection stands; where TLS is spoken its handshake begins."""
        transport: Any = self.transport  # Any: no interface of Twisted's has all of RelayTransport
        self._transport = transport
        self._is_ready = not isinstance(transport, TlsTransport)
        self._out = EagerWriter(transport)
        self.write = self._out.write

    def handshakeCompleted(self) -> None:
        """TLS is done, and the certificate is the right one."""
        self._is_ready = True
        if cast(TlsTransport, self.transport).negotiated_protocol not in {None, b"http/1.1"}:
            self._answer(upstream_broken(self._provider, _NO_HTTP_1, Phase.CONNECT, Cause.NOT_HTTP))
        elif self._on_ready is not None:
            self._ask()

    def _ask(self) -> None:
        on_ready, self._on_ready, self._on_failed = self._on_ready, None, None
        assert on_ready is not None
        on_ready()
        handshake = self._handshake
        if handshake is not None:
            self._deadline.start(self._limits.first_byte)
            self.write(handshake.request)

    def dataReceived(self, data: bytes) -> None:
        """Take bytes of frames, or of the answer before them."""
        receiver = self._receiver
        if receiver is not None:
            receiver.on_upstream_data(data)
        elif self._refusal is not None:
            self._read_refusal(self._refusal, data)
        elif self._handshake is not None:
            self._read_answer(self._handshake, data)
        elif not self._is_closing:
            self._head += data  # frames that came with the head; nothing more is read

    def _read_answer(self, handshake: ClientHandshake, data: bytes) -> None:
        begun = self._head = self._skip_interim(self._head + data)
        if self._on_answer is None:  # what came was unreadable
            return
        is_final = not (begun.startswith(_SWITCHING) or _is_interim(begun))
        if is_final and len(begun) >= _BEGIN:
            self._refusal = UpstreamConnection()
            self._refusal.become_ready()
            self._refusal.send(b"GET")
            self._head = b""
            self._read_refusal(self._refusal, begun)
            return
        end = begun.find(_HEAD_END) + len(_HEAD_END)
        if end >= len(_HEAD_END):
            self._head = begun[end:]
            self._switch(handshake, begun[:end])
        elif self._interim_bytes + len(begun) > MAX_HEAD_BYTES:
            self._answer(self._broken(f"sent a head of more than {MAX_HEAD_BYTES} bytes", Cause.UNREADABLE))

    def _skip_interim(self, begun: bytes) -> bytes:
        """Return what has come of the final head; others may come before it (RFC 9110 15.2)."""
        while _is_interim(begun):
            end = begun.find(_HEAD_END) + len(_HEAD_END)
            if end < len(_HEAD_END):
                break
            try:
                _check_syntax(begun[:end])
            except HandshakeError as error:
                self._answer(self._broken(str(error), Cause.UNREADABLE))
                break
            self._interim_bytes += end
            begun = begun[end:]
        return begun

    def _switch(self, handshake: ClientHandshake, raw: bytes) -> None:
        """Check the head of a 101."""
        lines = raw[: -len(_HEAD_END)].split(b"\r\n")
        try:
            _check_syntax(raw)
            # Autobahn reads a head as UTF-8 and fails at any other byte: it sees the handshake's lines only.
            own = [line for line in lines[1:] if line.lower().startswith(_IN_HANDSHAKE)]
            subprotocol = handshake.finish(
                b"\r\n".join((_SWITCHING + b"Switching Protocols", *own, b"", b""))
            )
        except HandshakeError as error:
            self._answer(self._broken(str(error), Cause.UNREADABLE))
            return
        judged = judge_lines(raw)
        headers = [
            (name, value)
            for name, value, _, is_relayed in judged
            if is_relayed and not name.lower().startswith(_OF_HANDSHAKE)
        ]
        request_id = read_response_head(101, raw, judged).request_id
        self._deadline.stop()
        self._handshake = None
        assert self._transport is not None
        # Frames may follow in the next segment, and their receiver needs a few turns of the reactor.
        self._transport.pauseProducing()
        self._answer(SwitchedUpstream(self, subprotocol, headers, request_id))

    def _read_refusal(self, refusal: UpstreamConnection, data: bytes) -> None:
        refusal.receive(data)
        self._refusal_bytes += len(data)
        head = refusal.head
        if head is None:
            if refusal.fault is not None:
                self._answer(self._broken(refusal.fault, Cause.NOT_HTTP))
        elif refusal.body.ended or refusal.fault is not None or self._refusal_bytes > MAX_REFUSAL_BYTES:
            self._refuse(head, refusal)

    def _refuse(self, head: ResponseHead, refusal: UpstreamConnection) -> None:
        if head.status < _FIRST_REFUSAL:
            what = f"answered the handshake with status {head.status} instead of 101"
            self._answer(self._broken(what, Cause.UNREADABLE))
        else:
            body = b"".join(refusal.body.pieces)[:MAX_REFUSAL_BYTES]
            self._answer(UpstreamRefusal(head.status, response_headers(head.headers), body))

    def _answer(self, answer: Answer | GatewayError) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if not isinstance(answer, SwitchedUpstream):
            self.abort()
        if on_answer is not None:
            on_answer(answer)

    def _broken(self, what: str, cause: Cause) -> GatewayError:
        return upstream_broken(self._provider, what, Phase.HEAD, cause)

    # Frames

    def start(self, receiver: FrameReceiver) -> None:
        """Deliver frames from now on, those that came with the answer first."""
        transport = self._transport
        assert transport is not None
        if self._is_lost:
            receiver.on_upstream_lost()
            return
        self._receiver = receiver
        transport.registerProducer(self, streaming=True)
        transport.resumeProducing()  # first: the receiver may ask for a pause
        head, self._head = self._head, b""
        if head:
            receiver.on_upstream_data(head)

    def pause_reading(self) -> None:
        """Deliver nothing until :meth:`resume_reading`."""
        if self._transport is not None and not self._is_closing:
            self._transport.pauseProducing()

    def resume_reading(self) -> None:
        """Go on delivering."""
        if self._transport is not None and not self._is_closing:
            self._transport.resumeProducing()

    def close(self) -> None:
        """Close in order, when everything is written; what still comes is dropped."""
        transport = self._transport
        if self._is_closing or transport is None or self._is_lost:
            return
        was_relaying = self._receiver is not None
        self._stop()
        if was_relaying:
            transport.unregisterProducer()
        self._deadline.start(LINGER_SECONDS)
        if isinstance(transport, TlsTransport):
            transport.loseConnection()
        else:
            transport.loseWriteConnection()
            transport.resumeProducing()  # until the provider has closed its side

    def abort(self) -> None:
        """Break the connection."""
        self._stop()
        self._deadline.close()
        if self._transport is not None and not self._is_lost:
            self._transport.abortConnection()

    def _stop(self) -> None:
        self._is_closing = True
        self._handshake = self._refusal = self._receiver = self._on_answer = None
        self._head = b""
        self.write = _drop

    def pauseProducing(self) -> None:
        """The transport's buffer is full."""
        if self._receiver is not None:
            self._receiver.on_upstream_full()

    def resumeProducing(self) -> None:
        """The transport's buffer is empty."""
        self._out.on_drained()
        if self._receiver is not None:
            self._receiver.on_upstream_drained()

    def stopProducing(self) -> None:
        """The connection is lost, which :meth:`connectionLost` hears too."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The connection has ended, whoever ended it."""
        self._is_lost = True
        self._deadline.close()
        receiver, refusal, on_failed = self._receiver, self._refusal, self._on_failed
        self._on_failed = self._on_ready = None
        if receiver is not None:
            self._receiver = None
            receiver.on_upstream_lost()
        elif on_failed is not None and not self._is_closing:
            on_failed(cast(Exception, reason.value))
        elif refusal is not None and refusal.head is not None:
            self._refuse(refusal.head, refusal)
        elif self._on_answer is not None:
            what = "closed the connection before it answered the handshake"
            self._answer(self._broken(what, Cause.RESET))

    def _on_deadline(self) -> None:
        if self._is_closing:
            if self._transport is not None:
                self._transport.abortConnection()
            return
        seconds = self._limits.first_byte
        what = f"did not answer the handshake within {seconds:g} s"
        self._answer(upstream_too_slow(self._provider, what, Phase.SENT, Cause.FIRST_BYTE_TIMEOUT))


def _drop(_: bytes) -> None:
    """There is no connection."""


def _check_syntax(raw: bytes) -> None:
    """Have every byte of a head checked.

    :raises HandshakeError: it is no HTTP.
    """
    parser: Any = HttpResponseParser(_Callbacks())  # Any: httptools is not typed
    try:
        parser.feed_data(raw)
    except HttpParserUpgrade:
        return
    except HttpParserError as error:
        raise HandshakeError(f"sent an unreadable response: {error}") from None
