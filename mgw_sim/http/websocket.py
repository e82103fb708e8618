"""The simulator's end of a WebSocket (RFC 6455), once it may be one: a session's messages, with their faults.

Frames are read and written by wsproto, which shares no code with what the gateway uses; those that wsproto
would never write come from ``frames``.  Messages are written one after the other, as the client takes them,
and faults that count (``reset-after``) count them.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer, IReactorTime, ITCPTransport
from twisted.internet.task import deferLater
from twisted.logger import Logger
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage

from mgw_sim.api import Close, Outgoing, Session, WebSocketResponse
from mgw_sim.faults import Faults
from mgw_sim.http.frames import BAD_FRAMES, cut_message, render_close
from mgw_sim.http.response_player import ConnectionEnded, Gate
from mgw_sim.http.upgrade import render_accept
from mgw_sim.recording import RecordedMessage, RecordedRequest, Recorder

_Frame = TextMessage | BytesMessage
"""wsproto's word for what may be a part of a message."""
log: Final = Logger()


@dataclass(slots=True)
class _Receiving:
    """A message of which not all frames have come."""

    pieces: list[bytes] = field(default_factory=list)
    frames: int = 0
    frame_start: int = 0
    """Where in the pieces the last frame begins."""


@dataclass(slots=True)
class WebSocketPlayer:
    """One connection after its upgrade: ``play`` runs until it is over, ``receive`` takes what comes."""

    transport: ITCPTransport
    reactor: IReactorTime
    gate: Gate
    recorder: Recorder
    request: RecordedRequest
    response: WebSocketResponse
    wire: Connection = field(default_factory=lambda: Connection(ConnectionType.SERVER))
    _to_say: deque[Iterator[Outgoing | _Frame]] = field(default_factory=deque)
    _receiving: _Receiving = field(default_factory=_Receiving)
    _waiter: Deferred[None] | None = None
    _odd_frames_sent: bool = False
    _is_accepted: bool = False
    _broken: bool = False
    """The client has broken a rule of the protocol."""

    @property
    def session(self) -> Session:
        """What answers."""
        return self.response.session

    @property
    def faults(self) -> Faults:
        """What was asked for, so far."""
        return self.session.faults

    async def play(self) -> None:
        """Accept, and say what the session says until both sides have closed.

        Raises CancelledError when the client leaves without.
        """
        try:
            await self._before()
            self._accept()
            self._say(self.session.open())
            await self._obey_counts()
            while not self._is_over():
                if self._to_say:
                    await self._say_all(self._to_say[0])
                    self._to_say.popleft()
                else:
                    await self._wait()
        except ConnectionEnded:
            return

    def receive(self, data: bytes) -> None:
        """Take bytes behind the client's handshake."""
        if self._is_over():
            return
        if not self._is_accepted:  # RFC 6455 4.1: the client waits for the answer to its handshake
            self._broken = True
            self.recorder.note_malformed()
            self.transport.abortConnection()
            return
        self.wire.receive_data(data)
        for event in self.wire.events():
            self._on_event(event)
        self._wake()

    async def _before(self) -> None:
        await self._sleep(self.faults.number("delay"))
        if "stall-head" in self.faults:
            await Deferred(lambda _: None)
        if "reset-before" in self.faults:
            self.transport.abortConnection()
            raise ConnectionEnded

    def _accept(self) -> None:
        self._is_accepted = True
        self.request.status = self.response.status
        head, extensions = render_accept(self.request.head, self.response, self.faults)
        self.wire = Connection(ConnectionType.SERVER, extensions)
        self.transport.write(head)

    def _say(self, outgoing: Iterable[Outgoing | _Frame]) -> None:
        self._to_say.append(iter(outgoing))

    async def _say_all(self, outgoing: Iterator[Outgoing | _Frame]) -> None:
        for message in outgoing:
            if self.wire.state is not ConnectionState.OPEN:
                return
            if isinstance(message, Close):
                self._close(message)
                return
            self._write(message)
            await self._obey_counts()
            if self.gate.shut:
                await self.gate.wait()
            await self._sleep(self.faults.number("chunk-delay"))

    def _write(self, message: str | bytes | _Frame) -> None:
        """Write a message, cut if that is asked for, or a frame of one as it is."""
        frame = _frame_of(message) if isinstance(message, str | bytes) else message
        payload = frame.data.encode() if isinstance(frame.data, str) else frame.data
        size = self.faults.number("cut")
        if isinstance(message, str | bytes) and size:
            for piece in cut_message(message, size):
                self.transport.write(piece)
        else:
            self.transport.write(self.wire.send(frame))
        self.request.pieces_sent += frame.message_finished
        self.request.bytes_sent += len(payload)

    async def _obey_counts(self) -> None:
        """The faults that are due behind so many messages."""
        faults, sent = self.faults, self.request.pieces_sent
        if not self._odd_frames_sent and sent:
            self._odd_frames_sent = True
            self._write_odd_frames(faults)
        if _is_due(faults.number("close", place=1), sent):
            self._close(Close(faults.number("close") or 1000, faults.text("close-reason") or ""))
        if _is_due(faults.number("stall-body-after"), sent):
            await self._stall()
        if _is_due(faults.number("reset-after"), sent):
            await self._sleep(20)  # so that what was written is on its way
            self.transport.abortConnection()
            raise ConnectionEnded
        if _is_due(faults.number("truncate-after"), sent):
            raise ConnectionEnded

    def _write_odd_frames(self, faults: Faults) -> None:
        payload = faults.text("ping")
        if payload is not None:
            self.transport.write(self.wire.send(Ping(payload=payload.encode())))
        bad = faults.text("bad-frame")
        if bad is not None:
            self.transport.write(BAD_FRAMES[bad])

    def _close(self, close: Close) -> None:
        """Begin to close: the client's own close frame is still to come."""
        if self.wire.state is not ConnectionState.OPEN:
            return
        self.wire.send(CloseConnection(code=1000))  # for its state; the frame itself may have any code
        self.transport.write(render_close(close.code, close.reason))

    def _on_event(self, event: Event) -> None:
        match event:
            case TextMessage() | BytesMessage():
                self._on_data(event)
            case Ping():
                self._record("ping", bytes(event.payload))
                if self.wire.state is ConnectionState.OPEN:
                    self.transport.write(self.wire.send(event.response()))
            case Pong():
                self._record("pong", bytes(event.payload))
            case CloseConnection():
                self._on_close(event)

    def _on_data(self, event: _Frame) -> None:
        """A frame, or a part of one; the session sees whole messages."""
        receiving = self._receiving
        data = event.data
        receiving.pieces.append(data.encode() if isinstance(data, str) else bytes(data))
        if not event.frame_finished:
            return
        receiving.frames += 1
        if "echo" in self.faults:
            payload = b"".join(receiving.pieces[receiving.frame_start :])
            frame = payload.decode() if isinstance(data, str) else payload
            self._say([_frame_of(frame, is_final=event.message_finished)])
        receiving.frame_start = len(receiving.pieces)
        if event.message_finished:
            self._receiving = _Receiving()
            self._on_message(b"".join(receiving.pieces), receiving.frames, is_text=isinstance(data, str))

    def _on_message(self, payload: bytes, frames: int, *, is_text: bool) -> None:
        self._record("text" if is_text else "binary", payload, frames)
        if "no-read" in self.faults:
            IPushProducer(self.transport).pauseProducing()
        if "echo" in self.faults:
            return
        try:
            self._say(self.session.receive(payload.decode() if is_text else payload))
        except Exception:  # a bug of the simulator: said aloud, and answered as a vendor would answer its own
            log.failure("no answer to a message of {path}", path=self.request.target.partition("?")[0])
            self._close(Close(1011, "Internal error in the simulator; see its log."))

    def _on_close(self, event: CloseConnection) -> None:
        """The client closes, or has broken a rule: then wsproto says which, and its state is still open."""
        if self.wire.state is ConnectionState.OPEN:
            self._broken = True
            self.recorder.note_malformed()
            self.transport.write(self.wire.send(event))
            return
        self._record("close", (event.reason or "").encode(), code=event.code)
        if self.wire.state is ConnectionState.REMOTE_CLOSING and "no-close" not in self.faults:
            self.transport.write(self.wire.send(event.response()))

    def _record(self, kind: str, data: bytes, frames: int = 1, code: int | None = None) -> None:
        self.recorder.add_message(self.request, RecordedMessage(kind, data, frames, code))

    async def _wait(self) -> None:
        self._waiter = Deferred(lambda _: None)
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None:
            waiter, self._waiter = self._waiter, None
            waiter.callback(None)

    async def _sleep(self, milliseconds: int | None) -> None:
        if milliseconds:
            await deferLater(self.reactor, milliseconds / 1000)

    async def _stall(self) -> None:
        """Say nothing more until the client closes."""
        while not self._is_over():
            await self._wait()
        raise ConnectionEnded

    def _is_over(self) -> bool:
        return self._broken or self.wire.state is ConnectionState.CLOSED


def _frame_of(data: str | bytes, *, is_final: bool = True) -> _Frame:
    if isinstance(data, str):
        return TextMessage(data, message_finished=is_final)
    return BytesMessage(data, message_finished=is_final)


def _is_due(number: int | None, sent: int) -> bool:
    return number is not None and sent >= number
