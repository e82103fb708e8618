"""A provider on the loopback that responses as a test says, and a sink whose body can be awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from mgw.nouns.errors import GatewayError
from mgw.upstream.client import Upstream, UpstreamResponse


class Provider(Protocol):
    """One connection; calls its server's ``on_data`` with itself."""

    transport: Any  # TCP or TLS: tests reach for what only one of them has

    def __init__(self, server: Server) -> None:
        self.server = server

    def connectionMade(self) -> None:
        """Join the connections that are open."""
        self.server.accepted += 1
        self.server.connections.append(self)

    def dataReceived(self, data: bytes) -> None:
        """Count it, and do what the test says."""
        self.server.heard += len(data)
        self.server.on_data(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Leave the connections that are open."""
        self.server.connections.remove(self)
        if not self.server.lost.called:
            self.server.lost.callback(None)


class Server(Factory):
    """What makes them; ``lost`` fires when the first of its connections has ended."""

    noisy = False

    def __init__(self, on_data: Callable[[Provider], object]) -> None:
        self.on_data = on_data
        self.accepted = 0
        self.heard = 0
        self.connections: list[Provider] = []
        self.lost: Deferred[None] = Deferred()

    def buildProtocol(self, _: object) -> Provider:
        """Return one connection."""
        return Provider(self)

    def hang_up(self) -> None:
        """Close what is open."""
        for connection in list(self.connections):
            connection.transport.abortConnection()


class Gathered:
    """A sink whose body can be awaited."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.done: Deferred[bytes] = Deferred()

    def on_body_data(self, data: bytes) -> None:
        """Keep it."""
        self.pieces.append(data)

    def on_body_end(self) -> None:
        """Fire with all of it."""
        self.done.callback(b"".join(self.pieces))

    def on_body_error(self, error: GatewayError) -> None:
        """Fail."""
        self.done.errback(error)


async def body_of(response: UpstreamResponse) -> bytes:
    """Take the body of ``response``."""
    sink = Gathered()
    response.deliver_body(sink)
    return await sink.done


Work = Callable[[Upstream, Server], Awaitable[None]]
"""What a test does with a provider that listens."""


async def work_with(upstream: Upstream, server: Server, port: Any, work: Work) -> None:  # Any: Twisted's port
    """Do ``work`` against what listens on ``port``, and close everything."""
    try:
        await work(upstream, server)
    finally:
        upstream.close()
        server.hang_up()
        await upstream.when_closed()
        await port.stopListening()
