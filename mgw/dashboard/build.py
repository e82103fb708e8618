"""The one place where the parts of the dashboard are put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import urandom
from typing import Any

from mgw.config.dashboard import PAGES
from mgw.credentials.provider import CredentialProvider
from mgw.dashboard.access import Access
from mgw.dashboard.app import Dashboard
from mgw.dashboard.cookies import CookieSessions
from mgw.dashboard.logins import Logins
from mgw.dashboard.sign_in import FailureCounts, SignIn
from mgw.dashboard.static import read_files
from mgw.generation import Generation


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the dashboard is told of the gateway around it."""

    reactor: Any  # Any: a reactor has no one type
    wall: Callable[[], float]
    """Returns unix seconds."""
    generation: Callable[[], Generation]
    """Returns the one that new requests begin with."""
    rejected: Callable[[str], None]
    """Counts a request whose ``key`` or ``origin`` does not fit."""


def build_dashboard(gateway: Surroundings) -> Dashboard:
    """Return the dashboard of a gateway, which follows its configuration."""
    access = Access(CookieSessions(gateway.wall, urandom), gateway.rejected)

    def sources() -> Iterable[CredentialProvider]:
        return gateway.generation().credentials.values()

    logins = Logins(sources, gateway.reactor)
    dashboard = Dashboard(
        access=access,
        sign_in=SignIn(access, FailureCounts(gateway.reactor.seconds)),
        files=read_files(PAGES),
        logins=logins,
        on_config=(lambda _: logins.reloaded(),),
        on_drain=(logins.stop,),
    )
    dashboard.use(gateway.generation().config)
    return dashboard
