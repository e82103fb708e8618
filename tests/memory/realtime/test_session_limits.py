"""Limits on a session's time and memory: both ends in memory, and a clock that is moved by hand."""

from __future__ import annotations

import pytest

from mgw.realtime.first_message import FIRST_MESSAGE_BYTES, MAX_WAITING_BYTES
from mgw.realtime.relay import CLOSE_SECONDS
from mgw.realtime.upstream_socket import LINGER_SECONDS
from tests.support.configs import THREE_FAMILIES
from tests.support.memory_sessions import (
    FIRST_MESSAGE,
    LIVE,
    MESSAGE,
    REALTIME,
    RESPONSES,
    SETUP,
    SessionHarness,
    closing,
    opened,
    spoken,
)
from tests.support.raw_sessions import close_frame, frame

LIVE_OF_EDGE = f"{LIVE}?key=edge"


def by_message(path: str = RESPONSES, text: str = THREE_FAMILIES) -> SessionHarness:
    """Return a session that waits for its first message."""
    harness = SessionHarness(path, text)
    assert harness.take_head().startswith(b"HTTP/1.1 101 ")
    return harness


def test_the_limit_of_minutes_is_told_to_both_sides() -> None:
    harness = opened()
    harness.clock.advance(60 * 60 - 1)
    assert harness.client_frames() == harness.provider_frames() == []
    harness.clock.advance(1)
    (to_client,), (to_provider,) = harness.client_frames(), harness.provider_frames()
    assert to_client == to_provider
    assert (to_client.code, to_client.payload[2:]) == (
        1001,
        b"the session has reached its limit of 60 minutes",
    )
    harness.provider.send(closing(1001))
    harness.channel.dataReceived(close_frame(1001))
    assert harness.is_free()
    assert (harness.event.status, harness.event.http_status) == ("ok", 101)
    assert harness.event.session_minutes == 60


def test_the_limit_of_minutes_holds_before_the_first_message_too() -> None:
    text = f"{THREE_FAMILIES}\ntimeouts: {{client_idle: 1000}}\nrealtime: {{max_session_minutes: 1}}"
    harness = by_message(text=text)
    harness.clock.advance(60)
    (said,) = harness.client_frames()
    assert said.payload[2:] == b"the session has reached its limit of 1 minutes"
    assert harness.is_free()


@pytest.mark.parametrize(("path", "seconds"), [(RESPONSES, 90), (LIVE_OF_EDGE, 10)])
def test_a_first_message_has_to_come_in_time(path: str, seconds: int) -> None:
    harness = by_message(path)
    harness.clock.advance(seconds - 1)
    assert harness.client_frames() == []
    harness.clock.advance(1)
    (said,) = harness.client_frames()
    assert said.code == 1008
    assert harness.is_free()
    assert (harness.event.status, harness.event.error) == ("rejected", "client_timeout")


def test_a_close_is_waited_for_five_seconds() -> None:
    harness = opened()
    harness.channel.dataReceived(close_frame(1000))
    assert [said.code for said in harness.provider_frames()] == [1000]
    harness.clock.advance(CLOSE_SECONDS - 1)
    assert not harness.is_free()
    harness.clock.advance(1)
    assert harness.is_free()
    assert harness.event.status == "ok"
    harness.clock.advance(LINGER_SECONDS)
    assert harness.provider.aborted


def test_frames_of_the_provider_still_come_behind_the_clients_close() -> None:
    harness = opened()
    harness.channel.dataReceived(close_frame(1000))
    harness.provider.send(spoken(b"the rest"))
    assert [said.payload for said in harness.client_frames()] == [b"the rest"]
    harness.provider.send(closing(1000))
    assert [said.code for said in harness.client_frames()] == [1000]
    assert harness.is_free()


def test_a_provider_that_takes_nothing_is_given_up() -> None:
    harness = opened()
    harness.provider.transport.full = True
    harness.channel.dataReceived(MESSAGE)
    assert harness.transport.producerState == "paused"
    harness.clock.advance(299)
    assert harness.client_frames() == []
    harness.clock.advance(1)
    assert [said.code for said in harness.client_frames()] == [1011]
    assert harness.provider.aborted
    assert harness.is_free()
    assert (harness.event.status, harness.event.error) == ("upstream_error", "idle_timeout")


def test_a_provider_that_takes_something_in_time_is_kept() -> None:
    harness = opened()
    harness.provider.transport.full = True
    for _ in range(3):
        harness.channel.dataReceived(MESSAGE)
        harness.clock.advance(200)
        harness.provider.transport.drain()
        assert harness.transport.producerState == "producing"
    assert not harness.provider.aborted


def test_a_client_that_takes_nothing_is_given_up() -> None:
    harness = opened()
    harness.channel.pauseProducing()
    assert harness.provider.paused
    harness.clock.pump([15] * 22)
    assert harness.transport.disconnected
    harness.turn()
    assert [said.code for said in harness.provider_frames()] == [1001]
    assert harness.is_free()
    assert (harness.event.status, harness.event.http_status) == ("client_abort", 499)


def test_a_client_that_takes_everything_in_time_is_kept() -> None:
    harness = opened()
    for _ in range(3):
        harness.channel.pauseProducing()
        harness.clock.pump([15] * 13)
        harness.channel.resumeProducing()
        assert not harness.provider.paused
    assert not harness.transport.disconnected


