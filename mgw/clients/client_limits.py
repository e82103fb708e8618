"""The rows of limits that hold for a client: its own, those of its groups, and the gateway's.

Of a row that is for each client separately, each client is a holder of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from mgw.clients.limits import LIMITS_BY_NAME, Allowance, Limits, limits_of
from mgw.config.edge_auth import GATEWAY, EdgeAuthSettings
from mgw.config.key_settings import NamedKeySettings
from mgw.config.limit_rows import LimitRowSettings

GROUP: Final = "group:"
"""What a group's name as a holder begins with; no name of a client has a colon in that place."""
OF_EACH: Final = "/"
"""What stands between a shared holder and the client, where a row is for each client separately."""


def limits_of_client(name: str, key: NamedKeySettings | None, settings: EdgeAuthSettings) -> Limits:
    """Return all rows that hold for a client.

    :param key: its settings; ``None``: the key has no name.
    """
    zone = settings.timezone
    found: list[Allowance] = []
    if key is not None:
        found += own_limits(key, zone)
        for group in key.groups:
            found += _allowances(settings.groups[group].limits, f"{GROUP}{group}", name, zone)
    found += _allowances(settings.limits, GATEWAY, name, zone)
    return tuple(found)


def own_limits(key: NamedKeySettings, zone: str) -> Limits:
    """Return the rows of a key itself."""
    return *limits_of(key.name, key.older_limits), *_allowances(key.limits, key.name, key.name, zone)


def shared_limits(settings: EdgeAuthSettings) -> Iterator[Allowance]:
    """Yield the rows that the clients of the gateway or of a group share."""
    holders = {GATEWAY: settings.limits}
    holders |= {f"{GROUP}{name}": group.limits for name, group in settings.groups.items()}
    for holder, rows in holders.items():
        yield from _allowances([row for row in rows if not row.each], holder, "", settings.timezone)


def is_own(holder: str) -> bool:
    """Whether a holder is a client by itself, not what it shares with others nor its place among these."""
    return holder != GATEWAY and OF_EACH not in holder and not holder.startswith(GROUP)


def _allowances(rows: Iterable[LimitRowSettings], holder: str, client: str, zone: str) -> Iterator[Allowance]:
    for row in rows:
        yield Allowance(
            LIMITS_BY_NAME[row.name],
            row.most,
            f"{holder}{OF_EACH}{client}" if row.each else holder,
            row.is_reserved,
            row.refuses,
            row.warn_at,
            zone,
        )
