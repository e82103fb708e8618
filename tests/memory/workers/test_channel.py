"""The channel between the supervisor's process and a worker."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.internet.tcp import Connection
from twisted.logger import LogEvent, globalLogPublisher
from twisted.python.failure import Failure

from mgw.clients.limits import Taken
from mgw.workers import channel as channel_module
from mgw.workers.channel import Channel, ChannelError
from mgw.workers.messages import (
    ChannelMessage,
    Done,
    Drain,
    LogText,
    PermitGranted,
    Ping,
    ReleasePermit,
    Rows,
    SessionNews,
    StateQuestion,
    TokenQuestion,
)
from tests.support.deferreds import result_of
from tests.support.fleet import ChannelPair, RecordingHandler, open_channel

SECRET = "sk-canary-in-a-frame"
FREED = ReleasePermit(1, Taken(1, 2, 3))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pair(clock: Clock) -> ChannelPair:
    return ChannelPair(clock)


@pytest.fixture
def logged() -> Iterator[list[LogEvent]]:
    """What was logged."""
    events: list[LogEvent] = []
    observer: Any = events.append  # Any: ILogObserver wants it declared
    globalLogPublisher.addObserver(observer)
    yield events
    globalLogPublisher.removeObserver(observer)


def error_of(answer: Deferred[ChannelMessage]) -> str:
    with pytest.raises(ChannelError) as caught:
        result_of(answer)
    return str(caught.value)


def test_what_is_told_arrives_in_order_both_ways(pair: ChannelPair) -> None:
    rows = Rows([(1, (b"a", None))], b"requests")
    pair.near.tell(Drain(3.0))
    pair.near.tell(rows)
    pair.far.tell(LogText("info", 1.0, "text"))
    pair.pump()
    assert pair.theirs.told[0] == Drain(3.0)
    got = pair.theirs.told[1]
    assert isinstance(got, Rows)
    assert (got.labels, got.requests) == ([(1, (b"a", None))], b"requests")
    assert pair.ours.told == [LogText("info", 1.0, "text")]


@given(
    told=st.lists(st.text("aé", max_size=5), max_size=5),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=20),
)
def test_any_cut_of_the_stream_gives_the_same_messages(told: list[str], lengths: list[int]) -> None:
    sender, transport = open_channel(RecordingHandler(), Clock())
    for text in told:
        sender.tell(TokenQuestion(text, None))
    stream, handler = transport.take(), RecordingHandler()
    receiver, _ = open_channel(handler, Clock())
    turn = 0
    while stream:
        length = lengths[turn % len(lengths)]
        receiver.dataReceived(stream[:length])
        stream, turn = stream[length:], turn + 1
    assert handler.told == [TokenQuestion(text, None) for text in told]


def test_each_question_gets_its_own_answer_whenever_that_comes(pair: ChannelPair, clock: Clock) -> None:
    later: Deferred[ChannelMessage] = Deferred()
    pair.theirs.answer = lambda question: later if isinstance(question, TokenQuestion) else Done()
    slow, quick = pair.near.ask(TokenQuestion("c", None), 5), pair.near.ask(StateQuestion(), 5)
    pair.pump()
    assert result_of(quick) == Done()
    later.callback(PermitGranted(7))
    pair.pump()
    assert result_of(slow) == PermitGranted(7)
    assert not clock.getDelayedCalls()


def test_both_ends_may_ask_at_the_same_time(pair: ChannelPair) -> None:
    pair.ours.answer, pair.theirs.answer = lambda _: PermitGranted(1), lambda _: PermitGranted(2)
    near, far = pair.near.ask(TokenQuestion("a", None), 5), pair.far.ask(TokenQuestion("b", None), 5)
    pair.pump()
    assert (result_of(near), result_of(far)) == (PermitGranted(2), PermitGranted(1))


def test_a_ping_is_answered_by_the_channel_itself(pair: ChannelPair) -> None:
    answer = pair.near.ask(Ping(), 5)
    pair.pump()
    assert result_of(answer) == Done()
    assert not pair.theirs.asked


def test_an_answer_after_the_time_limit_is_ignored(pair: ChannelPair, clock: Clock) -> None:
    later: Deferred[ChannelMessage] = Deferred()
    pair.theirs.answer = lambda _: later
    answer = pair.near.ask(StateQuestion(), 5)
    pair.pump()
    clock.advance(4.9)
    assert not answer.called
    clock.advance(0.1)
    assert error_of(answer) == "no answer in 5 s"
    later.callback(Done())
    pair.pump()
    assert pair.near.is_open


def test_a_cancelled_question_is_forgotten(pair: ChannelPair, clock: Clock) -> None:
    answer = pair.near.ask(StateQuestion(), 5)
    answer.cancel()
    with pytest.raises(CancelledError):
        result_of(answer)
    assert not clock.getDelayedCalls()
    pair.pump()
    assert pair.theirs.asked == [StateQuestion()]


@pytest.mark.parametrize("when", ["at once", "later"])
def test_an_exception_there_fails_the_question_without_its_text(
    pair: ChannelPair, when: str, logged: list[LogEvent]
) -> None:
    later: Deferred[ChannelMessage] = Deferred()

    def refuse(question: ChannelMessage) -> Deferred[ChannelMessage]:
        if when == "at once":
            raise KeyError(SECRET)
        return later

    pair.theirs.answer = refuse
    answer = pair.near.ask(StateQuestion(), 5)
    pair.pump()
    if when == "later":
        later.errback(KeyError(SECRET))
        pair.pump()
    assert error_of(answer) == "the other side could not answer: KeyError"
    (event,) = logged
    assert isinstance(event["log_failure"], Failure)
    assert pair.near.is_open
    assert pair.far.is_open


def test_a_handler_that_raises_loses_no_other_message(pair: ChannelPair, logged: list[LogEvent]) -> None:
    class Fragile(RecordingHandler):
        def on_message(self, message: ChannelMessage) -> None:
            super().on_message(message)
            if message == Drain(1.0):
                raise ZeroDivisionError

    handler = Fragile()
    far, _ = open_channel(handler, Clock())
    pair.near.tell(Drain(1.0))
    pair.near.tell(FREED)
    far.dataReceived(pair.near_transport.take())
    assert handler.told == [Drain(1.0), FREED]
    assert [event["log_failure"].type for event in logged] == [ZeroDivisionError]


def test_the_loss_fails_open_questions_cancels_owed_answers_and_tells_once(pair: ChannelPair) -> None:
    owed: Deferred[ChannelMessage] = Deferred()
    ended: list[object] = []

    def on_end(failure: Failure) -> Failure:
        ended.append(failure.type)
        return failure

    _ = owed.addErrback(on_end)
    pair.theirs.answer = lambda _: owed
    answer = pair.near.ask(StateQuestion(), 5)
    pair.pump()
    pair.lose()
    assert error_of(answer) == "the channel was lost"
    assert ended == [CancelledError]
    assert (pair.ours.losses, pair.theirs.losses) == (1, 1)


def test_after_the_loss_nothing_is_said_and_questions_fail_at_once(pair: ChannelPair) -> None:
    pair.lose()
    pair.near.tell(FREED)
    assert error_of(pair.near.ask(StateQuestion(), 5)) == "the channel is closed"
    assert pair.near_transport.written == b""


def test_who_closes_takes_nothing_more_but_sends_what_was_said(pair: ChannelPair) -> None:
    pair.near.tell(FREED)
    pair.far.tell(FREED)
    pair.near.lose()
    pair.pump()
    assert pair.near_transport.disconnecting
    assert pair.theirs.told == [FREED]
    assert not pair.ours.told


def test_a_handler_may_close_the_channel_between_two_messages(pair: ChannelPair) -> None:
    class Closing(RecordingHandler):
        def on_message(self, message: ChannelMessage) -> None:
            super().on_message(message)
            far.lose()

    handler = Closing()
    far, _ = open_channel(handler, Clock())
    pair.near.tell(FREED)
    pair.near.tell(FREED)
    far.dataReceived(pair.near_transport.take())
    assert handler.told == [FREED]


BROKEN = {
    "no msgpack": b"\xc1" + SECRET.encode(),
    "no envelope": msgspec.msgpack.encode(SECRET),
    "no such message": msgspec.msgpack.encode([0, 0, ["Unheard", SECRET]]),
    "text that is none": msgspec.msgpack.encode([0, 0, ["TokenQuestion", "abc"]]).replace(b"abc", b"a\xffc"),
    "too few fields": msgspec.msgpack.encode([0, 0, ["Drain"]]),
}


@pytest.mark.parametrize("frame", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_message_closes_the_channel_and_is_not_quoted(
    pair: ChannelPair, frame: bytes, logged: list[LogEvent]
) -> None:
    pair.near.tell(FREED)
    data = pair.near_transport.take() + struct.pack("!I", len(frame)) + frame
    pair.far.dataReceived(data)
    assert pair.theirs.told == [FREED]
    assert pair.far_transport.aborting
    assert not pair.far.is_open
    (event,) = logged
    assert event["log_format"] == "closing a channel because a frame on it could not be read"
    assert SECRET not in str(event)


def test_a_frame_that_would_be_too_long_closes_the_channel_before_it_has_come(pair: ChannelPair) -> None:
    pair.near.dataReceived(struct.pack("!I", channel_module.MAX_FRAME_BYTES))
    assert not pair.near_transport.aborting
    pair.far.dataReceived(struct.pack("!I", channel_module.MAX_FRAME_BYTES + 1))
    assert pair.far_transport.aborting


def test_what_is_too_long_is_not_sent(
    pair: ChannelPair, monkeypatch: pytest.MonkeyPatch, logged: list[LogEvent]
) -> None:
    monkeypatch.setattr(channel_module, "MAX_FRAME_BYTES", 100)
    pair.near.tell(TokenQuestion("c" * 200, None))
    assert error_of(pair.near.ask(TokenQuestion("c" * 200, None), 5)) == "the question could not be sent"
    pair.theirs.answer = lambda _: LogText("info", 0.0, "t" * 200)
    answer = pair.near.ask(StateQuestion(), 5)
    pair.pump()
    assert error_of(answer).endswith("the answer could not be sent")
    assert len(logged) == 3
    assert pair.near.is_open
    assert pair.far.is_open


@pytest.mark.parametrize("value", [object(), 1 << 80, "\ud800"], ids=["type", "number", "surrogate"])
def test_telling_what_cannot_be_encoded_raises_nothing(
    pair: ChannelPair, value: object, logged: list[LogEvent]
) -> None:
    pair.near.tell(SessionNews({"model": value}))
    pair.near.tell(FREED)
    pair.pump()
    assert pair.theirs.told == [FREED]
    assert len(logged) == 1


def test_what_the_transport_has_not_taken_is_counted(pair: ChannelPair) -> None:
    assert pair.near.waiting_bytes == 0
    transport = pair.near_transport
    transport.dataBuffer, transport.offset, transport._tempDataLen = b"x" * 10, 4, 5
    assert pair.near.waiting_bytes == 11


class Kernel:
    """A socket that takes everything."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> int:
        self.sent.append(data)
        return len(data)


class Transport(Connection):
    """A transport over such a socket."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def getHandle(self) -> Any:  # Any: half a socket
        return self.kernel


def test_what_is_told_is_sent_at_once(clock: Clock) -> None:
    kernel = Kernel()
    channel = Channel(RecordingHandler(), clock)
    channel.makeConnection(Transport(kernel))  # type: ignore[no-untyped-call]  # Twisted's
    channel.tell(ReleasePermit(7, Taken(1)))
    assert len(kernel.sent) == 1
