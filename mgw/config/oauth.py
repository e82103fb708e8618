"""The ``oauth`` block of a provider: the source of its tokens, and their purpose (contract 3.15).

Sources: RFC 6749 (client credentials, refresh tokens, grants of vendors), RFC 8693 (token exchange), RFC 7523
(assertions, as grants and in place of a client's secret), RFC 8707 (resource).
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, PlainValidator, WithJsonSchema

from mgw.config.checks import KEY, NAME, TOKEN_URL, checked_name, checked_token_url, text_like
from mgw.config.field_types import (
    FROM_VARIABLE,
    EntryName,
    FromVariable,
    HeaderValue,
    Name,
    OneOf,
    Text,
    Variable,
    key_or,
    variable_named,
)
from mgw.config.quoting import unknown_value
from mgw.config.settings_base import (
    Documentation,
    EmptyIfNull,
    Omittable,
    Settings,
    check_with,
    expect,
    parse_with,
    setting,
    wrong_type,
    wrong_value,
)
from mgw.nouns.secret import Secret


class Grant(StrEnum):
    """What a token is asked for with."""

    CLIENT_CREDENTIALS = "client_credentials"
    REFRESH_TOKEN = "refresh_token"  # noqa: S105 (the name of a grant)
    TOKEN_EXCHANGE = "token_exchange"  # noqa: S105 (the name of a grant)
    JWT_BEARER = "jwt_bearer"


class ClientAuth(StrEnum):
    """How the client shows itself to a token endpoint (RFC 6749 2.3.1)."""

    FORM = "form"
    BASIC = "basic"


class BodyFormat(StrEnum):
    """How the fields of a request are written."""

    FORM = "form"
    JSON = "json"


class TokenOrigin(StrEnum):
    """Where the token comes from that is exchanged for one of the provider's."""

    CLIENT = "client"


OF_GRANT: Final[dict[str, tuple[Grant, ...]]] = {
    "refresh_token": (Grant.REFRESH_TOKEN,),
    "refresh_token_env": (Grant.REFRESH_TOKEN,),
    "subject_token": (Grant.TOKEN_EXCHANGE,),
    "subject_token_file": (Grant.TOKEN_EXCHANGE,),
    "subject_token_type": (Grant.TOKEN_EXCHANGE,),
    "requested_token_type": (Grant.TOKEN_EXCHANGE,),
    "assertion": (Grant.JWT_BEARER,),
    "assertion_file": (Grant.JWT_BEARER, Grant.CLIENT_CREDENTIALS),
}
"""Settings that only some grants have."""

IN_PLACE_OF_FILES: Final = {"subject_token_file": "subject_token", "assertion_file": "assertion"}
"""Settings for the token of the client in place of one in a file."""

OF_ASSERTIONS: Final = ("client_assertion", "client_assertion_type")
"""Form fields of an assertion in place of a client's secret."""

URN: Final = "urn:"
"""How a grant begins that a vendor has named (RFC 6749 4.5)."""
_VENDORS_GRANT: Final = "urn:[!-~]+"
_URN: Final = re.compile(_VENDORS_GRANT)

RESERVED_FIELDS: Final = frozenset(
    {
        "grant_type",
        "client_id",
        "client_secret",
        "refresh_token",
        "scope",
        "audience",
        "resource",
        "assertion",
        "subject_token",
        "subject_token_type",
        "requested_token_type",
    }
)
"""Form fields that have settings of their own."""

JWT_TYPE: Final = "urn:ietf:params:oauth:token-type:jwt"


def _scopes(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, list | tuple) or not all(isinstance(scope, str) for scope in value):
        raise wrong_type("a list of scopes, or a string with spaces between them")
    try:
        return tuple(dict.fromkeys(map(checked_name, value)))
    except ValueError:
        raise wrong_value("expected scopes without spaces or control characters in them") from None


Scopes = Annotated[
    tuple[str, ...],
    PlainValidator(_scopes),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": NAME}]}),
]
TokenUrl = Annotated[
    str,
    expect("an http:// or https:// address"),
    check_with(checked_token_url),
    WithJsonSchema(TOKEN_URL),
]


def _form_value(value: object) -> object:
    if isinstance(value, str | FromVariable):
        return value
    try:
        named = variable_named(value)
    except ValueError as error:
        raise wrong_value(str(error)) from None
    if named is None:
        raise wrong_type("a string (in quotes if YAML would read it as a number) or {env: NAME}")
    return named


def _grant(text: str) -> str:
    if text in set(Grant):
        return Grant(text)
    if _URN.fullmatch(text):
        return text
    raise ValueError(unknown_value(text, Grant, f"{', '.join(Grant)}, or a grant that begins with {URN}"))


FormValue = Annotated[
    str | FromVariable,
    PlainValidator(_form_value),
    WithJsonSchema({"anyOf": [{"type": "string"}, FROM_VARIABLE]}),
]
"""A form field as a file states it; :func:`~mgw.config.authentication.settle_authentication` reads the
variables."""
ClientSecret = Annotated[Secret, key_or("client_secret_env"), WithJsonSchema(KEY)]
RefreshToken = Annotated[Secret, key_or("refresh_token_env"), WithJsonSchema(KEY)]
GrantName = Annotated[
    str,
    parse_with(_grant, f"one of {', '.join(Grant)}, or a grant that begins with {URN}", Grant),
    WithJsonSchema({"anyOf": [{"type": "string", "enum": list(Grant)}, text_like(_VENDORS_GRANT)]}),
]
ClientAuthName = Annotated[ClientAuth, OneOf()]
BodyFormatName = Annotated[BodyFormat, OneOf()]
TokenOriginName = Annotated[TokenOrigin, OneOf()]


