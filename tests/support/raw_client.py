"""A client on plain sockets that sends any bytes, for tests of faults.

Nothing here shares code with the gateway: what both sides got wrong alike would go unseen.  Every wait has a
deadline, and what happens is told by threads and conditions, never by the clock.
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import dataclass, field
from typing import Any, Final, Self

from tests.support.waiting import WAIT_SECONDS

HOST: Final = b"Host: gateway"
CHAT: Final = "/v1/chat/completions"


@dataclass(frozen=True)
class RawResponse:
    """One response as it was received, its chunks joined."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    whole: bool
    """Whether the body ended as the head had announced."""
    interim: list[int] = field(default_factory=list)
    """The statuses of the 1xx answers before it."""

    def values(self, lower_name: bytes) -> list[bytes]:
        """Return every value of a header, in order."""
        return [value for name, value in self.headers if name.lower() == lower_name]

    def value(self, lower_name: bytes) -> bytes | None:
        """Return the first value of a header, or ``None``."""
        return next(iter(self.values(lower_name)), None)

    def json(self) -> Any:
        """Return the body, parsed."""
        return json.loads(self.body)


class Incoming:
    """What arrives on a socket, cut as HTTP/1.1 says; ``ended`` once nothing more can come."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._held = bytearray()
        self.ended = False
        self.reset = False

    def more(self) -> bool:
        """Wait for more bytes; say whether any came before the end of the connection."""
        if self.ended:
            return False
        try:
            data = self._socket.recv(65536)
        except (ConnectionResetError, BrokenPipeError):
            self.ended = self.reset = True
            return False
        except TimeoutError:
            raise AssertionError(f"nothing more came behind {bytes(self._held[-200:])!r}") from None
        self._held += data
        self.ended = not data
        return not self.ended

    def until(self, end: bytes) -> bytes | None:
        """Take what comes up to and with ``end``; ``None`` where the connection ends before it."""
        while (at := self._held.find(end)) < 0:
            if not self.more():
                return None
        return self._take(at + len(end))

    def up_to(self, count: int) -> bytes:
        """Take ``count`` bytes, or fewer where the connection ends before them."""
        while len(self._held) < count and self.more():
            pass
        return self._take(min(count, len(self._held)))

    def rest(self) -> bytes:
        """Take everything up to the end of the connection."""
        while self.more():
            pass
        return self._take(len(self._held))

    def head(self) -> tuple[bytes, list[tuple[bytes, bytes]]] | None:
        """Take a first line and its headers; ``None`` where the connection ends before they are complete."""
        block = self.until(b"\r\n\r\n")
        if block is None:
            return None
        first, *lines = block[:-4].split(b"\r\n")
        pairs = [line.partition(b":") for line in lines]
        return first, [(name, value.strip()) for name, _, value in pairs]

    def chunks(self) -> tuple[bytes, bool]:
        """Take a chunked body; return it, and whether its last chunk came."""
        pieces: list[bytes] = []
        while (line := self.until(b"\r\n")) is not None:
            size = int(line, 16)
            if not size:
                return b"".join(pieces), self.until(b"\r\n") == b"\r\n"
            pieces.append(self.up_to(size))
            if self.up_to(2) != b"\r\n":
                break
        return b"".join(pieces), False

    def _take(self, count: int) -> bytes:
        taken = bytes(self._held[:count])
        del self._held[:count]
        return taken


def find_value(headers: list[tuple[bytes, bytes]], lower_name: bytes) -> bytes | None:
    return next((value for name, value in headers if name.lower() == lower_name), None)


class RawClient:
    """A client's connection; leaving the ``with`` block closes it.

    :param receive_buffer: bytes of the kernel's receive buffer, for a client that takes little.
    """

    def __init__(self, port: int, *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(WAIT_SECONDS)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.incoming = Incoming(self.socket)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> bool:
        """Send it all; say whether the other side let us."""
        try:
            self.socket.sendall(data)
        except (ConnectionResetError, BrokenPipeError):
            return False
        return True

    def read_response(self, method: str = "POST") -> RawResponse:
        """Take the next answer, to a request of this method."""
        interim: list[int] = []
        while True:
            found = self.incoming.head()
            assert found is not None, "the connection ended before an answer"
            first, headers = found
            status = int(first.split(b" ")[1])
            if status >= 200:
                return self._with_body(status, headers, interim, bodiless=method == "HEAD")
            interim.append(status)

    def no_answer(self) -> bool:
        """Wait for the end of the connection; say whether nothing came before it."""
        return self.incoming.rest() == b""

    def half_close(self) -> None:
        """Say that nothing more will be sent, and go on listening."""
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Break the connection."""
        reset_connection(self.socket)

    def _with_body(
        self, status: int, headers: list[tuple[bytes, bytes]], interim: list[int], *, bodiless: bool
    ) -> RawResponse:
        length = find_value(headers, b"content-length")
        whole = True
        if bodiless or status in (204, 304):
            body = b""
        elif length is not None:
            body = self.incoming.up_to(int(length))
            whole = len(body) == int(length)
        elif find_value(headers, b"transfer-encoding") is not None:
            body, whole = self.incoming.chunks()
        else:
            body = self.incoming.rest()
            whole = not self.incoming.reset
        return RawResponse(status, headers, body, whole, interim)


def request(
    body: bytes | None, *headers: bytes, path: str = CHAT, method: str = "POST", version: str = "1.1"
) -> bytes:
    """Return a request; its length is told where it has a body."""
    lines = [f"{method} {path} HTTP/{version}".encode(), HOST, *headers]
    if body is not None:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, b"", body or b""])


def asking(model: str, **fields: Any) -> bytes:
    """Return the body of a chat request to a model."""
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}], **fields}).encode()


def chat(model: str, *headers: bytes, version: str = "1.1", **fields: Any) -> bytes:
    """Return a whole chat request to a model."""
    return request(asking(model, **fields), b"Content-Type: application/json", *headers, version=version)


def chunk(piece: bytes) -> bytes:
    """Return one chunk; an empty piece makes the last one."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def push(connection: socket.socket, piece: bytes, silent_seconds: float) -> int:
    """Send a piece over and over until the other side takes no byte of it any more; return how much."""
    sent = 0
    connection.settimeout(silent_seconds)
    try:
        while True:
            sent += connection.send(memoryview(piece)[sent % len(piece) :])
    except TimeoutError:
        return sent
    finally:
        connection.settimeout(WAIT_SECONDS)


def reset_connection(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
