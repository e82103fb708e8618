"""Authentication to providers: one line per method."""

from __future__ import annotations

from mgw.config.provider import AuthMode, Provider
from mgw.credentials.google_sources import GoogleCredentials, find_google_credentials, google_source
from mgw.credentials.oauth2 import grant_of, oauth_source
from mgw.credentials.provider import CredentialProvider
from mgw.credentials.sources import CredentialSources
from mgw.credentials.static import ClientBearer, ClientCredential, NoCredential, StaticCredential
from mgw.credentials.token_file import TokenFile


def credentials_of(
    provider: Provider, sources: CredentialSources, google: GoogleCredentials | None = None
) -> CredentialProvider:
    """Return the credential provider that a configuration entry asks for; ``sources`` releases it.

    :param google: what its ``auth`` leads to at Google; ``None``: that is found out now, where it is needed.
    :raises ValueError: a file that it names cannot be read, or holds something else.
    """
    row = provider.row
    match provider.auth:
        case AuthMode.NONE:
            return NoCredential()
        case AuthMode.CLIENT_BEARER:
            return ClientBearer(provider.name)
        case AuthMode.TOKEN_FILE:
            assert provider.token_file is not None
            return TokenFile(provider.name, provider.token_file, sources.clock, sources.run, sources.recent)
        case AuthMode.OAUTH2:
            assert provider.oauth is not None
            return oauth_source(grant_of(provider.oauth), sources, provider.proxy)
        case AuthMode.SERVICE_ACCOUNT | AuthMode.ADC:
            return google_source(provider, sources, google or find_google_credentials(provider))
    if provider.key is None:
        return ClientCredential(provider.name, row)
    if provider.auth is AuthMode.BEARER:
        return StaticCredential.bearer(provider.key)
    return StaticCredential.of_kind(provider.key, row)
