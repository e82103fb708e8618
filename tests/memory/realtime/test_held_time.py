"""How long a held message may stay unfinished: both ends in memory, and a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from mgw.realtime.relay import CLOSE_SECONDS
from tests.support.configs import THREE_FAMILIES
from tests.support.memory_sessions import (
    FIRST_MESSAGE,
    LIVE,
    REALTIME,
    RESPONSES,
    SETUP,
    SeenFrame,
    SessionHarness,
    closing,
    opened,
)
from tests.support.raw_sessions import close_frame, frame

Builder = Callable[[], SessionHarness]
IDLE: Final = 60
"""The default of ``timeouts.client_body_idle``."""
MOMENT: Final = 0.5
RESTRICTED: Final = (
    THREE_FAMILIES
    + "\nedge_auth: {enabled: true, keys: [{name: alice, key: edge, models: ['main/*', 'gem/*']}]}"
)
RENAMED: Final = "/v1/realtime?model=fast"
PING: Final = frame(0x89, b"are you there?")
BEGUN: Final = frame(0x01, b'{"type":"session.update",')
MORE: Final = frame(0x00, b'"session":{')
REST: Final = frame(0x80, b"}}")


def restricted() -> SessionHarness:
    """Return a session of a key with ``models``: each of its messages is held."""
    return opened(RESTRICTED, "/v1/realtime?model=main/m")


def renamed() -> SessionHarness:
    """Return one in which messages that repeat the model are held."""
    return opened(path=RENAMED)


def responses() -> SessionHarness:
    """Return one behind its first message: each may name a model."""
    return behind_first(RESPONSES, THREE_FAMILIES, FIRST_MESSAGE)


def live() -> SessionHarness:
    """Return one of Gemini's with a key with ``models``, behind its first message."""
    return behind_first(f"{LIVE}?key=edge", RESTRICTED, SETUP)


def behind_first(path: str, text: str, first: bytes) -> SessionHarness:
    """Return a session whose first message has gone on."""
    harness = SessionHarness(path, text)
    assert harness.take_head().startswith(b"HTTP/1.1 101 ")
    harness.channel.dataReceived(first)
    harness.switch()
    assert len(harness.provider_frames()) == 1
    return harness


EVERY_HOLDER: Final = pytest.mark.parametrize("build", [restricted, renamed, responses, live])


def check_is_given_up(harness: SessionHarness) -> None:
    """The session is closed for a message that stopped, and what was held of it is free."""
    check_closes(harness.client_frames(), harness.provider_frames())
    assert harness.server.budget.held == 0
    harness.clock.advance(CLOSE_SECONDS)
    assert harness.is_free()
    event = harness.event
    assert (event.status, event.http_status, event.error) == ("rejected", 101, "client_timeout")
    assert len(harness.observer.events) == 1


def check_closes(to_client: list[SeenFrame], to_provider: list[SeenFrame]) -> None:
    """Each side has its close, and nothing else."""
    assert [(one.code, one.payload[2:]) for one in to_client] == [
        (1008, b"a message stopped arriving: nothing more was received for 60 s")
    ]
    assert [(one.code, one.payload[2:]) for one in to_provider] == [(1001, b"the client disconnected")]


@EVERY_HOLDER
def test_a_held_message_that_stops_ends_the_session_at_the_limit(build: Builder) -> None:
    harness = build()
    harness.channel.dataReceived(BEGUN)
    assert harness.server.budget.held
    harness.clock.advance(IDLE - MOMENT)
    assert harness.client_frames() == harness.provider_frames() == []
    harness.clock.advance(MOMENT)
    check_is_given_up(harness)


@EVERY_HOLDER
def test_each_part_of_a_held_message_gives_it_the_whole_time_again(build: Builder) -> None:
    harness = build()
    harness.channel.dataReceived(BEGUN)
    for _ in range(5):
        harness.clock.advance(IDLE - MOMENT)
        harness.channel.dataReceived(MORE)
    harness.clock.advance(IDLE - MOMENT)
    assert harness.client_frames() == []
    harness.clock.advance(MOMENT)
    check_is_given_up(harness)


@EVERY_HOLDER
def test_a_single_byte_of_a_held_message_is_progress(build: Builder) -> None:
    harness = build()
    whole = BEGUN + MORE
    harness.channel.dataReceived(whole[:-2])
    harness.clock.advance(IDLE - MOMENT)
    harness.channel.dataReceived(whole[-2:-1])
    harness.clock.advance(IDLE - MOMENT)
    assert harness.client_frames() == []
    harness.clock.advance(MOMENT)
    check_is_given_up(harness)


