"""Build the credentials of a configuration, from what the files that it names say of them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from mgw.config.auths import AuthMode
from mgw.config.problems import value_or_error
from mgw.config.profile import Profile
from mgw.config.provider import Provider
from mgw.config.secrets import secrets_in, secrets_of
from mgw.config.settings import Config
from mgw.credentials import credentials_of
from mgw.credentials.aws.found_keys import FoundKeys
from mgw.credentials.google_sources import GoogleCredentials, find_google_credentials
from mgw.credentials.profiles import read_profiles
from mgw.credentials.provider import CredentialProvider
from mgw.credentials.sources import CredentialSources
from mgw.nouns.secret import Secret


class CredentialFiles(Struct, frozen=True):
    """What the files hold; in place of what cannot be used stands why, as a :class:`ValueError`."""

    google: Mapping[str, GoogleCredentials | ValueError]
    """The credentials of providers at Google, by provider."""
    aws: Mapping[str, FoundKeys | ValueError]
    """Where the keys of providers at AWS come from, by provider."""
    profiles: Mapping[str, Profile]
    """The profiles that could be read, by name."""
    profile_problems: tuple[str, ...]
    """What is wrong with the others."""

    def secrets(self) -> list[Secret]:
        """Return what stands in the files, and no log may show."""
        in_profiles = [secret for profile in self.profiles.values() for secret in secrets_of(profile)]
        return [*in_profiles, *secrets_in(self.aws)]


def read_credential_files(config: Config, environ: Mapping[str, str]) -> CredentialFiles:
    """Read the files that a configuration names for its credentials; this blocks."""
    problems: list[str] = []
    profiles = read_profiles(config, environ, problems)
    google = {
        provider.name: value_or_error(find_google_credentials, provider)
        for provider in config.providers.values()
        if provider.google is not None
    }
    return CredentialFiles(google, _read_aws_files(config), profiles, tuple(problems))


def _read_aws_files(config: Config) -> Mapping[str, FoundKeys | ValueError]:
    providers = [provider for provider in config.providers.values() if provider.auth is AuthMode.AWS]
    if not providers:
        return {}
    from mgw.credentials.aws.make import find_keys  # here, since only some configurations need it

    return {provider.name: value_or_error(find_keys, provider) for provider in providers}


def build_credentials(
    provider: Provider, store: str, files: CredentialFiles, sources: CredentialSources
) -> CredentialProvider | None:
    """Return the credentials of a provider; ``None`` where its profile could not be read.

    :param store: the folder of the accounts of subscriptions.
    :raises ValueError: a file that it names cannot be read, or holds something else.
    """
    google, aws = files.google.get(provider.name), files.aws.get(provider.name)
    if isinstance(google, ValueError):
        raise ValueError(str(google))
    if isinstance(aws, ValueError):
        raise ValueError(str(aws))
    if aws is not None:
        from mgw.credentials.aws.make import aws_credentials  # here, as above

        return aws_credentials(provider, sources, aws)
    if provider.profile is None:
        return credentials_of(provider, sources, google)
    profile = files.profiles.get(provider.profile)
    if profile is None:
        return None
    return sources.subscriptions.source(provider, profile, store, sources.client(provider.proxy))
