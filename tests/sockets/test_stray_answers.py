"""What a provider says unasked reaches nobody, and what TLS says to itself disturbs nobody."""

from __future__ import annotations

import os
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from itertools import count
from pathlib import Path
from random import Random
from select import select
from shutil import which
from socket import SHUT_WR, create_server, socket
from subprocess import PIPE, STDOUT
from termios import TIOCOUTQ
from time import monotonic
from typing import Final, cast

import pytest
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import ISystemHandle
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from mgw.http.head_shape import HeadShapes
from mgw.reactor.deadline import TimerWheel
from mgw.reactor.twisted_fast.tls_transport import TlsTransport
from mgw.upstream.address import address_of
from mgw.upstream.client import Upstream, UpstreamFailure, UpstreamLimits, UpstreamRequest, build_upstream
from mgw.upstream.connect import dialler_to
from mgw.upstream.connection import Connection
from mgw.upstream.pool import SETTLE_SECONDS
from mgw.upstream.tls import client_context
from tests.support.certificates import Authority, Issued, authority, issue
from tests.support.listening import body_of
from tests.support.reactor import in_reactor, running_reactor
from tests.support.stray_provider import start_stray_provider
from tests.support.upstreams import connect_with, send_over
from tests.support.waiting import WAIT_SECONDS

ANSWERS: Final = int(os.environ.get("MGW_STRAY_ANSWERS", "60"))
"""How many second answers each run has to bear; 10000 takes minutes."""
CLIENTS: Final = 8
MOST_PAUSE_SECONDS: Final = 0.008
LIMITS: Final = UpstreamLimits(connect=5.0, first_byte=10.0, idle=10.0)
GET: Final = UpstreamRequest(b"GET", b"/", [])
OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
STRAY: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray"


@pytest.mark.parametrize(
    ("tls", "every"), [(False, 1), (True, 1), (False, 5)], ids=["TCP", "TLS", "now and then"]
)
def test_no_second_answer_goes_to_the_next_client(ca: Authority, tls: bool, every: int) -> None:
    issued = issue(ca, "localhost") if tls else None
    with start_stray_provider(issued, every) as provider:
        url = f"http{'s' if tls else ''}://localhost:{provider.port}"
        upstream = build_upstream("main", url, LIMITS, running_reactor(), str(ca.ca_file) if tls else None)
        came = in_reactor(lambda: ask_often(upstream, ANSWERS * every), seconds=WAIT_SECONDS + ANSWERS)
    assert came["own"] > 0
    assert provider.sent["stray"] > 0
    assert came.keys() <= {"own", "refused"}, came


async def ask_often(upstream: Upstream, requests: int) -> Counter[str]:
    """Have several clients request numbered responses, and count those that are theirs."""
    random, numbers, came = Random(2), count(1), Counter[str]()

    async def ask_one_after_another() -> None:
        while (number := next(numbers)) <= requests:
            try:
                body = await body_of(await upstream.open(UpstreamRequest(b"GET", b"/%d" % number, [])))
                came["own" if body == b"%d" % number else "strange"] += 1
            except UpstreamFailure:
                came["refused"] += 1
            pause = random.choice((0.0, random.uniform(0.0, MOST_PAUSE_SECONDS)))
            await deferLater(running_reactor(), pause)

    await gatherResults([Deferred.fromCoroutine(ask_one_after_another()) for _ in range(CLIENTS)])
    upstream.close()
    return came


