"""Both opening handshakes of a session, by Autobahn (RFC 6455 4).

Autobahn reads and writes over a transport in memory, and is let go of when the handshake is done: its
protocols would cost 14 KiB a session, and frames pass as the bytes that they are (:mod:`mgw.realtime.relay`).
Neither side is offered or granted an extension: with the reserved bits in use the same bytes could mean two
things.  Autobahn has no time limit here; whoever shakes hands has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import txaio
from autobahn.twisted.websocket import (
    WebSocketClientFactory,
    WebSocketClientProtocol,
    WebSocketServerFactory,
    WebSocketServerProtocol,
)
from autobahn.websocket.types import ConnectingRequest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.headers import RawHeaders, values_of

txaio.use_twisted()  # type: ignore[no-untyped-call]  # Autobahn's, as is all that follows

_ClientFactory: Any = WebSocketClientFactory  # Any: Autobahn is half typed, here and below
_ServerFactory: Any = WebSocketServerFactory
_ConnectingRequest: Any = ConnectingRequest
_VERSION: Final = b"13"
_OFFER: Final = b"sec-websocket-protocol"
_IS_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
"""RFC 9110 5.6.2, and RFC 6455 4.1 for subprotocols."""
_HANDSHAKE_HEADERS: Final = (
    b"sec-websocket-key",
    b"sec-websocket-version",
    _OFFER,
)
_CLOCK: Final = Clock()
"""Nothing is timed."""
_ADDRESS: Final = IPv4Address("TCP", "127.0.0.1", 0)


class HandshakeError(Exception):
    """The other side's half of a handshake is not one; the text says so in general words."""


class _Transport:
    """Keeps what is written, until somebody takes it."""

    def __init__(self) -> None:
        self._written: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self._written.append(data)

    def take(self) -> bytes:
        """Return what was written since the last time."""
        written, self._written = b"".join(self._written), []
        return written

    def loseConnection(self) -> None:
        self.is_closed = True

    def abortConnection(self) -> None:
        self.is_closed = True

    def unregisterProducer(self) -> None:
        pass

    def getPeer(self) -> IPv4Address:
        return _ADDRESS

    def getHost(self) -> IPv4Address:
        return _ADDRESS


class _SilentLog:
    """In place of Autobahn's, which would tell headers, and so keys."""

    def __getattr__(self, level: str) -> Callable[..., None]:
        return _say_nothing


def _say_nothing(*_: object, **__: object) -> None:
    """Nothing is logged."""


class _ServerProtocol(WebSocketServerProtocol):
    """Waits for a decision once a request turns out to be a handshake."""

    log = _SilentLog()

    def __init__(self) -> None:
        super().__init__()
        self.decision: Deferred[tuple[str | None, dict[str, str]]] | None = None

    def onConnect(self, _: object) -> Any:  # Any: Autobahn takes a Deferred, too
        self.decision = Deferred()
        return self.decision


class _ClientProtocol(WebSocketClientProtocol):
    """Asks for what it is told to."""

    log = _SilentLog()
    asked: ConnectingRequest
    chosen: str | None = None

    def onConnecting(self, _: object) -> ConnectingRequest:
        return self.asked

    def onConnect(self, response: Any) -> None:  # Any: as above
        self.chosen = response.protocol


