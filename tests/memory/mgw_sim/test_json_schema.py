"""Examples of JSON Schemas, and schemas that no vendor takes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw_sim.json_schema import example, schema_error


def conforms(value: Any, schema: Any) -> bool:
    """A second opinion, for the words that ``schemas`` draws."""
    kind = schema["type"]
    if "enum" in schema:
        return value in schema["enum"]
    if kind == "object":
        names = schema["properties"]
        return set(schema["required"]) <= set(value) <= set(names) and all(
            conforms(value[name], names[name]) for name in value
        )
    if kind == "array":
        return len(value) >= schema["minItems"] and all(conforms(item, schema["items"]) for item in value)
    if kind == "string":
        return isinstance(value, str) and schema["minLength"] <= len(value) <= schema["maxLength"]
    if kind == "integer":
        return type(value) is int and schema["minimum"] <= value <= schema["maximum"]
    return isinstance(value, bool)


def texts(least: int, more: int) -> Any:
    """A schema of strings."""
    return {"type": "string", "minLength": least, "maxLength": least + more}


def integers(least: int, more: int) -> Any:
    """A schema of integers."""
    return {"type": "integer", "minimum": least, "maximum": least + more}


def lists(item: Any, least: int) -> Any:
    """A schema of arrays."""
    return {"type": "array", "items": item, "minItems": least}


def objects(names: dict[str, Any]) -> Any:
    """A schema of objects."""
    return {"type": "object", "properties": names, "required": sorted(names)[:1]}


SCHEMAS = st.recursive(
    st.one_of(
        st.builds(texts, st.integers(0, 30), st.integers(0, 30)),
        st.builds(integers, st.integers(-9, 9), st.integers(0, 9)),
        st.just({"type": "boolean"}),
        st.just({"type": "string", "enum": ["b", "a"]}),
    ),
    lambda inner: st.one_of(
        st.builds(lists, inner, st.integers(0, 3)),
        st.builds(objects, st.dictionaries(st.sampled_from("abc"), inner)),
    ),
    max_leaves=6,
)


@given(schema=SCHEMAS)
def test_an_example_conforms_to_its_schema(schema: Any) -> None:
    assert schema_error(schema) is None
    assert conforms(example(schema), schema)


def test_a_recursive_schema_has_an_end() -> None:
    node = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}
    assert json.dumps(example(node)).endswith("null" + "}" * json.dumps(example(node)).count("{"))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "STRING"}, "is not valid under"),
        ({"properties": []}, "not an object"),
        ({"enum": []}, "not a non-empty list"),
        ({"$ref": "#/$defs/gone"}, "does not resolve"),
        ([], "neither an object"),
        ({"items": {"type": "strin"}}, "/items/type"),
    ],
)
def test_a_schema_that_no_vendor_takes_is_found_out(schema: Any, words: str) -> None:
    assert words in str(schema_error(schema))


def test_strict_objects_close_themselves_and_require_everything() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert "additionalProperties" in str(schema_error(schema, strict=True))
    schema["additionalProperties"] = False
    assert "required" in str(schema_error(schema, strict=True))
    assert schema_error(schema, closed=True) is None
    assert schema_error({**schema, "required": ["a"]}, strict=True) is None
