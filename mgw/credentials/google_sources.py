"""Which Google credentials a provider uses, and the source of its tokens.

The order is that of Google's own libraries (AIP-4110): the file that is named, the well-known file of gcloud,
the metadata server.
"""

from __future__ import annotations

from msgspec import Struct

from mgw.config.auths import AuthMode
from mgw.config.file_faults import unreadable
from mgw.config.oauth import Grant
from mgw.config.problems import dotted_path
from mgw.config.provider import Provider
from mgw.config.quoting import redact
from mgw.credentials.google_files import (
    CLOUD_PLATFORM,
    AuthorizedUser,
    ExternalAccount,
    GoogleFile,
    ServiceAccountKey,
    read_google_file,
)
from mgw.credentials.oauth2 import OAuthGrant, oauth_source
from mgw.credentials.renewed_token import RenewedToken
from mgw.credentials.sources import CredentialSources


class MetadataServer(Struct, frozen=True):
    """The machine's own service account."""

    host: str


GoogleCredentials = GoogleFile | MetadataServer


def find_google_credentials(provider: Provider) -> GoogleCredentials:
    """Read what a provider's settings and the environment lead to.

    :raises ValueError: a file cannot be read, or holds something else; the text names the setting.
    """
    places = provider.google
    assert places is not None
    block = ("providers", provider.name)
    setting = dotted_path((*block, places.setting)) if places.setting.islower() else places.setting
    if places.key_file is not None:
        found = _read(places.key_file, setting)
        if provider.auth is AuthMode.SERVICE_ACCOUNT and not isinstance(found, ServiceAccountKey):
            what = "is not a service account key; for other credentials, set auth: adc"
            raise ValueError(f"{setting}: {redact(places.key_file)} {what}")
        return found
    try:
        return _read(places.well_known_file, f"{dotted_path((*block, 'auth'))}: adc")
    except FileNotFoundError:
        return MetadataServer(places.metadata_host)


def _read(file: str, setting: str) -> GoogleFile:
    """Read a file.

    :raises ValueError: as above.
    :raises FileNotFoundError: the well-known file is not there, which is no fault.
    """
    try:
        return read_google_file(file)
    except FileNotFoundError as error:
        if setting.endswith(": adc"):
            raise
        reason = unreadable(file, error)
    except OSError as error:
        reason = unreadable(file, error)
    except ValueError as error:
        reason = f"{redact(file)} {error}"
    raise ValueError(f"{setting}: {reason}")


def make_credentials(provider: Provider, sources: CredentialSources) -> RenewedToken:
    """Return the source of a provider's tokens, wherever its credentials are; this blocks.

    :raises ValueError: they cannot be used; the text names the setting.
    """
    return google_source(provider, sources, find_google_credentials(provider))


def google_source(provider: Provider, sources: CredentialSources, found: GoogleCredentials) -> RenewedToken:
    """Return the source of a provider's tokens.

    :param found: by :func:`find_google_credentials`.
    :raises ValueError: they cannot be used; the text names the setting.
    """
    from mgw.credentials.google import (  # here, since cryptography is slow to import
        ExternalAccountTokens,
        MetadataTokens,
        ServiceAccountTokens,
    )

    stated = () if provider.oauth is None else provider.oauth.scopes
    scopes = stated or (CLOUD_PLATFORM,)
    client = sources.client(provider.proxy)
    identity = (found, scopes, provider.proxy)
    match found:
        case ServiceAccountKey():
            try:
                signer = ServiceAccountTokens(found, scopes, client, sources.wall)
            except ValueError as error:
                assert provider.google is not None
                where = dotted_path(("providers", provider.name, "auth"))
                raise ValueError(f"{where}: {redact(provider.google.key_file or '')} {error}") from None
            return sources.use_token(identity, found.client_email, signer.fetch)
        case AuthorizedUser():
            return oauth_source(_grant_of_user(found, stated), sources, provider.proxy)
        case ExternalAccount():
            exchange = ExternalAccountTokens(found, scopes, client, sources.run)
            return sources.use_token(identity, found.impersonation_url or found.audience, exchange.fetch)
        case MetadataServer():
            metadata = MetadataTokens(found.host, scopes, sources.client())  # it is next door
            return sources.use_token(identity, f"metadata server {found.host}", metadata.fetch)


def _grant_of_user(user: AuthorizedUser, scopes: tuple[str, ...]) -> OAuthGrant:
    """Return the grant of a person's credentials; without scopes, those that they signed in with."""
    return OAuthGrant(
        token_url=user.token_uri,
        grant=Grant.REFRESH_TOKEN,
        client_id=user.client_id,
        client_secret=user.client_secret,
        refresh_token=user.refresh_token,
        fields=(("scope", " ".join(scopes)),) if scopes else (),
    )


def describe_google(provider: Provider) -> str:
    """Say in a few words which credentials a provider uses.

    :raises ValueError: as :func:`find_google_credentials`.
    """
    found = find_google_credentials(provider)
    match found:
        case ServiceAccountKey():
            return f"service account {redact(found.client_email)}, tokens from {redact(found.token_uri)}"
        case AuthorizedUser():
            return f"a person's own Google credentials, tokens from {redact(found.token_uri)}"
        case ExternalAccount():
            return f"a Google external account, tokens from {redact(found.token_url)}"
        case MetadataServer():
            return f"the service account of this machine, tokens from the metadata server at {found.host}"
