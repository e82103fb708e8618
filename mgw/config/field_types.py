"""Types of single settings, each with the phrase that asks for it in an error.

Pydantic's own messages may echo a value and speak of inputs; here every type says what it expects, and the
loader adds what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from types import MappingProxyType
from typing import Annotated, Final, Literal, get_args

from msgspec import Struct
from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema, WrapValidator
from pydantic.annotated_handlers import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from mgw.config.checks import (
    ABSOLUTE_PATH,
    ADDRESS,
    ENTRY_NAME,
    HEADER_NAME,
    HEADER_VALUE,
    KEY,
    LISTEN,
    NAME,
    NETWORK,
    ORIGIN,
    PROXY_ADDRESS,
    TARGET,
    TEXT,
    UPSTREAM_ADDRESS,
    VARIABLE,
    checked_absolute_path,
    checked_base_url,
    checked_entry_name,
    checked_header_name,
    checked_header_value,
    checked_key,
    checked_name,
    checked_origin,
    checked_public_url,
    checked_text,
    checked_variable,
)
from mgw.config.kind_hints import kind_hint
from mgw.config.listen import EndpointText, Listen, parse_listen, parse_network
from mgw.config.proxy import ProxyAddress, parse_proxy
from mgw.config.quoting import unknown_value
from mgw.config.settings_base import (
    GIB,
    EmptyIfNull,
    UniqueList,
    check_with,
    expect,
    parse_with,
    wrong_type,
    wrong_value,
)
from mgw.nouns.families import FAMILIES
from mgw.nouns.secret import Secret
from mgw.nouns.vocabulary import (
    DEFAULT_SPELLINGS,
    KIND_SPELLINGS,
    CallIds,
    ChatTools,
    Effort,
    Family,
    ForcedTools,
    Kind,
    ThroughResponses,
)

MAX_BYTES: Final = 2 * GIB
MAX_TOKENS: Final = 2**31
FAMILY_SPELLINGS: Final = MappingProxyType(
    {spelling.removesuffix("_dialect"): family for spelling, family in DEFAULT_SPELLINGS.items()}
)
"""Every accepted spelling of a family."""
SPEAKING: Final = tuple(family for family in Family if FAMILIES[family].has_speech)
"""Families with speech of their own (contract 4.7)."""


class _AsSpelled:
    """Take any text as a key of a mapping by family: the loader replaces the spellings by what they mean."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.dict_schema(core_schema.str_schema(), handler.generate_schema(get_args(source)[1]))


