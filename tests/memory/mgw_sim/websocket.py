"""A client of the simulator's WebSockets in memory; it reads frames with wsproto, and as bytes."""

import json
from typing import Any, Final, cast

from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, TextMessage

from mgw_sim.http.connection import SimulatorConnection
from mgw_sim.recording import RecordedRequest
from mgw_sim.service import site

REALTIME: Final = "/v1/realtime?model="
LIVE: Final = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent?key=k"
KEY: Final = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT: Final = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
"""RFC 6455 1.3 has this pair."""


class Wire(StringTransport):
    """A TCP transport that remembers being aborted, and being paused."""

    aborted = False

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Asked of every TCP transport."""

    def abortConnection(self) -> None:
        self.aborted = True


class WebSocketClient:
    """Upgrades at once; ``status`` says how that went."""

    def __init__(self, target: str, **headers: str) -> None:
        self.clock = Clock()
        self.factory = site(self.clock)
        self.transport = Wire()  # type: ignore[no-untyped-call]  # Twisted's own has no types
        self.connection: SimulatorConnection = self.factory.buildProtocol(None)
        self.connection.transport = cast(ITCPTransport, self.transport)  # as far as it is used
        self.connection.connectionMade()
        self.frames = Connection(ConnectionType.CLIENT)
        lines = {
            "Host": "h",
            "Authorization": "Bearer k",
            "Upgrade": "websocket",
            "Connection": "keep-alive, Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": KEY,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
        self.connection.dataReceived(f"GET {target} HTTP/1.1\r\n{head}\r\n".encode())
        self.head, _, self.rest = self.take().partition(b"\r\n\r\n")

    @property
    def status(self) -> int:
        return int(self.head.split(b" ")[1])

    @property
    def request(self) -> RecordedRequest:
        return self.factory.recorder.requests[-1]

    def take(self) -> bytes:
        """What was written since the last time."""
        data: bytes = self.transport.value()  # type: ignore[no-untyped-call]  # Twisted's own has no types
        self.transport.clear()  # type: ignore[no-untyped-call]  # Twisted's own has no types
        return data

    def events(self) -> list[Event]:
        """What has come since the last time, frame by frame."""
        self.frames.receive_data(self.rest + self.take())
        self.rest = b""
        return list(self.frames.events())

    def messages(self) -> list[Any]:
        """The JSON of the messages that have come, each in one frame."""
        found = self.events()
        assert all(isinstance(event, TextMessage | BytesMessage) for event in found), found
        return [json.loads(event.data) for event in found if isinstance(event, TextMessage | BytesMessage)]

    def send_event(self, event: Event) -> None:
        """Send a frame."""
        self.connection.dataReceived(self.frames.send(event))

    def say(self, value: Any) -> None:
        """Send JSON as a text message."""
        self.send_event(TextMessage(json.dumps(value)))

    def ask(self, *values: Any) -> list[Any]:
        """Send some JSON; returns the answers to all of it."""
        for value in values:
            self.say(value)
        return self.messages()

    def leave(self) -> None:
        """Close the TCP connection."""
        self.connection.connectionLost(Failure(ConnectionDone()))

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Begin the closing handshake."""
        self.send_event(CloseConnection(code=code, reason=reason))

    def ping(self, payload: bytes) -> None:
        self.send_event(Ping(payload=payload))
