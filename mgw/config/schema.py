"""The JSON schema of the configuration file, for editors.

``mgw schema`` prints it, and ``make schema`` writes ``etc/mgw.schema.json``.  It refuses what the loader
refuses, as far as a schema can: not what another file, the environment, or two places of the file together
say.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import combinations, product
from types import MappingProxyType
from typing import Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from mgw.config.authentication import GOOGLE_MODES, NEEDED_BY_GRANT, refuses_google
from mgw.config.auths import AUTHS, CREDENTIALS, AuthMode, forms, keys_of
from mgw.config.aws_settings import KEYS, PAIR, SECRET_KEYS
from mgw.config.body_rules import CHANGED_PATH, CHANGES
from mgw.config.checks import HEADER_NAME, NAME, PROVIDER_NAME, TEXT, Schema, any_case, text_like
from mgw.config.field_types import FAMILY_SPELLINGS
from mgw.config.groups import HOLDER_NAME
from mgw.config.hooks import OTLP_HEADER_NAME, STANDARD_STREAMS, WEBHOOK_HEADER_NAME
from mgw.config.jwt import OF_FETCHES
from mgw.config.limit_rows import AMOUNTS as LIMIT_AMOUNTS
from mgw.config.limit_rows import Per
from mgw.config.normalize import OF_CHAT
from mgw.config.oauth import (
    IN_PLACE_OF_FILES,
    OF_GRANT,
    RESERVED_FIELDS,
    URN,
    ClientAuth,
    Grant,
    forms_of,
)
from mgw.config.provider import VERTEX, has_no_address
from mgw.config.settings import Config
from mgw.nouns.kinds import KINDS, KindRow, has_betas, kinds_where, of_chat
from mgw.nouns.varying_headers import VARYING
from mgw.nouns.vocabulary import DEFAULT_SPELLINGS, KIND_SPELLINGS, Family, Kind

_CREDENTIALS: Final = keys_of(CREDENTIALS)
_IMPLIED: Final = tuple(name for name, mode in CREDENTIALS.items() if AUTHS[mode].is_implied)
_NEWER: Final = tuple(name for name in CREDENTIALS if name not in _IMPLIED)
_VARYING: Final = [name.decode() for name in VARYING]


class _Generator(GenerateJsonSchema):
    """Pydantic's generator without ``default: null``."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def schema_text() -> str:
    """Return the schema as it stands in the file."""
    schema = Config.model_json_schema(schema_generator=_Generator)
    for name, rules in _RULES.items():
        schema["$defs"][name]["allOf"] = rules
    settings = schema["properties"]
    providers = settings["providers"]
    settings["providers"] = {
        "description": providers["description"],
        "minProperties": 1,
        "propertyNames": PROVIDER_NAME,
    } | providers["anyOf"][0]
    _names(settings["aliases"], NAME)
    _names(schema["$defs"]["EdgeAuthSettings"]["properties"]["groups"], HOLDER_NAME)
    headers, rule = (schema["$defs"][name]["properties"] for name in ("HeadersSettings", "BodyRuleSettings"))
    _names(headers["set"], HEADER_NAME)
    for key in ("remove_tokens", "add_tokens"):
        _names(headers[key], {"allOf": [HEADER_NAME, {"not": text_like(f"(?:{any_case(_VARYING)})")}]})
    for key in ("default", "set", "cap"):
        _names(rule[key], CHANGED_PATH)
    oauth = schema["$defs"]["OAuthSettings"]["properties"]
    _names(oauth["extra"], {"not": {"enum": sorted(RESERVED_FIELDS)}})
    _names(oauth["headers"], HEADER_NAME)
    _names(schema["$defs"]["WebhookSettings"]["properties"]["headers"], WEBHOOK_HEADER_NAME)
    _names(schema["$defs"]["OtlpSettings"]["properties"]["headers"], OTLP_HEADER_NAME)
    settings["defaults"]["anyOf"][0]["allOf"] = _one_spelling_each(DEFAULT_SPELLINGS)
    voices = schema["$defs"]["TranslationSettings"]["properties"]["voices"]["anyOf"][0]
    voices["allOf"] = _one_spelling_each({key: FAMILY_SPELLINGS[key] for key in voices["properties"]})
    for names in voices["properties"].values():
        names["propertyNames"] = TEXT
    schema = {"$schema": _Generator.schema_dialect, **schema, "title": "mgw.yaml"}
    return _as_published(json.dumps(schema, indent=2, ensure_ascii=False), schema["$defs"]) + "\n"


