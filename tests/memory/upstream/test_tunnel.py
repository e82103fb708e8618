"""The promises of mgw.upstream.tunnel: CONNECT in memory, the proxy played by the test."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone, ConnectionLost, DNSLookupError
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.error import TimeoutError as TcpTimedOut
from twisted.internet.interfaces import IProtocol, IProtocolFactory
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure

from mgw.config.load import parse
from mgw.config.proxy import parse_proxy
from mgw.config.secrets import secrets_of
from mgw.http.connect_head import MAX_CONNECT_HEAD
from mgw.nouns.errors import Cause, Reason
from mgw.nouns.secret import Secret
from mgw.upstream.address import address_of
from mgw.upstream.client import Phase, Upstream, UpstreamFailure
from mgw.upstream.connect import ProxyNameError, dialler_to, proxy_name_of
from mgw.upstream.connection import Connection
from mgw.upstream.dial import Attempt, TcpDialler
from mgw.upstream.tunnel import TunnelDialler
from tests.support.upstreams import LIMITS, OK, CollectedBody, MemoryTransport, Result, get, outcome_of

OPENED = b"HTTP/1.1 200 Connection established\r\n\r\n"
REQUEST = (
    b"CONNECT api.example:80 HTTP/1.1\r\nHost: api.example:80\r\nProxy-Authorization: Basic canary==\r\n\r\n"
)


class ProxyTransport(MemoryTransport):
    """The gateway's connection to the proxy, which knows its protocol."""

    protocol: IProtocol

    @property
    def sent(self) -> bytes:
        """What the gateway has sent."""
        data = bytes(self.value())  # type: ignore[no-untyped-call]  # Twisted's
        self.clear()  # type: ignore[no-untyped-call]  # Twisted's
        return data

    @property
    def aborted(self) -> bool:
        """Whether the gateway has closed it at once."""
        return bool(self.disconnected)

    def end(self, reason: Exception | None = None) -> None:
        """Have the connection end."""
        self.protocol.connectionLost(Failure(reason or ConnectionDone()))


@dataclass(eq=False)
class ProxyDialler:
    """Makes connections to the proxy when the test says so."""

    cancelled: int = 0
    transports: list[ProxyTransport] = field(default_factory=list)
    _pending: list[tuple[IProtocolFactory, object, object]] = field(default_factory=list)

    def dial(self, factory: IProtocolFactory, on_connected: object, on_failed: object) -> Attempt:
        """Be dialled."""
        self._pending.append((factory, on_connected, on_failed))
        return self

    def cancel(self) -> None:
        """Count it."""
        self.cancelled += 1
        self._pending.pop()

    def accept(self) -> ProxyTransport:
        """Let the newest attempt succeed."""
        factory, on_connected, _ = self._pending.pop()
        protocol = factory.buildProtocol(IPv4Address("TCP", "10.0.0.9", 3128))
        assert protocol is not None
        transport = ProxyTransport()  # type: ignore[no-untyped-call]  # Twisted's
        transport.protocol = protocol
        self.transports.append(transport)
        protocol.makeConnection(transport)
        assert callable(on_connected)
        on_connected(protocol)
        return transport

    def refuse(self, error: Exception) -> None:
        """Let it fail."""
        _, _, on_failed = self._pending.pop()
        assert callable(on_failed)
        on_failed(error)


def tunnel_through(proxy: ProxyDialler) -> TunnelDialler:
    return TunnelDialler(proxy, "proxy.example:3128", "api.example:80", Secret("Basic canary=="))


class Dialling:
    """A tunnel being dialled, and what came of it."""

    def __init__(self) -> None:
        self.proxy = ProxyDialler()
        self.connected: list[IProtocol] = []
        self.errors: list[Exception] = []
        dialler = tunnel_through(self.proxy)
        self.attempt = dialler.dial(Factory.forProtocol(Protocol), self.connected.append, self.errors.append)


class Asking:
    """A request to a provider behind the proxy."""

    def __init__(self, max_connections: int | None = None) -> None:
        self.clock, self.proxy = Clock(), ProxyDialler()
        dialler = tunnel_through(self.proxy)
        self.upstream = Upstream(
            "main", "http://api.example/v1", LIMITS, dialler, self.clock, max_connections
        )

    def ask(self) -> Result:
        """Send a request."""
        return outcome_of(self.upstream.open(get()))

    def failure_of(self, result: Result) -> UpstreamFailure:
        """Return how it failed: nothing is left of it, and its words are ours alone."""
        failure = result.error
        assert isinstance(failure, UpstreamFailure)
        assert failure.phase is Phase.CONNECT
        assert failure.detail == "at api.example through the proxy proxy.example:3128"
        assert failure.message.startswith("provider main ")
        assert "canary" not in failure.message
        assert self.upstream.active == 0
        assert not self.clock.getDelayedCalls()
        return failure


