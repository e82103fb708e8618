"""Assembles the parts of the dashboard."""

from __future__ import annotations

from collections.abc import Iterable
from os import urandom

from mgw.config.dashboard import PAGES
from mgw.config.hooks import HooksSettings
from mgw.credentials.provider import CredentialProvider
from mgw.dashboard.access import Access
from mgw.dashboard.app import Dashboard
from mgw.dashboard.cookies import CookieSessions
from mgw.dashboard.event_memory import EventMemory
from mgw.dashboard.event_queries import EventQueries
from mgw.dashboard.live import LiveParts
from mgw.dashboard.logins import Logins
from mgw.dashboard.profiles import Profiles
from mgw.dashboard.recent_events import RecentEvents
from mgw.dashboard.request_list import DashboardRequests
from mgw.dashboard.requests import Requests
from mgw.dashboard.sign_in import FailureCounts, SignIn
from mgw.dashboard.static import read_files
from mgw.dashboard.switch import Surroundings
from mgw.dashboard.try_it import TryIt
from mgw.dashboard.usage import DashboardUsage
from mgw.dashboard.usage_memory import UsageMemory
from mgw.reactor.daemon_threads import DaemonThreads


def build_dashboard(gateway: Surroundings) -> Dashboard:
    """Return the dashboard of a gateway, which has yet to be told its configuration."""
    access = Access(CookieSessions(gateway.wall, urandom), gateway.rejected)
    try_it = TryIt(access, gateway.wall)

    def sources() -> Iterable[CredentialProvider]:
        return gateway.generation().credentials.values()

    logins = Logins(sources, gateway.reactor)
    live = LiveParts(gateway.reactor, gateway.wall, gateway.sessions())
    live.feed.admits, live.feed.seconds_left = access.admits, access.seconds_left
    access.on_change = live.feed.end_refused
    gateway.log.addObserver(live.log_lines)
    profiles = Profiles(
        generation=gateway.generation,
        wall=gateway.wall,
        facts=gateway.facts,
        auth=lambda: "keys" if access.has_keys else "loopback",
        logins=logins.list_entries,
        health=live.health_of,
    )
    in_progress, others = Requests(gateway.exchanges), gateway.others
    if others is not None:
        in_progress, live.other_sessions = Requests(gateway.exchanges, others.requests), others.sessions
    before = None if others is None else others.refresh

    def hooks() -> HooksSettings:
        return gateway.generation().config.hooks

    thread = gateway.query_thread or DaemonThreads(gateway.reactor, "mgw-dashboard-queries")
    queries = EventQueries(thread)
    recent = RecentEvents(lambda: hooks().sqlite is None)
    sums = UsageMemory(gateway.wall, lambda: hooks().sqlite is None)
    memory = EventMemory(thread, [recent, sums])
    sums.full = memory.write
    requests = DashboardRequests(
        in_progress=in_progress, refresh=before, hooks=hooks, queries=queries, memory=memory
    )
    usage = DashboardUsage(hooks, queries, memory, gateway.wall)
    return Dashboard(
        access=access,
        sign_in=SignIn(access, FailureCounts(gateway.reactor.seconds)),
        files=read_files(PAGES),
        profiles=profiles.answer,
        requests=requests.answer,
        usage=usage.answer,
        sessions=live.answer_sessions,
        logs=live.answer_logs,
        feed=live.serve_events,
        logins=logins,
        try_it=try_it,
        before=before,
        on_session=live.publish_session,
        on_config=(
            try_it.use,
            live.use,
            lambda _: logins.reloaded(),
            lambda _: profiles.follow(),
            memory.follow,
        ),
        on_exchanges=(
            live.feed.record_rows,
            live.states.record_rows,
            sums.record_all,
            recent.record_all,
        ),
        on_drain=(live.feed.close, logins.stop, queries.stop),
    )
