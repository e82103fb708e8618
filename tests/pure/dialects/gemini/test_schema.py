"""Google's Schema as JSON Schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.genai.types import Schema, Type

from mgw.dialects.gemini.schema import parse_json_schema, parse_openapi_schema

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("openapi", "schema"),
    [
        ({"type": "STRING", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "string"}, {"type": "string"}),
        ({"type": "TYPE_UNSPECIFIED", "title": "a"}, {"title": "a"}),
        ({"type": "INTEGER", "nullable": True}, {"type": ["integer", "null"]}),
        ({"type": "INTEGER", "nullable": False}, {"type": "integer"}),
        (
            {"type": "STRING", "format": "enum", "enum": ["a"], "nullable": True},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        (
            {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}], "nullable": True},
            {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
        ),
        ({"ref": "#/defs/P", "nullable": True}, {"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}]}),
        ({"defs": {"P": {"type": "OBJECT"}}}, {"$defs": {"P": {"type": "object"}}}),
        (
            {
                "type": "ARRAY",
                "minItems": "1",
                "maxItems": "3",
                "items": {"type": "NUMBER", "minimum": "0.5"},
            },
            {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "number", "minimum": 0.5}},
        ),
        ({"type": "STRING", "example": "x"}, {"type": "string", "examples": ["x"]}),
        ({"type": "OBJECT", "propertyOrdering": ["a"]}, {"type": "object"}),
        (
            {"any_of": [{"type": "STRING"}], "max_length": "3"},
            {"anyOf": [{"type": "string"}], "maxLength": 3},
        ),
        ({"additionalProperties": {"type": "STRING"}}, {"additionalProperties": {"type": "string"}}),
        ({"additionalProperties": False}, {"additionalProperties": False}),
        ({"description": None, "default": None}, {"default": None}),
        ({"minItems": "many", "items": 5, "anyOf": [7]}, {"minItems": "many", "items": 5, "anyOf": [7]}),
    ],
)
def test_googles_schema_becomes_json_schema(openapi: Json, schema: Json) -> None:
    assert parse_openapi_schema(openapi) == schema


def test_properties_named_like_keywords_are_properties() -> None:
    names = ["type", "nullable", "properties", "enum", "items", "format", "propertyOrdering", "ref", "any_of"]
    found = parse_openapi_schema(
        {"type": "OBJECT", "properties": {name: {"type": "STRING"} for name in names}}
    )
    assert list(found["properties"]) == names
    assert all(value == {"type": "string"} for value in found["properties"].values())


def test_keys_keep_their_order() -> None:
    openapi = {"required": ["z"], "properties": {"z": {}, "a": {}}, "description": "d", "type": "OBJECT"}
    found = parse_openapi_schema(openapi)
    assert list(found) == list(openapi)
    assert list(found["properties"]) == ["z", "a"]


@pytest.mark.parametrize("read", [parse_json_schema, parse_openapi_schema])
@pytest.mark.parametrize(
    ("ordering", "names"),
    [
        (["c", "a", "b"], ["c", "a", "b"]),
        (["c"], ["c", "a", "b"]),
        (["x", 5, "b"], ["b", "a", "c"]),
        ("c", ["a", "b", "c"]),
    ],
)
def test_properties_stand_in_the_order_that_is_stated(
    read: Callable[[Json], Json], ordering: object, names: list[str]
) -> None:
    schema = {"propertyOrdering": ordering, "properties": {name: {} for name in "abc"}}
    found = read({"type": "ARRAY", "items": schema})["items"]
    assert list(found) == ["properties"]
    assert list(found["properties"]) == names


def test_json_schema_changes_in_the_case_of_its_types_and_in_order_alone() -> None:
    schema = {
        "$schema": "x",
        "type": "OBJECT",
        "nullable": True,
        "properties": {"type": {"type": ["STRING", "null"]}, "a": {"anyOf": [{"type": "ARRAY"}]}},
        "enum": ["STRING"],
        "default": {"type": "OBJECT"},
    }
    assert parse_json_schema(schema) == {
        "$schema": "x",
        "type": "object",
        "nullable": True,
        "properties": {"type": {"type": ["string", "null"]}, "a": {"anyOf": [{"type": "array"}]}},
        "enum": ["STRING"],
        "default": {"type": "OBJECT"},
    }


def test_every_field_of_the_sdks_schema_is_spoken_of() -> None:
    covered = {"additional_properties", "defs", "ref", "any_of", "default", "description", "enum", "example"}
    covered |= {
        "format",
        "items",
        "nullable",
        "pattern",
        "properties",
        "property_ordering",
        "required",
        "title",
    }
    covered |= {f"{least}_{what}" for least in ("min", "max") for what in ("items", "length", "properties")}
    assert set(Schema.model_fields) == covered | {"minimum", "maximum", "type"}


def test_every_type_of_the_sdks_is_lowered() -> None:
    for kind in Type:
        expected = {} if kind is Type.TYPE_UNSPECIFIED else {"type": kind.value.lower()}
        assert parse_openapi_schema({"type": kind.value}) == expected
