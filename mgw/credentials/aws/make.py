"""``auth: aws``: where the keys of a provider are, by its settings, the environment and the shared files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlsplit

from mgw.config.aws import profile_of
from mgw.config.aws_profiles import read_shared_file
from mgw.config.provider import Provider
from mgw.config.quoting import quote
from mgw.credentials.aws.chain import NoAwsKeysError, find_key_source
from mgw.credentials.aws.clock import HostClock
from mgw.credentials.aws.found_keys import FileState, FoundKeys, NoKeys
from mgw.credentials.aws.key_givers import use_keys
from mgw.credentials.aws.keys import AssumedRole, AwsKeys, InstanceMetadata, KeySource
from mgw.credentials.aws.signed_keys import SignedKeys
from mgw.credentials.aws.signer import SigV4
from mgw.credentials.aws.source import AwsCredentials
from mgw.credentials.sources import CredentialSources


@dataclass(slots=True, eq=False, repr=False)
class _SharedFiles:
    """Reads files, and notes the state in which each was."""

    states: dict[str, FileState] = field(default_factory=dict)

    def read(self, path: str) -> bytes | None:
        """Read a file, if it is there.

        :raises OSError: it cannot be read.
        """
        self.states[path] = _state_of(path)  # before it is read: what changes meanwhile is seen the next time
        return read_shared_file(path)


def find_keys(provider: Provider, known: FoundKeys | None = None) -> FoundKeys:
    """Return where the keys of a provider come from now; this blocks.

    :param known: what was found before, which is returned where no file has changed.
    :raises ValueError: a source is broken; the text names the setting.
    """
    if known is not None and not _has_changed(known):
        return known
    assert provider.aws is not None
    files = _SharedFiles()
    source: KeySource | NoKeys
    try:
        source = find_key_source(provider, provider.aws.environment, files.read)
    except NoAwsKeysError as error:
        source = NoKeys(error.message)
    return FoundKeys(source, tuple(files.states.items()), _looked_at(provider, source))


def make_credentials(provider: Provider, sources: CredentialSources) -> AwsCredentials:
    """Return the credentials of a provider; this blocks.

    :raises ValueError: their source is broken; the text names the setting.
    """
    return aws_credentials(provider, sources, find_keys(provider))


def aws_credentials(provider: Provider, sources: CredentialSources, found: FoundKeys) -> AwsCredentials:
    """Return the credentials of a provider.

    :param found: by :func:`find_keys`.
    """
    settings = provider.aws
    assert settings is not None
    region, service = settings.region, settings.service
    assert region is not None
    assert service is not None
    host = provider.name, urlsplit(provider.base_url).netloc
    clock = sources.clocks.setdefault(host, HostClock(provider.name))  # one for all keys, which come and go

    def signer_of(keys: AwsKeys) -> SigV4:
        return SigV4(keys, region, service, clock)

    find, use = partial(find_keys, provider), partial(use_keys, sources, provider.proxy)
    return AwsCredentials(provider.name, found, find, use, SignedKeys(signer_of), sources)


def _has_changed(known: FoundKeys) -> bool:
    """Whether a file may say something else now, or cannot be asked."""
    try:
        return any(_state_of(path) != state for path, state in known.files)
    except OSError:
        return True


def _state_of(path: str) -> FileState:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _looked_at(provider: Provider, source: KeySource | NoKeys) -> str | None:
    """Return the sources that have no keys, where nothing is left but the metadata service of an instance."""
    settings = provider.aws
    assert settings is not None
    if isinstance(source, AssumedRole) and source.role_arn == settings.role_arn:
        source = source.base
    if not isinstance(source, InstanceMetadata):
        return None
    profile = quote(profile_of(settings, settings.environment))
    return f"the environment, the profile {profile} or a container's endpoint"
