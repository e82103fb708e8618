"""The route table that a configuration asks for."""

from __future__ import annotations

from functools import lru_cache

from mgw.config.settings import Config
from mgw.nouns.kinds import KINDS
from mgw.nouns.vocabulary import Family
from mgw.routing.azure_paths import is_served_to_azure
from mgw.routing.match import RouteTable
from mgw.routing.routes import DASHBOARD_GROUP, DASHBOARD_ROUTES, ROUTES


def route_table(config: Config) -> RouteTable:
    """Return what finds routes: the one from before where the configuration says the same of them.

    A worker then has that of the process that it was forked from, in memory that all of them share.
    """
    families = frozenset(families_of(config).items())
    return _route_table(denied_routes(config), families, config.dashboard.why_off, azure=config.routes.azure)


@lru_cache(maxsize=2)
def _route_table(
    denied: tuple[str, ...],
    families: frozenset[tuple[str, Family]],
    no_dashboard: str | None,
    *,
    azure: bool,
) -> RouteTable:
    said = no_dashboard
    if said is None and DASHBOARD_GROUP not in denied:
        said = f"the dashboard is at {DASHBOARD_ROUTES[0].path}"
    of_azure = RouteTable(filter(is_served_to_azure, ROUTES), denied) if azure else None
    return RouteTable(
        ROUTES, denied, dict(families), {} if said is None else {DASHBOARD_GROUP: said}, of_azure
    )


def denied_routes(config: Config) -> tuple[str, ...]:
    """Return the names of routes, groups and families that answer 404."""
    return config.routes.deny if config.dashboard.is_served else (*config.routes.deny, DASHBOARD_GROUP)


def families_of(config: Config) -> dict[str, Family]:
    """Return the family of each provider, by its name."""
    return {name: KINDS[provider.kind].family for name, provider in config.providers.items()}
