"""Issuers of signed tokens (JWT), which open the gateway as keys do.

Sources: RFC 7519 (tokens), RFC 7518 and RFC 9864 (algorithms), RFC 8725 (what to refuse), OpenID Connect
Discovery 1.0, 4 (where the keys of an issuer are).
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Final

from pydantic import ConfigDict, Field, PlainValidator, WithJsonSchema

from mgw.config.checks import ISSUER, JWKS_URL, NAME, TEXT, checked_issuer, checked_jwks_url, checked_text
from mgw.config.claims import CLAIM, ClaimName, Conditions, checked_claim
from mgw.config.environment import LoadContext
from mgw.config.field_types import Name, OneOf, ProxyUrl, Text, Variable
from mgw.config.groups import (
    HOLDER_NAME,
    MAX_TAG_CHARACTERS,
    MAX_TAGS,
    GroupName,
    check_group_names,
    check_tags,
    checked_holder_name,
)
from mgw.config.problems import Path
from mgw.config.proxy import ProxyAddress, parse_proxy
from mgw.config.settings_base import (
    Documentation,
    EmptyIfNull,
    ListOf,
    NotEmpty,
    Omittable,
    Settings,
    UniqueList,
    check_with,
    expect,
    setting,
    wrong_type,
    wrong_value,
)

JWT: Final[Path] = ("edge_auth", "jwt")
_RESERVED: Final = frozenset({"claude_code", "gateway", "group", "sha256"})
"""Names before the colon of other names of clients and holders."""
_WELL_KNOWN: Final = "/.well-known/openid-configuration"
OF_FETCHES: Final = ("ca_file", "proxy", "proxy_env", "token_file")
"""Settings for keys that are fetched."""
MAX_CLOCK_SKEW: Final = 300
_SIGNS_FOR_ANYBODY: Final = (
    "public issuers, such as GitHub, GitLab and Google, sign tokens for anybody; to admit every valid token, "
    "write [{}]"
)
_SHARED: Final = (
    "it signs with a shared secret, so anyone who can check tokens could make them: use a signature "
    "with a public key, such as RS256"
)


class TokenAlgorithm(StrEnum):
    """How a token is signed."""

    RS256 = "RS256"
    RS384 = "RS384"
    RS512 = "RS512"
    PS256 = "PS256"
    PS384 = "PS384"
    PS512 = "PS512"
    ES256 = "ES256"
    ES384 = "ES384"
    ES512 = "ES512"
    EDDSA = "EdDSA"


def _why_not(algorithm: str) -> str | None:
    """Say what is wrong with an algorithm that people know."""
    upper = algorithm.upper()
    if upper == "NONE":
        return "without a signature, anyone could make tokens"
    if upper in ("HS256", "HS384", "HS512"):
        return _SHARED
    return "write EdDSA, which accepts Ed25519 in tokens as well" if upper == "ED25519" else None


def _checked_entry(text: str) -> str:
    checked_holder_name(text)
    if text in _RESERVED:
        raise ValueError(f"expected another name: the gateway itself uses {text}: at the beginning of names")
    return text


def _audiences(value: object) -> tuple[str, ...]:
    """Take one audience or several."""
    values = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(one, str) for one in values):
        raise wrong_type(_AUDIENCE)
    if not values:
        raise wrong_value("expected at least one audience, found an empty list")
    if "" in values:
        raise wrong_value("expected an audience such as mgw, found an empty string")
    try:
        return tuple(dict.fromkeys(map(checked_text, values)))
    except ValueError as error:
        raise wrong_value(str(error)) from None


_AUDIENCE: Final = "an audience such as mgw, or a list of them (in quotes if YAML would read it as a number)"
IssuerName = Annotated[
    str,
    expect("a name for the issuer (in quotes if YAML would read it as a number)"),
    check_with(_checked_entry),
    WithJsonSchema(
        HOLDER_NAME | {"not": {"enum": sorted({*HOLDER_NAME["not"]["enum"], *_RESERVED})}},
    ),
]
IssuerAddress = Annotated[
    str, expect("an https:// address"), check_with(checked_issuer), WithJsonSchema(ISSUER)
]
JwksUrl = Annotated[
    str, expect("an https:// address"), check_with(checked_jwks_url), WithJsonSchema(JWKS_URL)
]
Audiences = Annotated[
    tuple[str, ...],
    PlainValidator(_audiences),
    WithJsonSchema({"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}),
]
AlgorithmName = Annotated[TokenAlgorithm, OneOf(hint=_why_not)]
TokenType = Annotated[Name, expect("a type of tokens such as at+jwt")]
ClockSkew = Annotated[
    float,
    Field(ge=0, le=MAX_CLOCK_SKEW, allow_inf_nan=False),
    expect(f"a number of seconds from 0 to {MAX_CLOCK_SKEW}"),
]
MaxStale = Annotated[
    float,
    Field(ge=60, le=2**31, allow_inf_nan=False),  # with less, keys would be unusable between two fetches
    expect("a number of seconds, at least 60"),
]
TagClaims = Annotated[
    EmptyIfNull[dict[str, ClaimName]],
    WithJsonSchema(
        {
            "type": ["object", "null"],
            "propertyNames": NAME,
            "maxProperties": MAX_TAGS,
            "additionalProperties": CLAIM,
        }
    ),
]


class RuleSettings(Settings):
    """What holds for clients with certain tokens."""

    when: Omittable[Conditions] = setting(
        "Claims that the token must have, with their values",
        "All of them must match. A claim is a name or, if it begins with ``/``, a JSON Pointer. Its value is "
        "a string, ``true``, ``false``, a number, or a list of these, one of which must match. Strings are "
        "patterns: ``*`` matches any characters, ``?`` one character, ``[...]`` one of these; case matters. "
        "A claim that is a list matches if one of its elements does.",
        shown="every token",
    )
    groups: UniqueList[GroupName] = setting(
        "Groups that the client is in, names from ``edge_auth.groups``", default=()
    )


class JwtSettings(Settings):
    """An issuer of tokens, and what they open."""

    model_config = ConfigDict(json_schema_extra={"required": ["name", "issuer", "audience", "rules"]})

    name: IssuerName = Field(
        default=None,
        validate_default=True,
        json_schema_extra=Documentation(
            "Name of the issuer here",
            "A client with a token is called ``NAME:VALUE``, where ``VALUE`` is the claim of ``client``; "
            "metrics call it ``NAME``. Names look like those of keys, and no key may have the same name.",
        ),
    )
    issuer: IssuerAddress = Field(
        default=None,
        validate_default=True,
        json_schema_extra=Documentation(
            "Issuer of the tokens, exactly as their claim ``iss`` states it",
            "An ``https://`` address, or an ``http://`` address of this machine. Each issuer has one entry.",
        ),
    )
    audience: Audiences = Field(
        default=None,
        validate_default=True,
        json_schema_extra=Documentation(
            "Audience that the claim ``aud`` must contain",
            "A string, or a list of which one must be there. Give the gateway an audience of its own: with "
            "that of another service, tokens for that service open the gateway as well.",
        ),
    )
    jwks_url: Omittable[JwksUrl] = setting(
        "Address of the issuer's public keys",
        "Without it and ``jwks_file``, the keys are at the ``jwks_uri`` of "
        "``ISSUER/.well-known/openid-configuration``. Redirects are not followed.",
    )
    jwks_file: Omittable[Text] = setting(
        "File with the issuer's public keys, a JSON Web Key Set",
        "It is read again when it changes. Cannot be combined with ``jwks_url``.",
    )
    ca_file: Omittable[Text] = setting(
        "PEM file with certificates to trust instead of the system's when keys are fetched"
    )
    proxy: Omittable[ProxyUrl] = setting(
        "HTTP proxy for fetching keys, as in a provider's ``proxy``",
        "Not used for addresses with ``http://``, which are on this machine. Cannot be combined with "
        "``proxy_env``.",
    )
    proxy_env: Omittable[Variable] = setting("Environment variable that contains the address of the proxy")
    token_file: Omittable[Text] = setting(
        "File with the bearer token for fetching keys",
        "It is read each time. The API servers of Kubernetes require one.",
    )
    algorithms: Annotated[UniqueList[AlgorithmName], NotEmpty("algorithm")] = setting(
        "Algorithms that tokens may be signed with",
        "``EdDSA`` accepts ``Ed25519`` in tokens as well. Algorithms with shared secrets (``HS256``) and "
        "``none`` are not possible.",
        default=(TokenAlgorithm.RS256, TokenAlgorithm.ES256, TokenAlgorithm.EDDSA),
        shown="``[RS256, ES256, EdDSA]``",
    )
    typ: Omittable[Annotated[UniqueList[TokenType], NotEmpty("type")]] = setting(
        "Types of which a token's header ``typ`` must be one",
        "Case does not matter, nor does a leading ``application/``. Access tokens of RFC 9068 have "
        "``at+jwt``.",
        shown="any type, or none",
    )
    client: ClaimName = setting(
        "Claim that names the client, a name or a JSON Pointer",
        "It must be a string of 1 to 256 characters without control characters, and be different for each "
        "client: choose one that users cannot set themselves.",
        default="sub",
        shown="``sub``",
    )
    clock_skew: ClockSkew = setting(
        "Seconds by which the clocks of issuer and gateway may differ",
        f"At most {MAX_CLOCK_SKEW}.",
        default=30,
    )
    max_stale: MaxStale = setting(
        "Seconds for which known keys remain in use while the issuer cannot be reached",
        "After that, its tokens get a 503.",
        default=86400,
    )
    rules: Annotated[ListOf[RuleSettings], NotEmpty("rule", _SIGNS_FOR_ANYBODY)] = Field(
        default=None,
        validate_default=True,
        json_schema_extra=Documentation(
            "Rules for valid tokens; the first that matches applies",
            "A rule matches if its ``when`` does. A token that no rule matches gets a 403. A rule without "
            "``when`` matches every token; ``[{}]`` "
            "admits them all, in no group. Public issuers sign tokens for anybody.",
        ),
    )
    tags: TagClaims = setting(
        "Names of tags, and the claims that contain their values",
        f"Usage events of the client contain them. At most {MAX_TAGS}; a value is cut at "
        f"{MAX_TAG_CHARACTERS} characters. They take precedence over the tags of groups. A claim that is "
        "missing, or no string, number, ``true`` or ``false``, gives no tag.",
        default={},
    )

    @property
    def discovery_url(self) -> str:
        """The address of the document that says where the issuer's keys are."""
        return self.issuer.removesuffix("/") + _WELL_KNOWN


