"""Every secret that a configuration holds: what no log line and no response may repeat."""

from __future__ import annotations

import re
from typing import Final

from mgw.config.authentication import secrets_of_credentials
from mgw.config.fleet import secrets_of_fleet
from mgw.config.hooks import secrets_of_hooks
from mgw.config.provider import Provider
from mgw.config.settings import Config
from mgw.secret import Secret

_CREDENTIAL_NAME: Final = re.compile("auth|key|token|secret|password|credential", re.IGNORECASE)
"""Headers in which hosts take a credential beside those that the gateway knows."""


def secrets_of(config: Config) -> list[Secret]:
    """Return every secret that a configuration holds."""
    edge_auth = config.edge_auth
    found = [*edge_auth.secrets, *edge_auth.digests, *config.dashboard.keys, *secrets_of_hooks(config.hooks)]
    found += secrets_of_fleet(config.fleet)
    for provider in config.providers.values():
        found += secrets_of_credentials(provider)
        found += [Secret(value) for value in provider.headers.set.values() if value]
        found += secrets_in_headers(provider)
    return found


def secrets_in_headers(provider: Provider) -> list[Secret]:
    """Return the credentials that the operator puts into headers, with their scheme and without it."""
    found = []
    for name, value in provider.headers.set.items():
        if _CREDENTIAL_NAME.search(name):
            _, blank, bare = value.rpartition(" ")
            found += [Secret(value), Secret(bare)] if blank else [Secret(value)]
    return found
