"""The live parts of the dashboard behind one interface: their input from the gateway, and their answers.

The feed has every usage event, line of the log, change of a provider's health and session that is opened or
closed; of each there is also a list of what is known now.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import urandom
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins
from msgspec.json import encode

from mgw.config.settings import Config
from mgw.dashboard.event_ring import EventKind, EventRing
from mgw.dashboard.feed import Feed, parse_kinds
from mgw.dashboard.log_lines import DEFAULT_LINES, MAX_LINES, LogLine, LogLines
from mgw.dashboard.provider_state import HealthChange, ProviderStates
from mgw.dashboard.responses import Answer, Query
from mgw.dashboard.session_list import SessionChange, SessionChangePublisher, SessionRow, list_sessions
from mgw.nouns.errors import GatewayError, Reason
from mgw.realtime.sessions import Sessions

if TYPE_CHECKING:
    from twisted.web.server import Request  # no more than its type: see mgw.dashboard.recorder

_START_BYTES = 4


def _no_rows() -> Sequence[SessionRow]:
    return ()


@dataclass(slots=True, eq=False, repr=False)
class LiveParts:
    """The parts, for as long as the process runs."""

    reactor: Any  # Any: a reactor has no one type
    wall: Callable[[], float]
    """Returns unix seconds."""
    sessions: Sessions
    other_sessions: Callable[[], Sequence[SessionRow]] = _no_rows
    """The sessions of other processes."""
    feed: Feed = field(init=False)
    log_lines: LogLines = field(init=False)
    """An observer of the process log, behind its redaction."""
    states: ProviderStates = field(init=False)

    def __post_init__(self) -> None:
        self.feed = Feed(self.reactor, EventRing(urandom(_START_BYTES).hex()))
        self.log_lines = LogLines(self._in_reactor, self._publish_lines)
        self.states = ProviderStates(self.wall, self._publish_health)
        self.sessions.observer = SessionChangePublisher(self.wall, self.publish_session)

    def use(self, config: Config) -> None:
        """Follow another configuration, and keep nothing of the one before."""
        self.states.use(config.providers)
        self._go_on(self.feed.ring.release_rows())

    def serve_events(self, request: Request, query: Query) -> Awaitable[None]:
        """Respond to ``GET /v1/dashboard/events``.

        :raises GatewayError: as :meth:`Feed.serve` does, and for an unknown kind.
        """
        return self.feed.serve(request, parse_kinds(query.get("kinds")), request.getHeader("last-event-id"))

    def answer_logs(self, query: Query) -> Answer:
        """Answer ``GET /v1/dashboard/logs``.

        :raises GatewayError: ``MALFORMED``.
        """
        text = query.get("lines", str(DEFAULT_LINES))
        if not (text.isascii() and text.isdigit()) or len(text) > 9:
            message = f"lines: expected a number up to {MAX_LINES}, found {text[:32]!r}"
            raise GatewayError(Reason.MALFORMED, message, param="lines")
        return encode({"lines": self.log_lines.last(int(text))})

    def answer_sessions(self, _: Query) -> Answer:
        """Answer ``GET /v1/dashboard/sessions``."""
        return encode(list_sessions(self.sessions, self.wall(), self.other_sessions()))

    def health_of(self, provider: str) -> Mapping[str, Any] | None:  # Any: JSON
        """Return what is known of a provider, by its name."""
        health = self.states.health_of(provider)
        found: Mapping[str, Any] | None = None if health is None else to_builtins(health)
        return found

    def _go_on(self, work: Iterator[None]) -> None:
        """Do a piece of work, and the next one in another turn of the reactor."""
        if next(work, work) is None:
            self.reactor.callLater(0, self._go_on, work)

    def _in_reactor(self, work: Callable[[], None]) -> None:
        self.reactor.callFromThread(work)

    def _publish_lines(self, lines: Sequence[LogLine]) -> None:
        for line in lines:
            self.feed.publish(EventKind.LOG, line)

    def _publish_health(self, change: HealthChange) -> None:
        self.feed.publish(EventKind.HEALTH, change)

    def publish_session(self, change: SessionChange) -> None:
        """Tell that a session, of this process or another, was opened or closed."""
        self.feed.publish(EventKind.SESSION, change)
