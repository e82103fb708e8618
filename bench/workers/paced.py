"""Requests at a fixed rate, over connections that are kept: what was answered, when, and what was cut off."""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Final

LAST_SECONDS: Final = 20.0
"""How long the last answers are waited for."""
_ID: Final = b"\r\nx-gateway-request-id:"
_LENGTH: Final = b"\r\ncontent-length:"


class StalledError(Exception):
    """Answers never came."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without its answer."""

    port: int
    """The client's."""
    sent: float
    """In :func:`time.monotonic`'s seconds, as ``seen`` is."""
    seen: float
    what: str


@dataclass(slots=True)
class Outcome:
    """What became of all requests of a run."""

    seconds: list[float] = field(default_factory=list)
    """From when a request was due to the end of its answer."""
    answered: dict[bytes, tuple[float, int]] = field(default_factory=dict)
    """By the id that the gateway gave it: when, and the client's port."""
    failures: list[Failure] = field(default_factory=list)
    sent: int = 0

    def percentile(self, percent: int) -> float:
        """Return one of the latency, in seconds."""
        return quantiles(self.seconds, n=100)[percent - 1]


@dataclass(slots=True, eq=False)
class _Connection:
    socket: socket.socket
    port: int
    held: bytearray = field(default_factory=bytearray)
    due: float = 0.0
    sent: float = 0.0
    is_busy: bool = False
    used: int = 0


@dataclass(slots=True)
class PacedClient:
    """Asks at a rate that does not wait for answers; a request that is late counts from when it was due.

    :param uses: after so many requests a connection is closed, and another one opened.
    """

    address: tuple[str, int]
    requests: Sequence[bytes]
    """Are sent in turn."""
    connections: int
    uses: int = 1_000_000
    outcome: Outcome = field(default_factory=Outcome)
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

    @property
    def busy_ports(self) -> set[int]:
        """The client's ports of requests that wait for an answer."""
        return {connection.port for connection in self._busy}

    def run(self, rate: float, seconds: float, between: Callable[[], bool] = lambda: True) -> Outcome:
        """Ask for so long and wait for the last answer; return what became of these requests.

        :param between: is called whenever there is nothing to read; until it is true, the asking goes on.
        :raises StalledError: answers never came.
        """
        self.outcome = outcome = Outcome()
        due = time.monotonic()
        end = due + seconds
        while True:
            now = time.monotonic()
            is_over = between() and now >= end
            if is_over and not self._busy and due >= end:
                return outcome
            if now > end + LAST_SECONDS:
                raise StalledError(f"{len(self._busy)} requests have no answer after {LAST_SECONDS:g} s")
            while due <= now and self._idle and (due < end or not is_over):
                self._ask(due)
                due += 1 / rate
            self.read(max(0.0, min(due - time.monotonic(), 0.02)) if self._idle else 0.02)

    def read(self, wait: float) -> int:
        """Take what there is to read, and return from how many connections."""
        ready = self._selector.select(wait)
        for key, _ in ready:
            self._read(key.data)
        return len(ready)

    def _connect(self) -> None:
        opened = socket.create_connection(self.address, 10)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.settimeout(0)
        connection = _Connection(opened, opened.getsockname()[1])
        self._selector.register(opened, selectors.EVENT_READ, connection)
        self._idle.append(connection)

    def _drop(self, connection: _Connection) -> None:
        self._selector.unregister(connection.socket)
        connection.socket.close()
        self._connect()

    def _ask(self, due: float) -> None:
        connection = self._idle.popleft()
        connection.due, connection.sent, connection.is_busy = due, time.monotonic(), True
        connection.used += 1
        self._busy.add(connection)
        self.outcome.sent += 1
        try:
            connection.socket.send(self.requests[self.outcome.sent % len(self.requests)])
        except OSError as error:
            self._fail(connection, errno.errorcode.get(error.errno or 0, "?"))

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(connection, errno.errorcode.get(error.errno or 0, "?"))
            return
        if not data:
            self._end(connection, "closed")
            return
        held = connection.held
        held += data
        end = held.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(held[: end + 2]).lower()
        if _is_whole(held, head, end + 4):
            self._take_answer(connection, head)

    def _take_answer(self, connection: _Connection, head: bytes) -> None:
        now = time.monotonic()
        if not head.startswith(b"http/1.1 200"):
            self._fail(connection, head[9:12].decode())
            return
        self._busy.discard(connection)
        connection.held.clear()
        connection.is_busy = False
        self.outcome.seconds.append(now - connection.due)
        request_id = head.partition(_ID)[2].partition(b"\r\n")[0].strip()
        self.outcome.answered[request_id] = now, connection.port
        if connection.used < self.uses and b"\r\nconnection: close" not in head:
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _end(self, connection: _Connection, what: str) -> None:
        if connection.is_busy:
            self._fail(connection, what)
        else:  # one that was at rest, which no client would take for a failure
            self._idle.remove(connection)
            self._drop(connection)

    def _fail(self, connection: _Connection, what: str) -> None:
        self._busy.discard(connection)
        self.outcome.failures.append(Failure(connection.port, connection.sent, time.monotonic(), what))
        self._drop(connection)


def _is_whole(held: bytearray, head: bytes, start: int) -> bool:
    length = head.partition(_LENGTH)[2].partition(b"\r\n")[0]
    if not length:
        return held.endswith(b"\r\n0\r\n\r\n")
    return len(held) >= start + int(length)
