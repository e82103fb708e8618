"""A realtime session in memory: both of its ends are played by the test, and its clock is."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha1
from typing import Final

from mgw.exchange.untold import Estimates
from mgw.wire.whole_frames import CLOSE, mask
from tests.support.configs import THREE_FAMILIES
from tests.support.raw_sessions import frame, handshake
from tests.support.upstreams import ProviderConnection
from tests.support.web_servers import WebServerHarness

REALTIME: Final = "/v1/realtime?model=m"
RESPONSES: Final = "/v1/responses"
LIVE: Final = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
MESSAGE: Final = frame(0x81, b'{"type":"response.create"}')
FIRST_MESSAGE: Final = frame(0x81, b'{"type":"response.create","model":"main/m"}')
SETUP: Final = frame(0x82, b'{"setup":{"model":"models/gem/m"}}')
_ACCEPT_KEY: Final = re.compile(rb"(?i)sec-websocket-key: (\S+)\r\n")
_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@dataclass(frozen=True)
class SeenFrame:
    """A frame that one end was sent."""

    first: int
    payload: bytes

    @property
    def code(self) -> int | None:
        """The code of a close frame."""
        assert self.first == 0x80 | CLOSE, self
        return int.from_bytes(self.payload[:2], "big") if self.payload else None


def spoken(payload: bytes, first: int = 0x81) -> bytes:
    """Return a frame as a provider sends it."""
    size = len(payload)
    length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
    return bytes([first]) + length + payload


def closing(code: int, reason: bytes = b"") -> bytes:
    """Return a provider's close frame."""
    return spoken(code.to_bytes(2, "big") + reason, 0x88)


class SessionHarness(WebServerHarness):
    """A client that has asked for a session, and the provider of it.

    :param key: the client's bearer token.
    :param headers: what else it sends, a line each.
    """

    def __init__(
        self,
        path: str = REALTIME,
        text: str = THREE_FAMILIES,
        key: str | None = "edge",
        *headers: str,
        estimates: Estimates | None = None,
    ) -> None:
        super().__init__(text)
        self.server.estimates = estimates
        self.seen_by_provider = b""
        self._taken = 0
        self.channel.dataReceived(handshake(path, key, *headers))

    @property
    def provider(self) -> ProviderConnection:
        """The provider's end of the newest connection."""
        return self.pipeline.connection

    def switch(self, more: bytes = b"") -> None:
        """Have the provider switch protocols; the client's 101 is taken."""
        asked = self.provider.received
        found = _ACCEPT_KEY.search(asked)
        assert found is not None, asked
        self._taken = len(asked)
        accept = b64encode(sha1(found[1] + _MAGIC).digest())
        head = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept
        self.provider.send(b"HTTP/1.1 101 Switching Protocols\r\n" + head + b"\r\n\r\n" + more)

    def take_head(self) -> bytes:
        """Return the head of the response that the client has, and forget it."""
        head, end, rest = self.received().partition(b"\r\n\r\n")
        assert end, head
        self.transport.clear()
        self.transport.io.write(rest)
        return head

    def take_client_bytes(self) -> bytes:
        """Return what the client has been sent since the last time."""
        data = self.received()
        self.transport.clear()
        return data

    def take_provider_bytes(self) -> bytes:
        """Return what the provider has been sent since the last time."""
        data = self.provider.received[self._taken :]
        self._taken += len(data)
        return data

    def client_frames(self) -> list[SeenFrame]:
        """Return the frames that the client has been sent since the last time."""
        return frames_of(self.take_client_bytes(), masked=False)

    def provider_frames(self) -> list[SeenFrame]:
        """Return the frames that the provider has been sent since the last time."""
        return frames_of(self.take_provider_bytes(), masked=True)

    def turn(self) -> None:
        """Let every connection that was closed come to its end, as the reactor's next turn does."""
        self.pipeline.endpoint.settle()
        if self.transport.disconnecting and self.transport.connected:
            self.transport.connected = False
            self.leave()

    def is_free(self) -> bool:
        """Whether nothing is held: no slot, request, user of the generation or bytes."""
        held = (self.server.sessions.count, self.server.in_flight, self.generation.in_use)
        return held == (0, 0, 0) and self.server.budget.held == 0


def opened(text: str = THREE_FAMILIES, path: str = REALTIME) -> SessionHarness:
    """Return a session that is open."""
    harness = SessionHarness(path, text)
    harness.switch()
    assert harness.take_head().startswith(b"HTTP/1.1 101 ")
    return harness


def frames_of(data: bytes, *, masked: bool) -> list[SeenFrame]:
    """Return the frames that some bytes are."""
    found, at = [], 0
    while at < len(data):
        first, size = data[at], data[at + 1] & 0x7F
        assert bool(data[at + 1] & 0x80) is masked
        at += 2
        if size == 126:
            size, at = int.from_bytes(data[at : at + 2], "big"), at + 2
        elif size == 127:
            size, at = int.from_bytes(data[at : at + 8], "big"), at + 8
        key, at = (data[at : at + 4], at + 4) if masked else (b"", at)
        payload = data[at : at + size]
        assert len(payload) == size
        found.append(SeenFrame(first, mask(payload, key) if key else payload))
        at += size
    return found
