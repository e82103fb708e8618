"""Who we are to a provider: one line per way."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime

from mgw.config.provider import AuthMode, Provider
from mgw.credentials.provider import CredentialProvider
from mgw.credentials.static import ClientBearer, ClientCredential, NoCredential, StaticCredential
from mgw.credentials.token_file import TokenFile
from mgw.kinds import KINDS


def credentials_of(provider: Provider, clock: IReactorTime) -> CredentialProvider:
    """Build the credential provider that a configuration entry asks for."""
    row = KINDS[provider.kind]
    if provider.auth is AuthMode.NONE:
        return NoCredential()
    if provider.auth is AuthMode.CLIENT_BEARER:
        return ClientBearer(provider.name)
    if provider.auth is AuthMode.TOKEN_FILE:
        assert provider.token_file is not None
        return TokenFile(provider.name, provider.token_file, clock)
    if provider.key is None:
        return ClientCredential(provider.name, row)
    if provider.auth is AuthMode.BEARER:
        return StaticCredential.bearer(provider.key)
    return StaticCredential.of_kind(provider.key, row)
