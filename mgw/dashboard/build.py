"""The one place where the parts of the dashboard are put together."""

from __future__ import annotations

from collections.abc import Iterable
from os import urandom

from mgw.config.dashboard import PAGES
from mgw.credentials.provider import CredentialProvider
from mgw.dashboard.access import Access
from mgw.dashboard.app import Dashboard
from mgw.dashboard.cookies import CookieSessions
from mgw.dashboard.logins import Logins
from mgw.dashboard.sign_in import FailureCounts, SignIn
from mgw.dashboard.static import read_files
from mgw.dashboard.switch import Surroundings


def build_dashboard(gateway: Surroundings) -> Dashboard:
    """Return the dashboard of a gateway, which has yet to be told its configuration."""
    access = Access(CookieSessions(gateway.wall, urandom), gateway.rejected)

    def sources() -> Iterable[CredentialProvider]:
        return gateway.generation().credentials.values()

    logins = Logins(sources, gateway.reactor)
    return Dashboard(
        access=access,
        sign_in=SignIn(access, FailureCounts(gateway.reactor.seconds)),
        files=read_files(PAGES),
        logins=logins,
        on_config=(lambda _: logins.reloaded(),),
        on_drain=(logins.stop,),
    )
