"""Settings of the dashboard: whether it is served, and who may use it.

It needs a package and files that an installation may lack after all (``pip install --no-deps``).  The gateway
then starts without it, and says so.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from mgw import DISTRIBUTION
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.environment import LoadContext
from mgw.config.field_types import OnOff, Variable, WrittenKey
from mgw.config.groups import GroupName, check_group_names
from mgw.config.key_settings import NamedKeySettings
from mgw.config.settings_base import NotInFile, Omittable, Settings, UniqueList, setting
from mgw.nouns.secret import Secret

NEEDED_PACKAGE: Final = "itsdangerous"
"""Signs the cookies of the dashboard."""
PAGES: Final = Path(__file__).parents[1] / "dashboard" / "static"
"""Where the pages of the dashboard are, in a build that has them."""
OFF: Final = "the dashboard is off: to turn it on, set dashboard.enabled to true"
_NOT_INSTALLED: Final = "the dashboard is not installed"


class DashboardSettings(Settings):
    """The dashboard for operators."""

    enabled: OnOff = setting(
        "Whether the dashboard is served",
        "If a part of it is not installed, the gateway starts without it and logs a warning.",
        default=True,
    )
    keys: UniqueList[WrittenKey] = setting(
        "Keys that open only the dashboard",
        "Without any, the dashboard can be opened with the keys of ``edge_auth`` that have neither "
        "``models`` nor limits, and are in no group that has, if edge auth is on; without such keys, it "
        "is available only from the same machine.",
        default=(),
    )
    """The keys, those of the environment included."""
    keys_env: Omittable[Variable] = setting(
        "Environment variable that contains more keys, separated by commas or white space"
    )
    groups: UniqueList[GroupName] = setting(
        "Groups of clients that may use the dashboard with their gateway keys or tokens",
        "If it is set, no other key of ``edge_auth`` opens the dashboard. If it is not set, no token does.",
        default=(),
    )
    try_it: Omittable[OnOff] = setting(
        "Whether the dashboard has a page that sends a request to a model",
        "It sends its requests to the gateway's own routes. A user who signed in with a gateway key sends "
        "them as the client with that key; otherwise, the page asks for a gateway key.",
        shown="true, or false if other machines can reach the listener and edge auth is off",
    )
    missing: NotInFile[str | None] = None
    """What this installation lacks; ``None``: nothing, or it is off anyway."""

    @property
    def is_served(self) -> bool:
        """Whether requests reach it."""
        return self.why_off is None

    @property
    def why_off(self) -> str | None:
        """Why it is not served, for operators and for those who ask for its page."""
        return self.missing if self.enabled else OFF


def opens_dashboard(
    key: Secret | NamedKeySettings, dashboard: DashboardSettings, edge_auth: EdgeAuthSettings
) -> bool:
    """Whether a gateway key opens the dashboard, as long as it is valid."""
    named = key if isinstance(key, NamedKeySettings) else None
    if not edge_auth.enabled or (named is not None and named.disabled):
        return False
    if dashboard.groups:
        return named is not None and not set(dashboard.groups).isdisjoint(named.groups)
    return not dashboard.keys and edge_auth.may_do_anything(key)


def tokens_open(dashboard: DashboardSettings, edge_auth: EdgeAuthSettings) -> bool:
    """Whether some token of an issuer may open the dashboard."""
    groups = {group for entry in edge_auth.jwt for rule in entry.rules for group in rule.groups}
    return edge_auth.enabled and not groups.isdisjoint(dashboard.groups)


def edge_keys_of_dashboard(dashboard: DashboardSettings, edge_auth: EdgeAuthSettings) -> EdgeAuthSettings:
    """Return the settings of edge auth with those keys alone that open the dashboard."""
    return edge_auth.keys_that(lambda key: opens_dashboard(key, dashboard, edge_auth))


def settle_dashboard(
    dashboard: DashboardSettings, groups: Collection[str], context: LoadContext
) -> DashboardSettings:
    """Fill in the keys of the environment, and what keeps the dashboard from being served.

    :param groups: the names of all groups of clients.
    """
    check_group_names(dashboard.groups, ("dashboard", "groups"), groups, context.report)
    keys: tuple[Secret, ...] = dashboard.keys
    if dashboard.keys_env is not None:
        keys += context.keys_from(dashboard.keys_env, ("dashboard", "keys_env"))
    missing = what_is_missing() if dashboard.enabled else None
    return dashboard.model_copy(update={"missing": missing, "keys": tuple(dict.fromkeys(keys))})


def what_is_missing() -> str | None:
    """Say what keeps the dashboard from being served."""
    if not PAGES.is_dir():
        return (
            f"{_NOT_INSTALLED}: this build has no pages for it; install {DISTRIBUTION} from its wheel or "
            "source archive"
        )
    if find_spec(NEEDED_PACKAGE) is None:
        return f"{_NOT_INSTALLED}: it needs the package {NEEDED_PACKAGE} (pip install {NEEDED_PACKAGE})"
    return None
