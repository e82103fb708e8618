"""The ``aws`` block of a provider, and what the environment says of AWS.

Sources: AWS's reference of the settings that its SDKs and tools share; botocore's ``credentials.py``,
``configprovider.py`` and service model of STS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Struct
from pydantic import WithJsonSchema

from mgw.config.aws_hosts import is_region
from mgw.config.checks import ADDRESS, KEY, checked_sts_url, text_like
from mgw.config.field_types import Text, Variable, key_or
from mgw.config.quoting import quote
from mgw.config.settings_base import NotInFile, Omittable, Settings, check_with, expect, setting
from mgw.nouns.secret import Secret

PROFILE_VARIABLE: Final = "AWS_PROFILE"
REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
"""The variables that name a region; the first counts."""
STS_VARIABLE: Final = "AWS_ENDPOINT_URL_STS"
CREDENTIALS_FILE_VARIABLE: Final = "AWS_SHARED_CREDENTIALS_FILE"
CONFIG_FILE_VARIABLE: Final = "AWS_CONFIG_FILE"
_TEXTS: Final = (
    *("HOME", PROFILE_VARIABLE, CREDENTIALS_FILE_VARIABLE, CONFIG_FILE_VARIABLE),
    *("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME"),
    *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    *("AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_SERVICE_ENDPOINT"),
)
_SECRETS: Final = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
)

_ROLE: Final = "arn:[^:]+:iam::[0-9]{12}:role/[!-~]+"
_ROLE_ARN: Final = re.compile(_ROLE)
_SERVICE: Final = "[A-Za-z0-9-]+"
_SERVICE_NAME: Final = re.compile(_SERVICE)
_SESSION: Final = "[A-Za-z0-9_+=,.@-]{2,64}"
_SESSION_NAME: Final = re.compile(_SESSION)


class AwsEnvironment(Struct, frozen=True):
    """The variables of the environment that keys may come from, as they were when the file was read."""

    texts: dict[str, str] = {}
    secrets: dict[str, Secret] = {}

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> AwsEnvironment:
        """Return what an environment says; a variable that is empty says nothing."""
        texts = {name: text for name in _TEXTS if (text := environ.get(name))}
        secrets = {name: Secret(text) for name in _SECRETS if (text := environ.get(name))}
        return cls(texts, secrets)

    def get(self, name: str) -> str | None:
        """Return the value of a variable."""
        secret = self.secrets.get(name)
        return self.texts.get(name) if secret is None else secret.reveal()

    def __repr__(self) -> str:
        return "AwsEnvironment(…)"


def checked_region(text: str) -> str:
    """Take the name of a region of AWS."""
    if not is_region(text):
        raise ValueError(f"expected the name of a region, such as us-east-1, found {quote(text)}")
    return text


def checked_service(text: str) -> str:
    """Take the name of a service, as it stands in signatures."""
    if not _SERVICE_NAME.fullmatch(text):
        raise ValueError(f"expected a name of letters, digits and -, found {quote(text)}")
    return text


def checked_role_arn(text: str) -> str:
    """Take the ARN of a role."""
    if not _ROLE_ARN.fullmatch(text):
        raise ValueError(
            f"expected the ARN of a role, such as arn:aws:iam::123456789012:role/llm, found {quote(text)}"
        )
    return text


def checked_session_name(text: str) -> str:
    """Take the name of a session of a role."""
    if not _SESSION_NAME.fullmatch(text):
        raise ValueError("expected from 2 to 64 letters, digits and _+=,.@-")
    return text


Region = Annotated[
    str,
    expect("the name of a region"),
    check_with(checked_region),
    WithJsonSchema(text_like("[a-z]{2,8}(?:-[a-z]{2,16}){1,3}-[0-9]{1,2}")),
]
SigningName = Annotated[
    str,
    expect("a string (in quotes if YAML would read it as a number)"),
    check_with(checked_service),
    WithJsonSchema(text_like(_SERVICE)),
]
RoleArn = Annotated[
    str, expect("the ARN of a role"), check_with(checked_role_arn), WithJsonSchema(text_like(_ROLE))
]
SessionName = Annotated[
    str, expect("a string"), check_with(checked_session_name), WithJsonSchema(text_like(_SESSION))
]
StsUrl = Annotated[
    str,
    expect("an http:// or https:// address"),
    check_with(checked_sts_url),
    WithJsonSchema(ADDRESS),
]
AccessKeyId = Annotated[Secret, key_or("access_key_id_env"), WithJsonSchema(KEY)]
SecretAccessKey = Annotated[Secret, key_or("secret_access_key_env"), WithJsonSchema(KEY)]
SessionToken = Annotated[Secret, key_or("session_token_env"), WithJsonSchema(KEY)]

PAIR: Final = ("access_key_id", "secret_access_key")
"""The settings of a key, which need each other."""
KEYS: Final = (*PAIR, "session_token")
"""The settings that have another form, the variable that holds the value."""
SECRET_KEYS: Final = (*KEYS, *(f"{name}_env" for name in KEYS))
"""Keys in a file where a credential itself stands, or may stand by mistake."""


class AwsSettings(Settings):
    """How requests to hosts of AWS are signed, and where the keys come from."""

    region: Omittable[Region] = setting(
        "Region that requests are signed for",
        shown="the region in the host of ``base_url``, else ``AWS_REGION``, ``AWS_DEFAULT_REGION``, or the "
        "``region`` of the profile",
    )
    service: Omittable[SigningName] = setting(
        "Name of the service that requests are signed for",
        shown="by the host of ``base_url``: ``bedrock`` for ``bedrock-runtime.…``, ``bedrock-mantle`` for "
        "``bedrock-mantle.…``, ``aws-external-anthropic`` for ``aws-external-anthropic.…``, and ``bedrock`` "
        "for other hosts of kind ``bedrock``",
    )
    profile: Omittable[Text] = setting(
        "Profile of the shared files of AWS's tools",
        "If it is set, it comes before the keys in the environment. The files are those that "
        "``AWS_SHARED_CREDENTIALS_FILE`` and ``AWS_CONFIG_FILE`` name, else ``~/.aws/credentials`` and "
        "``~/.aws/config``. They are read again when they change.",
        shown="``AWS_PROFILE``, else ``default``",
    )
    access_key_id: Omittable[AccessKeyId] = setting(
        "Access key id of this provider; use ``access_key_id_env`` to keep it out of this file",
        "Requires ``secret_access_key``, and cannot be combined with ``profile``.",
    )
    access_key_id_env: Omittable[Variable] = setting("Environment variable that contains ``access_key_id``")
    secret_access_key: Omittable[SecretAccessKey] = setting(
        "Secret access key of this provider; use ``secret_access_key_env`` to keep it out of this file"
    )
    secret_access_key_env: Omittable[Variable] = setting(
        "Environment variable that contains ``secret_access_key``"
    )
    session_token: Omittable[SessionToken] = setting(
        "Session token that belongs to a temporary key; use ``session_token_env`` to keep it out of this file"
    )
    session_token_env: Omittable[Variable] = setting("Environment variable that contains ``session_token``")
    role_arn: Omittable[RoleArn] = setting(
        "Role to assume, with ``web_identity_token_file`` or else with the credentials that are found"
    )
    external_id: Omittable[Text] = setting(
        "External id that the role's trust policy requires; needs ``role_arn``"
    )
    session_name: SessionName = setting(
        "Session name of the assumed role, as CloudTrail shows it", default="mgw", shown="``mgw``"
    )
    web_identity_token_file: Omittable[Text] = setting(
        "File with an identity provider's token, with which the role is assumed; requires ``role_arn``",
        "It is read for each request to STS.",
    )
    sts_url: Omittable[StsUrl] = setting(
        "Address of AWS's Security Token Service (STS), which issues the credentials of roles",
        "Requests to it are signed for the region in its host (``sts.amazonaws.com``: ``us-east-1``), else "
        "for ``region``.",
        shown="``AWS_ENDPOINT_URL_STS``, else ``https://sts.REGION.amazonaws.com``",
    )
    environment: NotInFile[AwsEnvironment] = AwsEnvironment()
    """What the environment says of AWS."""
