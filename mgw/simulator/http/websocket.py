"""The simulator's end of a WebSocket (RFC 6455): the handshake, then a session's messages, with their faults.

Frames are read and written by wsproto, which shares no code with what the gateway uses; those that wsproto
would never write come from ``frames``.  Messages are written one after the other, as the client takes them,
and faults that count (``reset-after``) count them.
"""

import base64
import binascii
import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer, IReactorTime, ITCPTransport
from twisted.internet.task import deferLater
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage
from wsproto.extensions import PerMessageDeflate

from mgw.simulator.api import ApiError, Close, Outgoing, Session, WebSocketResponse
from mgw.simulator.faults import Faults
from mgw.simulator.http.frames import BAD_FRAMES, cut_message, render_close
from mgw.simulator.http.parser import render_head
from mgw.simulator.http.response_player import ConnectionEnded, Gate
from mgw.simulator.recording import RecordedMessage, RecordedRequest, Recorder

_ACCEPT_SUFFIX: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 1.3
_VERSION: Final = "13"


def asks_for_websocket(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a request wants to become a WebSocket (RFC 9110 7.8); header names in lower case."""
    return (
        method == "GET"
        and "websocket" in _words(headers.get("upgrade", ""))
        and "upgrade" in _words(headers.get("connection", ""))
    )


def check_upgrade(headers: Mapping[str, str]) -> None:
    """Raise the ApiError for an upgrade that breaks RFC 6455 4.2.1."""
    if headers.get("sec-websocket-version") != _VERSION:
        raise ApiError(426, f"This server speaks version {_VERSION} of the WebSocket protocol.")
    try:
        key = base64.b64decode(headers.get("sec-websocket-key", ""), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != 16:
        raise ApiError(400, "Sec-WebSocket-Key is not the base64 of 16 bytes.")


def offered_subprotocols(headers: Mapping[str, str]) -> tuple[str, ...]:
    """What the client offers, in its order."""
    offers = headers.get("sec-websocket-protocol", "").split(",")
    return tuple(offer.strip() for offer in offers if offer.strip())


def _words(value: str) -> set[str]:
    return {word.strip().lower() for word in value.split(",")}


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
    _to_say: deque[Iterator[Outgoing]] = field(default_factory=deque)
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
        """Write the 101 (RFC 6455 4.2.2)."""
        request_headers = self.request.head
        key = request_headers.value(b"sec-websocket-key") or b""
        if "bad-accept" in self.faults:
            key = key[::-1]
        digest = hashlib.sha1(key + _ACCEPT_SUFFIX).digest()  # noqa: S324  RFC 6455 4.2.2 wants SHA-1
        headers = [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", base64.b64encode(digest).decode()),
            ("Server", "mgw-sim"),
            *self.response.headers,
        ]
        if self.response.subprotocol is not None:
            headers.append(("Sec-WebSocket-Protocol", self.response.subprotocol))
        offer = (
            (request_headers.value(b"sec-websocket-extensions") or b"").decode("latin-1").partition(",")[0]
        )
        if "deflate" in self.faults and offer.strip().startswith(PerMessageDeflate.name):
            deflate = PerMessageDeflate()
            parameters = deflate.accept(offer)
            accepted = "; ".join(filter(None, (deflate.name, str(parameters or ""))))
            headers.append(("Sec-WebSocket-Extensions", accepted))
            self.wire = Connection(ConnectionType.SERVER, [deflate])
        self._is_accepted = True
        self.request.status = self.response.status
        self.transport.write(render_head("HTTP/1.1", self.response.status, "Switching Protocols", headers))

    def _say(self, outgoing: Iterable[Outgoing]) -> None:
        self._to_say.append(iter(outgoing))

    async def _say_all(self, outgoing: Iterator[Outgoing]) -> None:
        for message in outgoing:
            if self.wire.state is not ConnectionState.OPEN:
                return
            if isinstance(message, Close):
                self._close(message)
                return
            self._write_message(message)
            self.request.pieces_sent += 1
            self.request.bytes_sent += len(message)
            await self._obey_counts()
            if self.gate.shut:
                await self.gate.wait()
            await self._sleep(self.faults.number("chunk-delay"))

    def _write_message(self, message: str | bytes) -> None:
        size = self.faults.number("cut")
        if size:
            for frame in cut_message(message, size):
                self.transport.write(frame)
        else:
            self.transport.write(self.wire.send(_message(message)))

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

    def _on_data(self, event: TextMessage | BytesMessage) -> None:
        """A frame, or a part of one; the session sees whole messages."""
        receiving = self._receiving
        data = event.data
        receiving.pieces.append(data.encode() if isinstance(data, str) else bytes(data))
        if not event.frame_finished:
            return
        receiving.frames += 1
        if "echo" in self.faults:
            self._echo(event)
        receiving.frame_start = len(receiving.pieces)
        if not event.message_finished:
            return
        payload = b"".join(receiving.pieces)
        self._receiving = _Receiving()
        self._record("text" if isinstance(data, str) else "binary", payload, receiving.frames)
        if "no-read" in self.faults:
            IPushProducer(self.transport).pauseProducing()
        if "echo" not in self.faults:
            self._say(self.session.receive(payload.decode() if isinstance(data, str) else payload))

    def _echo(self, event: TextMessage | BytesMessage) -> None:
        """Say the frame that has come again, with its opcode, and as the part of its message that it was."""
        payload = b"".join(self._receiving.pieces[self._receiving.frame_start :])
        message = payload.decode() if isinstance(event.data, str) else payload
        if self.wire.state is ConnectionState.OPEN:
            self.transport.write(self.wire.send(_message(message, is_final=event.message_finished)))
        self.request.pieces_sent += event.message_finished

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


def _message(data: str | bytes, *, is_final: bool = True) -> Event:
    if isinstance(data, str):
        return TextMessage(data, message_finished=is_final)
    return BytesMessage(data, message_finished=is_final)


def _is_due(number: int | None, sent: int) -> bool:
    return number is not None and sent >= number
