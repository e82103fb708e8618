"""Clients of WebSockets on asyncio's streams, by the hundred: every byte is the test's own.

Nothing here shares code with the gateway.  What a session waits for has a deadline.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from tests.support.waiting import WAIT_SECONDS

KEY: Final = b"\x01\x02\x03\x04"
TEXT: Final = 0x81
CLOSE: Final = 0x88
REALTIME: Final = "/v1/realtime?model="


def frame(first: int, payload: bytes = b"", key: bytes = KEY) -> bytes:
    """Return a frame as a client sends it."""
    size = len(payload)
    length = bytes([size | 0x80]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    masked = bytes(byte ^ key[at % 4] for at, byte in enumerate(payload))
    return bytes([first]) + length + key + masked


def close_frame(code: int | None = None, reason: str = "") -> bytes:
    """Return a client's close frame."""
    return frame(CLOSE, b"" if code is None else code.to_bytes(2, "big") + reason.encode())


def handshake(target: str, key: str | None = None, *headers: str) -> bytes:
    """Return the request for an upgrade."""
    lines = [
        f"GET {target} HTTP/1.1",
        "Host: gateway",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        *([] if key is None else [f"Authorization: Bearer {key}"]),
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


@dataclass
class RawSession:
    """One client."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def head(self) -> bytes:
        """Return the head of the response."""
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)

    async def status(self) -> int:
        """Return the status of the response."""
        return int((await self.head()).split(b" ")[1])

    async def frame(self) -> tuple[int, bytes]:
        """Return the next frame: its first byte, and its payload; (0, b"") at the end."""
        return await asyncio.wait_for(self._frame(), WAIT_SECONDS)

    async def _frame(self) -> tuple[int, bytes]:
        try:
            first, length = await self.reader.readexactly(2)
            if length == 126:
                length = int.from_bytes(await self.reader.readexactly(2), "big")
            elif length == 127:
                length = int.from_bytes(await self.reader.readexactly(8), "big")
            return first, await self.reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0, b""

    async def ending(self) -> int | None:
        """Return the code of the close frame, 1005 for none in it; ``None`` if the connection just ends."""
        while True:
            first, payload = await self.frame()
            if first == CLOSE:
                return int.from_bytes(payload[:2], "big") if payload else 1005
            if not first:
                return None

    async def is_over(self) -> None:
        """Wait until the connection has ended."""
        while (await self.frame())[0]:
            pass

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.writer.write(data)

    def half_close(self) -> None:
        """Close the side that sends."""
        self.writer.write_eof()

    def reset(self) -> None:
        """Reset the connection."""
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[RawSession]:
    """Connect; the connection is closed with the block."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield RawSession(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def asked(port: int, target: str, key: str | None = None) -> AsyncIterator[RawSession]:
    """Connect, and ask for an upgrade."""
    async with connected(port) as session:
        session.send(handshake(target, key))
        yield session
