"""What the dashboard records, whether or not anybody looks at it.

It notes what happens from the start of the gateway on.  The pages and their endpoints are in
:mod:`mgw.dashboard.app`, which is imported for the first request: most processes never see one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import urandom

from mgw.config.key_settings import NamedKeySettings
from mgw.config.settings import Config
from mgw.dashboard.access import Access
from mgw.dashboard.cookies import CookieSessions
from mgw.dashboard.event_memory import EventMemory
from mgw.dashboard.gateway_view import GatewayView
from mgw.dashboard.live import LiveParts
from mgw.dashboard.profiles import Profiles
from mgw.dashboard.recent_events import RecentEvents
from mgw.dashboard.token_access import TokenAccess
from mgw.dashboard.token_sessions import TokenSessions
from mgw.dashboard.usage_memory import UsageMemory
from mgw.nouns.token_refusal import TokenRefusedError
from mgw.reactor.daemon_threads import DaemonThreads, SerialRunner
from mgw.usage.event import SettledExchange


@dataclass(slots=True, eq=False, repr=False)
class Recorder:
    """The parts of the dashboard that are there from the start on."""

    access: Access
    live: LiveParts
    memory: EventMemory
    profiles: Profiles
    thread: SerialRunner
    """Reads usage events."""

    def use(self, config: Config, file_keys: Sequence[NamedKeySettings] = ()) -> None:
        """Follow another configuration from now on."""
        self.access.use(config, file_keys)
        self.live.use(config)
        self.profiles.follow()
        self.memory.follow(config)

    def record(self, rows: Sequence[SettledExchange]) -> None:
        """Take note of exchanges that have ended."""
        self.live.feed.record_rows(rows)
        self.live.states.record_rows(rows)
        self.memory.record_all(rows)

    def stop(self) -> None:
        """End the streams of events, and the thread when it has done what it has."""
        self.live.feed.close()
        self.thread.stop()


def build_recorder(gateway: GatewayView) -> Recorder:
    """Return the recorder of a gateway, which has yet to be told its configuration."""
    access = _build_access(gateway)
    live = _build_live(gateway, access)
    thread = gateway.query_thread or DaemonThreads(gateway.reactor, "mgw-dashboard-queries")

    def is_used() -> bool:
        return gateway.generation().config.hooks.sqlite is None

    profiles = Profiles(
        generation=gateway.generation,
        wall=gateway.wall,
        facts=gateway.facts,
        auth=lambda: "keys" if access.has_keys else "loopback",
        health=live.health_of,
    )
    return Recorder(access, live, build_memory(gateway.wall, is_used, thread), profiles, thread)


def _build_access(gateway: GatewayView) -> Access:
    def count(refusal: TokenRefusedError) -> None:
        gateway.token_rejected(refusal.issuer, refusal.flaw)

    tokens = TokenAccess(TokenSessions(gateway.wall, urandom), gateway.tokens, count)
    return Access(CookieSessions(gateway.wall, urandom), gateway.rejected, tokens)


def _build_live(gateway: GatewayView, access: Access) -> LiveParts:
    live = LiveParts(gateway.reactor, gateway.wall, gateway.sessions())
    live.feed.admits, live.feed.seconds_left = access.admits, access.seconds_left
    access.on_change = live.feed.end_refused
    gateway.log.addObserver(live.log_lines)
    if gateway.others is not None:
        live.other_sessions = gateway.others.sessions
    return live


def build_memory(wall: Callable[[], float], is_used: Callable[[], bool], thread: SerialRunner) -> EventMemory:
    """Return what keeps usage events in memory while ``is_used`` says so."""
    sums = UsageMemory(wall, is_used)
    memory = EventMemory(thread, [RecentEvents(is_used), sums])
    sums.full = lambda: memory.write(sums)  # recent events become rows only when somebody asks for them
    return memory
