"""What gives the keys of a source: one for all who use the same source, in this process and in others.

A role that is assumed uses what gives the keys for that, and lets go of it when nobody needs the role.
"""

from __future__ import annotations

from functools import partial

from mgw.config.proxy import ProxyAddress
from mgw.credentials.aws.container import ContainerKeys
from mgw.credentials.aws.found_keys import NoKeys
from mgw.credentials.aws.instance_metadata import InstanceKeys
from mgw.credentials.aws.keys import (
    AssumedRole,
    ContainerEndpoint,
    FixedKeys,
    InstanceMetadata,
    KeySource,
    WebIdentity,
)
from mgw.credentials.aws.signed_keys import KEY_RENEWAL, FixedKeyGiver, KeyGiver, NoKeyGiver, name_of
from mgw.credentials.aws.sts import RoleKeys, WebIdentityKeys
from mgw.credentials.renewed_token import RenewedToken, TokenFetch
from mgw.credentials.sources import CredentialSources


def use_keys(sources: CredentialSources, proxy: ProxyAddress | None, source: KeySource | NoKeys) -> KeyGiver:
    """Return what gives the keys of a source; the caller releases it.

    :param proxy: how STS is reached; the others are next door.
    """
    if not isinstance(source, AssumedRole | WebIdentity):
        proxy = None  # so that providers with other proxies share them

    def build() -> KeyGiver:
        if isinstance(source, NoKeys):
            return NoKeyGiver(source)
        if isinstance(source, FixedKeys):
            return FixedKeyGiver(source.keys)
        if isinstance(source, AssumedRole):
            return _assumed_role(sources, proxy, source)
        fetch = _fetch_of(sources, proxy, source)
        return sources.renewed((source, proxy), name_of(source), fetch, KEY_RENEWAL)

    return sources.use((source, proxy), build)


def _assumed_role(sources: CredentialSources, proxy: ProxyAddress | None, role: AssumedRole) -> RenewedToken:
    """Return what assumes a role, and uses what gives the keys for that as long as it is open."""
    base = use_keys(sources, proxy, role.base)
    fetch = RoleKeys(role, base, sources.client(proxy), sources.wall).fetch
    found = sources.renewed((role, proxy), name_of(role), fetch, KEY_RENEWAL)
    found.on_close = partial(sources.release, base)
    return found


def _fetch_of(
    sources: CredentialSources,
    proxy: ProxyAddress | None,
    source: ContainerEndpoint | InstanceMetadata | WebIdentity,
) -> TokenFetch:
    match source:
        case WebIdentity():
            return WebIdentityKeys(source, sources.client(proxy), sources.wall, sources.run).fetch
        case ContainerEndpoint():
            return ContainerKeys(source, sources.client(), sources.wall, sources.run).fetch
        case InstanceMetadata():
            return InstanceKeys(source, sources.client(), sources.wall).fetch
