"""The promises of mgw.upstream that need sockets: TCP, stale connections, IPv6, treq over the network."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import pytest
from treq.client import HTTPClient
from twisted.internet.defer import CancelledError
from twisted.internet.task import LoopingCall, deferLater
from twisted.internet.tcp import Connection as TcpConnection

from mgw.http.request_head import render_request_head
from mgw.nouns.errors import Reason
from mgw.reactor.treq_arguments import as_reactor
from mgw.reactor.twisted_fast.socket_attempt import KEEPALIVE_SECONDS
from mgw.upstream.agent import build_agent, client_over
from mgw.upstream.client import (
    Phase,
    Upstream,
    UpstreamFailure,
    UpstreamLimits,
    UpstreamRequest,
    build_upstream,
)
from mgw.upstream.pool import SETTLE_SECONDS
from tests.support.listening import Gathered, Provider, Server, body_of, work_with
from tests.support.reactor import in_reactor, running_reactor

LIMITS = UpstreamLimits(connect=5.0, first_byte=10.0, idle=10.0)
GET = UpstreamRequest(b"GET", b"/", [])
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


def answer_ok(provider: Provider) -> None:
    provider.transport.write(OK)


def serving(
    work: Callable[[Upstream, Server], Awaitable[None]],
    on_data: Callable[[Provider], object] = answer_ok,
    interface: str = "127.0.0.1",
) -> None:
    """Run ``work`` against a provider that listens."""
    reactor = running_reactor()

    async def run() -> None:
        server = Server(on_data)
        port = reactor.listenTCP(0, server, interface=interface)
        host = f"[{interface}]" if ":" in interface else interface
        upstream = build_upstream("main", f"http://{host}:{port.getHost().port}/v1", LIMITS, reactor)
        await work_with(upstream, server, port, work)

    in_reactor(run)


def test_requests_one_after_another_share_a_connection() -> None:
    async def work(upstream: Upstream, server: Server) -> None:
        for _ in range(5):
            assert await body_of(await upstream.open(GET)) == b"hi"
            await deferLater(running_reactor(), SETTLE_SECONDS)
        assert (server.accepted, upstream.idle) == (1, 1)

    serving(work)


def test_a_stale_connection_fails_as_such_and_a_fresh_one_works() -> None:
    async def work(upstream: Upstream, server: Server) -> None:
        await body_of(await upstream.open(GET))
        await deferLater(running_reactor(), SETTLE_SECONDS)
        server.on_data = lambda provider: provider.transport.loseConnection()
        with pytest.raises(UpstreamFailure) as caught:
            await upstream.open(GET)
        assert (caught.value.stale, caught.value.phase) == (True, Phase.SENT)
        server.on_data = answer_ok
        assert await body_of(await upstream.open(GET, fresh=True)) == b"hi"

    serving(work)


def test_a_connection_that_the_provider_closed_while_idle_leaves_the_pool() -> None:
    async def work(upstream: Upstream, server: Server) -> None:
        await body_of(await upstream.open(GET))
        assert upstream.idle == 1
        server.connections[0].transport.loseConnection()
        while upstream.idle:  # the next turns of the reactor; the whole is bounded
            await deferLater(running_reactor(), 0)
        assert upstream.active == 0

    serving(work)


@pytest.mark.parametrize("size", [10_000, 60_000, 5_000_000])
def test_a_request_of_any_size_arrives_whole(size: int) -> None:
    async def work(upstream: Upstream, server: Server) -> None:
        request = UpstreamRequest(b"POST", b"/", [], b"x" * size)
        host = upstream.origin.partition("://")[2].encode()
        expected = size + len(render_request_head(b"POST", b"/", [], host, size))

        def counted(provider: Provider) -> None:
            if server.heard == expected:
                answer_ok(provider)

        server.on_data = counted
        answer = await upstream.open(request)
        assert await body_of(answer) == b"hi"
        assert upstream.idle == 1

    serving(work)


def test_a_paused_body_is_not_read_from_the_socket() -> None:
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"

    def flood(provider: Provider) -> None:
        provider.transport.write(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 400 + b"0\r\n\r\n"
        )

    async def work(upstream: Upstream, server: Server) -> None:
        answer = await upstream.open(GET)
        sink = Gathered()
        answer.deliver_body(sink)
        answer.pause()
        seen = len(sink.pieces)
        probe = await upstream.open(UpstreamRequest(b"GET", b"/", []))  # many turns of the reactor later
        probe.cancel()
        assert len(sink.pieces) == seen
        answer.resume()
        assert len(await sink.done) == 400 * 65536

    serving(work, flood)


def test_an_abandoned_answer_resets_the_providers_connection() -> None:
    async def work(upstream: Upstream, server: Server) -> None:
        def stream(provider: Provider) -> None:
            provider.transport.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")

        server.on_data = stream
        answer = await upstream.open(GET)
        answer.cancel()
        assert upstream.active == 0
        await server.lost

    serving(work)


def test_an_ipv6_address_is_reached() -> None:
    async def work(upstream: Upstream, server: Server) -> None:
        assert await body_of(await upstream.open(GET)) == b"hi"

    serving(work, interface="::1")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_refused_connection_is_told_in_plain_words() -> None:
    port = free_port()

    async def work() -> None:
        upstream = build_upstream("main", f"http://127.0.0.1:{port}", LIMITS, running_reactor())
        with pytest.raises(UpstreamFailure) as caught:
            await upstream.open(GET)
        assert (caught.value.reason, caught.value.phase) == (Reason.UPSTREAM_BROKEN, Phase.CONNECT)
        assert caught.value.message == "provider main refused the connection"
        assert upstream.active == 0

    in_reactor(work)


def test_a_name_that_nobody_has_is_told_in_plain_words() -> None:
    async def work() -> None:
        upstream = build_upstream("main", "http://absent.invalid", LIMITS, running_reactor())
        with pytest.raises(UpstreamFailure) as caught:
            await upstream.open(GET)
        assert caught.value.phase is Phase.CONNECT
        assert "no address" in caught.value.message
        assert "absent.invalid" in caught.value.detail
        assert "absent.invalid" not in caught.value.message

    in_reactor(work)


def test_a_name_is_resolved_and_reached() -> None:
    async def work(upstream: Upstream, server: Server) -> None:
        named = build_upstream(
            "main", upstream.origin.replace("127.0.0.1", "localhost"), LIMITS, running_reactor()
        )
        assert await body_of(await named.open(GET)) == b"hi"
        named.close()
        await named.when_closed()

    serving(work)


def test_sockets_are_kept_alive_and_do_not_wait_to_fill_packets() -> None:
    async def work(upstream: Upstream, server: Server) -> None:
        await body_of(await upstream.open(GET))
        (handle,) = [
            reader.getHandle()
            for reader in running_reactor().getReaders()
            if isinstance(reader, TcpConnection) and upstream.origin.endswith(f":{reader.getPeer().port}")
        ]
        assert handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert handle.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == KEEPALIVE_SECONDS

    serving(work)


def test_treq_works_over_the_network() -> None:
    async def work(upstream: Upstream, server: Server) -> None:
        agent = build_agent(running_reactor(), LIMITS, 2)
        client = HTTPClient(agent)
        response = await client.get(upstream.origin + "/x")
        assert await response.content() == b"hi"
        response = await client.post(upstream.origin + "/x", json={"a": 1})
        assert await response.content() == b"hi"
        agent.close()

    serving(work)


def test_treqs_timeout_ends_a_response_that_drips_and_closes_its_connection() -> None:
    def drip(provider: Provider) -> None:
        provider.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        dripping = LoopingCall(lambda: provider.transport.write(b"x"))
        _ = provider.server.lost.addCallback(lambda _: dripping.stop())
        _ = dripping.start(0.02).addErrback(lambda _: None)

    async def work(upstream: Upstream, server: Server) -> None:
        agent = build_agent(running_reactor(), LIMITS, 1000)
        with pytest.raises(CancelledError):
            await client_over(agent).get(upstream.origin, timeout=0.2, reactor=as_reactor(running_reactor()))
        await server.lost
        assert not server.connections
        agent.close()

    serving(work, drip)
