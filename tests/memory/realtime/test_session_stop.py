"""What a stop and a reload of the gateway mean for sessions, whatever they are at."""

from __future__ import annotations

import pytest

from mgw.realtime.relay import CLOSE_SECONDS
from tests.support.memory_sessions import (
    FIRST_MESSAGE,
    MESSAGE,
    REALTIME,
    RESPONSES,
    SessionHarness,
    closing,
    opened,
    spoken,
)
from tests.support.raw_sessions import close_frame, frame, handshake
from tests.support.web_servers import WebServerHarness


def test_who_comes_while_the_gateway_drains_is_refused_and_who_is_there_goes_on() -> None:
    harness = opened()
    harness.server.draining = True
    harness.factory.drain()
    harness.clock.advance(10)
    harness.provider.send(spoken(b"still here"))
    assert [said.payload for said in harness.client_frames()] == [b"still here"]
    first = harness.transport
    harness.connect()
    harness.channel.dataReceived(handshake(REALTIME, "edge"))
    assert harness.status() == 503
    assert not first.disconnecting


def test_an_open_session_is_told_when_the_drain_is_over() -> None:
    harness = opened()
    harness.server.draining = True
    harness.server.abort_requests()
    for said in (harness.client_frames(), harness.provider_frames()):
        assert [(one.code, one.payload[2:]) for one in said] == [(1001, b"the gateway is shutting down")]
    harness.provider.send(closing(1001))
    harness.channel.dataReceived(close_frame(1001))
    assert harness.is_free()
    assert (harness.event.status, harness.event.error, harness.event.http_status) == (
        "rejected",
        "draining",
        101,
    )


def test_a_second_end_of_the_drain_changes_nothing() -> None:
    harness = opened()
    harness.server.abort_requests()
    harness.server.abort_requests()
    assert len(harness.client_frames()) == len(harness.provider_frames()) == 1
    harness.clock.advance(CLOSE_SECONDS)
    assert harness.is_free()
    assert len(harness.observer.events) == 1


def test_a_session_that_waits_for_its_first_message_is_told_too() -> None:
    harness = SessionHarness(RESPONSES)
    harness.take_head()
    harness.server.abort_requests()
    assert [said.code for said in harness.client_frames()] == [1001]
    assert harness.is_free()
    assert harness.event.error == "draining"


def test_a_session_whose_provider_is_dialled_behind_its_message_is_told_too() -> None:
    harness = SessionHarness(RESPONSES)
    harness.take_head()
    harness.channel.dataReceived(FIRST_MESSAGE)
    harness.server.abort_requests()
    assert [said.code for said in harness.client_frames()] == [1001]
    assert harness.provider.aborted
    assert harness.is_free()
    assert (harness.event.status, harness.event.error) == ("rejected", "draining")


def test_a_session_that_has_no_101_yet_is_refused() -> None:
    harness = SessionHarness()
    harness.server.abort_requests()
    assert harness.status() == 503
    assert harness.provider.aborted
    assert harness.is_free()


def test_a_reload_leaves_sessions_alone_and_changes_how_many_there_may_be() -> None:
    harness = opened()
    text = "realtime: {max_sessions: 1}\n" + harness.pipeline.text
    other = WebServerHarness(text)
    harness.server.use(other.generation)
    assert harness.server.sessions.max_sessions == 1
    harness.provider.send(spoken(b"still here"))
    assert [said.payload for said in harness.client_frames()] == [b"still here"]
    first, first_transport = harness.channel, harness.transport
    harness.connect()
    harness.channel.dataReceived(handshake("/v1/realtime?model=main/m"))
    assert harness.status() == 429
    assert b"Retry-After: 1" in harness.received()
    first.dataReceived(close_frame(1000))
    harness.pipeline.connection.send(closing(1000))
    assert first_transport.value().endswith(closing(1000))
    assert harness.server.sessions.count == 0


@pytest.mark.parametrize("cut", [1, 4, 8])
def test_a_gateway_that_ends_in_the_middle_of_a_frame_waits_for_its_rest(cut: int) -> None:
    harness = opened()
    harness.channel.dataReceived(MESSAGE[:cut])
    harness.provider.send(spoken(b"some words")[:cut])
    harness.server.abort_requests()
    harness.take_client_bytes()
    harness.channel.dataReceived(MESSAGE[cut:] + MESSAGE)
    harness.provider.send(spoken(b"some words")[cut:] + spoken(b"more"))
    data = spoken(b"some words")[cut:]
    said = harness.take_client_bytes()
    assert said.startswith(data)
    assert said[len(data) :].startswith(b"\x88")
    assert len(harness.provider_frames()) == 2  # the message, and the close
    harness.clock.advance(CLOSE_SECONDS)
    assert harness.is_free()


def test_a_gateway_that_ends_within_a_fragmented_message_says_so_between_its_frames() -> None:
    harness = opened()
    harness.channel.dataReceived(frame(0x01, b"some"))
    harness.provider.send(spoken(b"some", 0x01))
    harness.server.abort_requests()
    assert [said.first for said in harness.client_frames()] == [0x01, 0x88]
    assert [said.first for said in harness.provider_frames()] == [0x01, 0x88]
    harness.provider.send(spoken(b" more", 0x80) + closing(1001))
    harness.channel.dataReceived(frame(0x80, b" more") + close_frame(1001))
    assert harness.client_frames() == harness.provider_frames() == []
    assert harness.is_free()


def test_a_gateway_that_ends_in_a_frame_whose_rest_never_comes_breaks_off() -> None:
    harness = opened()
    harness.provider.send(spoken(b"some words")[:5])
    harness.server.abort_requests()
    harness.clock.advance(CLOSE_SECONDS)
    assert harness.is_free()
    assert harness.transport.disconnected


STATES = ("dialling", "asking", "first message", "dialling behind it", "open", "closing")


@pytest.mark.parametrize(
    ("who", "state"),
    [
        *(("client", state) for state in STATES),
        *(("provider", state) for state in STATES if state not in {"dialling", "first message"}),
        *(("channel", state) for state in STATES[2:]),
    ],
)
def test_a_break_in_any_state_leaves_one_event_and_nothing_else(state: str, who: str) -> None:
    harness = brought_to(state)
    if who == "client":
        harness.leave()
    elif who == "channel":
        harness.factory.abort()
    else:
        harness.provider.reset()
    harness.turn()
    harness.clock.advance(20)
    harness.turn()
    assert harness.is_free()
    assert len(harness.observer.events) == 1
    assert len(harness.observer.lines) == 1


def test_a_dial_that_takes_too_long_is_a_refusal() -> None:
    harness = brought_to("dialling")
    harness.clock.advance(10)
    assert harness.status() == 504
    assert harness.pipeline.endpoint.cancelled == 1
    assert harness.is_free()


def brought_to(state: str) -> SessionHarness:
    if state == "dialling":
        harness = SessionHarness.__new__(SessionHarness)
        WebServerHarness.__init__(harness)
        harness.pipeline.endpoint.held = True
        harness.channel.dataReceived(handshake(REALTIME, "edge"))
        assert harness.pipeline.endpoint.pending
        return harness
    if state == "asking":
        return SessionHarness()
    if state in {"first message", "dialling behind it"}:
        harness = SessionHarness(RESPONSES)
        if state == "dialling behind it":
            harness.channel.dataReceived(FIRST_MESSAGE)
        return harness
    harness = opened()
    if state == "closing":
        harness.channel.dataReceived(close_frame(1000))
    return harness