class ServerHandshake:
    """A client's half of the handshake, which was checked, and ours, once it is decided.

    :raises GatewayError: ``ONLY_WEBSOCKET`` for another version of the protocol; ``MALFORMED``.
    """

    def __init__(self, headers: RawHeaders) -> None:
        versions = values_of(headers, b"sec-websocket-version")
        if versions != [_VERSION]:
            message = "the gateway supports WebSocket version 13 only: send Sec-WebSocket-Version: 13"
            raise GatewayError(Reason.ONLY_WEBSOCKET, message)
        self._protocol: Any = _SERVER_FACTORY.buildProtocol(_ADDRESS)  # Any: as above
        self._transport = _Transport()
        self._protocol.makeConnection(self._transport)
        lines = [
            b"%b: %b" % (name, value) for name in _HANDSHAKE_HEADERS for value in values_of(headers, name)
        ]
        self._protocol.dataReceived(b"\r\n".join((_REQUEST, *lines, b"", b"")))
        offered = [name.strip() for value in values_of(headers, _OFFER) for name in value.split(b",")]
        if self._protocol.decision is None or not all(map(_IS_TOKEN, offered)):
            self.close()
            raise GatewayError(
                Reason.MALFORMED,
                "the WebSocket handshake is not valid: Sec-WebSocket-Key must be 16 bytes in base64, and "
                "each subprotocol must be a token that appears once",
            )

    def accept(self, subprotocol: str | None, headers: RawHeaders) -> bytes:
        """Return the response that switches protocols.

        :param subprotocol: one of those that were offered.
        :param headers: what else the response says.
        """
        self._protocol.decision.callback((subprotocol, _joined(headers)))
        response = self._transport.take()
        assert response, "Autobahn has taken the decision"
        return response

    def close(self) -> None:
        """Let go of it, accepted or not."""
        vars(self._protocol).clear()  # what Autobahn has not finished refers to itself in several ways


class ClientHandshake:
    """Our half of the handshake with a provider, and the check of its answer.

    :param headers: those of the request, in order.
    :param subprotocols: what is offered, in order.
    """

    def __init__(
        self, host: str, port: int, target: bytes, headers: RawHeaders, subprotocols: Sequence[str]
    ) -> None:
        factory = _ClientFactory(reactor=_CLOCK, protocols=list(subprotocols))
        protocol: Any = _ClientProtocol()  # Any: as above
        protocol.factory = factory
        protocol.asked = _ConnectingRequest(
            host=host,
            port=port,
            resource=_text(target),
            headers=_joined(headers),
            useragent=None,
            origin=None,
            protocols=list(subprotocols),
        )
        self._protocol = protocol
        self._transport = _Transport()
        protocol.makeConnection(self._transport)
        self.request: Final = self._transport.take()
        """What is to be sent."""

    def finish(self, head: bytes) -> str | None:
        """Check the provider's head of status 101, and return the subprotocol that it chose.

        :raises HandshakeError: it does not switch protocols as it should.
        """
        try:
            self._protocol.dataReceived(head)
        except Exception as error:  # Autobahn reads headers as UTF-8, and they may be anything
            raise HandshakeError("answered the handshake with a head that cannot be read") from error
        if self._transport.is_closed:
            what = "answered the handshake with a wrong Sec-WebSocket-Accept, or with an unrequested option"
            raise HandshakeError(what)
        chosen: str | None = self._protocol.chosen
        return chosen


_REQUEST: Final = b"GET / HTTP/1.1\r\nHost: gateway\r\nUpgrade: websocket\r\nConnection: Upgrade"


def _joined(headers: RawHeaders) -> dict[str, str]:
    """Return headers by their names; what is repeated is joined (RFC 9110 5.3)."""
    found: dict[str, list[bytes]] = {}
    spelled: dict[str, str] = {}
    for raw_name, value in headers:
        name = raw_name.decode("latin-1")
        found.setdefault(spelled.setdefault(name.lower(), name), []).append(value)
    return {name: _text(b", ".join(values)) for name, values in found.items()}


def _text(value: bytes) -> str:
    """Return a value that Autobahn, which writes UTF-8, sends as the same bytes where it is UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _build_server_factory() -> Any:  # Any: as above
    factory = _ServerFactory(reactor=_CLOCK, server=None)
    factory.protocol = _ServerProtocol
    factory.setProtocolOptions(openHandshakeTimeout=0, webStatus=False)
    _keep_options(_ServerProtocol, factory)
    return factory


def _keep_options(protocol: Any, factory: Any) -> None:  # Any: as above
    """Have a class of protocols keep the options of a factory, which each would copy, and print for a log."""
    for name in protocol.CONFIG_ATTRS:
        setattr(protocol, name, getattr(factory, name))
    protocol.CONFIG_ATTRS = ()


def _set_client_options() -> None:
    factory = _ClientFactory(reactor=_CLOCK)
    factory.setProtocolOptions(openHandshakeTimeout=0)
    _keep_options(_ClientProtocol, factory)


_SERVER_FACTORY: Final = _build_server_factory()
_set_client_options()
