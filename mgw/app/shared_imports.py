"""Imports what workers need before they are forked, so that all of them share it.

One process imports such things when it is first asked for them; where each of several workers did so, each
would have a copy of its own.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from mgw.app.late_issuer_keys import import_for_issuers
from mgw.config.provider import Provider
from mgw.config.settings import Config
from mgw.dialects import dialect_of
from mgw.nouns.vocabulary import DialectName
from mgw.upstream.address import address_of
from mgw.upstream.tls import client_context

_ALWAYS: Final = (
    "mgw.app.build_operations",  # what the gateway answers itself
    "mgw.reactor.treq_client",  # what it asks of providers itself
    "mgw.web.service_secret",  # made as it is imported: a reload may be the first to need it
    "prometheus_client.metrics_core",  # the numbers that workers report
)
_FOR_TLS: Final = "mgw.upstream.certificate_names"


def import_for_workers(config: Config) -> None:
    """Import what the workers of a configuration may come to need."""
    for name in _ALWAYS:
        import_module(name)
    for dialect in DialectName:
        dialect_of(dialect)
    import_for_issuers(config.edge_auth)
    if any(map(_takes_tls, config.providers.values())):
        import_module(_FOR_TLS)
        client_context(None)


def _takes_tls(provider: Provider) -> bool:
    return address_of(provider.base_url).secure or (provider.proxy is not None and provider.proxy.secure)
