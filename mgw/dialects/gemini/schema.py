"""Google's ``Schema`` as JSON Schema (contract 8.19).

``parameters`` and ``responseSchema`` hold an OpenAPI 3.0 schema: types in upper case, ``nullable``, whole
numbers as strings (proto3 JSON), ``defs`` and ``ref`` without the dollar sign.  ``parametersJsonSchema`` and
``responseJsonSchema`` hold JSON Schema already; Google's reader takes the types of both in any case there,
and Gemini CLI writes them in capitals, so these alone are changed.  Keys keep their order.

Source: ``Schema``, ``Type`` and ``JSONSchema`` of google-genai 3.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any, Final

from mgw.canonical.conversation import JsonObject
from mgw.dialects.gemini.enums import TYPES, named

_TYPES: Final = MappingProxyType(
    {name: name.lower() for name in ("STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL")}
)
_ONE: Final = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames"})
"""Keywords that hold a schema."""
_SEVERAL: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
"""Keywords that hold an array of schemas."""
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords that hold schemas by name; the names are the client's."""
_NUMBERS: Final = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties", "minimum", "maximum"}
)
_SPELLED: Final = MappingProxyType(
    {
        "any_of": "anyOf",
        "additional_properties": "additionalProperties",
        "min_items": "minItems",
        "max_items": "maxItems",
        "min_length": "minLength",
        "max_length": "maxLength",
        "min_properties": "minProperties",
        "max_properties": "maxProperties",
        "property_ordering": "propertyOrdering",
        "defs": "$defs",
        "ref": "$ref",
    }
)
"""Snake case, which proto3 JSON takes too, and what JSON Schema spells with a dollar sign."""

Value = Any  # JSON of whatever type
Writer = Callable[[JsonObject, Value], None]
"""Writes one keyword into a schema."""


def from_openapi(schema: JsonObject) -> JsonObject:
    """Return JSON Schema for Google's ``Schema``.

    ``propertyOrdering`` orders what the model writes, where other families follow ``properties``.

    Raises: :class:`RecursionError` where it is nested too deeply.
    """
    found: JsonObject = {}
    for spelled, value in schema.items():
        write = _WRITERS.get(spelled)
        if write is None:
            if value is not None or spelled == "default":
                found[spelled] = value
        elif value is not None:
            write(found, value)
    _order(found, schema.get("propertyOrdering", schema.get("property_ordering")))
    return _nullable(found) if schema.get("nullable") is True else found


def with_lower_types(schema: JsonObject) -> JsonObject:
    """Return the same object, with the names of types and the order of properties as JSON Schema has them.

    Raises: :class:`RecursionError` where it is nested too deeply.
    """
    _order(schema, schema.pop("propertyOrdering", None))
    for key, value in schema.items():
        if key == "type":
            schema[key] = _type(value)
        elif type(value) is dict:
            if key in _ONE:
                with_lower_types(value)
            elif key in _NAMED:
                _lower_each(value.values())
        elif key in _SEVERAL and type(value) is list:
            _lower_each(value)
    return schema


def _order(schema: JsonObject, names: Value) -> None:
    """Put the properties that are named first, in the order of the names."""
    properties = schema.get("properties")
    if type(names) is not list or type(properties) is not dict:
        return
    first = {name: properties[name] for name in names if type(name) is str and name in properties}
    schema["properties"] = first | properties


def _lower_each(schemas: Iterable[Value]) -> None:
    for schema in schemas:
        if type(schema) is dict:
            with_lower_types(schema)


def _type(value: Value) -> Value:
    if type(value) is list:
        return [_type(item) for item in value]
    return _TYPES.get(value, value) if type(value) is str else value


def _nullable(schema: JsonObject) -> JsonObject:
    """Let a schema take null as well, wherever it says what it takes."""
    kind, choices = schema.get("type"), schema.get("anyOf")
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    if type(kind) is str and kind != "null":
        schema["type"] = [kind, "null"]
    if type(choices) is list:
        schema["anyOf"] = [*choices, {"type": "null"}]
    if type(schema.get("enum")) is list and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    return schema


def _number(value: Value) -> Value:
    if type(value) is not str:
        return value
    try:
        return int(value)
    except ValueError:
        pass
    try:
        return float(value)
    except ValueError:
        return value


def _set_type(found: JsonObject, value: Value) -> None:
    value = named(value, TYPES)
    if value != "TYPE_UNSPECIFIED":
        found["type"] = _type(value)


def _set_ref(found: JsonObject, value: Value) -> None:
    found["$ref"] = value.replace("#/defs/", "#/$defs/", 1) if type(value) is str else value


def _set_format(found: JsonObject, value: Value) -> None:
    if value != "enum":  # says no more than that there is an enum
        found["format"] = value


def _set_example(found: JsonObject, value: Value) -> None:
    found["examples"] = [value]


def _leave_out(found: JsonObject, value: Value) -> None:
    """What is said otherwise."""


def _one(key: str) -> Writer:
    def write(found: JsonObject, value: Value) -> None:
        found[key] = from_openapi(value) if type(value) is dict else value

    return write


def _several(key: str) -> Writer:
    def write(found: JsonObject, value: Value) -> None:
        if type(value) is list:
            value = [from_openapi(item) if type(item) is dict else item for item in value]
        found[key] = value

    return write


def _named(key: str) -> Writer:
    def write(found: JsonObject, value: Value) -> None:
        if type(value) is dict:
            value = {name: from_openapi(item) if type(item) is dict else item for name, item in value.items()}
        found[key] = value

    return write


def _count(key: str) -> Writer:
    def write(found: JsonObject, value: Value) -> None:
        found[key] = _number(value)

    return write


def _writers() -> dict[str, Writer]:
    writers: dict[str, Writer] = {
        "type": _set_type,
        "$ref": _set_ref,
        "format": _set_format,
        "example": _set_example,
        "nullable": _leave_out,
        "propertyOrdering": _leave_out,
    }
    for keys, made in ((_ONE, _one), (_SEVERAL, _several), (_NAMED, _named), (_NUMBERS, _count)):
        writers |= {key: made(key) for key in keys}
    return writers | {spelled: writers[key] for spelled, key in _SPELLED.items()}


_WRITERS: Final = MappingProxyType(_writers())
"""What becomes of the keywords that do not stay as they are."""
