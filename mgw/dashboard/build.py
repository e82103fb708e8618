"""Assembles the parts of the dashboard that respond to requests, for the first of them."""

from __future__ import annotations

from collections.abc import Iterable

from mgw.config.dashboard import PAGES
from mgw.config.hooks import HooksSettings
from mgw.config.time_zones import zone_of
from mgw.credentials.provider import CredentialProvider
from mgw.dashboard.app import Dashboard
from mgw.dashboard.event_queries import EventQueries
from mgw.dashboard.gateway_view import GatewayView
from mgw.dashboard.limits import DashboardLimits
from mgw.dashboard.logins import Logins
from mgw.dashboard.recorder import Recorder
from mgw.dashboard.request_list import DashboardRequests
from mgw.dashboard.requests import Requests
from mgw.dashboard.sign_in import FailureCounts, SignIn
from mgw.dashboard.static import read_files
from mgw.dashboard.try_it import TryIt
from mgw.dashboard.usage import DashboardUsage


def build_dashboard(gateway: GatewayView, recorder: Recorder) -> Dashboard:
    """Return the dashboard of a gateway, which has yet to be told its configuration."""
    access, memory = recorder.access, recorder.memory

    def credentials() -> Iterable[CredentialProvider]:
        return gateway.generation().credentials.values()

    refresh = None if gateway.others is None else gateway.others.refresh

    def hooks() -> HooksSettings:
        return gateway.generation().config.hooks

    logins = Logins(credentials, gateway.reactor)
    recorder.profiles.logins = logins.list_entries
    queries = EventQueries(recorder.thread)
    return Dashboard(
        access=access,
        sign_in=SignIn(access, FailureCounts(gateway.reactor.seconds)),
        files=read_files(PAGES),
        profiles=recorder.profiles,
        requests=DashboardRequests(_requests_in_progress(gateway), refresh, hooks, queries, memory),
        usage=DashboardUsage(hooks, queries, memory, gateway.wall),
        live=recorder.live,
        logins=logins,
        try_it=TryIt(access, gateway.wall),
        limits=DashboardLimits(
            gateway.limits, lambda: zone_of(gateway.generation().config.edge_auth.timezone), gateway.offload
        ),
        keys=gateway.keys,
        refresh=refresh,
    )


def _requests_in_progress(gateway: GatewayView) -> Requests:
    others = gateway.others
    return Requests(gateway.exchanges) if others is None else Requests(gateway.exchanges, others.requests)
