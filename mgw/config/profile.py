"""A profile: how to log in to a vendor's subscription, and the form of requests with such an account.

It is a file of its own (``profiles`` of the configuration names it), since all of it is an operator's to
state: nothing that names or imitates a vendor's client comes with the gateway.  What is wrong with a file is
reported as with the configuration: everything at once, each with its line and path.
"""

from __future__ import annotations

import re
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Final

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema

from mgw.config.checks import (
    ADDRESS,
    HEADER_VALUE,
    NAME,
    checked_header_name,
    checked_name,
    checked_public_url,
)
from mgw.config.environment import LoadContext
from mgw.config.field_types import (
    HeaderName,
    HeaderValue,
    Key,
    Name,
    OneOf,
    OnOff,
    Seconds,
    Text,
    Variable,
)
from mgw.config.problems import Path, Report
from mgw.config.quoting import shown
from mgw.config.settings_base import (
    EmptyIfNull,
    ListOf,
    Omittable,
    SetOf,
    Settings,
    UniqueList,
    check_with,
    defaults_of,
    expect,
    required,
    setting,
)

DETAIL: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")
"""A placeholder in the value of a header: what the store knows of the account under this name."""
_DETAIL_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_PATH: Final = re.compile(r"/[A-Za-z0-9._~/-]*")
MAX_TEXT_CHARACTERS: Final = 256 * 1024


class CloakMode(StrEnum):
    """When requests are made to look like those of the vendor's own client."""

    AUTO = "auto"
    """Those that come from another client."""
    ALWAYS = "always"
    NEVER = "never"


class TokenRequestStyle(StrEnum):
    """How the fields of a request for tokens are sent."""

    FORM = "form"
    JSON = "json"


class ResetFormat(StrEnum):
    """How a header says when a limit ends."""

    UNIX = "unix"
    """Seconds since 1970."""
    RFC3339 = "rfc3339"
    SECONDS = "seconds"
    """Seconds from now on."""


def _checked_redirect_path(text: str) -> str:
    if not _PATH.fullmatch(text):
        raise ValueError("expected a path such as /callback")
    return text


def _checked_url(text: str) -> str:
    """Take an address as it is: what stands in a redirect is compared by the vendor, byte by byte."""
    checked_public_url(text)
    return text


def _long_text(text: str) -> str:
    if not text or len(text) > MAX_TEXT_CHARACTERS:
        raise ValueError(f"expected a string of 1 to {MAX_TEXT_CHARACTERS} characters")
    return text


_Url = Annotated[
    str, expect("an http:// or https:// address"), check_with(_checked_url), WithJsonSchema(ADDRESS)
]
CloakModeName = Annotated[CloakMode, OneOf()]
_Style = Annotated[TokenRequestStyle, OneOf()]
_Format = Annotated[ResetFormat, OneOf()]
_Port = Annotated[int, Field(ge=0, le=65535), expect("a port, or 0 for any that is free")]
_RedirectPath = Annotated[
    str,
    expect("a path such as /callback"),
    check_with(_checked_redirect_path),
    WithJsonSchema({"type": "string", "pattern": f"^{_PATH.pattern}$"}),
]
_UserAgent = Annotated[
    str,
    expect("a pattern such as example-cli/*"),
    AfterValidator(str.lower),
    WithJsonSchema(HEADER_VALUE),
]
_LongText = Annotated[
    str, expect("a string"), check_with(_long_text), WithJsonSchema({"type": "string", "minLength": 1})
]
_Word = Annotated[str, expect("a string"), AfterValidator(str.lower), WithJsonSchema({"type": "string"})]
_Parameters = EmptyIfNull[dict[str, Text]]
_ToolName = Annotated[str, expect("a string"), check_with(checked_name), WithJsonSchema(NAME)]


class AuthorizationSettings(Settings):
    """Where people log in with a browser (RFC 6749 4.1, with PKCE: RFC 7636)."""

    url: Omittable[_Url] = setting(
        "The login page",
        "Required for ``mgw auth login``, except with ``--device``.",
    )
    parameters: _Parameters = setting("Additional query parameters", default={})


class TokenSettings(Settings):
    """Where tokens come from."""

    model_config = ConfigDict(json_schema_extra={"required": ["url"]})

    url: _Url = required("The token endpoint")
    style: _Style = setting(
        "The format of token requests", "The standard is ``form``.", default=TokenRequestStyle.FORM
    )
    parameters: _Parameters = setting("Additional fields of each token request", default={})
    headers: EmptyIfNull[dict[str, HeaderValue]] = setting(
        "Additional headers of each token request", default={}
    )
    sends_state: OnOff = setting(
        "Whether to send the ``state`` of a login with its code",
        "No standard requires it, but some vendors do.",
        default=False,
    )


