"""Requests at a fixed rate, over connections that are kept."""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Final

LAST_SECONDS: Final = 20.0
"""How long the last answers are waited for."""
_LENGTH: Final = b"\r\ncontent-length:"


class StalledError(Exception):
    """Answers never came."""


@dataclass(slots=True)
class Outcome:
    """What became of all requests of a run."""

    seconds: list[float] = field(default_factory=list)
    """From when a request was due to the end of its answer."""
    failed: int = 0
    sent: int = 0

    def percentile(self, percent: int) -> float:
        """Return one of the latency, in seconds."""
        return quantiles(self.seconds, n=100)[percent - 1]


@dataclass(slots=True, eq=False)
class _Connection:
    socket: socket.socket
    held: bytearray = field(default_factory=bytearray)
    due: float = 0.0


@dataclass(slots=True)
class PacedClient:
    """Asks at a rate that does not wait for answers; a request that is late counts from when it was due."""

    address: tuple[str, int]
    requests: Sequence[bytes]
    """Are sent in turn."""
    connections: int
    _outcome: Outcome = field(default_factory=Outcome)
    _idle: deque[_Connection] = field(default_factory=deque)
    _busy: set[_Connection] = field(default_factory=set)
    _selector: selectors.EpollSelector = field(default_factory=selectors.EpollSelector)

    def __enter__(self) -> PacedClient:
        for _ in range(self.connections):
            self._connect()
        return self

    def __exit__(self, *_: object) -> None:
        for connection in [*self._idle, *self._busy]:
            connection.socket.close()
        self._selector.close()

    def run(self, rate: float, seconds: float) -> Outcome:
        """Ask for so long and wait for the last answer; return what became of these requests.

        :raises StalledError: answers never came.
        """
        self._outcome = Outcome()
        due = time.monotonic()
        end = due + seconds
        while due < end or self._busy:
            now = time.monotonic()
            if now > end + LAST_SECONDS:
                raise StalledError(f"{len(self._busy)} requests have no answer after {LAST_SECONDS:g} s")
            while due <= now and due < end and self._idle:
                self._ask(due)
                due += 1 / rate
            wait = max(0.0, min(due - time.monotonic(), 0.02)) if self._idle else 0.02
            for key, _ in self._selector.select(wait):
                self._read(key.data)
        return self._outcome

    def _connect(self) -> None:
        opened = socket.create_connection(self.address, 10)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.settimeout(0)
        connection = _Connection(opened)
        self._selector.register(opened, selectors.EVENT_READ, connection)
        self._idle.append(connection)

    def _ask(self, due: float) -> None:
        connection = self._idle.popleft()
        connection.due = due
        self._busy.add(connection)
        self._outcome.sent += 1
        try:
            connection.socket.send(self.requests[self._outcome.sent % len(self.requests)])
        except OSError:
            self._drop(connection)

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(connection)
            return
        held = connection.held
        held += data
        end = held.find(b"\r\n\r\n")
        head = bytes(held[: end + 2]).lower()
        if end >= 0 and _is_whole(held, head, end + 4):
            self._take(connection, head)

    def _take(self, connection: _Connection, head: bytes) -> None:
        if not head.startswith(b"http/1.1 200"):
            self._drop(connection)
            return
        self._busy.discard(connection)
        connection.held.clear()
        self._outcome.seconds.append(time.monotonic() - connection.due)
        self._idle.append(connection)

    def _drop(self, connection: _Connection) -> None:
        """Close a connection and open another; a request that waited on it has failed."""
        self._outcome.failed += connection in self._busy
        self._busy.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._selector.unregister(connection.socket)
        connection.socket.close()
        self._connect()


def _is_whole(held: bytearray, head: bytes, start: int) -> bool:
    length = head.partition(_LENGTH)[2].partition(b"\r\n")[0]
    if not length:
        return held.endswith(b"\r\n0\r\n\r\n")
    return len(held) >= start + int(length)
