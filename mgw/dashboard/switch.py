"""The dashboard as part of the gateway: imported only when the configuration enables it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from twisted.logger import LogPublisher
from twisted.web.server import Request

from mgw.dashboard.usage_sink import DashboardSink
from mgw.exchange.exchange import Exchange
from mgw.generation import Generation
from mgw.nouns.secret import Secret
from mgw.reactor.daemon_threads import SerialRunner
from mgw.realtime.sessions import Sessions
from mgw.usage.journal import Sink

if TYPE_CHECKING:
    from mgw.dashboard.app import Dashboard
    from mgw.dashboard.session_list import SessionChange, SessionRow


class OtherWork(Protocol):
    """What is under way in other processes of the service."""

    def refresh(self) -> Awaitable[None]:
        """Ask them; it is ready when they have answered or had their time, and raises nothing."""
        ...

    def requests(self) -> tuple[int, Sequence[dict[str, Any]]]:  # Any: JSON
        """Return how many requests there are, and rows of them, of which the oldest comes first."""
        ...

    def sessions(self) -> Sequence[SessionRow]:
        """Return the open sessions, of which the oldest comes first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the dashboard is told of the gateway around it."""

    reactor: Any  # Any: a reactor has no one type
    wall: Callable[[], float]
    """Returns unix seconds."""
    generation: Callable[[], Generation]
    """Returns the one that new requests begin with."""
    rejected: Callable[[str], None]
    """Counts a request whose ``key`` or ``origin`` does not fit."""
    exchanges: Callable[[], Iterable[Exchange]]
    """Returns those that have not ended, of which the oldest comes first."""
    facts: Callable[[], Mapping[str, Any]]  # Any: JSON
    """Returns ``draining``, ``in_flight``, ``sessions`` and ``max_sessions``."""
    sessions: Callable[[], Sessions]
    """Returns those that are open."""
    log: LogPublisher
    """Takes observers of the finished text of the process log, without secrets."""
    add_sink: Callable[[Sink], None]
    """Tells a sink of exchanges, from the use of this configuration on."""
    query_thread: SerialRunner | None = None
    """Where usage events are read; ``None``: a thread that is made for it."""
    others: OtherWork | None = None
    """Other processes, whose requests and sessions are to be shown as well."""


@dataclass(slots=True)
class DashboardSwitch:
    """Builds the dashboard when a configuration first wants it; it stays, and follows all later ones."""

    gateway: Surroundings
    dashboard: Dashboard | None = field(default=None, init=False)

    def follow(self) -> None:
        """Follow the configuration that new requests begin with."""
        config = self.gateway.generation().config
        if self.dashboard is None and config.dashboard.is_served:
            from mgw.dashboard.build import build_dashboard  # it has a cost, where nobody wants it

            self.dashboard = build_dashboard(self.gateway)
            self.gateway.add_sink(DashboardSink(self.dashboard.on_exchanges))
        if self.dashboard is not None:
            self.dashboard.use(config)

    def serve(self, request: Request) -> Awaitable[None]:
        """Respond to a request; where the dashboard is off, no row of the route table leads here."""
        assert self.dashboard is not None
        return self.dashboard.serve(request)

    def drain(self) -> None:
        """End what would go on for ever."""
        if self.dashboard is not None:
            self.dashboard.drain()

    def tell_session(self, change: SessionChange) -> None:
        """Tell the readers of the feed that a session of another process was opened or closed."""
        if self.dashboard is not None and self.dashboard.on_session is not None:
            self.dashboard.on_session(change)

    def secrets(self) -> list[Secret]:
        """Return keys that no configuration holds, and no log may show."""
        return [] if self.dashboard is None else self.dashboard.access.learned
