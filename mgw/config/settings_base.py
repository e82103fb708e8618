"""How a block and its settings are declared, and how pydantic handles them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar, get_args

from msgspec import Struct
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    ValidationInfo,
    WrapValidator,
)
from pydantic.annotated_handlers import GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue, SkipJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError, ValidationError, core_schema

WRONG_TYPE: Final = "expected"
"""The pydantic error type whose message says what was expected; what was found is added."""
WRONG_VALUE: Final = "refused"
"""The pydantic error type whose message is complete."""
UNKNOWN_KEY: Final = "extra_forbidden"
"""The pydantic error type of a key that no setting has."""
FROM_FILE: Final = "file"
"""The context of a validation whose values come from a file."""
MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB

T = TypeVar("T")


class Settings(BaseModel):
    """A mapping in the file, whose keys are all known; a field is a setting.

    What is required has no default of its own but ``None``, so that one mistake does not hide another: the
    loader asks for it after the rest was checked.

    Validators are built when something is first validated: that of the whole configuration includes those of
    its blocks, and to build each of them besides took a tenth of a second of every start.
    """

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
        defer_build=True,
    )


S = TypeVar("S", bound=Settings)


class Documentation(Struct, frozen=True):
    """What a reader is told about a setting; words of code stand in double backticks, as in reStructuredText.

    As pydantic's ``json_schema_extra`` it puts itself into the schema, without the backticks.
    """

    summary: str
    """A phrase without a full stop; for what is required, also what a message says was expected."""
    details: str = ""
    """Whole sentences."""
    default: str = ""
    """Empty: there is none, or it is a block's."""
    variable: str | None = None
    """The environment variable that overrides the file."""

    def __call__(self, schema: dict[str, Any]) -> None:  # Any: JSON
        """Describe the setting in its schema."""
        default = f"; default {self.default}" if self.default else ""
        override = f" The environment variable {self.variable} overrides it." if self.variable else ""
        details = f" {self.details}" if self.details else ""
        schema["description"] = f"{self.summary}{default}.{details}{override}".replace("``", "")


def setting(
    summary: str,
    details: str = "",
    *,
    default: object = None,
    shown: str | None = None,
    key: str | None = None,
    variable: str | None = None,
) -> Any:
    """Declare a setting; ``summary``, ``details`` and ``variable`` as in :class:`Documentation`.

    :param shown: the default in words; without it, a default that is a word, a number or empty is added.
    :param key: the key in the file, where an attribute of the settings has its name.
    """
    words = _default_words(default) if shown is None else shown
    documentation = Documentation(summary, details, words, variable)
    return Field(default=default, alias=key, json_schema_extra=documentation)


def required(summary: str, details: str = "", *, variable: str | None = None) -> Any:
    """Declare a setting without a default."""
    return setting(summary, details, variable=variable)


def defaults_of(block: type[S]) -> S:
    """Return a block as it is where a file says nothing about it.

    Nothing is validated, since that would build the validator of the block while its module is imported.
    """
    return block.model_construct()


def documentation_of(field: FieldInfo) -> Documentation:
    """Return what a reader is told about a setting."""
    found = field.json_schema_extra
    assert isinstance(found, Documentation), "every setting is declared with its documentation"
    return found


def _default_words(default: object) -> str:
    if isinstance(default, bool):
        return f"``{str(default).lower()}``"
    if isinstance(default, int) and default >= MIB:
        unit, name = (GIB, "GiB") if default >= GIB else (MIB, "MiB")
        return f"``{default}`` ({default // unit} {name})"
    if isinstance(default, int | float):
        return f"``{default:g}``"
    if isinstance(default, tuple | dict):
        return "" if default else "empty"
    return f"``{default.value}``" if isinstance(default, StrEnum) else ""