def test_the_protocol_and_nothing_else_is_on_the_connection() -> None:
    d = Dialling()
    transport = d.proxy.accept()
    assert transport.sent == REQUEST
    assert not d.connected
    transport.protocol.dataReceived(OPENED)
    (protocol,) = d.connected
    assert type(protocol) is Protocol
    assert transport.protocol is protocol
    assert protocol.transport is transport
    assert not transport.sent


def test_a_request_goes_through_and_its_connection_serves_again() -> None:
    a = Asking()
    result = a.ask()
    transport = a.proxy.accept()
    assert transport.sent == REQUEST
    transport.protocol.dataReceived(OPENED)
    assert transport.sent.startswith(b"GET /v1/models HTTP/1.1\r\nHost: api.example\r\n")
    assert type(transport.protocol) is Connection
    transport.protocol.dataReceived(OK)
    result.response.deliver_body(CollectedBody())
    a.clock.advance(1)
    assert (a.upstream.idle, a.upstream.active) == (1, 0)
    a.ask()
    assert transport.sent.startswith(b"GET ")
    assert len(a.proxy.transports) == 1


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (407, "refused to connect to it: 407 (its user name or password is missing or wrong)"),
        (403, "refused to connect to it: 403 (it does not allow this host or port)"),
        (502, "refused to connect to it: 502"),
    ],
)
def test_a_refusal_is_told_by_its_status_alone(status: int, said: str) -> None:
    a = Asking()
    result = a.ask()
    transport = a.proxy.accept()
    transport.protocol.dataReceived(
        b"HTTP/1.1 %d canary\r\nProxy-Authenticate: Basic realm=canary\r\n\r\ncanary" % status
    )
    failure = a.failure_of(result)
    assert failure.message == f"provider main cannot be reached: its proxy {said}"
    assert (failure.reason, failure.cause) == (Reason.UPSTREAM_BROKEN, Cause.REFUSED_CONNECTION)
    assert transport.aborted


@pytest.mark.parametrize(
    ("answer", "said", "cause"),
    [
        (b"SSH-2.0-canary\r\n", "sent something that is not HTTP", Cause.NOT_HTTP),
        (OPENED + b"canary", "sent unsolicited data", Cause.UNREADABLE),
        (b"HTTP/1.1 101 S\r\n\r\n", "switched to another protocol", Cause.UNREADABLE),
        (b"HTTP/1.1 200 " + b"x" * MAX_CONNECT_HEAD, f"more than {MAX_CONNECT_HEAD} bytes", Cause.UNREADABLE),
    ],
    ids=["garbage", "early", "switched", "endless"],
)
def test_an_answer_that_makes_no_tunnel_is_told(answer: bytes, said: str, cause: Cause) -> None:
    a = Asking()
    result = a.ask()
    transport = a.proxy.accept()
    transport.protocol.dataReceived(answer)
    failure = a.failure_of(result)
    assert f"cannot be reached: its proxy {said}" in failure.message.replace("sent more", "more")
    assert failure.cause is cause
    assert transport.aborted


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 Conn", b"HTTP/1.1 102 P\r\n\r\n"])
@pytest.mark.parametrize("reason", [ConnectionDone(), ConnectionLost()])
def test_a_proxy_that_closes_is_told(answer: bytes, reason: Exception) -> None:
    a = Asking()
    result = a.ask()
    transport = a.proxy.accept()
    transport.protocol.dataReceived(answer)
    transport.end(reason)
    failure = a.failure_of(result)
    assert "its proxy closed the connection before it could be used" in failure.message
    assert failure.cause is Cause.RESET


@pytest.mark.parametrize(
    ("error", "said", "cause"),
    [
        (Refused(), "its proxy refused the connection", Cause.REFUSED_CONNECTION),
        (DNSLookupError(), "its proxy cannot be found: its host name has no address", Cause.DNS),
        (RuntimeError("canary"), "its proxy could not be reached", Cause.REFUSED_CONNECTION),
        (TcpTimedOut(), "did not accept a connection through its proxy within 10 s", Cause.CONNECT_TIMEOUT),
    ],
)
def test_a_proxy_that_is_not_there_is_told(error: Exception, said: str, cause: Cause) -> None:
    a = Asking()
    result = a.ask()
    a.proxy.refuse(error)
    failure = a.failure_of(result)
    assert said in failure.message
    assert failure.cause is cause


