"""Build what reaches the providers of a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ssl import SSLContext
from typing import Any

from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.jwt import JWT
from mgw.config.problems import dotted_path, value_or_error
from mgw.config.provider import Provider
from mgw.config.settings import Config
from mgw.upstream.client import Upstream, upstream_of
from mgw.upstream.connect import ProxyNameError
from mgw.upstream.tls import read_authorities, renew_authorities

Authorities = Mapping[str, SSLContext | ValueError]
"""What TLS trusts, by ``ca_file``; in place of a file that cannot be used stands why."""


def read_all_authorities(config: Config) -> Authorities:
    """Read the files of authorities that a configuration names, and the system's if in use; this blocks."""
    renew_authorities()
    files = dict.fromkeys(provider.ca_file for provider in config.providers.values())
    files |= dict.fromkeys(entry.ca_file for entry in config.edge_auth.jwt)
    return {file: value_or_error(read_authorities, file) for file in files if file is not None}


def unusable_authorities(edge_auth: EdgeAuthSettings, authorities: Authorities) -> Iterator[str]:
    """Yield a line for each file of authorities that cannot be used for the keys of an issuer."""
    for position, entry in enumerate(edge_auth.jwt):
        found = None if entry.ca_file is None else authorities[entry.ca_file]
        if isinstance(found, ValueError):
            yield f"{dotted_path((*JWT, position, 'ca_file'))}: {found}"


def build_upstream(provider: Provider, reactor: Any, authorities: Authorities) -> Upstream:  # Any: as there
    """Return a provider as reached over the network, and through its proxy if it has one.

    :raises ValueError: an address or a file in its settings is wrong; the text names the setting.
    """
    where = dotted_path(("providers", provider.name))
    context = None if provider.ca_file is None else authorities[provider.ca_file]
    if isinstance(context, ValueError):
        raise ValueError(f"{where}.ca_file: {context}")
    try:
        return upstream_of(provider, reactor, context)
    except ProxyNameError as error:
        raise ValueError(f"{where}.proxy: {error}") from None
    except ValueError as error:
        raise ValueError(f"{where}.base_url: {error}") from None
