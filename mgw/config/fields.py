"""What a single setting may be: the types of the file's fields, each with the words that ask for it.

Pydantic's own messages may echo a value and speak of inputs; here every type says what it expects, and the
loader adds what was found.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema, WrapValidator
from pydantic.annotated_handlers import GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, ValidationError

from mgw.config.absent import AUTH_NOT_AVAILABLE, MESSAGE
from mgw.config.checks import (
    checked_base_url,
    checked_header_name,
    checked_header_value,
    checked_key,
    checked_name,
    checked_text,
    checked_variable,
)
from mgw.config.listen import EndpointText, Listen, parse_listen
from mgw.config.model import AuthMode
from mgw.config.paths import shown
from mgw.config.problems import nearest
from mgw.secret import Secret
from mgw.vocabulary import DEFAULT_SPELLINGS, KIND_SPELLINGS, Kind

EXPECTED: Final = "expected"
"""The pydantic error type whose message says what was expected; what was found is added."""
REFUSED: Final = "refused"
"""The pydantic error type whose message is complete."""
MAX_BYTES: Final = 2 * 1024**3

T = TypeVar("T")


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


def _kind(text: str) -> Kind:
    if text in KIND_SPELLINGS:
        return KIND_SPELLINGS[text]
    raise ValueError(
        f"expected one of {', '.join(Kind)}, found {shown(text)}{nearest(text, map(str, KIND_SPELLINGS))}"
    )


def _auth(text: str) -> AuthMode:
    if text in _AUTH_MODES:
        return _AUTH_MODES[text]
    if text in AUTH_NOT_AVAILABLE:
        raise ValueError(f"auth {text}: {MESSAGE}")
    raise ValueError(
        f"expected one of {', '.join(AuthMode)}, found {shown(text)}{nearest(text, _AUTH_MODES)}"
    )


def _secret(text: str) -> Secret:
    try:
        return Secret(checked_key(text))
    except ValueError as error:
        raise ValueError(f"the key {error}") from None


def _alias_target(value: object, inner: Callable[[object], str]) -> str:
    if isinstance(value, list):
        raise PydanticCustomError(
            REFUSED, "{text}", {"text": f"a list of targets is {MESSAGE}: write one target"}
        )
    return inner(value)


Text = Annotated[str, _says("text"), _checks(checked_text)]
Name = Annotated[str, _says("text (in quotes where YAML would read a number)"), _checks(checked_name)]
Variable = Annotated[str, _says("the name of an environment variable"), _checks(checked_variable)]
HeaderName = Annotated[str, _says("a header name"), _checks(checked_header_name)]
HeaderValue = Annotated[
    str, _says("text (in quotes where YAML would read a number)"), _checks(checked_header_value)
]
BaseUrl = Annotated[str, _says("an http:// or https:// address"), _checks(checked_base_url)]
AliasTarget = Annotated[str, _says("<provider>/<model>"), _checks(checked_name), WrapValidator(_alias_target)]
OnOff = Annotated[bool, _says("true or false")]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), _says("a number of seconds above 0")]
DrainSeconds = Annotated[float, Field(ge=0, allow_inf_nan=False), _says("a number of seconds, 0 or more")]
Bytes = Annotated[
    int,
    Field(gt=0, le=MAX_BYTES),
    _says(f"a plain whole number of bytes from 1 to {MAX_BYTES}, without a unit (32 MiB is 33554432)"),
]
MemoryBytes = Annotated[
    int,
    Field(gt=0, le=2**53),
    _says("a plain whole number of bytes above 0, without a unit (512 MiB is 536870912)"),
]
Connections = Annotated[int, Field(gt=0, le=2**31), _says("a whole number above 0")]
Key = Annotated[
    Secret,
    _reads(_secret, "text (put the key in quotes)"),
    WithJsonSchema({"type": "string", "minLength": 1}),
]
KindName = Annotated[
    Kind,
    _reads(_kind, f"one of {', '.join(Kind)}"),
    WithJsonSchema({"type": "string", "enum": list(KIND_SPELLINGS)}),
]
AuthName = Annotated[
    AuthMode,
    _reads(_auth, f"one of {', '.join(AuthMode)}"),
    WithJsonSchema({"type": "string", "enum": list(AuthMode)}),
]
Address = Annotated[
    Listen | EndpointText,
    _reads(parse_listen, 'text in quotes such as "127.0.0.1:8787" or ":8787"'),
    WithJsonSchema({"type": "string"}),
]
DefaultNames = Annotated[
    dict[str, Name],
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {spelling: {"type": "string"} for spelling in DEFAULT_SPELLINGS},
        }
    ),
]
