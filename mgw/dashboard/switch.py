"""The dashboard as part of the gateway: imported only when the configuration enables it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred, succeed
from twisted.web.server import Request

from mgw.dashboard.gateway_view import GatewayView
from mgw.nouns.secret import Secret
from mgw.usage.event import SettledExchange

if TYPE_CHECKING:
    from mgw.dashboard.app import Dashboard
    from mgw.dashboard.session_list import SessionChange


@dataclass(slots=True)
class DashboardSink:
    """Tells the dashboard of completed requests, a batch at a time; it does nothing slow with them."""

    record: Callable[[Sequence[SettledExchange]], None]
    name: str = field(default="dashboard", init=False)
    errors: int = field(default=0, init=False)
    dropped: int = field(default=0, init=False)
    waiting: int = field(default=0, init=False)

    def record_all(self, rows: Iterator[SettledExchange]) -> None:
        """Take the rows of a batch."""
        self.record(list(rows))

    def flush(self) -> None:
        """Nothing waits."""

    def reopen(self) -> None:
        """Nothing is open."""

    def close(self) -> Deferred[None]:
        """Nothing is open."""
        return succeed(None)


@dataclass(slots=True)
class DashboardSwitch:
    """Builds the dashboard when a configuration first wants it; it stays, and follows all later ones."""

    gateway: GatewayView
    dashboard: Dashboard | None = field(default=None, init=False)

    def follow(self) -> None:
        """Follow the configuration that new requests begin with."""
        config = self.gateway.generation().config
        if self.dashboard is None and config.dashboard.is_served:
            from mgw.dashboard.build import build_dashboard  # it has a cost, where nobody wants it

            self.dashboard = build_dashboard(self.gateway)
            self.gateway.add_sink(DashboardSink(self.dashboard.record))
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
        if self.dashboard is not None:
            self.dashboard.live.publish_session(change)

    def secrets(self) -> list[Secret]:
        """Return keys that no configuration holds, and no log may show."""
        return [] if self.dashboard is None else self.dashboard.access.learned