def file_settings(block: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the settings of a block that a file may state, by their keys."""
    return {
        field.alias or name: field
        for name, field in block.model_fields.items()
        if not any(isinstance(mark, _NotInFile) for mark in field.metadata)
    }


def required_keys(block: type[BaseModel]) -> tuple[str, ...]:
    """Return the keys without which a block says too little."""
    extra = block.model_config.get("json_schema_extra")
    keys = extra.get("required") if isinstance(extra, dict) else None
    return tuple(map(str, keys)) if isinstance(keys, list) else ()


def known_keys(block: type[BaseModel], path: tuple[str | int, ...]) -> tuple[str, ...]:
    """Return the keys that are known where ``path``, taken from ``block``, leads."""
    if not path:
        return tuple(file_settings(block))
    head, *rest = path
    setting = file_settings(block).get(str(head))
    inner = None if setting is None else block_in(setting.annotation)
    if inner is None:
        return ()
    among, kind = inner
    return known_keys(kind, tuple(rest[1:] if among else rest))


def block_in(
    annotation: Any,
) -> tuple[bool, type[BaseModel]] | None:  # Any: an annotation has no type of its own
    """Find the block that an annotation holds, and whether it is one of several, in a mapping or a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return False, annotation
    found = [inner for part in getattr(annotation, "__args__", ()) if (inner := block_in(part)) is not None]
    if not found:
        return None
    among, kind = found[0]
    return among or getattr(annotation, "__origin__", None) in (dict, tuple), kind


def set_keys(block: Settings) -> frozenset[str]:
    """Return the keys of the settings that a file states."""
    fields = type(block).model_fields
    return frozenset(fields[name].alias or name for name in block.model_fields_set)


def wrong_type(words: str) -> PydanticCustomError:
    """Return the error of a value of another type; the loader adds what was found."""
    return PydanticCustomError(WRONG_TYPE, "{words}", {"words": words})


def wrong_value(text: str) -> PydanticCustomError:
    """Return an error whose message is complete."""
    return PydanticCustomError(WRONG_VALUE, "{text}", {"text": text})


def expect(words: str) -> WrapValidator:
    """Put these words in place of pydantic's when a value is not of the type."""

    def validate(value: object, inner: Callable[[object], object]) -> object:
        try:
            return inner(value)
        except ValidationError:
            raise wrong_type(words) from None

    return WrapValidator(validate)


def check_with(check: Callable[[str], str]) -> AfterValidator:
    """Let a check of a text speak for itself."""

    def validate(value: str) -> str:
        try:
            return check(value)
        except ValueError as error:
            raise wrong_value(str(error)) from None

    return AfterValidator(validate)


def parse_with(parse: Callable[[str], object], words: str, *made: type) -> PlainValidator:
    """Turn a text into a value of ours; one that is ``made`` already stays."""

    def validate(value: object) -> object:
        if isinstance(value, made):
            return value
        if not isinstance(value, str):
            raise wrong_type(words)
        try:
            return parse(value)
        except ValueError as error:
            raise wrong_value(str(error)) from None

    return PlainValidator(validate)


class _Omittable:
    """Let a setting be absent, but not present without a value: only the default is ``None``."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        if schema["type"] != "nullable":
            raise TypeError("an omittable setting is declared as Omittable[…]")
        inner: CoreSchema = schema["schema"]
        return inner


Omittable = Annotated[T | None, _Omittable()]


class _EmptyIfNull:
    """Read a mapping that is named without a value as an empty one."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_empty_if_null, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [handler(schema), {"type": "null"}]}


def _empty_if_null(value: object) -> object:
    return {} if value is None else value


EmptyIfNull = Annotated[T, _EmptyIfNull()]


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


def _unique(items: list[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(items))


ListOf = Annotated[tuple[T, ...], _FromList(tuple)]
UniqueList = Annotated[tuple[T, ...], _FromList(_unique)]
"""A list of which each element counts once."""
SetOf = Annotated[frozenset[T], _FromList(frozenset)]


class NotEmpty:
    """Refuse a list or a mapping with nothing in it.

    :param noun: what it has at least one of.
    :param reason: why, or what to write instead.
    """

    def __init__(self, noun: str, reason: str = "") -> None:
        self._expected = f"at least one {noun}"
        self._reason = f": {reason}" if reason else ""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self._validate, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        found = handler(schema)
        return found | {"minItems" if found.get("type") == "array" else "minProperties": 1}

    def _validate(self, value: object, inner: Callable[[object], object]) -> object:
        if value is None:
            raise wrong_type(self._expected + self._reason)
        found = inner(value)
        if not found:
            raise wrong_value(f"expected {self._expected}, found none{self._reason}")
        return found


class _NotInFile:
    """What no file may state: there its name is an unknown key."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_before_validator_function(_not_from_file, handler(source))


def _not_from_file(value: object, info: ValidationInfo) -> object:
    if info.context == FROM_FILE:
        raise PydanticCustomError(UNKNOWN_KEY, "unknown key")
    return value


NotInFile = Annotated[T, SkipJsonSchema(), _NotInFile()]