class DeviceSettings(Settings):
    """Logging in with a code that is typed in on another device (RFC 8628)."""

    url: Omittable[_Url] = setting(
        "The device authorization endpoint", "Required for ``mgw auth login --device``."
    )
    parameters: _Parameters = setting("Additional fields of its request", default={})


class RevocationSettings(Settings):
    """Where tokens are given back (RFC 7009)."""

    url: Omittable[_Url] = setting(
        "The revocation endpoint", "``mgw auth logout`` revokes tokens there, if it is set."
    )


class RedirectSettings(Settings):
    """Where the login page sends the browser back to: a server on 127.0.0.1 that lives for one login."""

    host: Name = setting(
        "The host in the redirect address, as registered with the vendor",
        default="127.0.0.1",
        shown="``127.0.0.1``",
    )
    port: _Port = setting("The port; ``0`` for any free one", default=0)
    path: _RedirectPath = setting("The path", default="/callback", shown="``/callback``")
    pasted_url: Omittable[_Url] = setting(
        "The redirect address for ``mgw auth login --paste``: a page that shows the code",
        "By default, it is the usual redirect address, and its port must not be ``0``.",
    )


class AccountSettings(Settings):
    """What is kept of a login beside its tokens.

    Each is a path of keys into the token endpoint's response; ``id_token`` as the first key leads into the
    claims of that token.
    """

    label: ListOf[Text] = setting("Where the name of the account is", default=())
    details: EmptyIfNull[dict[str, ListOf[Text]]] = setting(
        "Where other values are; headers refer to them by these names", default={}
    )


class RequestHeadersSettings(Settings):
    """Headers of each request with such an account.

    ``{name}`` in a value stands for a detail of the account; a header whose detail is unknown is not sent.
    """

    set: EmptyIfNull[dict[str, HeaderValue]] = setting("Headers that replace the client's", default={})
    merge: EmptyIfNull[dict[str, ListOf[HeaderValue]]] = setting(
        "Elements of list headers, which come before the client's",
        "An element that the client sent as well is sent once.",
        default={},
    )
    remove: UniqueList[HeaderName] = setting("Headers of the client to remove", default=())


class ToolsSettings(Settings):
    """What the client's tools are called towards the provider; its responses have the client's names again.

    Only tools that the client defines are renamed, in chat completions, messages and responses.
    """

    exact: EmptyIfNull[dict[str, _ToolName]] = setting("New names, by the client's own", default={})
    prefix: Annotated[str, expect("a string"), WithJsonSchema({"type": "string"})] = setting(
        "A prefix for all other names", default="", shown="empty"
    )


class CloakSettings(Settings):
    """How requests are made to look like those of the vendor's own client."""

    mode: CloakModeName = setting(
        "When requests are changed",
        "``auto``: unless they come from the vendor's own client. A provider's ``cloak`` overrides this.",
        default=CloakMode.AUTO,
    )
    client: UniqueList[_UserAgent] = setting(
        "Patterns of the ``User-Agent`` of the vendor's own client",
        "``*`` matches any characters.",
        default=(),
    )
    headers: EmptyIfNull[dict[str, HeaderValue]] = setting("Headers that replace the client's", default={})
    system: ListOf[_LongText] = setting("Texts to put before the system prompt", default=())

    def applies(self, mode: CloakMode, user_agent: str | None) -> bool:
        """Whether a client's request is changed.

        :param mode: the provider's.
        """
        if mode is CloakMode.AUTO:
            said = "" if user_agent is None else user_agent.lower()
            return not any(fnmatchcase(said, pattern) for pattern in self.client)
        return mode is CloakMode.ALWAYS


class ResetHeaderSettings(Settings):
    """A header that says when a limit ends."""

    model_config = ConfigDict(json_schema_extra={"required": ["name"]})

    name: HeaderName = required("The name of the header")
    format: _Format = setting(
        "The format of its value",
        "``unix``: seconds since 1970; ``rfc3339``: date and time; ``seconds``: from now on.",
        default=ResetFormat.UNIX,
    )


class NoEntitlementSettings(Settings):
    """Which 403 means that the account may not use the model, if not each."""

    header: Omittable[HeaderName] = setting("A header that marks such a response")
    words: SetOf[_Word] = setting(
        "Words that mark such a response if its body contains one of them; case does not matter",
        default=frozenset(),
    )


class LimitsSettings(Settings):
    """How a provider says that an account has reached its limit, for accounts in a pool."""

    reset_headers: ListOf[ResetHeaderSettings] = setting(
        "Headers that say when the limit ends, if there is no ``Retry-After``",
        "The first one that can be read is used.",
        default=(),
    )
    rest_seconds: Seconds = setting(
        "The cooldown of an account after a 429 without any of these headers", default=60.0
    )
    no_entitlement: EmptyIfNull[NoEntitlementSettings] = setting(
        "Which 403 means that the account may not use the model (default: each)",
        default=defaults_of(NoEntitlementSettings),
    )
    no_entitlement_rest_seconds: Seconds = setting(
        "The cooldown of the account for that model", default=600.0
    )


