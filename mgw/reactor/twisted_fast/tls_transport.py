"""TLS for a client's connection, over a TCP transport and with the standard library's OpenSSL.

::

    handshake --done, certificate checked--> open --close, fault--> closed

Twisted has such a transport too.  It passes each record through half a dozen Python calls, keeps small
writes for a later turn of the reactor, and costs several times what the cryptography does.  Here a write is
one call of OpenSSL and, if the kernel has room, one of the kernel; all records that one read of the socket
completes are delivered as one piece.  So nothing is ever held back while reading is paused.

An end without the other side's close notification may have been forged: it is told as ``ConnectionLost``,
whatever TCP says (RFC 8446 6.1).  We send ours, and do not wait for theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from ssl import MemoryBIO, SSLError, SSLObject, SSLWantReadError, SSLZeroReturnError
from typing import Any, Final, cast

from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IAddress, IHandshakeListener, IProtocol, ITransport
from twisted.internet.main import CONNECTION_LOST
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.reactor.transport import RelayTransport
from mgw.reactor.twisted_fast.eager_writer import EagerWriter

_RECORD_BYTES: Final = 16 * 1024
"""The most that one record holds (RFC 8446 5.1), and what OpenSSL is given at once: its buffers never shrink,
and connections are many."""


@implementer(IProtocol)
class TlsTransport:
    """The transport of ``protocol``, and itself the protocol of a TCP transport.

    :param protocol: hears ``connectionMade`` when TCP is connected, and ``handshakeCompleted`` when it may
        write.
    :param begin_tls: returns a client's TLS state between what arrives and what is to be sent.
    :param check_certificate: given the certificate (DER) once its chain is known to be good, returns why it
        is refused.  Nothing is delivered or sent before that but TLS's own messages.
    """

    __slots__ = (
        "_check_certificate",
        "_close_when_produced",
        "_ended_in_order",
        "_handshaking",
        "_has_producer",
        "_incoming",
        "_open",
        "_out",
        "_outgoing",
        "_reason",
        "_tls",
        "protocol",
        "transport",
    )

    def __init__(
        self,
        protocol: IProtocol,
        begin_tls: Callable[[MemoryBIO, MemoryBIO], SSLObject],
        check_certificate: Callable[[bytes | None], Exception | None],
    ) -> None:
        self.protocol = protocol
        self._check_certificate = check_certificate
        self._incoming, self._outgoing = MemoryBIO(), MemoryBIO()
        self._tls = begin_tls(self._incoming, self._outgoing)
        self.transport: RelayTransport
        self._out: EagerWriter
        self._handshaking = True
        self._open = False
        self._has_producer = False
        self._close_when_produced = False
        self._ended_in_order = False
        self._reason: Failure | None = None

    # What the protocol above asks (mgw.reactor.transport.RelayTransport).

    @property
    def negotiated_protocol(self) -> bytes | None:
        """What both sides agreed to speak (ALPN), once the handshake is done."""
        name = self._tls.selected_alpn_protocol() if self._open else None
        return None if name is None else name.encode("ascii")

    def write(self, data: bytes) -> None:
        """Send ``data``; only after the handshake."""
        assert not self._handshaking
        if not (self._open and data):
            return
        try:
            if len(data) <= _RECORD_BYTES:
                self._tls.write(data)
                records = self._outgoing.read()
            else:
                records = self._encrypt(memoryview(data))
        except SSLError as error:
            self._fail(error)
        else:
            self._out.write(records)

    def pauseProducing(self) -> None:
        """Stop reading."""
        self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        """Go on reading."""
        self.transport.resumeProducing()

    def registerProducer(self, producer: object, streaming: Any) -> None:  # Any: True, as RelayTransport says
        """Tell ``producer`` when the buffer is full, and when it is empty."""
        self._has_producer = True
        self.transport.registerProducer(producer, streaming)

    def unregisterProducer(self) -> None:
        """Stop telling the producer."""
        self._has_producer = False
        self.transport.unregisterProducer()
        if self._close_when_produced:
            self.loseConnection()

    def loseConnection(self) -> None:
        """Close when everything is written, and the producer is done."""
        if self._handshaking:
            self.abortConnection()
        elif self._has_producer:
            self._close_when_produced = True
        elif self._open:
            self._close()

    def loseWriteConnection(self) -> None:
        """Close both sides: TLS as most speak it has no half-close."""
        self.loseConnection()

    def abortConnection(self) -> None:
        """Close at once."""
        self._handshaking = self._open = False
        self.transport.abortConnection()

    def getPeer(self) -> IAddress:
        """Return the other side's address."""
        return self.transport.getPeer()

    def getHost(self) -> IAddress:
        """Return our own address."""
        return self.transport.getHost()

    # What TCP calls.

    def makeConnection(self, transport: ITransport) -> None:
        """TCP is connected: begin the handshake."""
        self.transport = cast(RelayTransport, transport)
        self._out = EagerWriter(self.transport)
        self.protocol.makeConnection(cast(ITransport, self))
        if self._handshaking:  # the protocol may have closed
            self._shake_hands()

    def connectionMade(self) -> None:
        """See :meth:`makeConnection`."""

    def dataReceived(self, data: bytes) -> None:
        """Records, or parts of them."""
        if self._open:
            self._read(data)
        elif self._handshaking:
            self._incoming.write(data)
            self._shake_hands()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The connection has ended, whoever ended it."""
        self._handshaking = self._open = False
        if self._reason is not None:
            reason, self._reason = self._reason, None
        elif not self._ended_in_order and reason.check(ConnectionDone) is not None:
            reason = Failure(CONNECTION_LOST)
        protocol = self.protocol
        del self.protocol, self._tls, self._incoming, self._outgoing
        protocol.connectionLost(reason)

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except SSLWantReadError:
            self._flush()
            return
        except SSLError as error:
            self._fail(error)
            return
        refusal = self._check_certificate(self._tls.getpeercert(binary_form=True))
        if refusal is not None:
            self._reason = Failure(refusal)
            self.abortConnection()
            return
        self._handshaking, self._open = False, True
        self._flush()
        if self._incoming.pending:  # tickets; or data, which come too early to answer anything
            self._read(b"")
        if self._open and IHandshakeListener.providedBy(self.protocol):
            self.protocol.handshakeCompleted()

    def _read(self, data: bytes) -> None:
        """Take ``data``, and deliver all that the records hold which are complete now."""
        pieces: list[bytes] = []
        goodbye = False
        fault: SSLError | None = None
        try:
            if len(data) <= _RECORD_BYTES:
                self._decrypt(data, pieces)
            else:
                view = memoryview(data)
                for start in range(0, len(data), _RECORD_BYTES):
                    self._decrypt(view[start : start + _RECORD_BYTES], pieces)
        except SSLZeroReturnError:
            goodbye = True
        except SSLError as error:
            fault = error
        if self._outgoing.pending:
            self._flush()  # the answer to a key update
        if pieces:
            self.protocol.dataReceived(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if goodbye and self._open:
            self._close()
        elif fault is not None and self._open:
            self._fail(fault)

    def _decrypt(self, data: bytes | memoryview, pieces: list[bytes]) -> None:
        """Append what the records hold.

        :raises SSLZeroReturnError: the other side has said that nothing more comes.
        """
        tls, incoming = self._tls, self._incoming
        incoming.write(data)
        try:
            while piece := tls.read(_RECORD_BYTES):
                pieces.append(piece)
                if not incoming.pending:
                    return
        except SSLWantReadError:  # which costs more than to ask what is pending
            return
        raise SSLZeroReturnError

    def _encrypt(self, data: memoryview) -> bytes:
        parts: list[bytes] = []
        for start in range(0, len(data), _RECORD_BYTES):
            self._tls.write(data[start : start + _RECORD_BYTES])
            parts.append(self._outgoing.read())
        return b"".join(parts)

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._out.write(self._outgoing.read())

    def _close(self) -> None:
        """Send our close notification; the other side's has come, or nobody waits for it."""
        self._open = False
        self._ended_in_order = True
        with suppress(SSLError):  # which says that theirs has not come yet
            self._tls.unwrap()
        self._flush()
        self.transport.loseConnection()

    def _fail(self, error: SSLError) -> None:
        """End with an alert, if OpenSSL has one to send."""
        self._handshaking = self._open = False
        self._reason = Failure(error.with_traceback(None))  # whose frames would hold this object
        self._flush()
        self.transport.loseConnection()
