"""The dashboard as part of the gateway.

What it records is imported when a configuration first enables it, and its pages when one is first asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred, succeed

from mgw.dashboard.gateway_view import GatewayView
from mgw.nouns.secret import Secret
from mgw.usage.event import SettledExchange

if TYPE_CHECKING:
    from twisted.web.server import Request

    from mgw.dashboard.app import Dashboard
    from mgw.dashboard.recorder import Recorder
    from mgw.dashboard.session_list import SessionChange


@dataclass(slots=True, eq=False, repr=False)
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


@dataclass(slots=True, eq=False, repr=False)
class DashboardSwitch:
    """Has a dashboard from when a configuration first enables it; it stays, and follows all later ones."""

    gateway: GatewayView
    recorder: Recorder | None = field(default=None, init=False)
    _dashboard: Dashboard | None = field(default=None, init=False)
    _draining: bool = field(default=False, init=False)

    def follow(self) -> None:
        """Follow the configuration that new requests begin with."""
        config = self.gateway.generation().config
        if self.recorder is None and config.dashboard.is_served:
            from mgw.dashboard.recorder import build_recorder  # it has a cost, where nobody wants it

            self.recorder = build_recorder(self.gateway)
            self.gateway.add_sink(DashboardSink(self.recorder.record))
        if self.recorder is not None:
            self.recorder.use(config, self.gateway.file_keys())
        if self._dashboard is not None:
            self._dashboard.use(config)

    def follow_keys(self) -> None:
        """Follow the keys of key files."""
        if self.recorder is not None:
            self.recorder.access.use(self.gateway.generation().config, self.gateway.file_keys())

    def follow_issuers(self) -> None:
        """Look again at whoever reads events with a token: the keys of its issuer have changed."""
        if self.recorder is not None:
            self.recorder.access.on_change()

    def serve(self, request: Request) -> Awaitable[None]:
        """Respond to a request; where the dashboard is off, no row of the route table leads here."""
        return self.dashboard.serve(request)

    @property
    def dashboard(self) -> Dashboard:
        """What responds to requests; it is built for the first."""
        if self._dashboard is None:
            from mgw.dashboard.build import build_dashboard  # here: Klein and all pages

            assert self.recorder is not None
            self._dashboard = build_dashboard(self.gateway, self.recorder)
            self._dashboard.use(self.gateway.generation().config)
            if self._draining:
                self._dashboard.drain()
        return self._dashboard

    def drain(self) -> None:
        """End what would go on for ever."""
        self._draining = True
        if self.recorder is not None:
            self.recorder.stop()
        if self._dashboard is not None:
            self._dashboard.drain()

    def tell_session(self, change: SessionChange) -> None:
        """Tell the readers of the feed that a session of another process was opened or closed."""
        if self.recorder is not None:
            self.recorder.live.publish_session(change)

    def secrets(self) -> list[Secret]:
        """Return keys that no configuration holds, and no log may show."""
        return [] if self.recorder is None else self.recorder.access.learned