@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 200 Conn", b"HTTP/1.1 102 P\r\n\r\n"])
def test_the_proxy_shares_the_time_for_connecting(answer: bytes | None) -> None:
    a = Asking()
    result = a.ask()
    if answer is not None:
        a.clock.advance(6)
        a.proxy.accept().protocol.dataReceived(answer)
        a.clock.advance(3.9)
        assert result.error is None
        a.clock.advance(0.2)
    else:
        a.clock.advance(10.1)
    failure = a.failure_of(result)
    assert failure.message == "provider main did not accept a connection through its proxy within 10 s"
    assert (failure.reason, failure.cause) == (Reason.UPSTREAM_TOO_SLOW, Cause.CONNECT_TIMEOUT)
    if answer is None:
        assert a.proxy.cancelled == 1
    else:
        assert a.proxy.transports[0].aborted


@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 200 Conn", OPENED])
def test_cancelling_closes_whatever_there_is_and_calls_nobody(answer: bytes | None) -> None:
    a = Asking(max_connections=1)
    waiting = a.upstream.open(get())
    _ = waiting.addErrback(lambda _: None)
    if answer is not None:
        a.proxy.accept().protocol.dataReceived(answer)
    waiting.cancel()
    assert a.upstream.active == 0
    assert not a.clock.getDelayedCalls()
    if answer is None:
        assert a.proxy.cancelled == 1
    else:
        (transport,) = a.proxy.transports
        assert transport.aborted
        transport.protocol.dataReceived(OPENED)  # on its way when we left
        transport.end()
    assert a.ask().error is None  # the slot is free


def test_cancelling_afterwards_does_nothing() -> None:
    d = Dialling()
    transport = d.proxy.accept()
    transport.protocol.dataReceived(OPENED)
    d.attempt.cancel()
    assert not transport.aborted
    assert d.proxy.cancelled == 0


@given(
    pieces=st.lists(
        st.binary(min_size=1, max_size=9)
        | st.sampled_from([OPENED, b"HTTP/1.1 ", b"200 OK\r\n", b"\r\n", b"HTTP/1.1 407 No\r\n\r\n", OK]),
        min_size=1,
        max_size=8,
    ),
    closes=st.booleans(),
)
def test_whatever_a_proxy_says_the_slot_is_free_in_the_end(pieces: list[bytes], closes: bool) -> None:
    a = Asking(max_connections=1)
    result = a.ask()
    transport = a.proxy.accept()
    for piece in pieces:
        if not transport.disconnecting:
            transport.protocol.dataReceived(piece)
    if closes:
        transport.end()
    a.clock.advance(LIMITS.connect + 1)
    if result.value is not None:  # a tunnel, and a response through it
        result.value.cancel()
    elif result.error is None:  # a tunnel, and silence
        assert type(transport.protocol) is Connection
        a.clock.advance(LIMITS.first_byte)
    assert transport.disconnecting or closes or a.upstream.idle == 1
    assert a.upstream.active == 0
    assert "canary" not in str(result.error)


def test_a_direct_connection_has_no_proxy_in_its_way() -> None:
    dialler = dialler_to(address_of("http://10.0.0.1"), MemoryReactorClock())
    assert type(dialler) is TcpDialler
    assert proxy_name_of(dialler) is None


@pytest.mark.parametrize("url", ["http://api.example", "https://api.example"])
def test_the_name_of_the_provider_is_for_the_proxy_to_resolve(url: str) -> None:
    reactor = MemoryReactorClock()
    dialler = dialler_to(address_of(url), reactor, proxy=parse_proxy("http://u:canary@10.0.0.9:3128"))
    dialler.dial(Factory.forProtocol(Protocol), print, print)
    assert [dialled[:2] for dialled in reactor.tcpClients] == [("10.0.0.9", 3128)]
    assert proxy_name_of(dialler) == "10.0.0.9:3128"


def test_a_name_that_no_certificate_has_is_refused_for_a_proxy_with_tls() -> None:
    proxy = parse_proxy(f"https://{'a' * 64}:3128")
    with pytest.raises(ProxyNameError):
        dialler_to(address_of("http://api.example"), MemoryReactorClock(), proxy=proxy)


def test_the_log_hides_the_password_as_it_is_and_as_it_is_sent() -> None:
    config = parse('providers: {main: {kind: openai, proxy: "http://me:p%40ssword-1@h:1"}}', "f", {})
    assert {Secret("p@ssword-1"), Secret("bWU6cEBzc3dvcmQtMQ==")} <= set(secrets_of(config))