class OneOf:
    """Take one of the words of an enumeration; a message lists each meaning once.

    :param spellings: all words and what they mean; without them, the values.
    :param hint: returns what to write in place of a word that people try, if it is one.
    """

    def __init__(
        self,
        spellings: Mapping[str, StrEnum] | None = None,
        hint: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self._spellings = spellings
        self._hint = hint

    def __get_pydantic_core_schema__(
        self, source: type[StrEnum], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        spellings = self._spellings or {member.value: member for member in source}
        meanings = ", ".join(dict.fromkeys(spellings.values()))

        def parse(text: str) -> StrEnum:
            if text in spellings:
                return spellings[text]
            raise ValueError(unknown_value(text, spellings, meanings, self._hint(text)))

        schema = WithJsonSchema({"type": "string", "enum": list(spellings)})
        read = Annotated[source, parse_with(parse, f"one of {meanings}"), schema]  # type: ignore[valid-type]
        return handler.generate_schema(read)


class FromVariable(Struct, frozen=True):
    """A value that stands in an environment variable."""

    variable: str


FROM_VARIABLE: Final = {
    "type": "object",
    "required": ["env"],
    "maxProperties": 1,
    "additionalProperties": VARIABLE,
}


def variable_named(value: object) -> FromVariable | None:
    """Return what ``{env: NAME}`` means; ``None``: it is something else.

    :raises ValueError: the name is none.
    """
    if isinstance(value, dict) and value.keys() == {"env"} and isinstance(value["env"], str):
        return FromVariable(checked_variable(value["env"]))
    return None


def key_or(setting: str) -> PlainValidator:
    """Take a key; a placeholder is referred to the setting that reads the environment."""
    instead = f"to read the key from the environment, name its variable in {setting}"

    def parse(text: str) -> Secret:
        try:
            return Secret(checked_key(text, instead))
        except ValueError as error:
            raise ValueError(f"the key {error}") from None

    return parse_with(parse, "a string (put the key in quotes)", Secret)


def _counts(end: object) -> bool:
    return type(end) is int and abs(end) <= MAX_TOKENS  # type(): True is an int too


def _budget(value: object) -> object:
    if value is False:
        return value
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(map(_counts, value)):
        raise wrong_type("[min, max] in whole tokens, or false")
    least, most = value
    if 0 <= least <= most:
        return least, most
    words = f"expected [min, max] with 0 <= min <= max, found [{least}, {most}]"
    raise wrong_value(words)


def _default_effort(value: object) -> object:
    if value is False:
        return value
    if isinstance(value, str) and value in set(Effort):
        return Effort(value)
    raise wrong_type(f"one of {', '.join(Effort)}, or false")


def _output_tokens(value: object) -> object:
    if value is False or (_counts(value) and isinstance(value, int) and value > 0):
        return value
    raise wrong_type("a whole number above 0, or false")


def _alias_targets(value: object, inner: Callable[[object], tuple[str, ...]]) -> tuple[str, ...]:
    if isinstance(value, list | tuple):
        if not value:
            raise wrong_value("expected at least one <provider>/<model>, found an empty list")
        return inner(value)
    if not isinstance(value, str):
        raise wrong_type("<provider>/<model> or a list of them")
    try:
        return (checked_name(value),)
    except ValueError as error:
        raise wrong_value(str(error)) from None


Text = Annotated[str, expect("a string"), check_with(checked_text), WithJsonSchema(TEXT)]
Name = Annotated[
    str,
    expect("a string (in quotes if YAML would read it as a number)"),
    check_with(checked_name),
    WithJsonSchema(NAME),
]
EntryName = Annotated[
    str,
    expect("the name of an entry of the credential store (in quotes if YAML would read it as a number)"),
    check_with(checked_entry_name),
    WithJsonSchema(ENTRY_NAME),
]
Variable = Annotated[
    str, expect("the name of an environment variable"), check_with(checked_variable), WithJsonSchema(VARIABLE)
]
HeaderName = Annotated[
    str,
    expect("a header name"),
    check_with(checked_header_name),
    AfterValidator(str.lower),
    WithJsonSchema(HEADER_NAME),
]
"""A header's name in lower case."""
HeaderValue = Annotated[
    str,
    expect("a string (in quotes if YAML would read it as a number)"),
    check_with(checked_header_value),
    WithJsonSchema(HEADER_VALUE),
]
BaseUrl = Annotated[
    str,
    expect("an http:// or https:// address"),
    check_with(checked_base_url),
    WithJsonSchema(UPSTREAM_ADDRESS),
]
ProxyUrl = Annotated[
    ProxyAddress,
    parse_with(parse_proxy, "an address such as http://proxy.example:3128", ProxyAddress),
    WithJsonSchema(PROXY_ADDRESS),
]
PublicUrl = Annotated[
    str, expect("an http:// or https:// address"), check_with(checked_public_url), WithJsonSchema(ADDRESS)
]
Origin = Annotated[
    str,
    expect("an origin, such as https://app.example.com"),
    check_with(checked_origin),
    WithJsonSchema(ORIGIN),
]
AbsolutePath = Annotated[
    str, expect("an absolute path"), check_with(checked_absolute_path), WithJsonSchema(ABSOLUTE_PATH)
]
ProxyNetwork = Annotated[
    IPv4Network | IPv6Network,
    parse_with(parse_network, 'a string in quotes such as "10.0.0.0/8" or "::1"', IPv4Network, IPv6Network),
    WithJsonSchema(NETWORK),
]
AliasTarget = Annotated[str, expect("<provider>/<model>"), check_with(checked_name), WithJsonSchema(TARGET)]
AliasTargets = Annotated[
    UniqueList[AliasTarget],
    WrapValidator(_alias_targets),
    WithJsonSchema({"anyOf": [TARGET, {"type": "array", "items": TARGET, "minItems": 1}]}),
]
"""The targets of an alias, in the order in which they are tried."""
OnOff = Annotated[bool, expect("true or false")]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), expect("a number of seconds above 0")]
Minutes = Annotated[float, Field(gt=0, allow_inf_nan=False), expect("a number of minutes above 0")]
DrainSeconds = Annotated[float, Field(ge=0, allow_inf_nan=False), expect("a number of seconds, 0 or more")]
Bytes = Annotated[
    int,
    Field(gt=0, le=MAX_BYTES),
    expect(f"a whole number of bytes from 1 to {MAX_BYTES}, without a unit (32 MiB is 33554432)"),
]
MemoryBytes = Annotated[
    int,
    Field(gt=0, le=2**53),
    expect("a whole number of bytes above 0, without a unit (512 MiB is 536870912)"),
]
DiskBytes = Annotated[
    int,
    Field(gt=0, le=2**53),
    expect("a whole number of bytes above 0, without a unit (4 GiB is 4294967296)"),
]
PreflightSeconds = Annotated[int, Field(ge=0, le=86_400), expect("a whole number of seconds from 0 to 86400")]
Connections = Annotated[int, Field(gt=0, le=2**31), expect("a whole number above 0")]
Key = Annotated[Secret, key_or("api_key_env"), WithJsonSchema(KEY)]
WrittenKey = Annotated[Secret, key_or("keys_env"), WithJsonSchema(KEY)]
NamedKey = Annotated[Secret, key_or("key_env"), WithJsonSchema(KEY)]
KindName = Annotated[Kind, OneOf(KIND_SPELLINGS, kind_hint)]
FamilyName = Annotated[Family, OneOf(FAMILY_SPELLINGS)]
EffortName = Annotated[Effort, OneOf()]
ForcedToolsName = Annotated[ForcedTools, OneOf()]
ChatToolsName = Annotated[ChatTools, OneOf()]
ThroughResponsesName = Annotated[ThroughResponses, OneOf()]
CallIdsName = Annotated[CallIds, OneOf()]
ModelPattern = Annotated[
    str,
    expect("a pattern of model ids such as claude-*"),
    check_with(checked_name),
    AfterValidator(str.lower),
    WithJsonSchema(NAME),
]
"""A glob (:mod:`fnmatch`), in lower case."""
BetaPattern = Annotated[
    str, expect("a pattern of names such as context-*"), check_with(checked_name), WithJsonSchema(NAME)
]
AnswerTokens = Annotated[int, Field(gt=0, le=MAX_TOKENS), expect("a whole number above 0")]
Answers = Annotated[int, Field(gt=0, le=2**31), expect("a whole number above 0")]
Characters = Annotated[int, Field(ge=0, le=2**53), expect("a whole number of characters, 0 or more")]
Budget = Annotated[
    tuple[int, int] | Literal[False],
    PlainValidator(_budget),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2},
                {"const": False},
            ]
        }
    ),
]
DefaultEffort = Annotated[
    Effort | Literal[False],
    PlainValidator(_default_effort),
    WithJsonSchema({"enum": [*Effort, False]}),
]
OutputTokens = Annotated[
    int | Literal[False],
    PlainValidator(_output_tokens),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"const": False}]}),
]
TokenFactor = Annotated[float, Field(gt=0, allow_inf_nan=False), expect("a number above 0")]
Address = Annotated[
    Listen | EndpointText,
    parse_with(parse_listen, 'a string in quotes such as "127.0.0.1:8787" or ":8787"', Listen, EndpointText),
    WithJsonSchema(LISTEN),
]
DefaultNames = Annotated[
    dict[Family, Name],
    _AsSpelled(),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": False,
            "properties": dict.fromkeys(DEFAULT_SPELLINGS, NAME),
        }
    ),
]
VoiceName = Annotated[
    str,
    expect("the name of a voice (in quotes if YAML would read it as a number)"),
    check_with(checked_text),
    WithJsonSchema(TEXT),
]
VoiceNames = Annotated[
    dict[Family, EmptyIfNull[dict[str, VoiceName]]],
    _AsSpelled(),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                spelling: {"type": ["object", "null"], "additionalProperties": TEXT}
                for spelling, family in FAMILY_SPELLINGS.items()
                if family in SPEAKING
            },
        }
    ),
]
