"""How the gateway authenticates to providers: the values of ``auth``, their settings, and a row of each.

A new one is a member of :class:`AuthMode`, its settings in :class:`AuthSettings`, and its row in
:data:`AUTHS`, which names its module in :mod:`mgw.credentials`.  From the rows follow what the loader checks
(:mod:`mgw.config.authentication`), the schema for editors, and what no message may quote.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Final

from msgspec import Struct
from pydantic import ConfigDict

from mgw.config.aws_settings import AwsSettings
from mgw.config.field_types import EntryName, Key, Name, OneOf, Text, Variable
from mgw.config.oauth import OAuthSettings
from mgw.config.settings_base import (
    NotInFile,
    Omittable,
    Settings,
    UniqueList,
    file_settings,
    required,
    setting,
)
from mgw.nouns.vocabulary import Capability

GOOGLE_FILE_VARIABLE: Final = "GOOGLE_APPLICATION_CREDENTIALS"


class AuthMode(StrEnum):
    """How the gateway shows itself to a provider (contract 3.7)."""

    API_KEY = "api_key"
    """A static key in the kind's own header."""
    BEARER = "bearer"
    """A static token as ``Authorization: Bearer``."""
    CLIENT_BEARER = "client_bearer"
    """The client's own bearer token."""
    TOKEN_FILE = "token_file"  # noqa: S105 (the name of a mode)
    """A bearer token read from a file that somebody else renews."""
    OAUTH2 = "oauth2"
    """A token from a token endpoint, which the ``oauth`` block describes."""
    SERVICE_ACCOUNT = "service_account"
    """A token that a key of a Google service account signs for."""
    ADC = "adc"
    """A token from Google's application default credentials."""
    AWS = "aws"
    """A signature of each request by a key of AWS (SigV4)."""
    NONE = "none"
    """The provider wants no credential, and none is sent."""


AuthName = Annotated[AuthMode, OneOf()]


class GooglePlaces(Struct, frozen=True):
    """Where Google's credentials may be, in this order."""

    key_file: str | None
    """A key of a service account, or what else Google's tools write as credentials."""
    setting: str
    """The setting or variable that names that file."""
    well_known_file: str
    """Where ``gcloud auth application-default login`` puts its own; may be missing."""
    metadata_host: str


class PoolSettings(Settings):
    """Several subscription accounts that are used in turn."""

    model_config = ConfigDict(json_schema_extra={"required": ["credentials", "profile"]})

    credentials: UniqueList[EntryName] = required(
        "Entries of the credential store, one per account",
        "Requests use the accounts in turn. After a 429, an account is in cooldown for that model "
        "for as long as the provider says, after a 403 for a while, and the request is sent with "
        "another account. If none is left, the client gets 429 with ``Retry-After``, and nothing "
        "is sent. An entry that does not exist is not an error at startup; ``mgw auth login`` "
        "creates it.",
    )
    profile: Name = required("Profile of these entries, a name from ``profiles``")


class AuthSettings(Settings):
    """What a provider's credential comes from."""

    auth: Omittable[AuthName] = setting(
        "How the gateway authenticates to the provider",
        "If it is not set, a key implies ``api_key`` and a ``token_file`` implies ``token_file``. "
        "With neither, the client's own credential is sent, but only for clients of the provider's "
        "own family.",
    )
    """``None``: the client's own credential."""
    api_key: Omittable[Key] = setting(
        "The key itself; use ``api_key_env`` to keep it out of this file",
        "Cannot be combined with ``api_key_env``. A placeholder (``${NAME}``, ``$NAME``, "
        "``os.environ/NAME``, ``<…>``) is an error, because placeholders are not filled in. The "
        "key is hidden in log lines and provider errors wherever it appears as a whole word. A key "
        "of fewer than 8 characters could be an ordinary word, so it is not hidden, and the "
        "gateway warns about it.",
    )
    api_key_env: Omittable[Variable] = setting("Environment variable that contains the key")
    token_file: Omittable[Text] = setting("File with an access token that another program renews")
    oauth: Omittable[OAuthSettings] = setting("Where tokens come from, for ``auth: oauth2``")
    service_account_file: Omittable[Text] = setting(
        "Key file of a Google service account, for ``service_account`` and ``adc``",
        "For ``adc``, it may be any credential file that Google's tools write. It is read at "
        "startup and at each reload. If it is not set, the file named by the environment variable "
        "``GOOGLE_APPLICATION_CREDENTIALS`` is used.",
    )
    google: NotInFile[GooglePlaces | None] = None
    """Where the credentials of ``SERVICE_ACCOUNT`` and ``ADC`` may be."""
    aws: AwsSettings | None = setting("How requests to AWS are signed, and where the keys come from")
    pool: PoolSettings | None = setting("Several subscription accounts that are used in turn")


