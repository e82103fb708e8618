"""The channel behind TLS: the same conversation, and connections that end."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from OpenSSL import SSL
from twisted.internet.error import ConnectionDone
from twisted.internet.ssl import PrivateCertificate
from twisted.internet.task import Clock
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

from mgw.web.listener import ChannelFactory
from tests.support.certificates import authority, issue
from tests.support.channels import (
    LIMITS,
    RecordedRequest,
    RecordingHandler,
    TcpTransport,
    answer,
    chunked,
    get,
)


class TlsLine:
    """A client that speaks TLS to a channel, all in memory."""

    def __init__(self, folder: Path, handler: RecordingHandler) -> None:
        self.clock = Clock()
        self.handler = handler
        self.factory = ChannelFactory(handler, self.clock, LIMITS)
        issued = issue(authority(folder), "gateway")
        pem = issued.cert_file.read_text() + issued.key_file.read_text()
        options = PrivateCertificate.loadPEM(pem).options()
        wrapped = TLSMemoryBIOFactory(options, False, self.factory, self.clock)
        self.transport = TcpTransport()
        self.server = wrapped.buildProtocol(None)
        self.server.makeConnection(self.transport)
        self.client = SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD), None)
        self.client.set_connect_state()
        self.closed = False
        self._pump()

    def send(self, data: bytes) -> None:
        self.client.send(data)
        self._pump()

    def take(self) -> bytes:
        self.clock.advance(0)
        self._pump()
        data = b""
        try:
            while True:
                data += self.client.recv(65536)
        except SSL.WantReadError:
            return data
        except SSL.ZeroReturnError:
            self.closed = True
            return data

    def _pump(self) -> None:
        for _ in range(4):
            with suppress(SSL.WantReadError):
                self.client.do_handshake()
            with suppress(SSL.WantReadError):
                self.server.dataReceived(self.client.bio_read(1 << 20))
            data = self.transport.value()
            self.transport.clear()
            if data:
                self.client.bio_write(data)


@pytest.fixture
def line(tmp_path: Path) -> TlsLine:
    return TlsLine(tmp_path, RecordingHandler(RecordedRequest.echo))


def test_requests_are_served_and_known_to_be_secure(line: TlsLine) -> None:
    line.send(chunked(b"body") + get("/two"))
    assert line.take() == answer(b"POST / body") + answer(b"GET /two ")
    assert line.handler.requests[0].channel.is_secure
    assert not line.closed


def test_the_end_of_a_connection_is_told_and_bounded(line: TlsLine) -> None:
    line.send(get("/", "Connection: close"))
    assert line.take() == answer(b"GET / ", 200, "Connection: close")
    assert line.closed
    assert not line.transport.disconnected
    line.clock.pump([15] * 25)
    assert line.transport.disconnected
    line.server.connectionLost(Failure(ConnectionDone()))
    assert line.clock.getDelayedCalls() == []


def test_a_client_that_has_gone_leaves_nothing_behind(line: TlsLine) -> None:
    line.handler.answer = None
    line.send(get())
    line.server.connectionLost(Failure(ConnectionDone()))
    assert line.handler.requests[0].events == ["ended", "disconnected"]
    assert line.clock.getDelayedCalls() == []
    line.handler.requests[0].say(b"late")
    line.handler.requests[0].channel.abort()


def test_an_aborted_answer_is_visibly_broken(line: TlsLine) -> None:
    line.handler.answer = None
    line.send(get())
    channel = line.handler.requests[0].channel
    channel.start(200, b"OK", [])
    channel.write(b"half")
    channel.abort()
    assert line.transport.disconnected
    assert not line.take().endswith(b"0\r\n\r\n")
