"""Authentication to providers: a module for each method, which the row of its ``auth`` names.

A new method is a module of this package with its ``make_credentials``, and its settings and row in
:mod:`mgw.config.auths`.  A module that no configuration asks for is not imported.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final

from mgw.config.auths import AUTHS
from mgw.config.provider import Provider
from mgw.credentials.google_sources import GoogleCredentials, google_source
from mgw.credentials.provider import CredentialProvider
from mgw.credentials.sources import CredentialSources

_OF_CLIENTS: Final = "static"
"""The module for providers without ``auth``."""


def credentials_of(
    provider: Provider, sources: CredentialSources, google: GoogleCredentials | None = None
) -> CredentialProvider:
    """Return the credential provider that a configuration entry asks for; ``sources`` releases it.

    :param google: what its ``auth`` leads to at Google; ``None``: that is found out now, where it is needed.
    :raises ValueError: a file that it names cannot be read, or holds something else.
    """
    if google is not None:
        return google_source(provider, sources, google)
    name = _OF_CLIENTS if provider.auth is None else AUTHS[provider.auth].module
    module = import_module(f"{__name__}.{name}")
    make: Callable[[Provider, CredentialSources], CredentialProvider] = module.make_credentials
    return make(provider, sources)
