"""The promises of mgw.upstream.connect about TLS: whom it trusts, whom not, and what it says then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from OpenSSL import SSL
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.ssl import DefaultOpenSSLContextFactory
from twisted.internet.task import deferLater

from mgw.http.request_head import render_request_head
from mgw.nouns.errors import GatewayError, Reason
from mgw.upstream.client import (
    Phase,
    Upstream,
    UpstreamFailure,
    UpstreamLimits,
    UpstreamRequest,
    build_upstream,
)
from mgw.upstream.pool import SETTLE_SECONDS
from tests.support.certificates import Authority, Issued, authority, issue
from tests.support.listening import Gathered, Provider, Server, body_of, work_with
from tests.support.reactor import in_reactor, running_reactor

LIMITS = UpstreamLimits(connect=5.0, first_byte=10.0, idle=10.0)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
GET = UpstreamRequest(b"GET", b"/", [])


def answer_ok(provider: Provider) -> None:
    provider.transport.write(OK)


class Tls(DefaultOpenSSLContextFactory):
    """A server's context, which notes what clients offer; ``highest`` caps the version that it speaks."""

    def __init__(self, issued: Issued, highest: int | None = None) -> None:
        self.offered: list[list[bytes]] = []
        self.names: list[bytes | None] = []
        super().__init__(str(issued.key_file), str(issued.cert_file), SSL.TLS_METHOD)  # type: ignore[no-untyped-call]  # Twisted has no types here
        context: SSL.Context = self.getContext()  # type: ignore[no-untyped-call]  # Twisted has no types here
        if highest is not None:
            context.set_cipher_list(b"ALL:@SECLEVEL=0")
            context.set_min_proto_version(SSL.TLS1_VERSION)
            context.set_max_proto_version(highest)
        context.set_alpn_select_callback(self._select)
        context.set_tlsext_servername_callback(
            lambda connection: self.names.append(connection.get_servername())
        )

    def _select(self, _: SSL.Connection, offered: list[bytes]) -> bytes:
        self.offered.append(offered)
        return offered[0]


def ask(
    tls: Tls | None,
    ca_file: Path | None,
    host: str = "localhost",
    says: Callable[[Provider], object] = answer_ok,
    limits: UpstreamLimits = LIMITS,
) -> bytes:
    """Send one request to a provider that speaks ``tls``, or plain TCP, and return the body of its answer."""
    reactor = running_reactor()

    async def run() -> bytes:
        server = Server(says)
        interface = "::1" if ":" in host else "127.0.0.1"
        if tls is None:
            port = reactor.listenTCP(0, server, interface=interface)
        else:
            port = reactor.listenSSL(0, server, tls, interface=interface)
        shown = f"[{host}]" if ":" in host else host
        upstream = build_upstream(
            "main",
            f"https://{shown}:{port.getHost().port}/v1",
            limits,
            reactor,
            None if ca_file is None else str(ca_file),
        )
        try:
            return await body_of(await upstream.open(GET))
        finally:
            assert upstream.active == 0
            upstream.close()
            server.hang_up()
            await port.stopListening()

    return in_reactor(run)


def refusal(tls: Tls | None, ca_file: Path | None, **options: Any) -> UpstreamFailure:
    with pytest.raises(UpstreamFailure) as caught:
        ask(tls, ca_file, **options)
    return caught.value


def test_a_certificate_of_a_trusted_authority_for_the_host_is_good(ca: Authority) -> None:
    tls = Tls(issue(ca, "localhost"))
    assert ask(tls, ca.ca_file) == b"hi"
    assert tls.offered == [[b"http/1.1"]]
    assert tls.names == [b"localhost"]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_certificate_for_an_ip_address_is_good_there(ca: Authority, host: str) -> None:
    assert ask(Tls(issue(ca, host)), ca.ca_file, host=host) == b"hi"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_a_certificate_for_another_host_is_refused(ca: Authority, host: str) -> None:
    failure = refusal(Tls(issue(ca, "other.example", "192.0.2.1")), ca.ca_file, host=host)
    assert (failure.reason, failure.phase) == (Reason.UPSTREAM_BROKEN, Phase.CONNECT)
    assert failure.message.startswith("provider main has a certificate that is not valid for ")


def test_an_expired_certificate_is_refused_and_called_so(ca: Authority) -> None:
    failure = refusal(Tls(issue(ca, "localhost", days=-1)), ca.ca_file)
    assert failure.reason is Reason.UPSTREAM_BROKEN
    assert failure.message.endswith("has expired")


def test_a_certificate_of_nobody_we_trust_is_refused_and_called_so(ca: Authority) -> None:
    failure = refusal(Tls(issue(ca, "localhost")), None)
    assert failure.reason is Reason.UPSTREAM_BROKEN
    assert failure.message.endswith("is not signed by a trusted authority")


def test_a_ca_file_replaces_the_systems_roots(ca: Authority, tmp_path: Path) -> None:
    other = authority(tmp_path, "Another authority")
    refusal(Tls(issue(ca, "localhost")), other.ca_file)


def test_a_ca_file_may_hold_several_authorities(ca: Authority, tmp_path: Path) -> None:
    other = authority(tmp_path, "Another authority")
    both = tmp_path / "both.pem"
    both.write_bytes(other.ca_file.read_bytes() + ca.ca_file.read_bytes())
    assert ask(Tls(issue(ca, "localhost")), both) == b"hi"


