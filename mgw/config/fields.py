"""What a single setting may be: how a setting is declared, and the types of settings, each with its words.

Pydantic's own messages may echo a value and speak of inputs; here every type says what it expects, and the
loader adds what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    WrapValidator,
)
from pydantic.annotated_handlers import GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue, SkipJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError, ValidationError, core_schema

from mgw.config.absent import MESSAGE
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
)

EXPECTED: Final = "expected"
"""The pydantic error type whose message says what was expected; what was found is added."""
REFUSED: Final = "refused"
"""The pydantic error type whose message is complete."""
UNKNOWN_KEY: Final = "extra_forbidden"
"""The pydantic error type of a key that no setting has."""
FROM_FILE: Final = "file"
"""The context of a validation whose values come from a file."""
MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB
MAX_BYTES: Final = 2 * GIB
MAX_TOKENS: Final = 2**31
FAMILY_SPELLINGS: Final = MappingProxyType(
    {spelling.removesuffix("_dialect"): family for spelling, family in DEFAULT_SPELLINGS.items()}
)
"""Every accepted spelling of a family."""
SPEAKING: Final = tuple(family for family in Family if FAMILIES[family].has_speech)
"""Families with speech of their own (contract 4.7)."""

T = TypeVar("T")


class Settings(BaseModel):
    """A mapping in the file, whose keys are all known; a field is a setting.

    What is required has no default of its own but ``None``, so that one mistake does not hide another: the
    loader asks for it after the rest was checked.
    """

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True
    )


def setting(
    description: str, *, default: object = None, shown: str | None = None, key: str | None = None
) -> Any:
    """Declare a setting.

    :param description: for editors and for the reference; a default that is a word or a number is added.
    :param shown: the default in other words.
    :param key: the key in the file, where an attribute of the settings has its name.
    """
    said = _default_said(default) if shown is None else shown
    text = f"{description}; default {said}." if said else f"{description}."
    return Field(default=default, description=text, alias=key)


def required(description: str) -> Any:
    """Declare a setting without a default."""
    return setting(description)


def _default_said(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, int) and default >= MIB:
        unit, name = (GIB, "GiB") if default >= GIB else (MIB, "MiB")
        return f"{default} ({default // unit} {name})"
    if isinstance(default, int | float):
        return f"{default:g}"
    return default.value if isinstance(default, StrEnum) else ""


def written(block: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the settings of a block that a file may state, by their keys."""
    return {
        field.alias or name: field
        for name, field in block.model_fields.items()
        if not any(isinstance(mark, _Unwritten) for mark in field.metadata)
    }


def stated(block: Settings) -> frozenset[str]:
    """Return the keys of the settings that a file states."""
    fields = type(block).model_fields
    return frozenset(fields[name].alias or name for name in block.model_fields_set)


def expected(words: str) -> PydanticCustomError:
    """Return the error of a value of another type; the loader adds what was found."""
    return PydanticCustomError(EXPECTED, "{words}", {"words": words})


def refused(text: str) -> PydanticCustomError:
    """Return an error whose message is complete."""
    return PydanticCustomError(REFUSED, "{text}", {"text": text})


def says(words: str) -> WrapValidator:
    """Put these words in place of pydantic's when a value is not of the type."""

    def validate(value: object, inner: Callable[[object], object]) -> object:
        try:
            return inner(value)
        except ValidationError:
            raise expected(words) from None

    return WrapValidator(validate)


def checks(check: Callable[[str], str]) -> AfterValidator:
    """Let a check of a text speak for itself."""

    def validate(value: str) -> str:
        try:
            return check(value)
        except ValueError as error:
            raise refused(str(error)) from None

    return AfterValidator(validate)


def reads(parse: Callable[[str], object], words: str, *made: type) -> PlainValidator:
    """Turn a text into a value of ours; one that is ``made`` already stays."""

    def validate(value: object) -> object:
        if isinstance(value, made):
            return value
        if not isinstance(value, str):
            raise expected(words)
        try:
            return parse(value)
        except ValueError as error:
            raise refused(str(error)) from None

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


