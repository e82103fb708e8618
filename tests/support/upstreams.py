"""A provider in memory: an endpoint whose other side is played by the test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.config.provider import Provider
from mgw.nouns.errors import GatewayError
from mgw.upstream.client import Upstream, UpstreamLimits, UpstreamRequest, UpstreamResponse
from mgw.upstream.connection import Connection, ResponseWaiter
from mgw.upstream.dial import Dialler
from mgw.upstream.wires import wire_of
from mgw.upstream.wires.wire import ProviderWire

LIMITS = UpstreamLimits(connect=10.0, first_byte=600.0, idle=300.0)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class MemoryTransport(StringTransport):
    """A transport in memory; while ``full`` it keeps producers waiting until :meth:`drain`."""

    full = False
    half_closed = False

    def loseWriteConnection(self) -> None:
        """End our side; the other one may go on."""
        self.half_closed = True

    def write(self, data: bytes) -> None:
        """Keep ``data``, and pause whoever produces it if the buffer is full."""
        super().write(data)  # type: ignore[no-untyped-call]  # Twisted has no types here
        if self.full and self.producer is not None:
            self.producer.pauseProducing()

    def drain(self) -> None:
        """Everything was sent: ask the producer for more."""
        assert self.producer is not None
        self.producer.resumeProducing()


@dataclass(slots=True)
class ProviderConnection:
    """One connection as the provider sees it."""

    protocol: IProtocol
    transport: MemoryTransport
    over: bool = False

    @property
    def received(self) -> bytes:
        """What the client has written."""
        return bytes(self.transport.value())  # type: ignore[no-untyped-call]  # Twisted has no types here

    @property
    def aborted(self) -> bool:
        """Whether the client closed at once."""
        return bool(self.transport.disconnected)

    @property
    def closing(self) -> bool:
        """Whether the client closed, in order or at once."""
        return bool(self.transport.disconnecting)

    @property
    def paused(self) -> bool:
        """Whether the client reads nothing."""
        return bool(self.transport.producerState == "paused")

    def send(self, data: bytes) -> None:
        """Send ``data`` to the client."""
        self.protocol.dataReceived(data)

    def close(self) -> None:
        """Close in order."""
        self._end(Failure(ConnectionDone()))

    def reset(self) -> None:
        """Reset the connection."""
        self._end(Failure(ConnectionLost()))

    def _end(self, reason: Failure) -> None:
        if not self.over:
            self.over = True
            self.transport.connected = False
            self.protocol.connectionLost(reason)


@implementer(IStreamClientEndpoint)
@dataclass(slots=True, eq=False)
class MemoryEndpoint:
    """Makes ``connections``; ``held`` ones stay pending, ``full`` ones take no more."""

    connections: list[ProviderConnection] = field(default_factory=list)
    held: bool = False
    full: bool = False
    refusal: Exception | None = None
    pending: list[tuple[IProtocolFactory, Deferred[IProtocol]]] = field(default_factory=list)
    cancelled: int = 0

    def connect(self, protocol_factory: IProtocolFactory) -> Deferred[IProtocol]:
        """Connect, or hold, or refuse."""
        if self.refusal is not None:
            raise self.refusal
        if not self.held:
            return succeed(self._made(protocol_factory))
        attempt: Deferred[IProtocol] = Deferred(self._count)
        self.pending.append((protocol_factory, attempt))
        return attempt

    def let_through(self) -> None:
        """Complete the oldest pending attempt."""
        protocol_factory, attempt = self.pending.pop(0)
        attempt.callback(self._made(protocol_factory))

    def settle(self) -> None:
        """Let every closed connection come to its end, as the reactor's next turn does."""
        for connection in self.connections:
            if connection.closing:
                connection.close()

    def _made(self, protocol_factory: IProtocolFactory) -> IProtocol:
        protocol = protocol_factory.buildProtocol(None)  # type: ignore[arg-type]  # nobody looks at the address
        assert protocol is not None
        transport = MemoryTransport()  # type: ignore[no-untyped-call]  # Twisted has no types here
        transport.full = self.full
        connection = ProviderConnection(protocol, transport)
        self.connections.append(connection)
        protocol.makeConnection(transport)
        return protocol

    def _count(self, _: Deferred[IProtocol]) -> None:
        self.cancelled += 1


