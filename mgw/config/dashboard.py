"""The dashboard for operators: whether it is served, and who may use it.

It needs an optional package and files that a build may lack.  Where nothing says whether it is wanted, it is
served if both are there.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from mgw import DISTRIBUTION
from mgw.config.environment import LoadContext
from mgw.config.extras import pip_install
from mgw.config.field_types import OnOff, PlainKey, Variable
from mgw.config.settings_base import Omittable, Settings, UniqueList, setting
from mgw.secret import Secret

NEEDED_PACKAGE: Final = "itsdangerous"
"""Signs the cookies of the dashboard."""
PAGES: Final = Path(__file__).parents[1] / "dashboard" / "static"
"""Where the pages of the dashboard are, in a build that has them."""


class DashboardSettings(Settings):
    """The dashboard for operators."""

    enabled: Omittable[OnOff] = setting(
        "Whether the dashboard is served",
        f"``true`` is an error if the optional package is not installed: ``{pip_install('dashboard')}``.",
        shown=f"``true`` if ``{DISTRIBUTION}[dashboard]`` is installed",
    )
    """Once it is settled, never ``None``."""
    keys: UniqueList[PlainKey] = setting(
        "Keys that open the dashboard, and nothing else",
        "Without any, the keys of ``edge_auth`` that have neither ``models`` nor limits open it if edge auth "
        "is on; without such keys it answers only clients on the same machine.",
        default=(),
    )
    """Those of the environment included."""
    keys_env: Omittable[Variable] = setting(
        "The environment variable that holds further keys, separated by commas or white space"
    )


def settle_dashboard(dashboard: DashboardSettings, context: LoadContext) -> DashboardSettings:
    """Fill in the keys of the environment, and whether the dashboard is served."""
    keys: tuple[Secret, ...] = dashboard.keys
    if dashboard.keys_env is not None:
        keys += context.keys_from(dashboard.keys_env, ("dashboard", "keys_env"))
    missing = what_is_missing()
    if dashboard.enabled and missing is not None:
        context.report.add(("dashboard", "enabled"), missing)
    enabled = missing is None if dashboard.enabled is None else dashboard.enabled
    return dashboard.model_copy(update={"enabled": enabled, "keys": tuple(dict.fromkeys(keys))})


def what_is_missing() -> str | None:
    """Say what keeps the dashboard from being served."""
    if not PAGES.is_dir():
        return "this build of mgw has no dashboard: install mgw from its own wheel or source archive"
    if find_spec(NEEDED_PACKAGE) is None:
        return f"the dashboard needs the package {NEEDED_PACKAGE}: {pip_install('dashboard')}"
    return None