class Peer:
    """A provider in a thread of its own; it does what the test says, when the test says so."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._listener = create_server(("127.0.0.1", 0))
        self._context = context
        self.port: int = self._listener.getsockname()[1]
        self.connections: list[socket] = []

    def accept(self) -> socket:
        connection, _ = self._listener.accept()
        if self._context is not None:
            connection = self._context.wrap_socket(connection, server_side=True)
        connection.settimeout(10)
        self.connections.append(connection)
        return connection

    def close(self) -> None:
        for each in (*self.connections, self._listener):
            each.close()


@contextmanager
def upstream_to(folder: Path, *, tls: bool) -> Iterator[tuple[Upstream, Peer]]:
    context = None
    ca_file = None
    if tls:
        ca = authority(folder)
        issued = issue(ca, "localhost")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(issued.cert_file, issued.key_file)
        ca_file = str(ca.ca_file)
    peer = Peer(context)
    upstream = build_upstream(
        "main", f"http{'s' if tls else ''}://localhost:{peer.port}", LIMITS, running_reactor(), ca_file
    )
    try:
        yield upstream, peer
    finally:
        in_reactor(lambda: _close(upstream))
        peer.close()


async def _close(upstream: Upstream) -> None:
    upstream.close()


def served(peer: Peer, *answers: bytes) -> threading.Thread:
    """Accept a connection and answer requests on it, one after the other."""

    def serve() -> None:
        connection = peer.accept()
        for answer in answers:
            connection.recv(65536)
            connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def wait_until_delivered(connection: socket) -> None:
    """Wait until the other side's kernel has all that was sent; its program may not have read it."""
    deadline = monotonic() + 10.0
    unsent = bytearray(4)
    while True:
        ioctl(connection.fileno(), TIOCOUTQ, unsent)
        if not any(unsent):
            return
        assert monotonic() < deadline


async def ask(upstream: Upstream) -> bytes:
    return await body_of(await upstream.open(GET))


async def settle() -> None:
    """Wait until a connection that came to rest may be lent again."""
    await deferLater(running_reactor(), SETTLE_SECONDS)


@pytest.mark.parametrize("tls", [False, True], ids=["TCP", "TLS"])
def test_what_lies_on_a_connection_is_found_before_the_reactor_reads_it(tmp_path: Path, tls: bool) -> None:
    with upstream_to(tmp_path, tls=tls) as (upstream, peer):
        first = served(peer, OK)
        assert in_reactor(lambda: ask(upstream)) == b"hi"
        first.join()
        in_reactor(settle)
        second = served(peer, OK)

        async def lend() -> bytes:
            peer.connections[0].sendall(STRAY)
            wait_until_delivered(peer.connections[0])  # while this turn of the reactor lasts
            return await ask(upstream)

        assert in_reactor(lend) == b"hi"
        second.join()
        assert upstream.opened_total == 2


@pytest.mark.parametrize("tls", [False, True], ids=["TCP", "TLS"])
def test_a_connection_that_the_provider_has_closed_is_not_lent(tmp_path: Path, tls: bool) -> None:
    with upstream_to(tmp_path, tls=tls) as (upstream, peer):
        first = served(peer, OK)
        assert in_reactor(lambda: ask(upstream)) == b"hi"
        first.join()
        in_reactor(settle)
        second = served(peer, OK)

        async def lend() -> bytes:
            connection = peer.connections[0]
            if isinstance(connection, ssl.SSLSocket):
                connection.settimeout(0)
                with pytest.raises(ssl.SSLWantReadError):
                    connection.unwrap()  # says goodbye, and does not wait for ours
            connection.shutdown(SHUT_WR)
            wait_until_delivered(connection)
            return await ask(upstream)

        assert in_reactor(lend) == b"hi"
        second.join()


class RecordingOwner:
    """What a connection tells its pool."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_released(self, connection: Connection) -> None:
        """Not asked for here."""

    def on_closed(self, connection: Connection) -> None:
        self.told.append("closed")


class HeldBack:
    """The server's side of TLS 1.3, whose tickets wait until they are sent."""

    def __init__(self, context: ssl.SSLContext, connection: socket) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.connection = connection
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.send()
                self.incoming.write(connection.recv(65536))

    def send(self) -> None:
        """Send what waits."""
        self.connection.sendall(self.outgoing.read())


