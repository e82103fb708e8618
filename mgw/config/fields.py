"""What a single setting may be: the types of the file's fields, each with the words that ask for it.

Pydantic's own messages may echo a value and speak of inputs; here every type says what it expects, and the
loader adds what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from types import MappingProxyType
from typing import Annotated, Final, Literal, TypeVar

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema, WrapValidator
from pydantic.annotated_handlers import GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, ValidationError

from mgw.config.absent import AUTH_NOT_AVAILABLE, MESSAGE
from mgw.config.checks import (
    checked_absolute_path,
    checked_base_url,
    checked_header_name,
    checked_header_value,
    checked_key,
    checked_name,
    checked_public_url,
    checked_text,
    checked_variable,
)
from mgw.config.listen import EndpointText, Listen, parse_listen
from mgw.config.model import AuthMode
from mgw.config.patterns import (
    ABSOLUTE_PATH,
    ADDRESS,
    HEADER_NAME,
    HEADER_VALUE,
    KEY,
    LISTEN,
    NAME,
    NETWORK,
    TARGET,
    TEXT,
    VARIABLE,
)
from mgw.config.proxies import parse_network
from mgw.config.quoting import found_word
from mgw.config.translation import Base64Embeddings, CacheTarget, ExtraField
from mgw.families import FAMILIES
from mgw.secret import Secret
from mgw.vocabulary import (
    DEFAULT_SPELLINGS,
    KIND_SPELLINGS,
    ChatTools,
    Effort,
    Family,
    ForcedTools,
    Kind,
    MaxTokensField,
)

EXPECTED: Final = "expected"
"""The pydantic error type whose message says what was expected; what was found is added."""
REFUSED: Final = "refused"
"""The pydantic error type whose message is complete."""
MAX_BYTES: Final = 2 * 1024**3
MAX_TOKENS: Final = 2**31
FAMILY_SPELLINGS: Final = MappingProxyType(
    {spelling.removesuffix("_dialect"): family for spelling, family in DEFAULT_SPELLINGS.items()}
)
"""Every accepted spelling of a family."""
SPEAKING: Final = tuple(family for family in Family if FAMILIES[family].has_speech)
"""Families with speech of their own (contract 4.7)."""

T = TypeVar("T")
T_Enum = TypeVar("T_Enum", bound=StrEnum)


def _expected(words: str) -> PydanticCustomError:
    return PydanticCustomError(EXPECTED, "{words}", {"words": words})


def _says(words: str) -> WrapValidator:
    """Put these words in place of pydantic's when a value is not of the type."""

    def validate(value: object, inner: Callable[[object], object]) -> object:
        try:
            return inner(value)
        except ValidationError:
            raise _expected(words) from None

    return WrapValidator(validate)


def _checks(check: Callable[[str], str]) -> AfterValidator:
    """Let a check of a text speak for itself."""

    def validate(value: str) -> str:
        try:
            return check(value)
        except ValueError as error:
            raise PydanticCustomError(REFUSED, "{text}", {"text": str(error)}) from None

    return AfterValidator(validate)


def _reads(parse: Callable[[str], object], words: str) -> PlainValidator:
    """Turn a text into a value of ours."""

    def validate(value: object) -> object:
        if not isinstance(value, str):
            raise _expected(words)
        try:
            return parse(value)
        except ValueError as error:
            raise PydanticCustomError(REFUSED, "{text}", {"text": str(error)}) from None

    return PlainValidator(validate)


