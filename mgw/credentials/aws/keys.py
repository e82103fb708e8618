"""The keys that sign requests to AWS, and the sources that they can come from.

A source says all that is needed to get keys, and holds none that are renewed, so that processes with the same
configuration have the same one.  Sources: AWS's reference of its SDKs and tools ("Standardized credential
providers"), botocore's ``credentials.py``.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from mgw.nouns.secret import MIN_HIDDEN, Secret

_SHOWN: Final = 4
"""The characters at the end of an access key id that may be shown."""


class AwsKeys(Struct, frozen=True):
    """An access key with its secret, and the token of the session that they are of."""

    access_key_id: str
    secret_access_key: Secret
    session_token: Secret | None = None
    expires_at: float | None = None
    """Unix seconds; ``None``: they do not expire."""

    @property
    def shown_end(self) -> str:
        """What of the access key id may be shown: its last characters, and nothing of a short one."""
        return self.access_key_id[-_SHOWN:] if len(self.access_key_id) >= MIN_HIDDEN else ""

    def __repr__(self) -> str:
        return f"AwsKeys(…{self.shown_end})"


class FixedKeys(Struct, frozen=True):
    """Keys that stand in the configuration, the environment or a file."""

    keys: AwsKeys
    place: str
    """Where they were found, in words: ``the environment``, ``the profile 'llm'``."""


class ContainerEndpoint(Struct, frozen=True):
    """What gives a container on ECS or EKS the keys of its role."""

    url: str
    token: Secret | None = None
    """Sent as ``Authorization``, where there is no file."""
    token_file: str | None = None
    """Read anew for each request."""


class InstanceMetadata(Struct, frozen=True):
    """The metadata service of an EC2 instance, version 2."""

    origin: str


class WebIdentity(Struct, frozen=True):
    """A role that is assumed with a token of an identity provider (AssumeRoleWithWebIdentity)."""

    role_arn: str
    session_name: str
    token_file: str
    """Read anew for each request."""
    sts_url: str


class AssumedRole(Struct, frozen=True):
    """A role that is assumed with the keys of another source (AssumeRole)."""

    base: KeySource
    role_arn: str
    session_name: str
    external_id: str | None
    sts_url: str
    region: str
    """That of ``sts_url``, for the signature."""


KeySource = FixedKeys | ContainerEndpoint | InstanceMetadata | WebIdentity | AssumedRole
"""Where keys come from."""
