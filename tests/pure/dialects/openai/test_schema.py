"""Which schemas OpenAI takes in strict mode."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.dialects.openai.schema import fits_strict

Json = Any  # Any: JSON as it was found

TEXT: Json = {"type": "string"}


def closed(properties: Json, **more: Json) -> Json:
    """Return a schema of an object that has these properties, and no others."""
    said = {"type": "object", "properties": properties, "required": list(properties)}
    return {**said, "additionalProperties": False, **more}


def deep(levels: int) -> Json:
    """Return objects within objects."""
    schema = closed({})
    for _ in range(levels - 1):
        schema = closed({"a": schema})
    return schema


def union(*members: Json) -> Json:
    """Return an object whose one property is any of these."""
    return closed({"a": {"anyOf": list(members)}})


CAT: Json = closed({"kind": {"type": "string", "const": "cat"}, "lives": {"type": "integer"}})
DOG: Json = closed({"kind": {"type": "string", "enum": ["dog"]}})


@pytest.mark.parametrize(
    "schema",
    [
        closed({}),
        {"type": "object", "properties": {}, "additionalProperties": False},
        closed({"a": TEXT, "b": {"type": ["integer", "null"], "minimum": 1, "multipleOf": 2}}),
        closed({"a": {"type": "array", "items": closed({"b": TEXT}), "minItems": 1}}),
        closed({"a": {"type": "string", "pattern": "^x+$", "format": "date"}}, title="t", description="d"),
        closed({"properties": TEXT, "default": TEXT}),
        union(TEXT, {"type": "null"}),
        union(CAT, DOG, {"type": "null"}),
        union(closed({"a": TEXT}), closed({"b": TEXT})),
        closed({"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}),
        closed({"a": {"$ref": "#/$defs/b"}}, **{"$defs": {"b": CAT}, "$schema": "x"}),
        closed({"a": {"$ref": "#/definitions/b"}}, definitions={"b": TEXT}),
        deep(5),
    ],
)
def test_a_schema_within_the_rules_fits(schema: Json) -> None:
    assert fits_strict(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {}},
        {"type": "object", "additionalProperties": False},
        closed({}, additionalProperties=True),
        closed({"a": TEXT}, required=[]),
        closed({"a": TEXT}, required=["a", "b"]),
        closed({"a": TEXT}, required=["a", "a"]),
        closed({"a": {"type": "object", "properties": {}}}),
        closed({"a": {"type": ["object", "null"], "properties": {}}}),
        closed({"a": {"type": "array"}}),
        closed({"a": {"type": "array", "items": {"type": "object"}}}),
        closed({"a": {}}),
        closed({"a": True}),
        closed({"a": {"type": "any"}}),
        closed({"a": {"enum": ["x"]}}),
        closed({"a": {"type": "string", "enum": []}}),
        closed({"a": {"type": "string", "default": "x"}}),
        closed({"a": {"type": "string", "minLength": 1}}),
        closed({"a": {"type": "string", "format": "uri"}}),
        closed({"a": {"type": "string", "pattern": "(?=x)"}}),
        closed({"a": {"type": "string", "pattern": "(?<!x)"}}),
        closed({"a": {"oneOf": [TEXT]}}),
        closed({"a": {"allOf": [TEXT]}}),
        closed({"a": {"anyOf": [TEXT], "type": "string"}}),
        union(),
        union({"type": "object"}),
        union(closed({"a": TEXT}), closed({"a": TEXT, "b": TEXT})),
        closed({"a": TEXT}, anyOf=[TEXT]),
        closed({"a": TEXT}, **{"not": {}}),
        closed({"a": {"$ref": "#/$defs/b"}}),
        closed({"a": {"$ref": "#/$defs/b", "description": "d"}}, **{"$defs": {"b": TEXT}}),
        closed({}, **{"$defs": {"b": {"type": "object"}}}),
        closed({}, **{"$defs": []}),
        deep(6),
        closed({str(number): TEXT for number in range(5_001)}),
        closed({"a": {"type": "integer", "enum": list(range(1_001))}}),
        closed({"a": {"type": "string", "enum": [f"{number:0100}" for number in range(251)]}}),
        closed({"a" * 120_001: TEXT}),
        {"type": "array", "items": TEXT},
    ],
)
def test_a_schema_that_breaks_a_rule_does_not_fit(schema: Json) -> None:
    assert not fits_strict(schema)


def test_a_schema_without_end_does_not_fit() -> None:
    schema: Json = {"type": "null"}
    for _ in range(100_000):
        schema = {"anyOf": [schema]}
    assert not fits_strict(closed({"a": schema}))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_KEYS = st.sampled_from(
    [*"type enum const anyOf $ref pattern format properties required items $defs definitions".split()]  # noqa: SIM905
)


@given(_KEYS, _JSON, _KEYS, _JSON)
def test_no_schema_is_an_error(key: str, value: Json, other: str, inner: Json) -> None:
    assert fits_strict(closed({"a": {"type": "string", key: value, other: inner}})) in {True, False}
    assert fits_strict({**closed({"a": {"$ref": "#/$defs/b"}}), "$defs": {"b": value}, key: inner}) in {
        True,
        False,
    }
    assert fits_strict(union({"$ref": "#/$defs/b"}) | {"$defs": {"b": {key: value, other: inner}}}) in {
        True,
        False,
    }
