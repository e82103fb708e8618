"""The channel between the supervisor and a worker: messages, requests and replies, in both directions.

A frame is its length, four bytes in network order, and an envelope in msgpack: what kind of frame it is, the
number of the question, and the message.  Numbers belong to the side that asks, so either side counts its own.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from struct import Struct as Packing
from typing import Any, Final, Protocol

import msgspec
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IAddress, IDelayedCall, IReactorTime
from twisted.internet.protocol import Factory, connectionDone
from twisted.internet.protocol import Protocol as StreamProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.reactor.twisted_fast.eager_writer import EagerWriter, count_held_bytes
from mgw.workers.messages import AnyMessage, ChannelMessage, Done, Failed, Ping

MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
"""A longer frame is not sent, and loses the channel of whoever gets one."""

_log: Final = Logger()
_LENGTH: Final = Packing("!I")

_TELL: Final = 0
_ASK: Final = 1
_ANSWER: Final = 2
_FAILURE: Final = 3


class ChannelError(Exception):
    """A question got no answer; the text says why, and quotes nothing of either."""


class RequestSender(Protocol):
    """A channel, for those who only send requests over it."""

    def ask(self, question: ChannelMessage, seconds: float) -> Deferred[ChannelMessage]:
        """Fire with the answer of the other side, or fail with :class:`ChannelError`."""
        ...


class Handler(Protocol):
    """What one end of a channel does with what the other says."""

    def on_message(self, message: ChannelMessage) -> None:
        """Take what was told; what it raises is logged as a bug."""
        ...

    def on_question(self, question: ChannelMessage) -> ChannelMessage | Deferred[ChannelMessage]:
        """Return the answer, now or later; where it raises, whoever asked gets :class:`ChannelError`.

        An answer that is not there yet when the channel is lost is cancelled.
        """
        ...

    def on_lost(self) -> None:
        """The channel is lost, for whatever reason; called once, after the open questions have failed."""
        ...


class _Envelope(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: int
    number: int
    message: AnyMessage


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Envelope)


@dataclass(slots=True, eq=False)
class _Question:
    """A question of ours that has no answer yet."""

    answer: Deferred[ChannelMessage]
    limit: IDelayedCall


class Channel(StreamProtocol):
    """One end of the connection; use :func:`adopt` to make one of a socket."""

    def __init__(self, handler: Handler, clock: IReactorTime) -> None:
        self._handler = handler
        self._clock = clock
        self._is_open = True
        self._out: EagerWriter | None = None
        """Sends at once: a place that is free must be known before its client's next request is."""
        self._held = bytearray()
        """What has come of frames that are not whole yet."""
        self._asked = 0
        self._questions: dict[int, _Question] = {}
        self._answers: dict[Deferred[ChannelMessage], None] = {}
        """The answers that we owe, in the order of their questions."""

    @property
    def is_open(self) -> bool:
        """Whether anything that is said now may still arrive."""
        return self._is_open

    @property
    def waiting_bytes(self) -> int:
        """How many bytes wait here for the other side to read."""
        return count_held_bytes(self.transport)

    def tell(self, message: ChannelMessage) -> None:
        """Say something that has no answer.  Once the channel is lost, nothing happens.

        Never raises: what cannot be encoded is a bug, which the log tells of.
        """
        if self._is_open:
            self._send(_TELL, 0, message)

    def ask(self, question: ChannelMessage, seconds: float) -> Deferred[ChannelMessage]:
        """Fire with the answer; cancelling forgets the question, and its answer is ignored.

        Fails with :class:`ChannelError` when the channel is lost, when there is no answer after so many
        ``seconds``, and when the other side could not answer.
        """
        if not self._is_open:
            return fail(ChannelError("the channel is closed"))
        self._asked = number = self._asked + 1
        answer: Deferred[ChannelMessage] = Deferred(lambda _: self._forget(number))
        limit = self._clock.callLater(seconds, self._fail_question, number, f"no answer in {seconds:g} s")
        self._questions[number] = _Question(answer, limit)
        if not self._send(_ASK, number, question):
            self._fail_question(number, "the question could not be sent")
        return answer

    def lose(self) -> None:
        """Close the connection once all is sent that was said; from now on nothing is taken or sent."""
        if self._is_open:
            self._is_open = False
            if self.transport is not None:
                self.transport.loseConnection()

    def dataReceived(self, data: bytes) -> None:
        """Take a part of what the other side sends."""
        self._held += data
        envelopes, is_whole = self._cut()
        for envelope in envelopes:  # only now: a handler may close the channel
            if self._is_open:
                self._take(envelope)
        if not is_whole and self._is_open:
            self._abort()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: ARG002  Twisted's signature
        """Fail all that waits for an answer, forget those we owe, and tell the handler."""
        self._is_open = False
        self._held.clear()
        for number in list(self._questions):
            self._fail_question(number, "the channel was lost")
        for answer in list(self._answers):
            answer.cancel()
        self._handler.on_lost()

    def _send(self, kind: int, number: int, message: ChannelMessage) -> bool:
        """Send a frame, and return whether it could be."""
        try:
            frame = _ENCODER.encode((kind, number, message))
        except Exception as error:  # whatever a message may hold: telling never raises
            _log.error(
                "internal error: a {message} could not be encoded ({kind})",
                message=type(message).__name__,
                kind=type(error).__name__,
            )
            return False
        if len(frame) > MAX_FRAME_BYTES:
            _log.error(
                "internal error: a {message} of {count} bytes is too long and was not sent",
                message=type(message).__name__,
                count=len(frame),
            )
            return False
        if self._out is None:
            assert self.transport is not None, "it is connected"
            self._out = EagerWriter(self.transport)
        self._out.write(_LENGTH.pack(len(frame)) + frame)
        return True

    def _cut(self) -> tuple[list[_Envelope], bool]:
        """Take the frames that have come from what is held; also return whether all could be read."""
        held = self._held
        envelopes: list[_Envelope] = []
        start, end = 0, len(held)
        try:
            while end - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(held, start)
                if length > MAX_FRAME_BYTES:
                    return envelopes, False
                first = start + _LENGTH.size
                if first + length > end:
                    break
                with memoryview(held)[first : first + length] as frame:
                    envelopes.append(_DECODER.decode(frame))
                start = first + length
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return envelopes, False
        del held[:start]
        return envelopes, True

    def _take(self, envelope: _Envelope) -> None:
        kind, number, message = envelope.kind, envelope.number, envelope.message
        if kind == _TELL:
            try:
                self._handler.on_message(message)
            except Exception:  # a bug in the handler must not lose the channel, and with it a whole worker
                _log.failure("internal error: a {message} was not handled", message=type(message).__name__)
        elif kind == _ASK:
            self._answer(number, message)
        elif kind == _ANSWER:
            self._settle(number, message)
        else:
            reason = message.reason if isinstance(message, Failed) else "unknown"
            self._fail_question(number, f"the other side could not answer: {reason}")

    def _answer(self, number: int, question: ChannelMessage) -> None:
        if type(question) is Ping:
            self._send(_ANSWER, number, Done())
            return
        try:
            answer = self._handler.on_question(question)
        except Exception:  # a bug in the handler, as above
            self._refuse(Failure(), number, question)
            return
        if isinstance(answer, Deferred):
            self._answers[answer] = None
            _ = answer.addBoth(self._on_answer, answer, number, question)
        else:
            self._on_answer(answer, None, number, question)

    def _on_answer(
        self,
        answer: ChannelMessage | Failure,
        owed: Deferred[ChannelMessage] | None,
        number: int,
        question: ChannelMessage,
    ) -> None:
        if owed is not None:
            self._answers.pop(owed, None)
        if not self._is_open:
            return
        if isinstance(answer, Failure):
            self._refuse(answer, number, question)
        elif not self._send(_ANSWER, number, answer):
            self._send(_FAILURE, number, Failed("the answer could not be sent"))

    def _refuse(self, failure: Failure, number: int, question: ChannelMessage) -> None:
        """Say that there is no answer; the exception's text may hold anything, so it stays in our log."""
        _log.failure("a {question} could not be answered", failure, question=type(question).__name__)
        name = "an exception" if failure.type is None else failure.type.__name__
        self._send(_FAILURE, number, Failed(name))

    def _forget(self, number: int) -> None:
        question = self._questions.pop(number, None)
        if question is not None and question.limit.active():
            question.limit.cancel()

    def _settle(self, number: int, result: ChannelMessage | Failure) -> None:
        """End the wait for an answer; one that nobody waits for any more is ignored."""
        question = self._questions.get(number)
        if question is not None:
            self._forget(number)
            question.answer.callback(result)

    def _fail_question(self, number: int, reason: str) -> None:
        self._settle(number, Failure(ChannelError(reason)))

    def _abort(self) -> None:
        """End a connection on which something came that is no message."""
        _log.error("closing a channel because a frame on it could not be read")
        self._is_open = False
        transport: Any = self.transport  # Any: ITransport has no such method, all of its kind have
        transport.abortConnection()


class _OneChannel(Factory):
    noisy = False

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def buildProtocol(self, addr: IAddress | None) -> Channel:  # noqa: ARG002  Twisted's signature
        return self._channel


def adopt(reactor: Any, end: socket.socket, handler: Handler) -> Channel:  # Any: any reactor with sockets
    """Make a channel of one end of a pair of sockets, which belongs to the channel from now on.

    Nothing is read before the reactor's next turn.
    """
    channel = Channel(handler, reactor)
    end.settimeout(0)
    with end:  # the reactor duplicates it
        reactor.adoptStreamConnection(end.fileno(), socket.AF_UNIX, _OneChannel(channel))
    return channel
