"""The rows of limits that hold for a client: its own, those of its groups, and the gateway's.

Of a row that is for each client separately, each client is a holder of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from mgw.clients.limits import LIMITS_BY_NAME, Allowance, Limits, limits_of
from mgw.config.edge_auth import GATEWAY, EdgeAuthSettings
from mgw.config.jwt import JwtSettings
from mgw.config.key_settings import NamedKeySettings
from mgw.config.limit_rows import LimitRowSettings
from mgw.nouns.secret import DIGEST_PREFIX

GROUP: Final = "group:"
"""What a group's name as a holder begins with; no name of a client has a colon in that place."""
OF_EACH: Final = "/"
"""What stands between a shared holder and the client, where a row is for each client separately."""
OF_ISSUER: Final = ":"
"""What stands between the name of an issuer's entry and what its token calls the client."""


def limits_of_client(name: str, key: NamedKeySettings | None, settings: EdgeAuthSettings) -> Limits:
    """Return all rows that hold for a client.

    :param key: its settings; ``None``: the key has no name.
    """
    if key is None:
        return limits_of_groups(name, (), settings)
    return *own_limits(key, settings.timezone), *limits_of_groups(name, key.groups, settings)


def limits_of_groups(client: str, groups: Iterable[str], settings: EdgeAuthSettings) -> Limits:
    """Return the rows of groups and of the gateway that hold for a client."""
    zone = settings.timezone
    found: list[Allowance] = []
    for group in groups:
        found += _allowances(settings.groups[group].limits, f"{GROUP}{group}", client, zone)
    found += _allowances(settings.limits, GATEWAY, client, zone)
    return tuple(found)


def limits_of_issuer(entry: JwtSettings, settings: EdgeAuthSettings) -> Limits:
    """Return the rows that clients with an issuer's tokens can reach, with holders as refusals have them."""
    groups = dict.fromkeys(group for rule in entry.rules for group in rule.groups)
    return limits_of_groups(f"{entry.name}{OF_ISSUER}", groups, settings)


def holder_of_refusals(holder: str) -> str:
    """Return the holder under which refusals are counted: one for all clients with an issuer's tokens."""
    shared, of_each, client = holder.partition(OF_EACH)
    issuer, of_issuer, _ = client.partition(OF_ISSUER)
    if not of_issuer or client.startswith(DIGEST_PREFIX):
        return holder
    return f"{shared}{of_each}{issuer}{of_issuer}"


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