def _as_published(text: str, definitions: Iterable[str]) -> str:
    """Give the definitions the names that the published schema has, to which others may refer."""
    for name in definitions:
        published = f"Written{name.removesuffix('Settings')}"
        text = text.replace(f'"{name}"', f'"{published}"').replace(f'/{name}"', f'/{published}"')
    return text


def _names(setting: Schema, names: Schema) -> None:
    """Say what the names in a mapping that may be absent look like."""
    setting["anyOf"][0]["propertyNames"] = names


def _one_spelling_each(spellings: Mapping[str, Family]) -> list[Schema]:
    pairs = combinations(spellings, 2)
    return [_none_of_all(pair) for pair in pairs if spellings[pair[0]] is spellings[pair[1]]]


def _spelled(*kinds: Kind) -> Schema:
    """Return what fits a provider of these kinds, however they are spelled."""
    return _where("kind", [spelling for spelling, kind in KIND_SPELLINGS.items() if kind in kinds])


def _where(key: str, values: Iterable[str]) -> Schema:
    return {"properties": {key: {"enum": list(values)}}, "required": [key]}


def _needs_any(keys: Iterable[str]) -> Schema:
    return {"anyOf": [{"required": [key]} for key in keys]}


def _has_none(keys: Iterable[str]) -> Schema:
    return {"not": _needs_any(keys)}


def _none_of_all(keys: Iterable[str]) -> Schema:
    return {"not": {"required": list(keys)}}


def _off(kind: Kind) -> Schema:
    """Return what a provider's capabilities must be where its kind cannot do all of them."""
    off = {capability.value: {"const": False} for capability in sorted(KINDS[kind].impossible)}
    return {"properties": {"capabilities": {"properties": off}}}


def _off_on_vertex(kind: Kind) -> Schema:
    """The same where its address is one of Vertex AI."""
    off = {capability.value: {"const": False} for capability in sorted(KINDS[kind].impossible_on_vertex)}
    address = {"properties": {"base_url": {"pattern": VERTEX.pattern}}, "required": ["base_url"]}
    there: Schema = {"properties": {"capabilities": {"properties": off}}}
    return {"if": {"allOf": [_spelled(kind), address]}, "then": there}


def _versioned(kind: Kind) -> Schema:
    """Say that some base addresses of a kind need a version."""
    pattern = KINDS[kind].unversioned
    assert pattern is not None
    address = {"properties": {"base_url": {"pattern": pattern.pattern}}, "required": ["base_url"]}
    return {"if": {"allOf": [_spelled(kind), address]}, "then": _needs_any(["api_version"])}


_OF_GOOGLE: Final = sorted(GOOGLE_MODES)


_SECRET_OR_ASSERTION: Final = {
    "oneOf": [{"required": ["assertion_file"]}, _needs_any(forms_of("client_secret"))],
}


def _of_grants() -> list[Schema]:
    """Return what each grant needs, and what the others may not have."""
    found: list[Schema] = []
    for grant in Grant:
        foreign = [name for name, owners in OF_GRANT.items() if grant not in owners]
        needed = [_needs_any(forms_of(name)) for name in ("token_url", *NEEDED_BY_GRANT[grant])]
        rule: Schema = {"allOf": [*needed, _has_none(foreign)]}
        if grant is Grant.CLIENT_CREDENTIALS:
            rule = {"allOf": [*needed[:-1], _has_none(foreign), _SECRET_OR_ASSERTION]}
        found.append({"if": _where("grant", [grant]), "then": rule})
        if grant is Grant.REFRESH_TOKEN:
            implied = {"allOf": [_has_none(["grant"]), _needs_any(forms_of("refresh_token"))]}
            found.append({"if": implied, "then": rule})
        if grant is Grant.CLIENT_CREDENTIALS:
            implied = _has_none(["grant", *forms_of("refresh_token")])
            found.append({"if": implied, "then": rule})
    return found


_TOKEN_RULES: Final = [
    *_of_grants(),
    {
        "if": {"properties": {"grant": {"pattern": f"^{URN}"}}, "required": ["grant"]},
        "then": {"allOf": [_needs_any(["token_url"]), _has_none(OF_GRANT)]},
    },
    *(
        {"if": when, "then": _needs_any(forms_of("client_id"))}
        for when in (_needs_any(forms_of("client_secret")), _where("client_auth", [ClientAuth.BASIC]))
    ),
    {"if": _where("client_auth", [ClientAuth.BASIC]), "then": _needs_any(forms_of("client_secret"))},
]

