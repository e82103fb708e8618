"""Where the credentials of providers come from, as ``mgw check`` prints it; nobody is asked."""

from __future__ import annotations

from mgw.config.auths import AuthMode
from mgw.config.aws_profiles import read_shared_file
from mgw.config.aws_settings import AwsSettings
from mgw.config.file_faults import unreadable
from mgw.config.jwt import JWT
from mgw.config.oauth import is_on_behalf
from mgw.config.problems import dotted_path
from mgw.config.provider import Provider
from mgw.config.quoting import quote, redact
from mgw.config.settings import Config
from mgw.reactor.regular_file import open_regular_file


def token_sources(config: Config) -> list[str]:
    """Return, per provider that has any, where its tokens come from; nothing is asked.

    :raises ValueError: a file of credentials cannot be read.
    """
    from mgw.credentials.google_sources import describe_google  # here, since treq takes long to import

    found = []
    for provider in config.providers.values():
        where = dotted_path((provider.name,))
        oauth = provider.oauth
        if provider.auth is AuthMode.OAUTH2 and oauth is not None and oauth.token_url is not None:
            url = redact(oauth.token_url.partition("?")[0])
            whose = ", exchanged for each caller's own token" if is_on_behalf(oauth) else ""
            found.append(f"{where}: auth oauth2, tokens from {url} by {oauth.grant}{whose}")
        elif provider.google is not None:
            found.append(f"{where}: auth {provider.auth}, {describe_google(provider)}")
        elif provider.aws is not None:
            found.append(f"{where}: auth {provider.auth}, {_keys_of_aws(provider, provider.aws)}")
    return found


def _keys_of_aws(provider: Provider, aws: AwsSettings) -> str:
    """Say how requests are signed, and where the keys come from.

    :raises ValueError: a source of keys is broken.
    """
    from mgw.credentials.aws.chain import NoAwsKeysError, describe_source, find_key_source  # here, as above

    try:
        keys = describe_source(find_key_source(provider, aws.environment, read_shared_file))
    except NoAwsKeysError:
        keys = "and no credentials were found"
    return f"service {redact(aws.service or '')} in {aws.region}, {keys}"


def missing_token_files(config: Config) -> list[str]:
    """Return a warning for each file with a token that cannot be read: somebody may be about to write it."""
    found = []
    for position, entry in enumerate(config.edge_auth.jwt):
        trouble = None if entry.token_file is None else _trouble_with(entry.token_file)
        if trouble is not None:
            where = dotted_path((*JWT, position, "token_file"))
            found.append(f"{where}: {trouble}; no keys are fetched until it can be read")
    for provider in config.providers.values():
        files: dict[tuple[str, ...], str | None] = {("token_file",): provider.token_file}
        if provider.oauth is not None:
            files["oauth", "subject_token_file"] = provider.oauth.subject_token_file
            files["oauth", "assertion_file"] = provider.oauth.assertion_file
        if provider.aws is not None:
            files["aws", "web_identity_token_file"] = provider.aws.web_identity_token_file
        for place, file in files.items():
            trouble = None if file is None else _trouble_with(file)
            if trouble is not None:
                where = dotted_path(("providers", provider.name, *place))
                found.append(f"{where}: {trouble}; requests fail until it can be read")
    return found


def _trouble_with(file: str) -> str | None:
    try:
        with open_regular_file(file):
            return None
    except OSError as error:
        return unreadable(file, error, hides_path=True)


def missing_keys(config: Config) -> list[str]:
    """Return a warning for each provider whose requests nothing signs, or not what its settings name."""
    from mgw.credentials.aws.chain import (  # with it comes Twisted
        NoAwsKeysError,
        describe_source,
        find_key_source,
        is_profile_empty,
    )

    found = []
    for provider in config.providers.values():
        aws = provider.aws
        if aws is None:
            continue
        try:
            source = find_key_source(provider, aws.environment, read_shared_file)
        except NoAwsKeysError as error:
            found.append(f"{error}; requests fail until there are some")
            continue
        if is_profile_empty(provider, aws.environment, read_shared_file):
            where = dotted_path(("providers", provider.name, "aws", "profile"))
            used = describe_source(source).removeprefix("with ")
            said = f"the profile {quote(aws.profile or '')} has neither keys nor a role"
            found.append(f"{where}: {said}; the next source is used: {used}")
    return found
