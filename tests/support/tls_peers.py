"""A TLS server in memory, opposite to a :class:`mgw.reactor.twisted_fast.tls_transport.TlsTransport`."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHandshakeListener, IProtocol
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.reactor.twisted_fast.tls_transport import TlsTransport
from tests.support.certificates import Authority, Issued


@implementer(IHandshakeListener)
class RecordingProtocol(Protocol):
    """Notes what it hears, in that order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.pieces: list[bytes] = []
        self.reason: Failure | None = None

    @property
    def received(self) -> bytes:
        """All the data."""
        return b"".join(self.pieces)

    def connectionMade(self) -> None:
        """TCP is connected."""
        self.events.append("made")

    def handshakeCompleted(self) -> None:
        """The handshake is done."""
        self.events.append("handshake")

    def dataReceived(self, data: bytes) -> None:
        """Data."""
        self.events.append("data")
        self.pieces.append(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The end."""
        self.events.append("lost")
        self.reason = reason


class TcpPipe(StringTransport):
    """What TCP's transport does, as far as TLS asks it."""

    def abortConnection(self) -> None:
        """Close at once."""
        self.aborted = True
        self.disconnecting = True

    aborted = False


def accept(_: bytes | None) -> Exception | None:
    """Take any certificate."""
    return None


class TlsPair:
    """A client's transport, and the server that it speaks with."""

    def __init__(
        self,
        ca: Authority,
        issued: Issued,
        check: Callable[[bytes | None], Exception | None] = accept,
        highest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        protocol: IProtocol | None = None,
    ) -> None:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(issued.cert_file, issued.key_file)
        server.maximum_version = highest
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = server.wrap_bio(self.incoming, self.outgoing, server_side=True)
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = False
        client.load_verify_locations(ca.ca_file)
        self.protocol: Any = protocol or RecordingProtocol()  # Any: whichever the test gave
        self.tcp: Any = TcpPipe()  # type: ignore[no-untyped-call]  # Twisted has no types here
        begin_tls = partial(client.wrap_bio, server_hostname="localhost")
        self.transport = TlsTransport(self.protocol, begin_tls, check)

    def to_server(self) -> None:
        """Hand over what the client has sent."""
        self.incoming.write(self.tcp.value())
        self.tcp.clear()

    def step(self) -> bytes:
        """Let the server's handshake go on; return what it sends."""
        self.to_server()
        with suppress(ssl.SSLWantReadError):
            self.server.do_handshake()
        return self.outgoing.read()

    def connect(self) -> None:
        """Do the whole handshake, tickets included."""
        self.transport.makeConnection(self.tcp)
        while data := self.step():
            self.transport.dataReceived(data)

    def said(self, data: bytes) -> bytes:
        """Return the records in which the server says ``data``."""
        self.server.write(data)
        return self.outgoing.read()

    def heard(self) -> bytes:
        """Return what the server can read; ``b""`` at the end too."""
        self.to_server()
        pieces = []
        with suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            while piece := self.server.read(65536):
                pieces.append(piece)
        return b"".join(pieces)

    def goodbye(self) -> bytes:
        """Return the server's close notification."""
        with suppress(ssl.SSLError):
            self.server.unwrap()
        return self.outgoing.read()

    def end(self, error: Exception | None = None) -> Failure:
        """End the TCP connection; return the reason that the protocol heard."""
        self.transport.connectionLost(Failure(error or ConnectionDone()))
        reason: Failure = self.protocol.reason
        return reason
