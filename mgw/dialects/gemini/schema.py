"""Google's ``Schema`` as JSON Schema (contract 8.19), and what of JSON Schema Google goes by.

``parameters`` and ``responseSchema`` hold an OpenAPI 3.0 schema: types in upper case, ``nullable``, whole
numbers as strings (proto3 JSON), ``defs`` and ``ref`` without the dollar sign.  ``parametersJsonSchema`` and
``responseJsonSchema`` hold JSON Schema already; Google's reader takes the types of both in any case there,
and Gemini CLI writes them in capitals, so these alone are changed.  Keys keep their order.

Google takes any schema, but holds a response to some keywords alone; the rest is text to the model at best.

Sources: ``Schema``, ``Type`` and ``JSONSchema`` of google-genai 3.4; ``responseJsonSchema`` of
``GenerationConfig`` in the reference of generateContent ("While the full JSON Schema may be sent, not all
features are supported").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any, Final

from mgw.canonical.conversation import JsonObject
from mgw.dialects.gemini.proto_json import enum_name

_TYPE_NAMES: Final = ("TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL")
"""``Type`` by its numbers."""
_TYPES: Final = MappingProxyType({name: name.lower() for name in _TYPE_NAMES[1:]})
_ONE_SCHEMA: Final = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames"})
"""Keywords that hold a schema."""
_SCHEMA_ARRAYS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
"""Keywords that hold an array of schemas."""
_SCHEMA_MAPS: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
"""Keywords that hold schemas by name; the names are the client's."""
_NUMBERS: Final = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties", "minimum", "maximum"}
)
_SPELLINGS: Final = MappingProxyType(
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
_ENFORCED: Final = frozenset(
    {"items", "additionalProperties", "prefixItems", "anyOf", "oneOf", "properties", "$defs"}
)
"""Keywords with schemas that Google goes by."""
_ENFORCED_VALUES: Final = frozenset(
    {"type", "format", "required", "minItems", "maxItems", "minimum", "maximum", "$id", "$ref", "$anchor"}
)
"""Keywords without schemas that Google goes by."""
_ANNOTATIONS: Final = frozenset(
    {"title", "description", "default", "example", "examples", "$schema", "$comment"}
)
"""Keywords that have no part in what is valid."""

_Value = Any  # JSON of whatever type
_Setter = Callable[[JsonObject, _Value], None]
"""Sets one keyword of a schema."""


def parse_openapi_schema(schema: JsonObject) -> JsonObject:
    """Return JSON Schema for Google's ``Schema``.

    ``propertyOrdering`` orders what the model writes, where other families follow ``properties``.

    :raises RecursionError: where it is nested too deeply.
    """
    found: JsonObject = {}
    for spelled, value in schema.items():
        if spelled == "type" and type(value) is str and value != "TYPE_UNSPECIFIED":  # as in nearly all
            found["type"] = _TYPES.get(value, value)
            continue
        set_keyword = _SETTERS.get(spelled)
        if set_keyword is None:
            if value is not None or spelled == "default":
                found[spelled] = value
        elif value is not None:
            set_keyword(found, value)
    names = schema.get("propertyOrdering", schema.get("property_ordering"))
    if names is not None:
        _order_properties(found, names)
    return _allow_null(found) if schema.get("nullable") is True else found


def parse_json_schema(schema: JsonObject) -> JsonObject:
    """Return the same object, with the names of types and the order of properties as JSON Schema has them.

    :raises RecursionError: where it is nested too deeply.
    """
    _order_properties(schema, schema.pop("propertyOrdering", None))
    for key, value in schema.items():
        if key == "type":
            schema[key] = _parse_type(value)
        elif type(value) is dict:
            if key in _ONE_SCHEMA:
                parse_json_schema(value)
            elif key in _SCHEMA_MAPS:
                _parse_each(value.values())
        elif key in _SCHEMA_ARRAYS and type(value) is list:
            _parse_each(value)
    return schema


def _order_properties(schema: JsonObject, names: _Value) -> None:
    """Put the properties that are named first, in the order of the names."""
    properties = schema.get("properties")
    if type(names) is not list or type(properties) is not dict:
        return
    first = {name: properties[name] for name in names if type(name) is str and name in properties}
    schema["properties"] = first | properties


def _parse_each(schemas: Iterable[_Value]) -> None:
    for schema in schemas:
        if type(schema) is dict:
            parse_json_schema(schema)


def _parse_type(value: _Value) -> _Value:
    if type(value) is list:
        return [_parse_type(item) for item in value]
    return _TYPES.get(value, value) if type(value) is str else value


def _allow_null(schema: JsonObject) -> JsonObject:
    """Let a schema take null as well, wherever it limits what it takes."""
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


def _parse_number(value: str) -> int | float | str:
    try:
        return int(value)
    except ValueError:
        pass
    try:
        return float(value)
    except ValueError:
        return value


def _set_type(found: JsonObject, value: _Value) -> None:
    if type(value) is not str:
        value = enum_name(value, _TYPE_NAMES)
    if value != "TYPE_UNSPECIFIED":
        found["type"] = _TYPES.get(value, value) if type(value) is str else _parse_type(value)


def _set_ref(found: JsonObject, value: _Value) -> None:
    found["$ref"] = value.replace("#/defs/", "#/$defs/", 1) if type(value) is str else value


def _set_format(found: JsonObject, value: _Value) -> None:
    if value != "enum":  # means no more than that there is an enum
        found["format"] = value


def _set_example(found: JsonObject, value: _Value) -> None:
    found["examples"] = [value]


def _ignore(found: JsonObject, value: _Value) -> None:
    """Leave out what other keywords express."""


def _make_schema_setter(key: str) -> _Setter:
    def set_keyword(found: JsonObject, value: _Value) -> None:
        found[key] = parse_openapi_schema(value) if type(value) is dict else value

    return set_keyword


def _make_array_setter(key: str) -> _Setter:
    def set_keyword(found: JsonObject, value: _Value) -> None:
        if type(value) is list:
            value = [parse_openapi_schema(item) if type(item) is dict else item for item in value]
        found[key] = value

    return set_keyword


def _make_map_setter(key: str) -> _Setter:
    def set_keyword(found: JsonObject, value: _Value) -> None:
        if type(value) is dict:
            value = {
                name: parse_openapi_schema(item) if type(item) is dict else item
                for name, item in value.items()
            }
        found[key] = value

    return set_keyword


def _make_number_setter(key: str) -> _Setter:
    def set_keyword(found: JsonObject, value: _Value) -> None:
        found[key] = _parse_number(value) if type(value) is str else value

    return set_keyword


def _make_setters() -> dict[str, _Setter]:
    setters: dict[str, _Setter] = {
        "type": _set_type,
        "$ref": _set_ref,
        "format": _set_format,
        "example": _set_example,
        "nullable": _ignore,
        "propertyOrdering": _ignore,
    }
    for keys, make_setter in (
        (_ONE_SCHEMA, _make_schema_setter),
        (_SCHEMA_ARRAYS, _make_array_setter),
        (_SCHEMA_MAPS, _make_map_setter),
        (_NUMBERS, _make_number_setter),
    ):
        setters |= {key: make_setter(key) for key in keys}
    return setters | {spelled: setters[key] for spelled, key in _SPELLINGS.items()}


_SETTERS: Final = MappingProxyType(_make_setters())
"""What becomes of the keywords that do not stay as they are."""


def is_enforced(schema: JsonObject) -> bool:
    """Whether Google holds a response to every rule of a JSON Schema.

    :raises RecursionError: where it is nested too deeply.
    """
    return all(_is_keyword_enforced(key, value) for key, value in schema.items())


def _is_keyword_enforced(key: str, value: _Value) -> bool:
    if key in _ENFORCED_VALUES or key in _ANNOTATIONS:
        return True
    if key == "enum":  # "for strings and numbers"
        return type(value) is list and all(type(item) in (str, int, float) for item in value)
    if key not in _ENFORCED:
        return False
    if key in _ONE_SCHEMA:
        return _is_schema_enforced(value)
    if key in _SCHEMA_ARRAYS:
        return type(value) is list and all(_is_schema_enforced(inner) for inner in value)
    return type(value) is dict and all(_is_schema_enforced(inner) for inner in value.values())


def _is_schema_enforced(schema: _Value) -> bool:  # an object or a truth value
    return is_enforced(schema) if type(schema) is dict else type(schema) is bool
