"""What of a JSON Schema the vendor enforces, of tools and of the output."""

from __future__ import annotations

from typing import Any

from mgw.canonical.conversation import (
    OutputFormat,
    OutputKind,
    Tool,
)
from mgw.canonical.features import Feature
from tests.support.messages import (
    render,
)


def closed(**properties: object) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }


def test_strictness_goes_where_the_vendor_cannot_enforce_the_schema() -> None:
    good = closed(a={"type": ["string", "null"]}, b={"enum": ["x", 1]})
    bad = closed(a={"type": "integer", "minimum": 1})
    body, rendered = render(
        tools=(Tool("good", schema=good, strict=True), Tool("bad", schema=bad, strict=True))
    )
    assert [tool.get("strict") for tool in body["tools"]] == [True, None]
    assert [tool["input_schema"] for tool in body["tools"]] == [good, bad]
    assert rendered.lost == {Feature.TOOL_STRICT}


def test_at_most_as_many_tools_are_strict_as_the_vendor_takes() -> None:
    tools = tuple(Tool(f"t{number}", schema=closed(), strict=True) for number in range(25))
    body, rendered = render(tools=tools)
    assert sum(tool.get("strict", False) for tool in body["tools"]) == 20
    assert rendered.lost == {Feature.TOOL_STRICT}
    nullable = closed(a={"type": ["string", "null"]}, b={"anyOf": [{"type": "null"}, {"type": "string"}]})
    body, _ = render(tools=tuple(Tool(f"t{number}", schema=nullable, strict=True) for number in range(12)))
    assert sum(tool.get("strict", False) for tool in body["tools"]) == 8


def test_an_output_schema_is_brought_within_what_the_vendor_enforces() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1, "description": "A number."},
            "one": {"oneOf": [{"type": "string", "format": "uri"}, {"$ref": "#/$defs/d"}]},
            "many": {"type": "array", "minItems": 3, "items": {"type": "object", "properties": {}}},
        },
        "$defs": {"d": {"type": "object", "additionalProperties": {"type": "string"}}},
    }
    body, rendered = render(
        output=OutputFormat(OutputKind.SCHEMA, schema, name="n", description="d", strict=True)
    )
    assert body["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {
                "n": {"type": "integer", "description": 'A number.\n\n{"minimum":1}'},
                "one": {"anyOf": [{"type": "string", "format": "uri"}, {"$ref": "#/$defs/d"}]},
                "many": {
                    "type": "array",
                    "items": {"type": "object", "properties": {}, "additionalProperties": False},
                    "description": '{"minItems":3}',
                },
            },
            "$defs": {
                "d": {
                    "type": "object",
                    "additionalProperties": False,
                    "description": '{"additionalProperties":{"type":"string"}}',
                }
            },
            "additionalProperties": False,
        },
    }
    assert rendered.lost == {Feature.OUTPUT_NAME, Feature.OUTPUT_DESCRIPTION, Feature.OUTPUT_STRICT}