def test_both_sides_may_be_full_at_once() -> None:
    harness = opened()
    harness.provider.transport.full = True
    harness.channel.dataReceived(MESSAGE)
    harness.channel.pauseProducing()
    assert (harness.transport.producerState, harness.provider.paused) == ("paused", True)
    harness.channel.resumeProducing()
    assert (harness.transport.producerState, harness.provider.paused) == ("paused", False)
    harness.provider.transport.drain()
    assert harness.transport.producerState == "producing"


class TestFirstMessage:
    """What is held while the model is not known, and while the provider is dialled."""

    def test_a_large_message_is_refused(self) -> None:
        harness = by_message(LIVE_OF_EDGE)
        harness.channel.dataReceived(frame(0x02, b"{" + bytes(65_000)))
        for _ in range(FIRST_MESSAGE_BYTES // 65_000):
            harness.channel.dataReceived(frame(0x00, bytes(65_000)))
        (said,) = harness.client_frames()
        assert said.code == 1008
        assert harness.is_free()
        assert harness.event.error == "request_too_large"

    @pytest.mark.parametrize("flood", [frame(0x89, bytes(125)), frame(0x00)], ids=["pings", "empty"])
    def test_what_is_no_message_counts_as_well(self, flood: bytes) -> None:
        harness = by_message(LIVE_OF_EDGE)
        harness.channel.dataReceived(frame(0x01))
        most = harness.server.budget.held
        while not harness.observer.events:
            harness.channel.dataReceived(flood * 500)
            most = max(most, harness.server.budget.held)
            assert most <= FIRST_MESSAGE_BYTES + MAX_WAITING_BYTES + len(flood) * 500
        *pongs, last = harness.client_frames()
        assert {said.first for said in pongs} <= {0x8A}
        assert last.code == 1008
        assert harness.is_free()

    def test_what_comes_behind_it_waits_and_then_passes(self) -> None:
        harness = by_message()
        harness.channel.dataReceived(FIRST_MESSAGE)
        behind = frame(0x82, bytes(60_000))
        harness.channel.dataReceived(behind)
        assert harness.transport.producerState == "producing"
        harness.channel.dataReceived(behind)
        assert harness.transport.producerState == "paused"
        harness.switch()
        assert [len(said.payload) for said in harness.provider_frames()] == [38, 60_000, 60_000]
        assert harness.transport.producerState == "producing"
        assert harness.server.budget.held == 0

    @pytest.mark.parametrize(("path", "first"), [(RESPONSES, FIRST_MESSAGE), (LIVE_OF_EDGE, SETUP)])
    def test_nothing_is_lost_where_there_is_no_memory_for_it(self, path: str, first: bytes) -> None:
        harness = by_message(path)
        harness.channel.dataReceived(first)
        harness.server.budget.max_bytes = harness.server.budget.held
        harness.channel.dataReceived(MESSAGE)
        harness.server.budget.max_bytes = 1_000_000
        harness.channel.dataReceived(MESSAGE)
        assert [said.code for said in harness.client_frames()] == [1013]
        harness.turn()
        assert harness.is_free()
        assert (harness.event.status, harness.event.error) == ("rejected", "overloaded")


def test_a_provider_that_floods_waits_for_a_client_that_reads_nothing() -> None:
    harness = opened()
    harness.channel.pauseProducing()
    assert harness.provider.paused
    harness.channel.resumeProducing()
    assert not harness.provider.paused


def test_a_session_whose_client_is_full_still_ends_when_its_provider_leaves() -> None:
    harness = opened()
    harness.channel.pauseProducing()
    harness.provider.close()
    assert [said.code for said in harness.client_frames()] == [1011]
    assert harness.is_free()


@pytest.mark.parametrize("path", [REALTIME, RESPONSES])
def test_a_session_has_no_timers_left_at_its_end(path: str) -> None:
    harness = opened() if path == REALTIME else by_message()
    if path == RESPONSES:
        harness.channel.dataReceived(FIRST_MESSAGE)
        harness.switch()
    harness.leave()
    harness.provider.close()
    harness.turn()
    assert harness.clock.getDelayedCalls() == []


def test_pings_within_a_held_message_go_on() -> None:
    ping, count = frame(0x89, b"are you there?"), 100_000
    harness = by_message()
    harness.channel.dataReceived(FIRST_MESSAGE)
    harness.switch()
    harness.channel.dataReceived(frame(0x01, b"{"))
    harness.take_provider_bytes()
    held = harness.server.budget.held
    for _ in range(count // 2500):
        harness.channel.dataReceived(ping * 2500)
        assert harness.take_provider_bytes() == ping * 2500
    assert harness.client_frames() == []
    assert harness.server.budget.held == held
    harness.channel.dataReceived(frame(0x80, b"}"))
    assert [said.payload for said in harness.provider_frames()] == [b"{", b"}"]


def test_the_headers_of_a_held_message_are_bounded() -> None:
    harness = by_message()
    harness.channel.dataReceived(FIRST_MESSAGE)
    harness.switch()
    harness.channel.dataReceived(frame(0x01, b"{"))
    pieces = 0
    while not (said := harness.client_frames()):
        harness.channel.dataReceived(frame(0x00) * 4000)
        pieces += 1
        assert pieces < 20
    assert [(one.code, one.payload[2:]) for one in said] == [
        (1009, b"the frames of a message have more than 262144 bytes of headers")
    ]
    assert [one.code for one in harness.provider_frames()[1:]] == [1009]
    harness.leave()
    harness.provider.close()
    assert harness.is_free()
