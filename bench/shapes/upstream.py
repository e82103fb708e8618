"""A provider that answers every request with the bytes that it was told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

READ_BYTES = 1024 * 1024


@dataclass
class Upstream:
    """Listens on ``port``; each request is read to its end, and the connection closed behind the answer."""

    answer: Iterable[bytes] = ()
    heard: int = 0
    """How many bytes the last request had."""
    _listener: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                piece = connection.recv(65536)
                if not piece:
                    return
                head += piece
            head, _, rest = head.partition(b"\r\n\r\n")
            length = 0
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"content-length:"):
                    length = int(line[15:])
            left = length - len(rest)
            while left > 0:
                piece = connection.recv(min(READ_BYTES, left))
                if not piece:
                    return
                left -= len(piece)
            self.heard = length
            for piece in self.answer:
                connection.sendall(piece)