class Auth(Struct, frozen=True, kw_only=True):
    """What goes with a value of ``auth``.

    A name of a setting also means its other form: ``api_key`` is what ``api_key_env`` is read into.
    """

    module: str
    """The module of :mod:`mgw.credentials` whose ``make_credentials`` is called, with dots on the way."""
    uses: tuple[str, ...] = ()
    """The settings of its credential, which no other provider may have but those that use them, too."""
    is_needed: bool = True
    """Whether it cannot do without them."""
    variable: str | None = None
    """The environment variable that may take their place."""
    takes: tuple[str, ...] = ()
    """Settings of other credentials that it can be given, too."""
    is_implied: bool = False
    """Whether its settings need no ``auth`` beside them."""
    alone: str = ""
    """What it does where it uses no settings, and what to do about those beside it."""
    impossible: frozenset[Capability] = frozenset()
    """The capabilities that cannot be used with it."""


AUTHS: Final = MappingProxyType(
    {
        AuthMode.API_KEY: Auth(module="static", uses=("api_key",), is_implied=True),
        AuthMode.BEARER: Auth(module="static", uses=("api_key",)),
        AuthMode.TOKEN_FILE: Auth(module="token_file", uses=("token_file",), is_implied=True),
        AuthMode.OAUTH2: Auth(module="oauth2", uses=("oauth",)),
        AuthMode.SERVICE_ACCOUNT: Auth(
            module="google_sources",
            uses=("service_account_file",),
            variable=GOOGLE_FILE_VARIABLE,
            takes=("oauth",),
        ),
        AuthMode.ADC: Auth(
            module="google_sources", uses=("service_account_file",), is_needed=False, takes=("oauth",)
        ),
        AuthMode.AWS: Auth(
            module="aws.make", uses=("aws",), is_needed=False, impossible=frozenset({Capability.REALTIME})
        ),
        AuthMode.CLIENT_BEARER: Auth(
            module="static", alone="sends the client's own token: remove the provider's credential"
        ),
        AuthMode.NONE: Auth(module="static", alone="sends no credential: remove the provider's key or token"),
    }
)
"""Every value's row."""


def _credentials() -> dict[str, AuthMode]:
    found: dict[str, AuthMode] = {}
    for mode, row in AUTHS.items():
        for name in row.uses:
            found.setdefault(name, mode)
    return found


CREDENTIALS: Final = MappingProxyType(_credentials())
"""What a provider's credential comes from, and the first value that uses it."""

_KEYS: Final = frozenset(file_settings(AuthSettings))


def forms(name: str) -> tuple[str, ...]:
    """Return the keys in a file that state a credential: itself, or the variable that holds it."""
    return tuple(key for key in (name, f"{name}_env") if key in _KEYS)


def keys_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the keys in a file that state these credentials."""
    return tuple(key for name in names for key in forms(name))


SECRET_KEYS: Final = keys_of(name for name in CREDENTIALS if f"{name}_env" in _KEYS)
"""Keys in a file where a credential itself stands, or may stand by mistake."""