class Profile(Settings):
    """All of a profile."""

    model_config = ConfigDict(json_schema_extra={"required": ["client_id", "token"]})

    client_id: Text = required("The client id that is registered with the vendor")
    client_secret: Omittable[Key] = setting(
        "The client secret, if there is one; use ``client_secret_env`` to keep it out of the file"
    )
    client_secret_env: Omittable[Variable] = setting("Environment variable that contains the secret")
    scopes: UniqueList[Name] = setting("The scopes that a login requests", default=())
    authorization: EmptyIfNull[AuthorizationSettings] = setting(
        "Where people log in with a browser", default=defaults_of(AuthorizationSettings)
    )
    redirect: EmptyIfNull[RedirectSettings] = setting(
        "Where the login page redirects the browser to", default=defaults_of(RedirectSettings)
    )
    device: EmptyIfNull[DeviceSettings] = setting(
        "Where people log in with a code on another device", default=defaults_of(DeviceSettings)
    )
    token: EmptyIfNull[TokenSettings] = setting("Where tokens come from", default=defaults_of(TokenSettings))
    revocation: EmptyIfNull[RevocationSettings] = setting(
        "Where tokens are revoked", default=defaults_of(RevocationSettings)
    )
    account: EmptyIfNull[AccountSettings] = setting(
        "What is stored of a login besides its tokens", default=defaults_of(AccountSettings)
    )
    headers: EmptyIfNull[RequestHeadersSettings] = setting(
        "Headers of each request", default=defaults_of(RequestHeadersSettings)
    )
    tools: EmptyIfNull[ToolsSettings] = setting(
        "Names of the client's tools in requests to the provider", default=defaults_of(ToolsSettings)
    )
    cloak: EmptyIfNull[CloakSettings] = setting(
        "How requests are made to look like those of the vendor's own client",
        default=defaults_of(CloakSettings),
    )
    limits: EmptyIfNull[LimitsSettings] = setting(
        "How a provider says that an account has reached its limit", default=defaults_of(LimitsSettings)
    )

    @property
    def rewrites_bodies(self) -> bool:
        """Whether bodies are changed beyond the model, for some client at least."""
        return bool(self.tools.exact or self.tools.prefix or self.cloak.system)


def normalize_profile(profile: Profile, context: LoadContext) -> Profile:
    """Check what settings ask of one another, and read the secret from the environment.

    :raises ConfigError: with all that is wrong, what the report held before included.
    """
    report = context.report
    for path, value in ((("client_id",), profile.client_id), (("token", "url"), profile.token.url)):
        if value is None and not report.has_problem_below(path):
            report.add(
                path,
                "missing, expected a string" if path == ("client_id",) else "missing, expected an address",
            )
    secret = profile.client_secret
    if secret is not None and profile.client_secret_env is not None:
        report.add(("client_secret_env",), "client_secret is also set: keep only one of them")
    elif profile.client_secret_env is not None:
        secret = context.key_from(profile.client_secret_env, ("client_secret_env",))
    _check_headers(profile, report)
    _check_tools(profile, report)
    for name in profile.account.details:
        if not _DETAIL_NAME.fullmatch(name):
            report.add(("account", "details", name), "expected a name of lower-case letters, digits and _")
    for position, header in enumerate(profile.limits.reset_headers):
        if header.name is None and not report.has_problem_below(("limits", "reset_headers", position)):
            report.add(("limits", "reset_headers", position, "name"), "missing, expected a header name")
    report.raise_if_any()
    return profile.model_copy(update={"client_secret": secret})


def _check_headers(profile: Profile, report: Report) -> None:
    places: dict[Path, dict[str, tuple[str, ...]]] = {
        ("headers", "set"): {name: (value,) for name, value in profile.headers.set.items()},
        ("headers", "merge"): profile.headers.merge,
        ("cloak", "headers"): {name: (value,) for name, value in profile.cloak.headers.items()},
        ("token", "headers"): dict.fromkeys(profile.token.headers, ()),
    }
    for place, headers in places.items():
        for name, values in headers.items():
            try:
                checked_header_name(name)
            except ValueError as error:
                report.add((*place, name), str(error))
            for detail in {found for value in values for found in DETAIL.findall(value)}:
                if detail not in profile.account.details:
                    report.add((*place, name), f"{{{shown(detail)}}} is not defined in account.details")


def _check_tools(profile: Profile, report: Report) -> None:
    seen: dict[str, str] = {}
    for name, new in profile.tools.exact.items():
        if new in seen:
            report.add(("tools", "exact", name), f"another tool ({shown(seen[new])}) has that name already")
        seen[new] = name
