"""One connection to the simulator: reads requests and has responses played.

It stands directly on the transport, since faults are made of bytes that no well-meaning HTTP library
writes.  A pipelined request waits until the response before it is over; the transport is never paused for
reading, so that a client that leaves is noticed at once.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import (
    IAddress,
    IConsumer,
    IPushProducer,
    IReactorTime,
    ISSLTransport,
    ITCPTransport,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw_sim.api import Answer, WebSocketResponse
from mgw_sim.faults import Faults
from mgw_sim.http.parser import BadRequestError, Data, End, Event, Head, RequestParser, render_head
from mgw_sim.http.response_player import Gate, ResponsePlayer
from mgw_sim.http.websocket import WebSocketPlayer
from mgw_sim.recording import RecordedRequest, Recorder

log: Final = Logger()
Dispatch = Callable[[RecordedRequest], Awaitable[tuple[Answer, Faults]]]


class SimulatorFactory(Factory):
    """Builds the connections of one simulator."""

    noisy = False

    def __init__(self, reactor: IReactorTime, recorder: Recorder, dispatch: Dispatch) -> None:
        self.reactor = reactor
        self.recorder = recorder
        self.dispatch = dispatch
        self._serial = 0

    def buildProtocol(self, addr: IAddress | None) -> "SimulatorConnection":  # noqa: ARG002  Twisted's signature
        """Make the protocol for a new connection."""
        self._serial += 1
        return SimulatorConnection(self.reactor, self.recorder, self.dispatch, self._serial)


@implementer(IPushProducer)
@dataclass(eq=False)
class SimulatorConnection(Protocol):
    """The protocol: ``waiting`` holds events behind the request that is being answered."""

    reactor: IReactorTime
    recorder: Recorder
    dispatch: Dispatch
    serial: int
    transport: ITCPTransport = field(init=False)
    reader: RequestParser = field(default_factory=RequestParser)
    gate: Gate = field(default_factory=Gate)
    waiting: list[Event] = field(default_factory=list)
    request: RecordedRequest | None = None
    playing: Deferred[None] | None = None
    websocket: WebSocketPlayer | None = None
    """What takes the bytes once the connection has been upgraded."""
    counted: bool = True
    """Whether the request is recorded; false if it asks for the records themselves."""
    closing: bool = False
    """Whether we have closed or are about to: what is lost from here on was not the client's doing."""

    def connectionMade(self) -> None:
        """Begin."""
        self.recorder.connections += 1
        self.recorder.connections_open += 1
        self.transport.setTcpNoDelay(True)
        IConsumer(self.transport).registerProducer(self, streaming=True)

    def dataReceived(self, data: bytes) -> None:
        """Read what came; after a malformed request nothing more is looked at."""
        if self.closing:
            return
        if self.websocket is not None:
            self.websocket.receive(data)
            return
        try:
            self.waiting += self.reader.feed(data)
        except BadRequestError as error:
            self.recorder.note_malformed()
            self._refuse(str(error))
            return
        self._advance()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: ARG002  Twisted's signature
        """The client left, or we have closed."""
        if self.counted:
            self.recorder.connections_open -= 1
        if self.request is not None and not self.closing:
            self.recorder.leave(self.request)
        self.closing = True
        if self.playing is not None:
            self.playing.cancel()

    def pauseProducing(self) -> None:
        """The transport's buffer is full."""
        self.gate.shut = True

    def resumeProducing(self) -> None:
        """The transport's buffer has room."""
        self.gate.open()

    def stopProducing(self) -> None:
        """The transport is gone; ``connectionLost`` follows."""

    def _advance(self) -> None:
        while self.waiting and self.playing is None and not self.closing:
            event = self.waiting.pop(0)
            if isinstance(event, Head):
                self.request = self.recorder.begin(self.serial, event)
                self.request.scheme = "https" if ISSLTransport.providedBy(self.transport) else "http"
                if not self.request.counted:
                    self._uncount()
                if (event.value(b"expect") or b"").lower() == b"100-continue":
                    self.transport.write(render_head("HTTP/1.1", 100, "Continue", []))
            elif isinstance(event, Data) and self.request is not None:
                self.request.body += event.data
            elif isinstance(event, End) and self.request is not None:
                self.request.complete = True
                self._answer(self.request)

    def _answer(self, request: RecordedRequest) -> None:
        playing = Deferred.fromCoroutine(self._play(request)).addErrback(self._failed)
        if not playing.called:
            self.playing = playing

    async def _play(self, request: RecordedRequest) -> None:
        answer, faults = await self.dispatch(request)
        if isinstance(answer, WebSocketResponse):
            reusable = await self._play_websocket(request, answer)
        else:
            player = ResponsePlayer(
                self.transport, self.reactor, self.gate, request, answer, faults, self._before_close
            )
            reusable = await player.play()
        self.playing = None
        self.request = None
        self.recorder.finish(request)
        if reusable:
            self._advance()
        elif not self.closing:
            self._before_close()
            self.transport.loseConnection()

    async def _play_websocket(self, request: RecordedRequest, response: WebSocketResponse) -> bool:
        """Give the connection to the session; it is of no more use for HTTP."""
        self.websocket = WebSocketPlayer(
            self.transport, self.reactor, self.gate, self.recorder, request, response
        )
        await self.websocket.play()
        return False

    def _uncount(self) -> None:
        """A connection that asks for the records is not one of those that are counted."""
        if self.counted:
            self.counted = False
            self.recorder.connections -= 1
            self.recorder.connections_open -= 1

    def _before_close(self) -> None:
        self.closing = True

    def _failed(self, failure: Failure) -> None:
        self.playing = None
        if failure.check(CancelledError):
            return
        log.failure("internal error in the simulator", failure)
        self._before_close()
        self.transport.abortConnection()

    def _refuse(self, why: str) -> None:
        """Answer 400 to what is no HTTP, and close."""
        self._before_close()
        body = why.encode()
        headers = [
            ("Content-Type", "text/plain"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        self.transport.write(render_head("HTTP/1.1", 400, "Bad Request", headers) + body)
        self.transport.loseConnection()
