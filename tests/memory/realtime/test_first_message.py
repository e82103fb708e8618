"""The first message of a client: gathered, within limits, while nobody but the gateway can answer pings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from twisted.internet.task import Clock
from wsproto.frame_protocol import FrameProtocol, Opcode

from mgw.bodies.budget import BodyBudget, Reservation
from mgw.nouns.errors import Reason
from mgw.reactor.deadline import TimerWheel
from mgw.realtime.first_message import MAX_WAITING_BYTES, FirstMessage
from mgw.realtime.messages import MAX_FRAMING_BYTES
from tests.support.deferreds import refusal_of
from tests.support.raw_sessions import frame
from tests.support.relayed_sessions import MemoryConnection, read

MAKER: Final = FrameProtocol(True, [])
MESSAGE: Final = b'{"setup":{}}'
FRAME: Final = bytes(MAKER.send_data(MESSAGE.decode(), fin=True))
PING: Final = bytes(MAKER.ping(b"are you there?"))
PONG: Final = bytes(MAKER.pong(b"I am here"))


class Opening:
    """A client whose first message is waited for."""

    def __init__(self, limit: int = 1 << 20, max_held: int = 1 << 30) -> None:
        self.budget = BodyBudget(max_held)
        self.client = MemoryConnection()
        self.clock = Clock()
        wheel, memory = TimerWheel(self.clock), Reservation(self.budget)
        self.first = FirstMessage(limit, 10.0, wheel, memory, self.client, lambda _: None)


@pytest.mark.parametrize("cut", range(1, len(PING)))
def test_pings_ahead_of_it_are_answered_and_not_kept(cut: int) -> None:
    opening = Opening()
    for data in (PING[:cut], PING[cut:] + PING, PING):
        opening.first.on_client_data(data)
    frames, _ = read(bytes(opening.client.received), is_client=True)
    assert [(frame.opcode, bytes(frame.payload)) for frame in frames] == [  # type: ignore[arg-type]  # bytes here
        (Opcode.PONG, b"are you there?")
    ] * 3
    assert opening.budget.held == 0
    opening.first.on_client_data(FRAME)
    assert opening.first.whole.result == MESSAGE
    assert opening.first.take() == FRAME


@pytest.mark.parametrize("cut", range(1, len(PING)))
def test_pings_within_it_are_answered_and_not_kept(cut: int) -> None:
    opening = Opening()
    begin, end = frame(0x01, MESSAGE[:4]), frame(0x80, MESSAGE[4:])
    for data in (PONG + PING + begin + PING[:cut], PING[cut:] + PONG, PING):
        opening.first.on_client_data(data)
    frames, _ = read(bytes(opening.client.received), is_client=True)
    assert [frame.opcode for frame in frames] == [Opcode.PONG] * 3
    assert opening.budget.held == len(begin)
    opening.first.on_client_data(PING + end + PING)
    assert opening.first.whole.result == MESSAGE
    assert opening.first.take() == begin + PING + end + PING  # from here on the provider answers
    assert opening.budget.held == 0


def test_pings_within_it_gain_no_time() -> None:
    opening = Opening()
    opening.first.on_client_data(frame(0x01, MESSAGE[:4]))
    for _ in range(4):
        opening.clock.pump([1.0] * 2)
        opening.first.on_client_data(PING)
    opening.clock.pump([1.0] * 2)
    assert refusal_of(opening.first.whole).reason is Reason.CLIENT_TOO_SLOW


def test_a_client_that_pings_may_wait_longer() -> None:
    opening = Opening()
    for _ in range(3):
        opening.clock.pump([1.0] * 9)
        opening.first.on_client_data(PING)
    assert not opening.first.whole.called
    opening.clock.pump([1.0] * 12)
    assert refusal_of(opening.first.whole).reason is Reason.CLIENT_TOO_SLOW


def test_a_pong_that_nobody_asked_for_is_not_answered_and_gains_no_time() -> None:
    opening = Opening()
    for _ in range(4):
        opening.clock.pump([1.0] * 2)
        opening.first.on_client_data(PONG + PONG)
    assert opening.client.received == b""
    assert opening.budget.held == 0
    opening.clock.pump([1.0])
    assert not opening.first.whole.called
    opening.clock.pump([1.0])
    assert refusal_of(opening.first.whole).reason is Reason.CLIENT_TOO_SLOW


def test_who_does_not_take_the_pongs_may_send_no_more_pings() -> None:
    opening = Opening()
    opening.first.on_client_full()
    assert opening.client.is_paused
    opening.first.on_client_drained()
    assert not opening.client.is_paused


def test_who_sends_much_behind_it_is_paused_until_it_is_taken() -> None:
    opening = Opening()
    opening.first.on_client_data(FRAME)
    opening.first.on_client_data(bytes(MAX_WAITING_BYTES))
    assert not opening.client.is_paused
    opening.first.on_client_full()
    opening.first.on_client_drained()
    assert not opening.client.is_paused
    opening.first.on_client_data(b"x")
    assert opening.client.is_paused
    opening.first.on_client_drained()
    assert opening.client.is_paused
    _ = opening.first.take()
    assert not opening.client.is_paused


def headers(size: int) -> bytes:
    """Return the begin of a message with so many bytes of headers, and none of payload."""
    pinged = frame(0x89, bytes(size % 6))
    return frame(0x01) + frame(0x00) * (size // 6 - 2) + pinged


def payload(size: int) -> bytes:
    """Return the begin of a message with so many bytes of payload."""
    return frame(0x01, bytes(size - 10)) + frame(0x80, bytes(500))[: -500 + 10]


@pytest.mark.parametrize(
    ("make", "limit", "said"),
    [
        (headers, MAX_FRAMING_BYTES, "the first message is larger than 262144 bytes of headers and pings"),
        (payload, 1000, "the first message is larger than 1000 bytes"),
    ],
    ids=["headers", "payload"],
)
def test_more_than_its_limit_is_refused(make: Callable[[int], bytes], limit: int, said: str) -> None:
    opening = Opening(limit=1000)
    opening.first.on_client_data(make(limit))
    assert not opening.first.whole.called
    opening = Opening(limit=1000)
    opening.first.on_client_data(make(limit + 1))
    refusal = refusal_of(opening.first.whole)
    assert (refusal.reason, refusal.message) == (Reason.BODY_TOO_LARGE, said)
    assert opening.first.left is None
