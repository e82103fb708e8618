"""Both opening handshakes of a session, by Autobahn (RFC 6455 4).

Autobahn reads and writes over a transport in memory, and is let go of when the handshake is done: its
protocols would cost 14 KiB a session, and frames pass as the bytes that they are (:mod:`mgw.realtime.relay`).
Neither side is offered or granted an extension: with the reserved bits in use the same bytes could mean two
things.  Autobahn has no time limit here; whoever shakes hands has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import txaio
from autobahn.twisted.websocket import WebSocketClientFactory, WebSocketServerFactory
from autobahn.websocket.types import ConnectingRequest
from twisted.internet.task import Clock

from mgw.nouns.errors import GatewayError, Reason
from mgw.realtime.autobahn_fast import ClientProtocol, Mold, ServerProtocol
from mgw.wire.headers import RawHeaders

txaio.use_twisted()  # type: ignore[no-untyped-call]  # Autobahn's, as is all that follows

_ClientFactory: Any = WebSocketClientFactory  # Any: Autobahn is half typed, here and below
_ServerFactory: Any = WebSocketServerFactory
_ConnectingRequest: Any = ConnectingRequest
_VERSION: Final = b"13"
_OFFER: Final = b"sec-websocket-protocol"
_IS_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
"""Whether a subprotocol is a token, as RFC 6455 4.1 requires (RFC 9110 5.6.2)."""
_VERSION_HEADER: Final = b"sec-websocket-version"
_HANDSHAKE_HEADERS: Final = frozenset({b"sec-websocket-key", _VERSION_HEADER, _OFFER})
_MOST_FACTORIES: Final = 64
"""How many lists of subprotocols are kept: clients choose them."""
_CLOCK: Final = Clock()
"""A clock that stands still, since Autobahn asks for one and nothing is timed."""


class HandshakeError(Exception):
    """The other side's half of a handshake is not one; the text says so in general words."""


class ServerHandshake:
    """A client's half of the handshake, which was checked, and ours, once it is decided.

    :raises GatewayError: ``ONLY_WEBSOCKET`` for another version of the protocol; ``MALFORMED``.
    """

    def __init__(self, headers: RawHeaders) -> None:
        lines, offered, versions = [_REQUEST], list[bytes](), list[bytes]()
        for name, value in headers:
            lower = name.lower()
            if lower in _HANDSHAKE_HEADERS:
                lines.append(b"%b: %b" % (name, value))
            if lower == _OFFER:
                offered += [one.strip() for one in value.split(b",")]
            elif lower == _VERSION_HEADER:
                versions.append(value)
        if versions != [_VERSION]:
            message = "the gateway supports WebSocket version 13 only: send Sec-WebSocket-Version: 13"
            raise GatewayError(Reason.ONLY_WEBSOCKET, message)
        self._protocol: Any = SERVER.take()  # Any: as above
        self._protocol.data = b"\r\n".join((*lines, b"", b""))
        self._protocol.processHandshake()
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
        (response,) = self._protocol.written
        return bytes(response)

    def close(self) -> None:
        """Let go of it, accepted or not."""
        # A decision that never came leaves the protocol, its Deferred and their callbacks in a cycle, which
        # would keep the headers, and so the key, until a collection.
        vars(self._protocol).clear()


class ClientHandshake:
    """Our half of the handshake with a provider, and the check of its answer.

    :param headers: those of the request, in order.
    :param subprotocols: what is offered, in order.
    """

    def __init__(
        self, host: str, port: int, target: bytes, headers: RawHeaders, subprotocols: Sequence[str]
    ) -> None:
        protocol: Any = CLIENT.take()  # Any: as above
        protocol.factory = _client_factory(tuple(subprotocols))
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
        protocol.startHandshake()
        self.request: Final = b"".join(protocol.written)
        """The bytes that ask the provider to switch protocols."""

    def finish(self, head: bytes) -> str | None:
        """Check the provider's head of status 101, and return the subprotocol that it chose.

        :raises HandshakeError: it does not switch protocols as it should.
        """
        try:
            self._protocol.data = head  # no byte behind it: Autobahn would take frames that are ours to relay
            self._protocol.processHandshake()
        except Exception as error:  # Autobahn reads headers as UTF-8, and they may be anything
            raise HandshakeError("answered the handshake with a head that cannot be read") from error
        if self._protocol.transport.is_closed:
            what = "answered the handshake with a wrong Sec-WebSocket-Accept, or with an unrequested option"
            raise HandshakeError(what)
        chosen: str | None = self._protocol.websocket_protocol_in_use
        return chosen


_REQUEST: Final = b"GET / HTTP/1.1\r\nHost: gateway\r\nUpgrade: websocket\r\nConnection: Upgrade"


def _joined(headers: RawHeaders) -> dict[str, str]:
    """Return headers by their names; what is repeated is joined (RFC 9110 5.3)."""
    found: dict[str, list[bytes]] = {}
    spelled: dict[str, str] = {}
    for raw_name, value in headers:
        name = raw_name.decode("latin-1")
        found.setdefault(spelled.setdefault(name.lower(), name), []).append(value)
    try:
        return {name: b", ".join(values).decode() for name, values in found.items()}
    except UnicodeDecodeError:
        return {name: _text(b", ".join(values)) for name, values in found.items()}


def _text(value: bytes) -> str:
    """Return a value that Autobahn, which writes UTF-8, sends as the same bytes where it is UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _build_server() -> Any:  # Any: as above
    protocol: Any = ServerProtocol()  # Any: as above
    protocol.factory = _ServerFactory(reactor=_CLOCK, server=None)
    protocol.factory.setProtocolOptions(openHandshakeTimeout=0, webStatus=False)
    return protocol


def _build_client() -> Any:  # Any: as above
    protocol: Any = ClientProtocol()  # Any: as above
    protocol.factory = _client_factory(())
    return protocol


@lru_cache(maxsize=_MOST_FACTORIES)
def _client_factory(subprotocols: tuple[str, ...]) -> Any:  # Any: as above
    """Return what a client's protocol asks for the subprotocols that it offers."""
    factory = _ClientFactory(reactor=_CLOCK, protocols=list(subprotocols))
    factory.setProtocolOptions(openHandshakeTimeout=0)
    return factory


def _shake_hands() -> None:
    """Have one side shake hands with the other."""
    client = ClientHandshake("localhost", 80, b"/", [], ("a",))
    lines = [line.partition(b": ") for line in client.request.split(b"\r\n")[1:-2]]
    server = ServerHandshake([(name, value) for name, _, value in lines])
    if client.finish(server.accept("a", [])) != "a":
        raise HandshakeError("chose another subprotocol")
    server.close()


SERVER: Final = Mold(_build_server)
CLIENT: Final = Mold(_build_client)
for _mold in (SERVER, CLIENT):
    _mold.check(_shake_hands)