class _OrEmpty:
    """Read a mapping that is named without a value as an empty one."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_or_empty, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [handler(schema), {"type": "null"}]}


def _or_empty(value: object) -> object:
    return {} if value is None else value


OrEmpty = Annotated[T, _OrEmpty()]


class _FromList:
    """Read a list as what ``gathered`` makes of it."""

    def __init__(self, gathered: Callable[[list[Any]], object]) -> None:
        self._gathered = gathered

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        items = core_schema.list_schema(handler.generate_schema(get_args(source)[0]))
        found = core_schema.no_info_after_validator_function(self._gathered, items)
        return core_schema.no_info_before_validator_function(_as_list, found)


def _as_list(value: object) -> object:
    return list(value) if isinstance(value, tuple | frozenset) else value


def _distinct(items: list[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(items))


Listed = Annotated[tuple[T, ...], _FromList(tuple)]
Distinct = Annotated[tuple[T, ...], _FromList(_distinct)]
"""A list of which each element counts once."""
Choice = Annotated[frozenset[T], _FromList(frozenset)]


class _AsSpelled:
    """Take any text as a key of a mapping by family: the loader replaces the spellings by what they mean."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.dict_schema(core_schema.str_schema(), handler.generate_schema(get_args(source)[1]))


class _Unwritten:
    """What no file may state: there its name is an unknown key."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_before_validator_function(_not_from_file, handler(source))


def _not_from_file(value: object, info: ValidationInfo) -> object:
    if info.context == FROM_FILE:
        raise PydanticCustomError(UNKNOWN_KEY, "unknown key")
    return value


Unwritten = Annotated[T, SkipJsonSchema(), _Unwritten()]


class OneOf:
    """Take one of the words of an enumeration; a message lists each meaning once.

    :param spellings: all words and what they mean; without them, the values.
    """

    def __init__(self, spellings: Mapping[str, StrEnum] | None = None) -> None:
        self._spellings = spellings

    def __get_pydantic_core_schema__(
        self, source: type[StrEnum], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        spellings = self._spellings or {member.value: member for member in source}
        meanings = ", ".join(dict.fromkeys(spellings.values()))

        def parse(text: str) -> StrEnum:
            if text in spellings:
                return spellings[text]
            raise ValueError(f"expected one of {meanings}, found {found_word(text, spellings)}")

        schema = WithJsonSchema({"type": "string", "enum": list(spellings)})
        read = Annotated[source, reads(parse, f"one of {meanings}"), schema]  # type: ignore[valid-type]
        return handler.generate_schema(read)


def _key_or(setting: str) -> PlainValidator:
    """Take a key; a placeholder is referred to the setting that reads the environment."""
    instead = f"to read the key from the environment, name its variable in {setting}"

    def parse(text: str) -> Secret:
        try:
            return Secret(checked_key(text, instead))
        except ValueError as error:
            raise ValueError(f"the key {error}") from None

    return reads(parse, "text (put the key in quotes)", Secret)


def _counts(end: object) -> bool:
    return type(end) is int and abs(end) <= MAX_TOKENS  # type(): True is an int too


def _budget(value: object) -> object:
    if value is False:
        return value
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(map(_counts, value)):
        raise expected("[min, max] in whole tokens, or false")
    least, most = value
    if 0 <= least <= most:
        return least, most
    words = f"expected [min, max] with 0 <= min <= max, found [{least}, {most}]"
    raise refused(words)


def _default_effort(value: object) -> object:
    if value is False:
        return value
    if isinstance(value, str) and value in set(Effort):
        return Effort(value)
    raise expected(f"one of {', '.join(Effort)}, or false")


def _output_tokens(value: object) -> object:
    if value is False or (_counts(value) and isinstance(value, int) and value > 0):
        return value
    raise expected("a whole number above 0, or false")


def _alias_target(value: object, inner: Callable[[object], str]) -> str:
    if isinstance(value, list):
        raise refused(f"a list of targets is {MESSAGE}: write one target")
    return inner(value)


Text = Annotated[str, says("text"), checks(checked_text), WithJsonSchema(TEXT)]
Name = Annotated[
    str,
    says("text (in quotes if YAML would read it as a number)"),
    checks(checked_name),
    WithJsonSchema(NAME),
]
Variable = Annotated[
    str, says("the name of an environment variable"), checks(checked_variable), WithJsonSchema(VARIABLE)
]
HeaderName = Annotated[
    str,
    says("a header name"),
    checks(checked_header_name),
    AfterValidator(str.lower),
    WithJsonSchema(HEADER_NAME),
]
"""In lower case."""
HeaderValue = Annotated[
    str,
    says("text (in quotes if YAML would read it as a number)"),
    checks(checked_header_value),
    WithJsonSchema(HEADER_VALUE),
]
BaseUrl = Annotated[
    str, says("an http:// or https:// address"), checks(checked_base_url), WithJsonSchema(ADDRESS)
]
PublicUrl = Annotated[
    str, says("an http:// or https:// address"), checks(checked_public_url), WithJsonSchema(ADDRESS)
]
AbsolutePath = Annotated[
    str, says("an absolute path"), checks(checked_absolute_path), WithJsonSchema(ABSOLUTE_PATH)
]
ProxyNetwork = Annotated[
    IPv4Network | IPv6Network,
    reads(parse_network, 'text in quotes such as "10.0.0.0/8" or "::1"', IPv4Network, IPv6Network),
    WithJsonSchema(NETWORK),
]
AliasTarget = Annotated[
    str,
    says("<provider>/<model>"),
    checks(checked_name),
    WrapValidator(_alias_target),
    WithJsonSchema(TARGET),
]
OnOff = Annotated[bool, says("true or false")]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), says("a number of seconds above 0")]
DrainSeconds = Annotated[float, Field(ge=0, allow_inf_nan=False), says("a number of seconds, 0 or more")]
Bytes = Annotated[
    int,
    Field(gt=0, le=MAX_BYTES),
    says(f"a whole number of bytes from 1 to {MAX_BYTES}, without a unit (32 MiB is 33554432)"),
]
MemoryBytes = Annotated[
    int,
    Field(gt=0, le=2**53),
    says("a whole number of bytes above 0, without a unit (512 MiB is 536870912)"),
]
DiskBytes = Annotated[
    int,
    Field(gt=0, le=2**53),
    says("a whole number of bytes above 0, without a unit (4 GiB is 4294967296)"),
]
Connections = Annotated[int, Field(gt=0, le=2**31), says("a whole number above 0")]
Key = Annotated[Secret, _key_or("api_key_env"), WithJsonSchema(KEY)]
EdgeKey = Annotated[Secret, _key_or("keys_env"), WithJsonSchema(KEY)]
KindName = Annotated[Kind, OneOf(KIND_SPELLINGS)]
FamilyName = Annotated[Family, OneOf(FAMILY_SPELLINGS)]
EffortName = Annotated[Effort, OneOf()]
ForcedToolsName = Annotated[ForcedTools, OneOf()]
ChatToolsName = Annotated[ChatTools, OneOf()]
ModelPattern = Annotated[
    str,
    says("a pattern of model ids such as claude-*"),
    checks(checked_name),
    AfterValidator(str.lower),
    WithJsonSchema(NAME),
]
"""A glob (:mod:`fnmatch`), in lower case."""
AnswerTokens = Annotated[int, Field(gt=0, le=MAX_TOKENS), says("a whole number above 0")]
Answers = Annotated[int, Field(gt=0, le=2**31), says("a whole number above 0")]
Characters = Annotated[int, Field(ge=0, le=2**53), says("a whole number of characters, 0 or more")]
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
TokenFactor = Annotated[float, Field(gt=0, allow_inf_nan=False), says("a number above 0")]
Address = Annotated[
    Listen | EndpointText,
    reads(parse_listen, 'text in quotes such as "127.0.0.1:8787" or ":8787"', Listen, EndpointText),
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
    says("the name of a voice (in quotes if YAML would read it as a number)"),
    checks(checked_text),
    WithJsonSchema(TEXT),
]
VoiceNames = Annotated[
    dict[Family, OrEmpty[dict[str, VoiceName]]],
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