class _Stated:
    """Let a setting be absent, but not present without a value: only the default is ``None``."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        if schema["type"] != "nullable":
            raise TypeError("a stated setting is written as Stated[…]")
        inner: CoreSchema = schema["schema"]
        return inner


Stated = Annotated[T | None, _Stated()]

_AUTH_MODES: Final = MappingProxyType({mode.value: mode for mode in AuthMode})


def _one_of(spellings: Mapping[str, StrEnum]) -> PlainValidator:
    """Take one of these words; a message lists each meaning once."""
    meanings = ", ".join(dict.fromkeys(spellings.values()))

    def parse(text: str) -> StrEnum:
        if text in spellings:
            return spellings[text]
        raise ValueError(f"expected one of {meanings}, found {found_word(text, spellings)}")

    return _reads(parse, f"one of {meanings}")


def _words(spellings: Mapping[str, StrEnum]) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": list(spellings)})


def _values(members: type[T_Enum]) -> Mapping[str, T_Enum]:
    return {member.value: member for member in members}


def _auth(text: str) -> AuthMode:
    if text in _AUTH_MODES:
        return _AUTH_MODES[text]
    if text in AUTH_NOT_AVAILABLE:
        raise ValueError(f"auth {text}: {MESSAGE}")
    raise ValueError(f"expected one of {', '.join(AuthMode)}, found {found_word(text, _AUTH_MODES)}")


def _key_or(setting: str) -> PlainValidator:
    """Take a key; a placeholder is referred to the setting that reads the environment."""
    instead = f"to read the key from the environment, name its variable in {setting}"

    def parse(text: str) -> Secret:
        try:
            return Secret(checked_key(text, instead))
        except ValueError as error:
            raise ValueError(f"the key {error}") from None

    return _reads(parse, "text (put the key in quotes)")


def _some(targets: list[CacheTarget]) -> list[CacheTarget]:
    if targets:
        return targets
    words = f"expected {' or '.join(CacheTarget)} or both, found an empty list (to have none: enabled: false)"
    raise PydanticCustomError(REFUSED, "{text}", {"text": words})


def _counts(end: object) -> bool:
    return type(end) is int and abs(end) <= MAX_TOKENS  # type(): True is an int too


def _budget(value: object) -> object:
    if value is False:
        return value
    if not isinstance(value, list) or len(value) != 2 or not all(map(_counts, value)):
        raise _expected("[min, max] in whole tokens, or false")
    least, most = value
    if 0 <= least <= most:
        return least, most
    words = f"expected [min, max] with 0 <= min <= max, found [{least}, {most}]"
    raise PydanticCustomError(REFUSED, "{text}", {"text": words})


def _default_effort(value: object) -> object:
    if value is False:
        return value
    if isinstance(value, str) and value in _values(Effort):
        return Effort(value)
    raise _expected(f"one of {', '.join(Effort)}, or false")


def _output_tokens(value: object) -> object:
    if value is False or (_counts(value) and isinstance(value, int) and value > 0):
        return value
    raise _expected("a whole number above 0, or false")


def _alias_target(value: object, inner: Callable[[object], str]) -> str:
    if isinstance(value, list):
        raise PydanticCustomError(
            REFUSED, "{text}", {"text": f"a list of targets is {MESSAGE}: write one target"}
        )
    return inner(value)


Text = Annotated[str, _says("text"), _checks(checked_text), WithJsonSchema(TEXT)]
Name = Annotated[
    str,
    _says("text (in quotes if YAML would read it as a number)"),
    _checks(checked_name),
    WithJsonSchema(NAME),
]
Variable = Annotated[
    str, _says("the name of an environment variable"), _checks(checked_variable), WithJsonSchema(VARIABLE)
]
HeaderName = Annotated[str, _says("a header name"), _checks(checked_header_name), WithJsonSchema(HEADER_NAME)]
HeaderValue = Annotated[
    str,
    _says("text (in quotes if YAML would read it as a number)"),
    _checks(checked_header_value),
    WithJsonSchema(HEADER_VALUE),
]
BaseUrl = Annotated[
    str, _says("an http:// or https:// address"), _checks(checked_base_url), WithJsonSchema(ADDRESS)
]
PublicUrl = Annotated[
    str, _says("an http:// or https:// address"), _checks(checked_public_url), WithJsonSchema(ADDRESS)
]
AbsolutePath = Annotated[
    str, _says("an absolute path"), _checks(checked_absolute_path), WithJsonSchema(ABSOLUTE_PATH)
]
ProxyNetwork = Annotated[
    IPv4Network | IPv6Network,
    _reads(parse_network, 'text in quotes such as "10.0.0.0/8" or "::1"'),
    WithJsonSchema(NETWORK),
]
AliasTarget = Annotated[
    str,
    _says("<provider>/<model>"),
    _checks(checked_name),
    WrapValidator(_alias_target),
    WithJsonSchema(TARGET),
]
OnOff = Annotated[bool, _says("true or false")]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), _says("a number of seconds above 0")]
DrainSeconds = Annotated[float, Field(ge=0, allow_inf_nan=False), _says("a number of seconds, 0 or more")]
Bytes = Annotated[
    int,
    Field(gt=0, le=MAX_BYTES),
    _says(f"a whole number of bytes from 1 to {MAX_BYTES}, without a unit (32 MiB is 33554432)"),
]
MemoryBytes = Annotated[
    int,
    Field(gt=0, le=2**53),
    _says("a whole number of bytes above 0, without a unit (512 MiB is 536870912)"),
]
DiskBytes = Annotated[
    int,
    Field(gt=0, le=2**53),
    _says("a whole number of bytes above 0, without a unit (4 GiB is 4294967296)"),
]
Connections = Annotated[int, Field(gt=0, le=2**31), _says("a whole number above 0")]
Key = Annotated[Secret, _key_or("api_key_env"), WithJsonSchema(KEY)]
EdgeKey = Annotated[Secret, _key_or("keys_env"), WithJsonSchema(KEY)]
KindName = Annotated[Kind, _one_of(KIND_SPELLINGS), _words(KIND_SPELLINGS)]
FamilyName = Annotated[Family, _one_of(FAMILY_SPELLINGS), _words(FAMILY_SPELLINGS)]
EffortName = Annotated[Effort, _one_of(_values(Effort)), _words(_values(Effort))]
ForcedToolsName = Annotated[ForcedTools, _one_of(_values(ForcedTools)), _words(_values(ForcedTools))]
ChatToolsName = Annotated[ChatTools, _one_of(_values(ChatTools)), _words(_values(ChatTools))]
CacheTargetName = Annotated[CacheTarget, _one_of(_values(CacheTarget)), _words(_values(CacheTarget))]
CacheTargets = Annotated[
    list[CacheTargetName], Field(json_schema_extra={"minItems": 1}), AfterValidator(_some)
]
MaxTokensFieldName = Annotated[
    MaxTokensField, _one_of(_values(MaxTokensField)), _words(_values(MaxTokensField))
]
ModelPattern = Annotated[
    str, _says("a pattern of model ids such as claude-*"), _checks(checked_name), WithJsonSchema(NAME)
]
ExtraFieldName = Annotated[ExtraField, _one_of(_values(ExtraField)), _words(_values(ExtraField))]
Base64EmbeddingsWord = Annotated[
    Base64Embeddings, _one_of(_values(Base64Embeddings)), _words(_values(Base64Embeddings))
]
AnswerTokens = Annotated[int, Field(gt=0, le=MAX_TOKENS), _says("a whole number above 0")]
Answers = Annotated[int, Field(gt=0, le=2**31), _says("a whole number above 0")]
Characters = Annotated[int, Field(ge=0, le=2**53), _says("a whole number of characters, 0 or more")]
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
TokenFactor = Annotated[float, Field(gt=0, allow_inf_nan=False), _says("a number above 0")]
AuthName = Annotated[
    AuthMode,
    _reads(_auth, f"one of {', '.join(AuthMode)}"),
    WithJsonSchema({"type": "string", "enum": list(AuthMode)}),
]
Address = Annotated[
    Listen | EndpointText,
    _reads(parse_listen, 'text in quotes such as "127.0.0.1:8787" or ":8787"'),
    WithJsonSchema(LISTEN),
]
DefaultNames = Annotated[
    dict[str, Name],
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
    _says("the name of a voice (in quotes if YAML would read it as a number)"),
    _checks(checked_text),
    WithJsonSchema(TEXT),
]
VoiceNames = Annotated[
    dict[str, dict[str, VoiceName] | None],
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