def test_tls_1_1_is_refused(ca: Authority) -> None:
    failure = refusal(Tls(issue(ca, "localhost"), highest=SSL.TLS1_1_VERSION), ca.ca_file)
    assert (failure.reason, failure.phase) == (Reason.UPSTREAM_BROKEN, Phase.CONNECT)


def test_tls_1_2_is_good(ca: Authority) -> None:
    assert ask(Tls(issue(ca, "localhost"), highest=SSL.TLS1_2_VERSION), ca.ca_file) == b"hi"


def test_a_provider_that_speaks_no_tls_is_told_in_words(ca: Authority) -> None:
    def greet(provider: Provider) -> None:
        provider.transport.write(b"220 mail.example ESMTP\r\n")

    failure = refusal(None, ca.ca_file, says=greet)
    assert "failed the TLS handshake" in failure.message


def test_a_handshake_that_hangs_is_too_slow(ca: Authority) -> None:
    limits = UpstreamLimits(connect=0.3, first_byte=10.0, idle=10.0)
    failure = refusal(None, ca.ca_file, says=lambda _: None, limits=limits)
    assert (failure.reason, failure.phase) == (Reason.UPSTREAM_TOO_SLOW, Phase.CONNECT)


def test_cancelling_within_the_handshake_closes_the_connection(ca: Authority) -> None:
    async def run() -> None:
        reactor = running_reactor()
        hello: Deferred[None] = Deferred()
        server = Server(lambda _: hello.callback(None))
        port = reactor.listenTCP(0, server, interface="127.0.0.1")
        base_url = f"https://localhost:{port.getHost().port}"
        upstream = build_upstream("main", base_url, LIMITS, reactor, str(ca.ca_file))
        waiting = upstream.open(GET)
        await hello
        waiting.cancel()
        assert upstream.active == 0
        with pytest.raises(CancelledError):
            await waiting
        await server.lost
        await port.stopListening()

    in_reactor(run)


UNTIL_CLOSE = b"HTTP/1.0 200 OK\r\n\r\nhi"


def test_a_body_that_ends_with_an_orderly_close_is_whole(ca: Authority) -> None:
    def close(provider: Provider) -> None:
        provider.transport.write(UNTIL_CLOSE)
        provider.transport.loseConnection()

    assert ask(Tls(issue(ca, "localhost")), ca.ca_file, says=close) == b"hi"


def test_a_body_cut_off_without_tlss_goodbye_breaks(ca: Authority) -> None:
    def cut(provider: Provider) -> None:
        tls = provider.transport
        tls.write(UNTIL_CLOSE)
        running_reactor().callLater(0.05, tls.transport.loseConnection)  # TCP closes, TLS says nothing

    with pytest.raises(GatewayError) as caught:
        ask(Tls(issue(ca, "localhost")), ca.ca_file, says=cut)
    assert caught.value.reason is Reason.UPSTREAM_BROKEN


def serving(
    ca: Authority, says: Callable[[Provider], object], work: Callable[[Upstream, Server], Awaitable[None]]
) -> None:
    """Run ``work`` against a provider that speaks TLS."""
    reactor = running_reactor()

    async def run() -> None:
        server = Server(says)
        port = reactor.listenSSL(0, server, Tls(issue(ca, "localhost")), interface="127.0.0.1")
        url = f"https://localhost:{port.getHost().port}/v1"
        upstream = build_upstream("main", url, LIMITS, reactor, str(ca.ca_file))
        await work_with(upstream, server, port, work)

    in_reactor(run)


@pytest.mark.parametrize("size", [10_000, 60_000, 200_000, 5_000_000])
def test_a_request_of_any_size_arrives_whole_and_the_connection_serves_again(
    ca: Authority, size: int
) -> None:
    async def work(upstream: Upstream, server: Server) -> None:
        request = UpstreamRequest(b"POST", b"/", [], b"x" * size)
        host = upstream.origin.partition("://")[2].encode()
        whole = size + len(render_request_head(b"POST", b"/", [], host, size))

        def counted(provider: Provider) -> None:
            if server.heard % whole == 0:
                answer_ok(provider)

        server.on_data = counted
        for _ in range(2):
            assert await body_of(await upstream.open(request)) == b"hi"
            await deferLater(running_reactor(), SETTLE_SECONDS)
        assert server.heard == 2 * whole
        assert upstream.opened_total == 1

    serving(ca, answer_ok, work)


def test_a_paused_body_is_not_read_from_the_socket(ca: Authority) -> None:
    pieces = [bytes([number % 251]) * 65536 for number in range(300)]

    def flood(provider: Provider) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (65536 * len(pieces))
        provider.transport.write(head + b"".join(pieces))

    async def work(upstream: Upstream, server: Server) -> None:
        answer = await upstream.open(GET)
        sink = Gathered()
        answer.deliver_body(sink)
        for _ in range(5):
            answer.pause()
            seen = len(sink.pieces)
            probe = await upstream.open(GET)  # many turns of the reactor later
            probe.cancel()
            assert len(sink.pieces) == seen
            answer.resume()
        assert await sink.done == b"".join(pieces)

    serving(ca, flood, work)