def settle_jwt(
    entries: tuple[JwtSettings, ...],
    keys: Collection[str],
    groups: Collection[str],
    context: LoadContext,
) -> tuple[JwtSettings, ...]:
    """Fill in the proxies of the environment, and note what is wrong with the entries.

    :param keys: the names of keys.
    :param groups: the names of all groups.
    """
    _check_unique(entries, keys, context)
    return tuple(_settle_entry(entry, (*JWT, place), groups, context) for place, entry in enumerate(entries))


def _settle_entry(
    entry: JwtSettings, path: Path, groups: Collection[str], context: LoadContext
) -> JwtSettings:
    report = context.report
    if entry.jwks_url is not None and entry.jwks_file is not None:
        report.add((*path, "jwks_file"), "jwks_url is also set: keep only one of them")
    check_tags(entry.tags, (*path, "tags"), report)
    for position, rule in enumerate(entry.rules):
        here = (*path, "rules", position)
        for claim in rule.when or ():
            try:
                checked_claim(claim)
            except ValueError as error:
                report.add((*here, "when", claim), f"as a claim: {error}")
        check_group_names(rule.groups, (*here, "groups"), groups, report)
    if entry.jwks_file is not None:
        for name in OF_FETCHES:
            if getattr(entry, name) is not None:
                report.add((*path, name), "only for keys that are fetched, but jwks_file is set: remove it")
    return entry.model_copy(update={"proxy": _proxy(entry, path, context)})


def _proxy(entry: JwtSettings, path: Path, context: LoadContext) -> ProxyAddress | None:
    if entry.proxy_env is None:
        return entry.proxy
    if entry.proxy is not None:
        context.report.add((*path, "proxy_env"), "proxy is also set: keep only one of them")
        return entry.proxy
    return context.address_from(entry.proxy_env, (*path, "proxy_env"), parse_proxy)


def _check_unique(entries: tuple[JwtSettings, ...], keys: Collection[str], context: LoadContext) -> None:
    """Note what two entries, or an entry and a key, have in common."""
    names: dict[str, int] = {}
    issuers: dict[str, int] = {}
    for position, entry in enumerate(entries):
        path = (*JWT, position)
        first = names.setdefault(entry.name, position)
        if first != position:
            context.report.add(
                (*path, "name"), f"edge_auth.jwt.{first} has the same name: names must be unique"
            )
        elif entry.name in keys:
            context.report.add(
                (*path, "name"),
                "a key in edge_auth.keys has the same name: names must be unique",
            )
        first = issuers.setdefault(entry.issuer, position)
        if first != position:
            context.report.add(
                (*path, "issuer"),
                f"edge_auth.jwt.{first} has the same issuer: write its rules into one entry",
            )