class OAuthSettings(Settings):
    """Where a provider's tokens come from."""

    credentials: Omittable[EntryName] = setting(
        "Entry of the credential store for a subscription account",
        "Its token is sent. ``mgw auth login`` creates the entry; one that does not exist is not "
        "an error at startup. Requires only ``profile``. For several accounts, use ``pool``.",
    )
    profile: Omittable[Name] = setting("Profile of the entry, a name from ``profiles``")
    token_url: Omittable[TokenUrl] = setting(
        "Address of the token endpoint",
        "Required for ``auth: oauth2`` without ``credentials``. It is used as it is, and redirects "
        "are not followed. The gateway warns about plain HTTP to another machine, since secrets "
        "and tokens would travel in clear text.",
    )
    grant: Omittable[GrantName] = setting(
        "OAuth grant used to request a token",
        "``client_credentials`` requires ``client_id`` and a secret or ``assertion_file``, ``refresh_token`` "
        "a refresh token and ``client_id``, ``token_exchange`` (RFC 8693) ``subject_token_file`` or "
        "``subject_token``, and ``jwt_bearer`` (RFC 7523) ``assertion_file`` or ``assertion``. A grant of a "
        "vendor's own is written as the vendor "
        "names it (``urn:…``); its form fields are those in ``extra``.",
        shown="``refresh_token`` if one is set, else ``client_credentials``",
    )
    client_id: Omittable[Text] = setting("Client id of the gateway at the token endpoint")
    client_id_env: Omittable[Variable] = setting("Environment variable that contains ``client_id``")
    client_secret: Omittable[ClientSecret] = setting(
        "Client secret of the gateway at the token endpoint; use ``client_secret_env`` to keep it "
        "out of this file"
    )
    client_secret_env: Omittable[Variable] = setting("Environment variable that contains ``client_secret``")
    client_auth: ClientAuthName = setting(
        "Where the client id and secret are sent: in the form, or in the header ``Authorization: Basic``",
        default=ClientAuth.FORM,
    )
    refresh_token: Omittable[RefreshToken] = setting(
        "Refresh token; use ``refresh_token_env`` to keep it out of this file",
        "If a response contains a new one, it is used from then on, also after a restart: it is "
        "stored in ``tokens`` in the state directory (see ``spool.dir``).",
    )
    refresh_token_env: Omittable[Variable] = setting("Environment variable that contains ``refresh_token``")
    scopes: Scopes = setting(
        "Scopes to request",
        "``auth: service_account`` and ``auth: adc`` use no other setting of this block; their "
        "default is ``https://www.googleapis.com/auth/cloud-platform``.",
        default=(),
    )
    audience: Omittable[Text] = setting("Audience of the token, sent as the form field ``audience``")
    extra: EmptyIfNull[dict[str, FormValue]] = Field(
        default={},
        repr=False,
        json_schema_extra=Documentation(
            "Additional form fields",
            "A value is a string, or ``{env: NAME}`` for an environment variable. Values are never shown or "
            "logged. Fields that have a setting of their own are not allowed.",
            default="empty",
        ),
    )
    headers: EmptyIfNull[dict[str, HeaderValue]] = Field(
        default={},
        repr=False,
        json_schema_extra=Documentation(
            "Additional headers of token requests",
            "Values are never shown or logged.",
            default="empty",
        ),
    )
    body: BodyFormatName = setting(
        "Format of token requests; the standards say ``form``, and some vendors require ``json``",
        default=BodyFormat.FORM,
    )
    subject_token: Omittable[TokenOriginName] = setting(
        "``client``: the token to exchange is the one that the client has sent, for ``token_exchange``",
        "It takes the place of ``subject_token_file`` and requires ``edge_auth.jwt``. Each client then has "
        "tokens of its own at the provider; clients with gateway keys get a 401.",
    )
    subject_token_file: Omittable[Text] = setting(
        "File with the token to exchange, for ``token_exchange``; it is read for each exchange"
    )
    subject_token_type: Omittable[Text] = setting("Type of that token, as a URN", shown=f"``{JWT_TYPE}``")
    requested_token_type: Omittable[Text] = setting(
        "Type of token to request, as a URN; for ``token_exchange``"
    )
    resource: Omittable[Text] = setting(
        "Address of the service that the token is for (RFC 8707), sent as the form field ``resource``"
    )
    assertion: Omittable[TokenOriginName] = setting(
        "``client``: the assertion is the token that the client has sent, for ``jwt_bearer``",
        "It takes the place of ``assertion_file`` and requires ``edge_auth.jwt``, as ``subject_token`` does.",
    )
    assertion_file: Omittable[Text] = setting(
        "File with the signed assertion, for ``jwt_bearer``, or for ``client_credentials`` in place of a "
        "secret; it is read for each token"
    )


def is_on_behalf(oauth: OAuthSettings) -> bool:
    """Whether each client's own token is exchanged."""
    return TokenOrigin.CLIENT in (oauth.subject_token, oauth.assertion)


def forms_of(name: str) -> tuple[str, ...]:
    """Return the settings that state a value: itself, a variable that holds it, or the client's own token."""
    forms = (name, f"{name}_env", IN_PLACE_OF_FILES.get(name, name))
    return tuple(dict.fromkeys(form for form in forms if form in OAuthSettings.model_fields))