@dataclass(slots=True)
class UpstreamHarness:
    """An upstream over memory, its clock and its other side."""

    clock: Clock
    endpoint: MemoryEndpoint
    upstream: Upstream

    @property
    def connection(self) -> ProviderConnection:
        """The newest connection."""
        return self.endpoint.connections[-1]

    def timers(self) -> int:
        """How many timers are left on the clock."""
        return len(self.clock.getDelayedCalls())


def memory_upstream(max_connections: int | None = None, limits: UpstreamLimits = LIMITS) -> UpstreamHarness:
    """Return an upstream in memory, named ``main`` at ``http://api.example/v1``."""
    clock, endpoint = Clock(), MemoryEndpoint()
    upstream = Upstream("main", "http://api.example/v1", limits, endpoint, clock, max_connections)
    return UpstreamHarness(clock, endpoint, upstream)


def post(body: bytes = b"{}") -> UpstreamRequest:
    """Return a small request."""
    return UpstreamRequest(b"POST", b"/v1/chat", [(b"Authorization", b"Bearer sk-canary")], body)


def get() -> UpstreamRequest:
    """Return a request without a body."""
    return UpstreamRequest(b"GET", b"/v1/models", [])


@dataclass(slots=True)
class Result:
    """What became of a Deferred."""

    value: UpstreamResponse | None = None
    error: BaseException | None = None

    @property
    def response(self) -> UpstreamResponse:
        """The response, which must have come."""
        assert self.value is not None, self.error
        return self.value


def outcome_of(waiting: Deferred[UpstreamResponse]) -> Result:
    """Watch a Deferred, and take its error."""
    result = Result()

    def came(response: UpstreamResponse) -> None:
        result.value = response

    def failed(failure: Failure) -> None:
        result.error = failure.value

    _ = waiting.addCallbacks(came, failed)
    return result


@dataclass(slots=True)
class CollectedBody:
    """A sink that keeps what it gets."""

    pieces: list[bytes] = field(default_factory=list)
    ended: int = 0
    errors: list[GatewayError] = field(default_factory=list)

    def on_body_data(self, data: bytes) -> None:
        """Keep it."""
        self.pieces.append(data)

    def on_body_end(self) -> None:
        """Count it."""
        self.ended += 1

    def on_body_error(self, error: GatewayError) -> None:
        """Keep it."""
        self.errors.append(error)

    @property
    def body(self) -> bytes:
        """All that came."""
        return b"".join(self.pieces)

    @property
    def over(self) -> bool:
        """Whether the body has ended, one way or the other."""
        return self.ended + len(self.errors) > 0


def collect_body(response: UpstreamResponse) -> CollectedBody:
    """Collect the body of ``response``."""
    sink = CollectedBody()
    response.deliver_body(sink)
    return sink


def connect_with(dialler: Dialler, factory: IProtocolFactory) -> Deferred[IProtocol]:
    """Dial as an endpoint connects."""
    connected: Deferred[IProtocol] = Deferred(lambda _: attempt.cancel())
    attempt = dialler.dial(factory, connected.callback, connected.errback)
    return connected


def send_over(connection: Connection, method: bytes, head: bytes, body: bytes) -> Deferred[UpstreamResponse]:
    """Send a request over one connection; fires with the response."""
    waiter = ResponseWaiter()
    waiter.cancel = connection.cancel_exchange
    connection.exchange(method, head, body, waiter)
    return waiter.deferred


def upstream_to(
    provider: Provider,
    endpoint: IStreamClientEndpoint | Dialler,
    clock: Clock,
    wires: Mapping[str, ProviderWire] | None = None,
) -> Upstream:
    """Return a configured provider whose other side is played by the test."""
    upstream = Upstream(provider.name, provider.base_url, LIMITS, endpoint, clock)
    upstream.wire = (wires or {}).get(provider.row.wire or "") or wire_of(provider)
    origin = None if upstream.wire.other_origin is None else upstream.wire.other_origin(provider)
    if origin is not None:
        upstream.other = Upstream(provider.name, origin, LIMITS, endpoint, clock)
    return upstream