_OF_ACCOUNTS: Final = ["credentials", "profile"]
_OF_OAUTH: Final = {
    "if": _needs_any(_OF_ACCOUNTS),
    "then": {"required": _OF_ACCOUNTS, "propertyNames": {"enum": _OF_ACCOUNTS}},
    "else": {"allOf": _TOKEN_RULES},
}
_INSIDE: Final = MappingProxyType(
    {
        AuthMode.OAUTH2: {"oauth": _OF_OAUTH},
        **{mode: {"oauth": {"propertyNames": {"const": "scopes"}}} for mode in GOOGLE_MODES},
    }
)
"""What a value of ``auth`` asks of the blocks that it uses."""
_IN_PLACE: Final = MappingProxyType({"oauth": ("pool",)})
"""What may stand in place of a credential."""


def _of_auths() -> list[Schema]:
    """Return what each value of ``auth`` needs, and what it excludes; neighbors that agree share a rule."""
    found: list[tuple[list[str], Schema]] = []
    for mode in AUTHS:
        rule = _of_auth(mode)
        if found and found[-1][1] == rule:
            found[-1][0].append(mode)
        else:
            found.append(([mode], rule))
    return [{"if": _where("auth", sorted(modes)), "then": rule} for modes, rule in found]


def _of_auth(mode: AuthMode) -> Schema:
    row = AUTHS[mode]
    others = _has_none(keys_of(name for name in CREDENTIALS if name not in (*row.uses, *row.takes)))
    if not row.uses:
        return others
    is_needed = row.is_needed and row.variable is None
    needed = [_needs_any((*forms(name), *_IN_PLACE.get(name, ()))) for name in row.uses if is_needed]
    inside = {"properties": _INSIDE[mode]} if mode in _INSIDE else {}
    return {"allOf": [*needed, others], **inside}


def _needs_auth(row: KindRow) -> bool:
    return row.needs_credential and not row.takes_keys


def _needs_auth_or_key(row: KindRow) -> bool:
    return row.needs_credential and row.takes_keys


def _of_aws() -> list[Schema]:
    """Return what signed requests ask of the rest of a provider."""
    signs = _where("auth", [AuthMode.AWS])
    off = {capability: {"const": False} for capability in sorted(AUTHS[AuthMode.AWS].impossible)}
    vendors = _spelled(*kinds_where(lambda row: row.takes_aws and row.base_url is not None))
    kinds = _spelled(*kinds_where(lambda row: row.takes_aws))["properties"]
    return [
        {"if": signs, "then": {"properties": {**kinds, "capabilities": {"properties": off}}}},
        {"if": {"allOf": [signs, vendors]}, "then": _needs_any(["base_url"])},
    ]


def _aws_rules() -> list[Schema]:
    """Return what the settings of the ``aws`` block ask of one another."""
    key_id, secret = (_needs_any((name, f"{name}_env")) for name in PAIR)
    return [
        *(_none_of_all((name, f"{name}_env")) for name in KEYS),
        {
            "if": _needs_any(SECRET_KEYS),
            "then": {"allOf": [key_id, secret, _has_none(["profile", "web_identity_token_file"])]},
        },
        {
            "if": _needs_any(["external_id", "web_identity_token_file"]),
            "then": _needs_any(["role_arn"]),
        },
    ]


def _implied_pairs() -> Iterable[tuple[str, str]]:
    """Return which keys may not stand together where no ``auth`` says which of them is meant."""
    for one, other in combinations(_IMPLIED, 2):
        yield from product(forms(one), forms(other))


