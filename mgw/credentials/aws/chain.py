"""Where the keys of a provider come from: AWS's chain, resolved without asking anybody.

The order is that of AWS's SDKs (botocore's ``create_credential_resolver``), with the settings of the provider
in front: its own keys; the profile that it names; the keys in the environment; a web identity; the profile
that is used otherwise; the endpoint of a container; the metadata service of an instance.  Then the role of
the settings, which is assumed with what was found.  The first that is there counts: where it is broken, that
is an error, not a reason to go on.

Nothing is asked here and no token is read: a source says what it takes to get keys (:mod:`.keys`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from mgw.config.aws import profile_of, variable_of_profile
from mgw.config.aws_hosts import region_of_sts
from mgw.config.aws_profiles import (
    AwsProfile,
    ReadFile,
    Variables,
    profile_named,
    read_profiles,
)
from mgw.config.aws_settings import PROFILE_VARIABLE, AwsSettings, checked_role_arn, checked_session_name
from mgw.config.checks import checked_key, checked_token_url
from mgw.config.file_faults import shown_path
from mgw.config.problems import dotted_path
from mgw.config.provider import Provider
from mgw.config.quoting import listed, quote, redact
from mgw.credentials.aws.keys import (
    AssumedRole,
    AwsKeys,
    ContainerEndpoint,
    FixedKeys,
    InstanceMetadata,
    KeySource,
    WebIdentity,
)
from mgw.nouns.secret import Secret

MAX_CHAIN: Final = 5
"""Roles that profiles may assume one by the other."""
NOT_OFFERED: Final = ("login_session", "credential_process")
"""Settings of profiles that lead to a person or a program."""
_SSO: Final = "sso_"
_CONTAINER_HOST: Final = "http://169.254.170.2"
_CONTAINER_HOSTS: Final = frozenset({"localhost", "169.254.170.2", "169.254.170.23", "fd00:ec2::23"})
_METADATA: Final = "http://169.254.169.254"
_URL_PATH: Final = re.compile(r"/[!-~]*")
_is_visible: Final = re.compile(r"[!-~]+").fullmatch
_UNSIGNABLE: Final = "contains characters that cannot be signed with (outside ASCII)"
"""Of what headers say beside a signature; the secret key is in none."""
_ENVIRONMENT: Final = "the environment"
_CONFIGURATION: Final = "the configuration"


class NoAwsKeysError(ValueError):
    """No source of keys is there, which another file or another machine may change.

    :param setting: what asked for them, which operators read and clients do not.
    """

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(f"{setting}: {message}")
        self.message = message


def find_key_source(provider: Provider, environ: Variables, files: ReadFile) -> KeySource:
    """Return where the keys of a provider come from.

    :param provider: one with ``auth: aws``, as it was settled.
    :param environ: the environment.
    :param files: reads the shared files.
    :raises NoAwsKeysError: there are none anywhere; the text says where they were looked for.
    :raises ValueError: a source is broken; the text names the setting.
    """
    assert provider.aws is not None
    return _Chain(provider.name, provider.aws, environ, files).resolve()


def is_profile_empty(provider: Provider, environ: Variables, files: ReadFile) -> bool:
    """Whether the profile that the settings name has neither keys nor a role, so that other sources count.

    :raises ValueError: the profile is broken, as for :func:`find_key_source`.
    """
    aws = provider.aws
    if aws is None or aws.profile is None:
        return False
    return _Chain(provider.name, aws, environ, files).of_profile() is None


@dataclass(slots=True)
class _Chain:
    name: str
    aws: AwsSettings
    environ: Variables
    files: ReadFile
    _profiles: dict[str, AwsProfile] | None = field(default=None, repr=False)

    def resolve(self) -> KeySource:
        found, used_role = self._base()
        aws = self.aws
        if aws.role_arn is None or used_role:
            return found
        return self._assumed(found, aws.role_arn, aws.session_name, aws.external_id)

    def _base(self) -> tuple[KeySource, bool]:
        """Return the first source that is there, and whether it has used the role of the settings."""
        aws = self.aws
        if aws.access_key_id is not None and aws.secret_access_key is not None:
            for name, secret in (("access_key_id", aws.access_key_id), ("session_token", aws.session_token)):
                if secret is not None and not _is_visible(secret.reveal()):
                    raise ValueError(self._at(name, _UNSIGNABLE))
            keys = AwsKeys(aws.access_key_id.reveal(), aws.secret_access_key, aws.session_token)
            return FixedKeys(keys, _CONFIGURATION), False
        steps: list[Callable[[], KeySource | None]] = [
            *([self.of_profile] if aws.profile is not None else []),
            self._of_environment,
            self._of_web_identity,
            *([self.of_profile] if aws.profile is None else []),
            self._of_container,
            self._of_instance,
        ]
        for step in steps:
            found = step()
            if found is not None:
                is_own = step == self._of_web_identity and aws.web_identity_token_file is not None
                return found, is_own
        profile = f"the profile {quote(profile_of(self.aws, self.environ))}"
        message = (
            f"no AWS credentials found in the environment, {profile} or a container's endpoint, and "
            "AWS_EC2_METADATA_DISABLED turns the instance's metadata service off"
        )
        raise NoAwsKeysError(dotted_path(("providers", self.name, "auth")), message)

    def _at(self, setting: str, message: str) -> str:
        """Name the setting in front of a message."""
        path = ("auth",) if setting == "auth" else ("aws", setting)
        return f"{dotted_path(('providers', self.name, *path))}: {message}"

    # The environment ----------------------------------------------------------------------------------------

    def _of_environment(self) -> KeySource | None:
        return self._keys(self.environ, _UPPER, _ENVIRONMENT, "auth")

    def _variable(self, name: str) -> str | None:
        """Return a variable; one that is empty is not there."""
        return self.environ.get(name) or None

    def _keys(
        self, values: Variables, names: tuple[str, str, str], place: str, setting: str
    ) -> KeySource | None:
        """Return the keys that stand at a place, by the names that they have there."""
        texts = [values.get(name) or None for name in names]
        key_id, secret, token = texts
        if key_id is None and secret is None:
            return None
        if key_id is None or secret is None:
            there, missing = (names[1], names[0]) if key_id is None else (names[0], names[1])
            raise ValueError(self._at(setting, f"{place} has {there} without {missing}"))
        for name, text in zip(names, texts, strict=True):
            if text is not None:
                try:
                    checked_key(text, "write the value itself")
                except ValueError as error:
                    raise ValueError(self._at(setting, f"{name} of {place} {error}")) from None
        for name, text in ((names[0], key_id), (names[2], token)):
            if text is not None and not _is_visible(text):
                raise ValueError(self._at(setting, f"{name} of {place} {_UNSIGNABLE}"))
        return FixedKeys(AwsKeys(key_id, Secret(secret), None if token is None else Secret(token)), place)

    def _of_web_identity(self) -> KeySource | None:
        aws = self.aws
        if aws.web_identity_token_file is not None and aws.role_arn is not None:
            return self._web_identity(aws.role_arn, aws.session_name, aws.web_identity_token_file)
        file, role = self._variable("AWS_WEB_IDENTITY_TOKEN_FILE"), self._variable("AWS_ROLE_ARN")
        if file is None:
            return None
        if role is None:
            message = "AWS_WEB_IDENTITY_TOKEN_FILE is set without AWS_ROLE_ARN"
            raise ValueError(self._at("auth", message))
        session = self._variable("AWS_ROLE_SESSION_NAME")
        return self._web_identity(*self._role(role, session, _ENVIRONMENT, "auth"), file)

    def _role(self, role: str, session: str | None, place: str, setting: str) -> tuple[str, str]:
        """Return a role and the name of its session, both as they must be."""
        try:
            checked_role_arn(role)
            if session is not None:
                checked_session_name(session)
        except ValueError as error:
            raise ValueError(self._at(setting, f"the role of {place}: {error}")) from None
        return role, session or self.aws.session_name

    def _web_identity(self, role: str, session: str, file: str) -> WebIdentity:
        assert self.aws.sts_url is not None
        return WebIdentity(role, session, file, self.aws.sts_url)

    def _assumed(self, base: KeySource, role: str, session: str, external_id: str | None) -> AssumedRole:
        url, region = self.aws.sts_url, self.aws.region
        assert url is not None
        assert region is not None
        return AssumedRole(base, role, session, external_id, url, region_of_sts(url, region))

    # Profiles -----------------------------------------------------------------------------------------------

    @property
    def _setting(self) -> str:
        return "auth" if self.aws.profile is None else "profile"

    def of_profile(self) -> KeySource | None:
        """Return the source that the profile leads to."""
        name = profile_of(self.aws, self.environ)
        try:
            if self._profiles is None:
                self._profiles = read_profiles(self.environ, self.files)
            is_named = self.aws.profile is not None or self._variable(PROFILE_VARIABLE) is not None
            variable = variable_of_profile(self.aws)
            profile = (
                profile_named(name, self._profiles, self.environ, variable)
                if is_named
                else self._profiles.get(name)
            )
        except ValueError as error:
            raise ValueError(self._at(self._setting, str(error))) from None
        return None if profile is None else self._source_of(profile, ())

    def _source_of(self, profile: AwsProfile, above: tuple[str, ...]) -> KeySource | None:
        """Return the source that a profile leads to.

        :param above: the profiles whose roles are assumed with what it gives, the first one first.
        """
        has_own_keys = "aws_access_key_id" in profile or "aws_secret_access_key" in profile
        if profile.get("web_identity_token_file") is not None:
            return self._identity_of(profile)
        if profile.get("role_arn") is not None and not (above and has_own_keys):
            return self._role_of(profile, above)
        self._refuse_others(profile)
        for settings in (profile.credentials, profile.config):
            found = self._keys(settings, _LOWER, _place(profile), self._setting)
            if found is not None:
                return found
        return None

    def _identity_of(self, profile: AwsProfile) -> KeySource:
        role, file = profile.get("role_arn"), profile.get("web_identity_token_file")
        if role is None or file is None:
            raise self._broken(profile, "has web_identity_token_file without role_arn")
        session = profile.get("role_session_name")
        return self._web_identity(*self._role(role, session, _place(profile), self._setting), file)

    def _role_of(self, profile: AwsProfile, above: tuple[str, ...]) -> KeySource:
        source, named = profile.get("source_profile"), profile.get("credential_source")
        if "mfa_serial" in profile:
            raise self._broken(profile, "has mfa_serial: MFA codes are not supported")
        if source is not None and named is not None:
            raise self._broken(profile, "has both source_profile and credential_source")
        if source is not None:
            base = self._source_profile(profile, source, above)
        elif named is not None:
            base = self._named_source(profile, named)
        else:
            raise self._broken(profile, "has role_arn without source_profile or credential_source")
        role = profile.get("role_arn")
        assert role is not None
        session = profile.get("role_session_name")
        role, session = self._role(role, session, _place(profile), self._setting)
        return self._assumed(base, role, session, profile.get("external_id"))

    def _source_profile(self, profile: AwsProfile, source: str, above: tuple[str, ...]) -> KeySource:
        assert self._profiles is not None
        try:
            found = profile_named(source, self._profiles, self.environ)
        except ValueError as error:
            raise self._broken(profile, f"has a source_profile that is missing: {error}") from None
        chain = (*above, profile.name)
        own_keys = [name for name in _LOWER[:2] if name in found]
        is_loop = source in above or (source == profile.name and not own_keys)
        if is_loop:
            raise self._broken(profile, f"leads back to itself: {' -> '.join(map(quote, (*chain, source)))}")
        if len(chain) > MAX_CHAIN:
            raise self._broken(profile, f"is part of a chain of more than {MAX_CHAIN} roles")
        base = self._source_of(found, chain)
        if base is None:
            raise self._broken(profile, f"has a source_profile without credentials: {quote(source)}")
        return base

    def _named_source(self, profile: AwsProfile, named: str) -> KeySource:
        sources: dict[str, Callable[[], KeySource | None]] = {
            "Environment": self._of_environment,
            "EcsContainer": self._of_container,
            "Ec2InstanceMetadata": self._of_instance,
        }
        if named not in sources:
            expected = f"expected one of {', '.join(sources)}"
            raise self._broken(profile, f"has an unknown credential_source, {expected}")
        found = sources[named]()
        if found is None:
            raise self._broken(profile, f"has credential_source {named}, but there are no credentials")
        return found

    def _refuse_others(self, profile: AwsProfile) -> None:
        names = {*profile.credentials, *profile.config}
        other = next((name for name in sorted(names) if name in NOT_OFFERED or name.startswith(_SSO)), None)
        if other is not None:
            instead = "use a role, keys or a web identity"
            raise self._broken(profile, f"has {other}, which is not supported: {instead}")

    def _broken(self, profile: AwsProfile, what: str) -> ValueError:
        return ValueError(self._at(self._setting, f"{_place(profile)} {what}"))

    # Containers and instances -------------------------------------------------------------------------------

    def _of_container(self) -> KeySource | None:
        relative = self._variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        whole = self._variable("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        if relative is not None:
            if not _URL_PATH.fullmatch(relative):
                message = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is not a path that begins with /"
                raise ValueError(self._at("auth", message))
            url = _CONTAINER_HOST + relative
        elif whole is not None:
            url = self._container_url(whole)
        else:
            return None
        file = self._variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        token = self._variable("AWS_CONTAINER_AUTHORIZATION_TOKEN") if file is None else None
        if token is not None and not token.isprintable():
            message = "AWS_CONTAINER_AUTHORIZATION_TOKEN contains control characters"
            raise ValueError(self._at("auth", message))
        return ContainerEndpoint(url, None if token is None else Secret(token), file)

    def _container_url(self, text: str) -> str:
        """Return the address of a container's endpoint, which gets a token: no other host may have it."""
        where = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
        try:
            url = checked_token_url(text)
        except ValueError as error:
            raise ValueError(self._at("auth", f"{where}: {error}")) from None
        parts = urlsplit(url)
        if parts.scheme == "https" or _is_next_door(parts.hostname or ""):
            return url
        hosts = listed(sorted(_CONTAINER_HOSTS))
        message = f"{where}: expected https, or http to this machine or one of {hosts}"
        raise ValueError(self._at("auth", message))

    def _of_instance(self) -> KeySource | None:
        if (self._variable("AWS_EC2_METADATA_DISABLED") or "").lower() == "true":
            return None
        origin = self._variable("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _METADATA
        try:
            return InstanceMetadata(checked_token_url(origin).rstrip("/"))
        except ValueError as error:
            message = f"AWS_EC2_METADATA_SERVICE_ENDPOINT: {error}"
            raise ValueError(self._at("auth", message)) from None


_UPPER: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_LOWER: Final = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


def _place(profile: AwsProfile) -> str:
    return f"the profile {quote(profile.name)}"


def _is_next_door(host: str) -> bool:
    try:
        return host in _CONTAINER_HOSTS or ip_address(host).is_loopback
    except ValueError:
        return False


def describe_source(source: KeySource) -> str:
    """Say in a few words where keys come from; no more of a key than its last four characters."""
    roles = []
    while isinstance(source, AssumedRole):
        roles.append(_described_role(source.role_arn, source.sts_url))
        source = source.base
    match source:
        case FixedKeys(keys, place):
            end = f"ending in {keys.shown_end} " if keys.shown_end else ""
            origin = f"the access key {end}from {place}"
        case WebIdentity():
            roles.append(_described_role(source.role_arn, source.sts_url))
            origin = f"the web identity token in {shown_path(source.token_file)}"
        case ContainerEndpoint():
            origin = "credentials from the container endpoint"
        case InstanceMetadata():
            origin = "credentials from the instance's metadata service"
    return ", with ".join([*roles, origin]) if roles else f"with {origin}"


def _described_role(role: str, sts_url: str) -> str:
    return f"role {redact(role)} by {redact(sts_url)}"