def connected(port: int, ca: Authority, owner: RecordingOwner) -> Connection:
    """Return a connection over TLS whose handshake is done."""

    async def connect() -> Connection:
        reactor = running_reactor()
        context = client_context(str(ca.ca_file))
        dialler = dialler_to(address_of(f"https://localhost:{port}"), reactor, context)
        factory = Factory.forProtocol(
            lambda: Connection("main", LIMITS, TimerWheel(reactor), owner, HeadShapes())
        )
        connection = cast(Connection, await connect_with(dialler, factory))
        await connection.when_ready()
        return connection

    return in_reactor(connect)


def test_session_tickets_that_come_late_leave_a_connection_good(tmp_path: Path) -> None:
    ca = authority(tmp_path)
    issued = issue(ca, "localhost")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(issued.cert_file, issued.key_file)
    peer, owner, servers = Peer(None), RecordingOwner(), list[HeldBack]()
    thread = threading.Thread(target=lambda: servers.append(HeldBack(context, peer.accept())), daemon=True)
    thread.start()
    connection = connected(peer.port, ca, owner)
    thread.join()
    server = servers[0]

    async def look(early: bytes) -> bool:
        if early:
            server.tls.write(early)
        assert server.outgoing.pending
        server.send()
        wait_until_delivered(server.connection)  # while this turn of the reactor lasts
        return connection.check_idle()

    assert in_reactor(lambda: look(b""))
    assert owner.told == []
    assert not in_reactor(lambda: look(STRAY))
    assert owner.told == ["closed"]
    peer.close()


@contextmanager
def openssl_server(issued: Issued) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """OpenSSL's own server for one connection: it sends what it is told, and shows what it hears."""
    with create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    files = ["-cert", str(issued.cert_file), "-key", str(issued.key_file)]
    command = ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-naccept", "1", "-crlf", *files]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=STDOUT, text=True, bufsize=1) as process:
        try:
            read_until(process, "ACCEPT")
            yield port, process
        finally:
            process.kill()


def handle_of(connection: Connection) -> socket:
    """Return the socket below TLS."""
    tls = connection.transport
    assert isinstance(tls, TlsTransport)
    handle: socket = cast(ISystemHandle, tls.transport).getHandle()
    return handle


def read_until(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if word in line:
            return
    raise AssertionError(f"OpenSSL's server ended before it said {word!r}")


@pytest.mark.skipif(which("openssl") is None, reason="only OpenSSL's own program sends key updates")
def test_key_updates_leave_an_idle_connection_good(tmp_path: Path) -> None:
    ca = authority(tmp_path)
    owner = RecordingOwner()
    with openssl_server(issue(ca, "localhost")) as (port, process):
        connection = connected(port, ca, owner)
        commands, handle = process.stdin, handle_of(connection)
        assert commands is not None

        async def exchange() -> bytes:
            commands.write("K\n")  # a key update that asks for ours
            assert select([handle], [], [], 10)[0]  # while this turn of the reactor lasts
            assert connection.check_idle()
            response = send_over(connection, b"GET", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"")
            await deferToThread(read_until, process, "GET / HTTP/1.1")
            commands.write("HTTP/1.1 200 OK\nContent-Length: 4\n\nhi\n")
            return await body_of(await response)

        assert in_reactor(exchange) == b"hi\r\n"
        assert owner.told == []


@pytest.mark.parametrize("tls", [False, True], ids=["TCP", "TLS"])
def test_what_stands_behind_an_answer_goes_with_its_connection(tmp_path: Path, tls: bool) -> None:
    with upstream_to(tmp_path, tls=tls) as (upstream, peer):
        thread = served(peer, OK, OK + STRAY)
        for _ in range(2):
            assert in_reactor(lambda: ask(upstream)) == b"hi"
            in_reactor(settle)
        assert upstream.idle == 0
        thread.join()
        served(peer, OK)
        assert in_reactor(lambda: ask(upstream)) == b"hi"
