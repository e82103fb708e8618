"""Credential files of Google's tools, read once at load.

Sources: AIP-4112 (keys of service accounts), AIP-4113 (a person's own credentials), AIP-4117 (identities of
other clouds: external accounts).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from mgw.config.checks import checked_token_url
from mgw.nouns.secret import Secret
from mgw.reactor.regular_file import open_regular_file, read_up_to

MAX_FILE_BYTES: Final = 64 * 1024
CLOUD_PLATFORM: Final = "https://www.googleapis.com/auth/cloud-platform"
"""The scope that covers all of Google Cloud."""
DEFAULT_TOKEN_URL: Final = "https://oauth2.googleapis.com/token"  # noqa: S105 (an address)


class ServiceAccountKey(Struct, frozen=True):
    """A key that signs for a service account."""

    client_email: str
    private_key: Secret
    private_key_id: str | None
    token_uri: str


class AuthorizedUser(Struct, frozen=True):
    """A person's own credentials, as ``gcloud auth application-default login`` writes them."""

    client_id: str
    client_secret: Secret
    refresh_token: Secret
    token_uri: str


class ExternalAccount(Struct, frozen=True):
    """An identity of another cloud or cluster, whose token stands in a file."""

    audience: str
    subject_token_type: str
    token_url: str
    subject_file: str
    subject_field: str | None
    """The field of the file's JSON object that holds the token; ``None``: the file is the token."""
    impersonation_url: str | None
    """The URL at which the exchanged token becomes one of a service account; ``None``: it is used itself."""
    impersonation_seconds: int
    client_id: str | None
    client_secret: Secret | None


GoogleFile = ServiceAccountKey | AuthorizedUser | ExternalAccount


def read_google_file(file: str) -> GoogleFile:
    """Read a file of credentials.

    :raises OSError: it cannot be read.
    :raises ValueError: it holds something else; the text says what was expected and repeats nothing of it.
    """
    with open_regular_file(file) as descriptor:
        content = read_up_to(descriptor, MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"is larger than {MAX_FILE_BYTES} bytes, so it is not a Google credentials file")
    try:
        fields = msgspec.json.decode(content)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise ValueError("does not contain a JSON object, so it is not a Google credentials file")
    match fields.get("type"):
        case "service_account":
            return _service_account(fields)
        case "authorized_user":
            return _authorized_user(fields)
        case "external_account":
            return _external_account(fields)
    raise ValueError("has an unsupported type; expected service_account, authorized_user or external_account")


def _service_account(fields: dict[str, Any]) -> ServiceAccountKey:
    return ServiceAccountKey(
        client_email=_text(fields, "client_email"),
        private_key=Secret(_text(fields, "private_key")),
        private_key_id=_optional(fields, "private_key_id"),
        token_uri=_address(fields, "token_uri", DEFAULT_TOKEN_URL),
    )


def _authorized_user(fields: dict[str, Any]) -> AuthorizedUser:
    return AuthorizedUser(
        client_id=_text(fields, "client_id"),
        client_secret=Secret(_text(fields, "client_secret")),
        refresh_token=Secret(_text(fields, "refresh_token")),
        token_uri=_address(fields, "token_uri", DEFAULT_TOKEN_URL),
    )


def _external_account(fields: dict[str, Any]) -> ExternalAccount:
    source = fields.get("credential_source")
    if not isinstance(source, dict) or not isinstance(source.get("file"), str):
        raise ValueError("has an unsupported credential_source; only files are supported")
    form = source.get("format")
    is_json = isinstance(form, dict) and form.get("type") == "json"
    times = fields.get("service_account_impersonation")
    seconds = times.get("token_lifetime_seconds") if isinstance(times, dict) else None
    impersonation = _optional(fields, "service_account_impersonation_url")
    secret = _optional(fields, "client_secret")
    return ExternalAccount(
        audience=_text(fields, "audience"),
        subject_token_type=_text(fields, "subject_token_type"),
        token_url=_address(fields, "token_url", None),
        subject_file=source["file"],
        subject_field=_text(form, "subject_token_field_name") if is_json else None,
        impersonation_url=impersonation and _address(fields, "service_account_impersonation_url", None),
        impersonation_seconds=seconds if type(seconds) is int and 600 <= seconds <= 43200 else 3600,
        client_id=_optional(fields, "client_id"),
        client_secret=None if secret is None else Secret(secret),
    )


def _text(fields: Any, name: str) -> str:  # Any: JSON
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"has no {name}")
    return value


def _optional(fields: dict[str, Any], name: str) -> str | None:
    return _text(fields, name) if fields.get(name) not in (None, "") else None


def _address(fields: dict[str, Any], name: str, usual: str | None) -> str:
    value = usual if usual is not None and fields.get(name) in (None, "") else _text(fields, name)
    try:
        return checked_token_url(value)
    except ValueError:
        raise ValueError(f"has no valid URL in {name}") from None
