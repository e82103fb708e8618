"""A WebSocket relay of Autobahn's server and client, written with care, to compare the gateway with.

It relays and does nothing else: no key, no metering, no log.  Each message is decoded, checked and encoded
anew, as by any relay on a library's public interface; masks and UTF-8 are the work of Autobahn's native code.
It runs in the environment of the benchmarks' rivals.

    python -m bench.decoding_relay PORT UPSTREAM_PORT
"""

# ruff: noqa: FBT001, N803 - these are Autobahn's methods

from __future__ import annotations

import sys

from autobahn.twisted.websocket import (
    WebSocketClientFactory,
    WebSocketClientProtocol,
    WebSocketServerFactory,
    WebSocketServerProtocol,
)
from twisted.internet import reactor
from twisted.internet.defer import Deferred

_ORDERLY = 1000


class UpstreamSide(WebSocketClientProtocol):
    """The session with the upstream."""

    client: ClientSide

    def onOpen(self) -> None:
        self.client.upstream = self
        self.client.opened.callback(None)

    def onMessage(self, payload: bytes, isBinary: bool) -> None:
        self.client.sendMessage(payload, isBinary)

    def onClose(self, wasClean: bool, code: int | None, reason: str | None) -> None:
        self.client.sendClose(_ORDERLY)


class ClientSide(WebSocketServerProtocol):
    """The session with the client."""

    upstream: UpstreamSide | None = None

    def onConnect(self, request: object) -> Deferred[None]:
        self.opened: Deferred[None] = Deferred()
        factory = WebSocketClientFactory(self.factory.upstream_url)
        factory.protocol = UpstreamSide
        protocol = factory.buildProtocol(None)
        protocol.client = self
        factory.buildProtocol = lambda _: protocol
        reactor.connectTCP("127.0.0.1", self.factory.upstream_port, factory)
        return self.opened

    def onMessage(self, payload: bytes, isBinary: bool) -> None:
        assert self.upstream is not None
        self.upstream.sendMessage(payload, isBinary)

    def onClose(self, wasClean: bool, code: int | None, reason: str | None) -> None:
        if self.upstream is not None:
            self.upstream.sendClose(_ORDERLY)


def main(port: int, upstream_port: int) -> None:
    """Serve until the process is ended."""
    factory = WebSocketServerFactory()
    factory.protocol = ClientSide
    factory.upstream_port = upstream_port
    factory.upstream_url = f"ws://127.0.0.1:{upstream_port}/v1/realtime?model=bench-realtime"
    reactor.listenTCP(port, factory, backlog=4096, interface="127.0.0.1")
    reactor.run()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
