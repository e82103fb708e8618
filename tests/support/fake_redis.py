"""A Redis in memory that answers as a test says: as Redis would, or with whatever bytes the test draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from hiredis import Reader
from twisted.internet.interfaces import IProtocol, IProtocolFactory
from twisted.internet.testing import StringTransport

from mgw.redis.scripts import BEGIN, COOLDOWNS, END, HEARTBEAT, RETURN, SCRIPTS

Command = list[bytes]
OK: Final = b"+OK\r\n"
ONE: Final = b":1\r\n"
HELLO: Final = b"%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n"


def text(value: str) -> bytes:
    """Return a text as Redis writes it."""
    return b"$%d\r\n%b\r\n" % (len(value), value.encode())


def usual(command: Command) -> bytes:
    """Return what Redis answers where nothing stands against anything and there are three hosts."""
    match command:
        case [b"HELLO", *_]:
            return HELLO
        case [b"SELECT", *_]:
            return OK
        case [b"SCRIPT", b"LOAD", source]:
            return text(next(script.digest for script in SCRIPTS if script.text.encode() == source))
        case [b"SUBSCRIBE", channel]:
            return b">3\r\n$9\r\nsubscribe\r\n" + text(channel.decode()) + ONE
        case [b"EVALSHA", digest, *_]:
            if digest == HEARTBEAT.digest.encode():
                return b"*2\r\n:1\r\n:3\r\n"
            if digest == BEGIN.digest.encode():
                return _begun(command)
            if digest == END.digest.encode():
                return b"*2\r\n:1\r\n" + _sums(command, 2, 9, b"*7\r\n" + 7 * b":0\r\n")
            if digest == RETURN.digest.encode():
                ids = int(command[3 + int(command[2]) + 1])
                return b"*%d\r\n" % ids + ids * b"*2\r\n:0\r\n*0\r\n"
            return b"*0\r\n" if digest == COOLDOWNS.digest.encode() else ONE
    return ONE


def _begun(command: Command) -> bytes:
    """Return that a request was admitted."""
    rows = (int(command[2]) - 3) // 2
    buckets = b"*%d\r\n" % rows + rows * b"$0\r\n\r\n"
    sums = _sums(command, 3, 7, b"*5\r\n" + 5 * b":0\r\n")
    return b"*5\r\n:1\r\n:0\r\n:0\r\n" + buckets + sums


def _sums(command: Command, first: int, size: int, sums: bytes) -> bytes:
    """Return sums for each total in a command with so many arguments for each row."""
    arguments = command[3 + int(command[2]) :]
    totals = arguments[first::size].count(b"total")
    return b"*%d\r\n" % totals + totals * sums


def commands_in(reader: Reader, data: bytes) -> Iterator[Command]:
    """Yield the commands in what a client has sent."""
    reader.feed(data)
    while (command := reader.gets()) is not False:
        yield command


class _Transport(StringTransport):
    """Gives what is written to the server, and tells the protocol that it was broken off."""

    def __init__(self, server: FakeRedis) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's
        self._server = server
        self._reader = Reader()
        self.protocol: Any = None

    def write(self, data: bytes) -> None:
        for command in commands_in(self._reader, data):
            self._server.commands.append(command)
            self._server.waiting.append((self, self._server.answer(command)))

    def abortConnection(self) -> None:
        self.disconnecting = True

    loseConnection = abortConnection


@dataclass
class FakeRedis:
    """The other end of a link: a :class:`mgw.upstream.dial.Dialler` whose connections lead here."""

    answer: Callable[[Command], bytes] = usual
    accepts: bool = True
    commands: list[Command] = field(default_factory=list)
    waiting: list[tuple[_Transport, bytes]] = field(default_factory=list)
    """Answers that are on their way."""
    connections: list[_Transport] = field(default_factory=list)

    def dial(
        self,
        factory: IProtocolFactory,
        on_connected: Callable[[IProtocol], None],
        on_failed: Callable[[Exception], None],
    ) -> FakeRedis:
        """As in :class:`mgw.upstream.dial.Dialler`."""
        if not self.accepts:
            on_failed(ConnectionError())
            return self
        protocol: Any = factory.buildProtocol(None)  # type: ignore[arg-type]  # nobody looks
        transport = _Transport(self)
        transport.protocol = protocol
        self.connections.append(transport)
        protocol.makeConnection(transport)
        on_connected(protocol)
        return self

    def cancel(self) -> None:
        """Nothing is under way."""

    def deliver(self) -> None:
        """Let all answers arrive, and those to what is asked upon them."""
        while self.waiting:
            transport, data = self.waiting.pop(0)
            if not transport.disconnecting and data:
                transport.protocol.dataReceived(data)

    def sent(self, *start: bytes) -> list[Command]:
        """Return the commands that begin so."""
        return [command for command in self.commands if command[: len(start)] == list(start)]
