"""A web server with the dashboard, in memory, and a browser or a program that uses it."""

from __future__ import annotations

from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import succeed
from twisted.internet.testing import StringTransport
from twisted.logger import LogPublisher

from mgw.clients.key_rows import KeyRow
from mgw.clients.limits import RowState
from mgw.config.key_settings import NamedKeySettings
from mgw.dashboard.gateway_view import GatewayView
from mgw.dashboard.switch import DashboardSwitch
from mgw.nouns.token_flaw import TokenFlaw
from mgw.usage.journal import Sink
from mgw.web.gateway_request import endpoint_of
from tests.support.channels import channel_of
from tests.support.usage import AtOnce
from tests.support.web_servers import WebServerHarness

Address = IPv4Address | IPv6Address | UNIXAddress
HERE = IPv4Address("TCP", "127.0.0.1", 50000)
AWAY = IPv4Address("TCP", "192.0.2.7", 50000)


class Response:
    """A response as it came."""

    def __init__(self, data: bytes) -> None:
        head, _, self.body = data.partition(b"\r\n\r\n")
        line, *fields = head.split(b"\r\n")
        self.status = int(line.split(b" ")[1])
        self.headers = {
            name.decode().lower(): value.strip().decode()
            for name, _, value in (field.partition(b":") for field in fields)
        }

    @property
    def cookie(self) -> str:
        """The cookie that was set, without its rules."""
        return self.headers["set-cookie"].partition(";")[0]


class OpenFeed:
    """A client that reads events."""

    def __init__(self, transport: StringTransport) -> None:
        self._transport = transport
        assert Response(self._read()).status == 200
        assert not self.has_ended

    def _read(self) -> bytes:
        data: bytes = self._transport.value()
        return data

    @property
    def has_ended(self) -> bool:
        """Whether the response is complete."""
        return self._read().endswith(b"\r\n0\r\n\r\n")


class DashboardHarness(WebServerHarness):
    """A web server whose dashboard is on."""

    def __init__(self, text: str, peer: Address = AWAY, wall: float = 1_800_000_000.0) -> None:
        self.peer: Address = peer
        self.wall = wall
        self.rejected: list[str] = []
        self.tokens_rejected: list[tuple[str, TokenFlaw]] = []
        self.sinks: list[Sink] = []
        self.limits: list[RowState] = []
        self.keys: list[KeyRow] = []
        super().__init__(text)
        self.file_keys: list[NamedKeySettings] = []
        self.switch = DashboardSwitch(
            GatewayView(
                reactor=self.clock,
                wall=lambda: self.wall + self.clock.seconds(),
                generation=lambda: self.server.generation,
                rejected=self.rejected.append,
                exchanges=lambda: self.server.exchanges,
                facts=lambda: self.server.facts,
                sessions=lambda: self.server.sessions,
                log=LogPublisher(),
                add_sink=self.sinks.append,
                tokens=lambda: self.server.gate.tokens,
                token_rejected=lambda issuer, flaw: self.tokens_rejected.append((issuer, flaw)),
                file_keys=lambda: self.file_keys,
                query_thread=AtOnce(),
                limits=lambda: succeed(self.limits),
                keys=lambda: self.keys,
            )
        )
        self.switch.follow()
        self.operations.dashboard = endpoint_of(self.switch.serve)

    def connect(self) -> None:
        self.transport = StringTransport(peerAddress=self.peer)
        self.channel = channel_of(self.factory)
        self.channel.makeConnection(self.transport)  # type: ignore[no-untyped-call]  # Twisted's

    def ask(
        self, path: str, *headers: str, method: str = "GET", body: bytes = b"", host: str = "gw.example"
    ) -> Response:
        """Send one request on a connection of its own."""
        self.ask_later(path, *headers, method=method, body=body, host=host)
        while not self.received() and any(
            call.getTime() == self.clock.seconds() for call in self.clock.getDelayedCalls()
        ):
            self.clock.advance(0)  # an answer that takes some turns of the reactor
        return Response(self.received())

    def ask_later(
        self, path: str, *headers: str, method: str = "GET", body: bytes = b"", host: str = "gw.example"
    ) -> None:
        """Send one request, whose response may come later."""
        self.connect()
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def read_events(self, *headers: str, host: str = "gw.example") -> OpenFeed:
        """Begin to read events, on a connection of its own."""
        self.ask("/v1/dashboard/events", *headers, host=host)
        return OpenFeed(self.transport)

    def reload(self, text: str) -> None:
        """Use another configuration."""
        self.server.use(WebServerHarness(text).generation)
        self.switch.follow()

    def sign_in(self, key: str) -> Response:
        """Send a key as the script of the page does."""
        return self.ask("/ui/login", method="POST", body=b'{"key":"%b"}' % key.encode())
