"""The open realtime sessions, for the dashboard and its feed.

Nothing is done for a frame: what has passed is what the relay counts for the usage event anyhow, and it is
looked at when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from operator import attrgetter
from typing import Final

from msgspec import Struct

from mgw.realtime.sessions import OpenSession, SessionFacts, Sessions
from mgw.usage.event import timestamp

MAX_SESSIONS_SHOWN: Final = 1000


class SessionPhase(StrEnum):
    """What has happened to a session."""

    OPENED = "opened"
    CLOSED = "closed"


class SessionRow(Struct, frozen=True, omit_defaults=True):
    """One session; what is not known, as the provider of one that has not named a model yet, is left out."""

    request_id: str
    time: str
    """When it was asked for, RFC 3339 in UTC."""
    seconds: float
    """How long ago that is."""
    dialect: str
    route: str
    provider: str | None = None
    model: str | None = None
    upstream_model: str | None = None
    client: str | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    frames_in: int | None = None
    frames_out: int | None = None


class SessionChange(Struct, frozen=True, omit_defaults=True):
    """A session was opened or closed; the other fields are those of its row."""

    time: str
    """When that was."""
    state: SessionPhase
    request_id: str
    seconds: float
    dialect: str
    route: str
    provider: str | None = None
    model: str | None = None
    upstream_model: str | None = None
    client: str | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    frames_in: int | None = None
    frames_out: int | None = None


class SessionRows(Struct, frozen=True):
    """The answer to ``GET /v1/dashboard/sessions``."""

    max_sessions: int
    sessions: list[SessionRow]


def list_sessions(sessions: Sessions, now: float, others: Sequence[SessionRow] = ()) -> SessionRows:
    """Return the sessions that have a slot, at most 1,000 of them; the oldest come first.

    :param now: unix seconds.
    :param others: the sessions of other processes, of which the oldest comes first.
    """
    shown = [_row_of(session.facts(), now) for session in islice(sessions, MAX_SESSIONS_SHOWN)]
    if others:
        shown = sorted([*shown, *others], key=attrgetter("time"))[:MAX_SESSIONS_SHOWN]
    return SessionRows(sessions.max_sessions, shown)


@dataclass(slots=True, frozen=True)
class SessionChangePublisher:
    """Tells of sessions that are opened and closed (:class:`mgw.realtime.sessions.SessionObserver`)."""

    wall: Callable[[], float]
    publish: Callable[[SessionChange], None]

    def __call__(self, session: OpenSession, *, is_open: bool) -> None:
        """A session got its slot, or gives it back."""
        now = self.wall()
        row = _row_of(session.facts(), now)
        self.publish(
            SessionChange(
                timestamp(now),
                SessionPhase.OPENED if is_open else SessionPhase.CLOSED,
                row.request_id,
                row.seconds,
                row.dialect,
                row.route,
                row.provider,
                row.model,
                row.upstream_model,
                row.client,
                row.bytes_in,
                row.bytes_out,
                row.frames_in,
                row.frames_out,
            )
        )


def _row_of(facts: SessionFacts, now: float) -> SessionRow:
    labels, counts = facts.labels, facts.counts
    return SessionRow(
        facts.request_id,
        timestamp(facts.began),
        round(max(0.0, now - facts.began), 3),
        labels.dialect,
        labels.route,
        labels.provider,
        labels.model,
        labels.upstream_model,
        labels.client,
        counts.bytes_in,
        counts.bytes_out,
        counts.frames_in,
        counts.frames_out,
    )