@EVERY_HOLDER
def test_a_message_that_is_whole_in_time_passes_and_is_timed_no_more(build: Builder) -> None:
    harness = build()
    harness.channel.dataReceived(BEGUN)
    harness.clock.advance(IDLE - MOMENT)
    harness.channel.dataReceived(MORE + REST)
    assert [one.first for one in harness.provider_frames()] == [0x01, 0x00, 0x80]
    harness.clock.advance(10 * IDLE)
    assert harness.client_frames() == harness.provider_frames() == []


def test_a_later_message_has_all_its_time() -> None:
    harness = restricted()
    harness.channel.dataReceived(BEGUN)
    harness.clock.advance(IDLE / 2)
    harness.channel.dataReceived(MORE + REST + BEGUN)
    assert len(harness.provider_frames()) == 3
    harness.clock.advance(IDLE - MOMENT)
    assert harness.client_frames() == []
    harness.clock.advance(MOMENT)
    check_is_given_up(harness)


def test_pings_within_a_held_message_are_no_more_of_it() -> None:
    harness = restricted()
    harness.channel.dataReceived(BEGUN)
    harness.clock.advance(IDLE / 2)
    harness.channel.dataReceived(PING)
    harness.clock.advance(IDLE / 4)
    harness.channel.dataReceived(PING[:4])
    assert harness.take_provider_bytes() == PING
    harness.clock.advance(IDLE / 4)
    check_is_given_up(harness)


def test_half_a_frame_that_stops_is_given_up_too() -> None:
    harness = restricted()
    harness.channel.dataReceived(frame(0x81, bytes(1000))[:500])
    harness.clock.advance(IDLE)
    check_is_given_up(harness)


def test_a_client_that_is_not_read_is_not_timed() -> None:
    harness = restricted()
    harness.channel.dataReceived(BEGUN)
    harness.provider.transport.full = True
    harness.channel.dataReceived(PING)
    assert harness.transport.producerState == "paused"
    harness.clock.advance(3 * IDLE)
    assert harness.client_frames() == []
    harness.provider.transport.drain()
    assert harness.transport.producerState == "producing"
    assert harness.take_provider_bytes() == PING
    harness.clock.advance(IDLE - MOMENT)
    assert harness.client_frames() == []
    harness.clock.advance(MOMENT)
    check_is_given_up(harness)


def test_a_message_that_begins_while_the_client_is_not_read_is_timed_afterwards() -> None:
    harness = restricted()
    harness.provider.transport.full = True
    harness.channel.dataReceived(PING + BEGUN)
    harness.clock.advance(3 * IDLE)
    assert harness.client_frames() == []
    harness.provider.transport.drain()
    harness.take_provider_bytes()
    harness.clock.advance(IDLE)
    check_is_given_up(harness)


def test_an_end_that_has_begun_is_not_told_again() -> None:
    text = RESTRICTED + f"\ntimeouts: {{client_body_idle: {CLOSE_SECONDS / 2}}}"
    harness = opened(text, "/v1/realtime?model=main/m")
    harness.channel.dataReceived(BEGUN)
    harness.provider.send(closing(1000))
    assert [one.code for one in harness.client_frames()] == [1000]
    harness.clock.advance(CLOSE_SECONDS - MOMENT)
    assert harness.client_frames() == harness.provider_frames() == []
    harness.channel.dataReceived(close_frame(1000))
    assert harness.is_free()
    assert harness.event.status == "ok"


@pytest.mark.parametrize("build", [opened, renamed, restricted])
def test_a_session_that_holds_nothing_is_not_timed(build: Builder) -> None:
    harness = build()
    before = timers(harness)
    harness.channel.dataReceived(frame(0x81, b'{"type":"response.create"}'))
    assert timers(harness) == before
    harness.clock.advance(10 * IDLE)
    assert harness.client_frames() == []


@pytest.mark.parametrize("path", [REALTIME, RENAMED])
def test_a_message_that_passes_as_it_comes_is_not_timed(path: str) -> None:
    harness = opened(path=path)
    before = timers(harness)
    harness.channel.dataReceived(frame(0x01, b'{"type":"input_audio_buffer.append","audio":"' + b"A" * 90))
    assert timers(harness) == before
    harness.clock.advance(10 * IDLE)
    assert harness.client_frames() == []
    assert len(harness.provider_frames()) == 1


def timers(harness: SessionHarness) -> list[float]:
    """Return when timers fire."""
    return sorted(call.getTime() for call in harness.clock.getDelayedCalls())
