"""Two ends of a channel in memory, and handlers that remember what they were told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from mgw.workers.channel import Channel, Handler
from mgw.workers.messages import ChannelMessage, Done


def _done(question: ChannelMessage) -> ChannelMessage:
    return Done()


@dataclass
class RecordingHandler:
    """Remembers what it was told and asked, and answers as the test says."""

    answer: Callable[[ChannelMessage], ChannelMessage | Deferred[ChannelMessage]] = _done
    told: list[ChannelMessage] = field(default_factory=list)
    asked: list[ChannelMessage] = field(default_factory=list)
    losses: int = 0

    def on_message(self, message: ChannelMessage) -> None:
        self.told.append(message)

    def on_question(self, question: ChannelMessage) -> ChannelMessage | Deferred[ChannelMessage]:
        self.asked.append(question)
        return self.answer(question)

    def on_lost(self) -> None:
        self.losses += 1


@dataclass
class ChannelTransport:
    """Keeps what was written until it is taken."""

    dataBuffer: bytes = b""
    offset: int = 0
    _tempDataLen: int = 0
    written: bytes = b""
    disconnecting: bool = False
    aborting: bool = False

    def write(self, data: bytes) -> None:
        self.written += data

    def take(self) -> bytes:
        data, self.written = self.written, b""
        return data

    def loseConnection(self) -> None:
        self.disconnecting = True

    def abortConnection(self) -> None:
        self.aborting = True


def open_channel(handler: Handler, clock: Clock) -> tuple[Channel, ChannelTransport]:
    """Return one end of a channel, and what it writes to."""
    channel, transport = Channel(handler, clock), ChannelTransport()
    channel.makeConnection(transport)  # type: ignore[no-untyped-call]  # Twisted's
    return channel, transport


class ChannelPair:
    """Both ends of a channel; nothing arrives before :meth:`pump`."""

    def __init__(self, clock: Clock) -> None:
        self.ours, self.theirs = RecordingHandler(), RecordingHandler()
        self.near, self.near_transport = open_channel(self.ours, clock)
        self.far, self.far_transport = open_channel(self.theirs, clock)

    def pump(self) -> None:
        """Deliver until nobody has anything more to say."""
        while to_far := self.near_transport.take():
            self.far.dataReceived(to_far)
            self._to_near()
        self._to_near()
        if self.near_transport.written:
            self.pump()

    def lose(self) -> None:
        """Cut the connection."""
        for end in (self.near, self.far):
            end.connectionLost(Failure(ConnectionLost()))

    def _to_near(self) -> None:
        if to_near := self.far_transport.take():
            self.near.dataReceived(to_near)
