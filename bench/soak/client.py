"""The clients of the soak: each keeps one connection busy and looks closely at what it gets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import cast

from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from bench.soak.answers import halves, whole
from bench.soak.exchanges import MARK, Exchange

_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nConnection: close", re.IGNORECASE)
_LAST_CHUNK = b"0\r\n\r\n"
_NAMES_FORBIDDEN = frozenset({"hostile", "wlater", "wquery"})
"""Where a refusal may repeat the name that the client has sent."""
_SWITCHED = 101


@dataclass(slots=True)
class Seen:
    """What one client got for one exchange."""

    exchange: Exchange
    status: int | None = None
    body: bytes = b""
    complete: bool = False
    """Whether the answer ended as HTTP says."""

    def problem(self) -> str | None:
        """Say what is wrong with it, or return ``None``."""
        exchange, expected = self.exchange, self.exchange.expected
        if b".forbidden" in self.body and exchange.scenario not in _NAMES_FORBIDDEN:
            return "an answer that names a forbidden model"
        strangers = {int(number) for number in MARK.findall(self.body)} - {exchange.number}
        if strangers:
            return f"the answer of request {min(strangers)}"
        if self.status is None:
            return None if not expected.statuses else "no answer"
        if self.status not in expected.statuses:
            return f"status {self.status}"
        if expected.whole:
            return self._problem_of_whole()
        return None

    def _problem_of_whole(self) -> str | None:
        exchange = self.exchange
        if not self.complete:
            return "an answer without its end"
        if exchange.passed:
            if exchange.stream:
                same = self.body == b"".join(halves(exchange.wire, exchange.model))
            else:
                same = self.body == whole(exchange.wire, exchange.model)
            return None if same else "other bytes than the provider sent"
        if f"This answers {exchange.model}".encode() not in self.body:
            return "a translation without its text"
        if exchange.stream and f"the end of {exchange.model}".encode() not in self.body:
            return "a translation without its end"
        return None


class Client(Protocol):
    """One connection of a client; when it closes, :attr:`over` is told and may make another."""

    transport: ITCPTransport

    def __init__(
        self, exchanges: Iterator[Exchange], seen: Callable[[Seen], None], over: Callable[[], None]
    ) -> None:
        self._exchanges = exchanges
        self._tell = seen
        self._over = over
        self._seen: Seen | None = None
        self._held = b""
        self._head = 0
        self._length: int | None = None
        self._closes = False

    def connectionMade(self) -> None:
        """Begin."""
        self.transport.setTcpNoDelay(True)
        self._next()

    def dataReceived(self, data: bytes) -> None:
        """Take what comes; it belongs to the exchange under way."""
        self._held += data
        seen = self._seen
        if seen is None:
            raise AssertionError("bytes that nobody asked for")
        if not self._head:
            end = self._held.find(b"\r\n\r\n")
            if end < 0:
                return
            self._read_head(seen, end + 4)
            if seen.status == _SWITCHED:
                self._play(seen.exchange)
        if seen.status == _SWITCHED:
            self._leave_refused(seen.exchange)
        else:
            self._read_body(seen)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The answer under way, if there is one, is over."""
        if self._seen is not None:
            if self._head:
                self._seen.body = self._held[self._head :]
            self._finish(go_on=False)
        self._over()

    def _play(self, exchange: Exchange) -> None:
        """Say in a session what there is to be said, and leave, unless an answer is to come."""
        self.transport.write(exchange.session_bytes())
        if exchange.scenario == "ws":
            self.transport.loseConnection()

    def _leave_refused(self, exchange: Exchange) -> None:
        """Leave when a message was answered: it was refused, since the provider says nothing."""
        if exchange.scenario != "ws" and len(self._held) > self._head:
            self.transport.loseConnection()

    def _read_head(self, seen: Seen, end: int) -> None:
        self._head = end
        seen.status = int(self._held[9:12])
        length = _LENGTH.search(self._held, 0, end)
        self._length = int(length[1]) if length else None
        self._closes = _CLOSE.search(self._held, 0, end) is not None

    def _read_body(self, seen: Seen) -> None:
        body = self._held[self._head :]
        if self._length is None:
            whole = joined(body) if body.endswith(_LAST_CHUNK) else None
            seen.complete = whole is not None
            seen.body = body if whole is None else whole
        else:
            assert len(body) <= self._length, "more than was announced"
            seen.complete = len(body) == self._length
            seen.body = body
        if seen.complete:
            self._finish(go_on=True)
        elif seen.exchange.scenario == "leavemid" and body:
            self._finish(go_on=False)
            self.transport.loseConnection()

    def _finish(self, *, go_on: bool) -> None:
        seen, self._seen = self._seen, None
        self._held, self._head = b"", 0
        self._tell(cast(Seen, seen))
        if go_on and self._closes:
            self.transport.loseConnection()
        elif go_on:
            self._next()

    def _next(self) -> None:
        exchange = next(self._exchanges, None)
        if exchange is None:
            self.transport.loseConnection()
            return
        self._seen = Seen(exchange)
        self.transport.write(exchange.request())
        if exchange.scenario == "leave":
            self.transport.loseConnection()  # behind what was written


def joined(chunks: bytes) -> bytes | None:
    """Return what a chunked body holds, or ``None`` where it has not ended."""
    pieces = []
    at = 0
    while (end := chunks.find(b"\r\n", at)) >= 0:
        size = int(chunks[at:end], 16)
        if not size:
            return b"".join(pieces)
        at = end + 2 + size + 2
        if at > len(chunks):
            return None
        pieces.append(chunks[end + 2 : at - 2])
    return None


@dataclass(slots=True)
class Findings:
    """What went wrong, counted; the first of each kind in words."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def note(self, exchange: Exchange, problem: str) -> None:
        """Count a problem of one exchange."""
        self.say(problem, f"{exchange}: {problem}")

    def say(self, problem: str, words: str | None = None) -> None:
        """Count a problem, and keep the words for the first of its kind."""
        kind = re.sub(r"\d+", "N", problem)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.examples.setdefault(kind, words or problem)