_RULES: Final[MappingProxyType[str, list[Schema]]] = MappingProxyType(
    {
        "Provider": [
            *(_none_of_all(forms(name)) for name in CREDENTIALS if len(forms(name)) > 1),
            _none_of_all(["proxy", "proxy_env"]),
            *_of_auths(),
            *({"if": _has_none(["auth"]), "then": _none_of_all(pair)} for pair in _implied_pairs()),
            {
                "if": {"required": ["cloak"]},
                "then": {
                    "anyOf": [
                        _needs_any(["pool"]),
                        {"properties": {"oauth": _needs_any(["credentials"])}, "required": ["oauth"]},
                    ]
                },
            },
            {
                "if": {"required": ["pool"]},
                "then": {**_has_none(_CREDENTIALS), "properties": {"auth": {"const": AuthMode.OAUTH2}}},
            },
            {"if": _has_none(["auth"]), "then": _has_none(keys_of(_NEWER))},
            {"if": _where("auth", [AuthMode.NONE]), "then": _needs_any(["base_url"])},
            {
                "if": {"allOf": [_spelled(*kinds_where(refuses_google)), _where("auth", _OF_GOOGLE)]},
                "then": _needs_any(["base_url"]),
            },
            {
                "if": _spelled(*kinds_where(has_no_address)),
                "then": _needs_any(["base_url"]),
            },
            {
                "if": _spelled(*kinds_where(lambda row: not of_chat(row))),
                "then": _has_none(OF_CHAT),
            },
            {
                "if": _spelled(*kinds_where(lambda row: not has_betas(row))),
                "then": _has_none(["betas"]),
            },
            *_of_aws(),
            {
                "if": {"allOf": [_spelled(*kinds_where(_needs_auth)), _has_none(["pool"])]},
                "then": {"required": ["auth"]},
            },
            {
                "if": {"allOf": [_spelled(*kinds_where(_needs_auth_or_key)), _has_none(["pool"])]},
                "then": _needs_any(["auth", *keys_of(_IMPLIED)]),
            },
            {
                "if": _spelled(*kinds_where(lambda row: not row.takes_keys)),
                "then": {"properties": {"auth": {"not": {"const": AuthMode.API_KEY}}}},
            },
            {
                "if": _spelled(*kinds_where(lambda row: row.version_parameter is None)),
                "then": _has_none(["api_version"]),
            },
            *(_versioned(kind) for kind in kinds_where(lambda row: row.unversioned)),
            *({"if": _spelled(kind), "then": _off(kind)} for kind in kinds_where(lambda row: row.impossible)),
            *(_off_on_vertex(kind) for kind in kinds_where(lambda row: row.impossible_on_vertex)),
        ],
        "AwsSettings": _aws_rules(),
        "BodyRuleSettings": [
            {
                "anyOf": [
                    {"properties": {key: {least: 1}}, "required": [key]} for key, least in CHANGES.items()
                ]
            }
        ],
        "JsonlSettings": [
            {"if": {"required": ["keep"]}, "then": _needs_any(["rotate_bytes"])},
            {"if": _where("output", STANDARD_STREAMS), "then": _has_none(["rotate_bytes"])},
        ],
        "WebhookSettings": [_none_of_all(["secret", "secret_env"])],
        "RedisSettings": [{"oneOf": [{"required": [key]} for key in ("url", "url_env")]}],
        "EdgeAuthSettings": [
            {
                "if": {"properties": {"enabled": {"const": True}}, "required": ["enabled"]},
                "then": {
                    "anyOf": [
                        {"required": ["keys_env"]},
                        {"required": ["keys_dir"]},
                        {"properties": {"keys": {"minItems": 1}}, "required": ["keys"]},
                        {"properties": {"jwt": {"minItems": 1}}, "required": ["jwt"]},
                    ]
                },
            }
        ],
        "NamedKeySettings": [
            {"oneOf": [{"required": [key]} for key in ("key", "key_env", "sha256")]},
            {"properties": {"limits": {"items": {"properties": {"each": {"const": False}}}}}},
        ],
        "LimitRowSettings": [
            {"oneOf": [{"required": [key]} for key in LIMIT_AMOUNTS]},
            {"if": {"required": ["in_flight"]}, "then": _has_none(["per"]), "else": {"required": ["per"]}},
            {
                "if": {"required": ["usd"]},
                "then": {"properties": {"per": {"not": {"const": Per.MINUTE}}}},
            },
            {"if": {"required": ["count"]}, "then": {"required": ["tokens"]}},
        ],
        "OAuthSettings": [
            _none_of_all(forms_of(name))
            for name in ("client_id", "client_secret", "refresh_token", *IN_PLACE_OF_FILES)
        ],
        "JwtSettings": [
            _none_of_all(["proxy", "proxy_env"]),
            _none_of_all(["jwks_url", "jwks_file"]),
            {"if": {"required": ["jwks_file"]}, "then": _has_none(OF_FETCHES)},
        ],
    }
)
"""What one setting of a block asks of another."""
