"""The promises of mgw.upstream.request that need sockets, threads and a disk: memory, TLS, early answers."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from OpenSSL import SSL
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IListeningPort
from twisted.internet.ssl import DefaultOpenSSLContextFactory
from twisted.internet.task import Clock, deferLater
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from mgw.bodies.budget import BodyBudget
from mgw.bodies.source import BodySource, edit_source
from mgw.bodies.spool import Spool, SpooledBody
from mgw.nouns.errors import GatewayError
from mgw.upstream.client import Upstream, UpstreamLimits, UpstreamRequest, build_upstream
from tests.support.bodies import patterned, spooled
from tests.support.certificates import authority, issue
from tests.support.listening import Provider, Server, body_of
from tests.support.reactor import in_reactor, running_reactor

T = TypeVar("T")
MIB = 1024 * 1024
LIMITS = UpstreamLimits(connect=5.0, first_byte=20.0, idle=20.0)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    """Threads for the disk."""
    threads = ThreadPool(0, 3, "bodies")
    threads.start()
    yield threads
    threads.stop()


async def on_disk(directory: Path, pool: ThreadPool, body: bytes) -> tuple[SpooledBody, BodySource]:
    """Spool a body."""
    reactor = running_reactor()

    def run(work: Callable[[], T], /) -> Deferred[T]:
        return deferToThreadPool(reactor, pool, work)

    errors: list[GatewayError] = []
    spool = Spool(str(directory), run, BodyBudget(1 << 30), Clock())
    spooling = spool.begin(
        pause=lambda: None, resume=lambda: None, failed=errors.append, memory=BodyBudget(1 << 30)
    )
    for start in range(0, len(body), 65536):
        spooling.write(body[start : start + 65536])
    source = await spooling.finish()
    assert not isinstance(source, bytes)
    assert not errors
    return spooling, source


class Digest:
    """A provider that answers when it has heard all of a request."""

    def __init__(self, length: int) -> None:
        self.hash = hashlib.sha256()
        self.left = length
        self.head = b""

    def take(self, provider: Provider, data: bytes) -> None:
        if b"\r\n\r\n" not in self.head:
            self.head += data
            _, _, data = self.head.partition(b"\r\n\r\n")
        self.hash.update(data)
        self.left -= len(data)
        if self.left == 0:
            provider.transport.write(OK)


class Listening(Server):
    """Hands on what it hears."""

    def __init__(self, take: Callable[[Provider, bytes], None]) -> None:
        super().__init__(lambda provider: None)
        self.take = take

    def buildProtocol(self, _: object) -> Provider:
        server = self

        class Hearing(Provider):
            def dataReceived(self, data: bytes) -> None:
                server.heard += len(data)
                server.take(self, data)

        return Hearing(self)


def listen_tcp(server: Listening) -> tuple[IListeningPort, Upstream]:
    reactor = running_reactor()
    port = reactor.listenTCP(0, server, interface="127.0.0.1")
    return port, build_upstream("main", f"http://127.0.0.1:{port.getHost().port}/v1", LIMITS, reactor)


def listen_tls(server: Listening, folder: Path) -> tuple[IListeningPort, Upstream]:
    reactor = running_reactor()
    ca = authority(folder)
    issued = issue(ca, "localhost")
    context = DefaultOpenSSLContextFactory(str(issued.key_file), str(issued.cert_file), SSL.TLS_METHOD)
    port = reactor.listenSSL(0, server, context, interface="127.0.0.1")
    url = f"https://localhost:{port.getHost().port}/v1"
    return port, build_upstream("main", url, LIMITS, reactor, str(ca.ca_file))


@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
def test_a_large_body_goes_up_with_little_memory_even_to_a_slow_provider(
    tmp_path: Path, pool: ThreadPool, tls: bool
) -> None:
    body = patterned(30 * MIB)
    edit = ((10 * MIB, 10 * MIB + 5), b"another")
    expected = hashlib.sha256(body[: 10 * MIB] + b"another" + body[10 * MIB + 5 :]).digest()
    reactor = running_reactor()
    peaks: list[int] = []

    async def run() -> None:
        digest = Digest(len(body) + 2)

        def take(provider: Provider, data: bytes) -> None:
            digest.take(provider, data)
            if digest.left and digest.left % 7 == 0:
                provider.transport.pauseProducing()
                reactor.callLater(0.01, provider.transport.resumeProducing)

        server = Listening(take)
        port, upstream = listen_tls(server, tmp_path) if tls else listen_tcp(server)
        spooling, source = await on_disk(tmp_path / "spool", pool, body)
        tracemalloc.start()
        answer = await upstream.open(UpstreamRequest(b"POST", b"/v1/files", [], edit_source(source, [edit])))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert await body_of(answer) == b"hi"
        assert digest.hash.digest() == expected
        spooling.close()
        upstream.close()
        server.hang_up()
        await upstream.when_closed()
        await maybeDeferred(port.stopListening)

    in_reactor(run)
    assert peaks[0] < 4 * MIB


@pytest.mark.parametrize("leaves", ["stays", "closes", "aborts"])
def test_an_early_refusal_reaches_the_client_though_the_provider_reads_no_more(
    tmp_path: Path, pool: ThreadPool, leaves: str
) -> None:
    body = patterned(30 * MIB)
    reactor = running_reactor()
    said = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"

    async def run() -> None:
        def take(provider: Provider, data: bytes) -> None:
            if server.heard == len(data):
                provider.transport.write(said)
                provider.transport.pauseProducing()
                if leaves == "closes":
                    provider.transport.loseConnection()
                elif leaves == "aborts":
                    reactor.callLater(0.02, provider.transport.abortConnection)

        server = Listening(take)
        port = reactor.listenTCP(0, server, interface="127.0.0.1")
        upstream = build_upstream("main", f"http://127.0.0.1:{port.getHost().port}/v1", LIMITS, reactor)
        spooling, source = await on_disk(tmp_path / "spool", pool, body)
        answer = await upstream.open(UpstreamRequest(b"POST", b"/v1/files", [], source))
        assert answer.status == 413
        assert await body_of(answer) == b"no"
        spooling.close()
        await deferLater(reactor, 0.05, lambda: None)
        assert not spooled(tmp_path / "spool")
        assert upstream.active == upstream.idle == 0
        upstream.close()
        server.hang_up()
        await upstream.when_closed()
        await port.stopListening()

    in_reactor(run)
