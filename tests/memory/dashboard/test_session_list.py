"""The open sessions as the dashboard lists them, and what is told of them: both ends are in memory."""

from __future__ import annotations

import pytest
from msgspec import to_builtins

from mgw.dashboard.session_list import (
    MAX_SESSIONS_SHOWN,
    SessionChange,
    SessionChangePublisher,
    SessionPhase,
    SessionRow,
    SessionRows,
    list_sessions,
)
from mgw.nouns.errors import GatewayError
from mgw.realtime.sessions import SessionFacts, Sessions
from mgw.usage.event import NO_SESSION, timestamp
from tests.support.memory_sessions import (
    FIRST_MESSAGE,
    REALTIME,
    RESPONSES,
    SessionHarness,
    closing,
    spoken,
)
from tests.support.raw_sessions import close_frame, frame
from tests.support.usage import exchange

COUNTS = ("bytes_in", "bytes_out", "frames_in", "frames_out")


class Watched(SessionHarness):
    """A session, and what is told of it."""

    def __init__(self, path: str = REALTIME) -> None:
        self.told: list[SessionChange] = []
        super().__init__(path)

    def watch(self) -> None:
        """Hear of sessions from now on."""
        self.server.sessions.observer = SessionChangePublisher(lambda: 1_764_000_010.0, self.told.append)

    def listed(self, later: float = 0.0) -> SessionRows:
        return list_sessions(self.server.sessions, self.server.wall() + later)

    @property
    def row(self) -> SessionRow:
        (row,) = self.listed().sessions
        return row


def test_an_open_session_says_what_it_knows() -> None:
    harness = Watched()
    harness.switch()
    harness.channel.dataReceived(frame(0x81, b"hello") + frame(0x81, b"you"))
    harness.provider.send(spoken(b"yes"))
    harness.clock.advance(2)
    (row,) = harness.listed(2.5).sessions
    assert row == SessionRow(
        request_id=row.request_id,
        time=timestamp(harness.server.wall()),
        seconds=2.5,
        dialect="openai",
        route="realtime_ws",
        provider="main",
        model="m",
        upstream_model="m",
        client="sha256:a1cb100f57e9",
        bytes_in=8,
        bytes_out=3,
        frames_in=2,
        frames_out=1,
    )
    assert row.request_id.startswith("req_")


def test_a_session_that_is_dialled_is_listed_without_counts() -> None:
    said = to_builtins(Watched().row)
    assert said["provider"] == "main"
    assert not set(COUNTS) & set(said)


def test_a_session_that_has_not_named_its_model_is_listed_without_it() -> None:
    harness = Watched(RESPONSES)
    assert not {"provider", "model", "upstream_model"} & set(to_builtins(harness.row))
    harness.channel.dataReceived(FIRST_MESSAGE)
    harness.switch()
    assert (harness.row.provider, harness.row.model, harness.row.upstream_model) == ("main", "main/m", "m")


def test_what_is_told_is_what_is_listed_and_the_counts_of_the_end() -> None:
    harness = Watched(RESPONSES)
    harness.watch()
    (session,) = harness.server.sessions
    harness.server.sessions.free_slot(session)
    harness.server.sessions.take_slot(session)
    harness.channel.dataReceived(FIRST_MESSAGE)
    harness.switch()
    harness.provider.send(spoken(b"yes") + closing(1000))
    harness.channel.dataReceived(close_frame(1000))
    assert harness.is_free()
    assert [change.state for change in harness.told] == ["closed", "opened", "closed"]
    assert {change.time for change in harness.told} == {"2025-11-24T16:00:10.000Z"}
    opened, closed = harness.told[1:]
    assert (opened.request_id, opened.provider, opened.frames_in) == (closed.request_id, None, None)
    event = harness.event
    assert [getattr(closed, name) for name in COUNTS] == [getattr(event, name) for name in COUNTS]
    assert (closed.provider, closed.model, closed.frames_in, closed.frames_out) == ("main", "main/m", 1, 1)


class Slot:
    """Has a slot, and hardly knows more."""

    def __init__(self, name: str) -> None:
        self.name = name

    def shut_down(self) -> None:
        raise AssertionError("nobody ends it")

    def facts(self) -> SessionFacts:
        return SessionFacts(self.name, 0.0, exchange().labels, NO_SESSION)


def test_a_slot_that_is_refused_or_freed_twice_is_told_of_once() -> None:
    told: list[SessionChange] = []
    sessions = Sessions(1, SessionChangePublisher(lambda: 0.0, told.append))
    slot = Slot("a")
    sessions.take_slot(slot)
    with pytest.raises(GatewayError):
        sessions.take_slot(Slot("b"))
    sessions.free_slot(slot)
    sessions.free_slot(slot)
    assert [(change.request_id, change.state) for change in told] == [
        ("a", SessionPhase.OPENED),
        ("a", SessionPhase.CLOSED),
    ]


def test_the_oldest_are_listed_first_up_to_a_bound() -> None:
    sessions = Sessions(MAX_SESSIONS_SHOWN + 5)
    slots = [Slot(str(number)) for number in range(MAX_SESSIONS_SHOWN + 5)]
    for slot in slots:
        sessions.take_slot(slot)
    found = list_sessions(sessions, 0.0)
    assert found.max_sessions == MAX_SESSIONS_SHOWN + 5
    assert [row.request_id for row in found.sessions] == [slot.name for slot in slots[:MAX_SESSIONS_SHOWN]]


def test_a_row_and_a_change_have_the_same_fields() -> None:
    assert set(SessionChange.__struct_fields__) == {*SessionRow.__struct_fields__, "state"}
