"""Assembles the parts of the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os import urandom

from mgw.config.dashboard import PAGES
from mgw.config.hooks import HooksSettings
from mgw.credentials.provider import CredentialProvider
from mgw.dashboard.access import Access
from mgw.dashboard.app import Dashboard
from mgw.dashboard.cookies import CookieSessions
from mgw.dashboard.event_memory import EventMemory
from mgw.dashboard.event_queries import EventQueries
from mgw.dashboard.gateway_view import GatewayView
from mgw.dashboard.live import LiveParts
from mgw.dashboard.logins import Logins
from mgw.dashboard.profiles import Profiles
from mgw.dashboard.recent_events import RecentEvents
from mgw.dashboard.request_list import DashboardRequests
from mgw.dashboard.requests import Requests
from mgw.dashboard.sign_in import FailureCounts, SignIn
from mgw.dashboard.static import read_files
from mgw.dashboard.try_it import TryIt
from mgw.dashboard.usage import DashboardUsage
from mgw.dashboard.usage_memory import UsageMemory
from mgw.reactor.daemon_threads import DaemonThreads, SerialRunner


def build_dashboard(gateway: GatewayView) -> Dashboard:
    """Return the dashboard of a gateway, which has yet to be told its configuration."""
    access = Access(CookieSessions(gateway.wall, urandom), gateway.rejected)
    live = _build_live(gateway, access)

    def credentials() -> Iterable[CredentialProvider]:
        return gateway.generation().credentials.values()

    refresh = None if gateway.others is None else gateway.others.refresh

    def hooks() -> HooksSettings:
        return gateway.generation().config.hooks

    logins = Logins(credentials, gateway.reactor)
    thread = gateway.query_thread or DaemonThreads(gateway.reactor, "mgw-dashboard-queries")
    queries, memory = EventQueries(thread), build_memory(gateway.wall, lambda: hooks().sqlite is None, thread)
    return Dashboard(
        access=access,
        sign_in=SignIn(access, FailureCounts(gateway.reactor.seconds)),
        files=read_files(PAGES),
        profiles=Profiles(
            generation=gateway.generation,
            wall=gateway.wall,
            facts=gateway.facts,
            auth=lambda: "keys" if access.has_keys else "loopback",
            logins=logins.list_entries,
            health=live.health_of,
        ),
        requests=DashboardRequests(_requests_in_progress(gateway), refresh, hooks, queries, memory),
        usage=DashboardUsage(hooks, queries, memory, gateway.wall),
        memory=memory,
        live=live,
        logins=logins,
        try_it=TryIt(access, gateway.wall),
        refresh=refresh,
    )


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


def _requests_in_progress(gateway: GatewayView) -> Requests:
    others = gateway.others
    return Requests(gateway.exchanges) if others is None else Requests(gateway.exchanges, others.requests)
