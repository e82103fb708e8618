"""Whether Google holds an answer to all of a JSON Schema.

It takes any schema and goes by these keywords alone; the rest is text to the model at best.

Source: ``responseJsonSchema`` of ``GenerationConfig`` in the reference of generateContent ("While the full
JSON Schema may be sent, not all features are supported").
"""

from __future__ import annotations

from typing import Any, Final

from mgw.canonical.conversation import JsonObject

_ONE: Final = frozenset({"items", "additionalProperties"})
_SEVERAL: Final = frozenset({"prefixItems", "anyOf", "oneOf"})
_NAMED: Final = frozenset({"properties", "$defs"})
_PLAIN: Final = frozenset(
    {"type", "format", "required", "minItems", "maxItems", "minimum", "maximum", "$id", "$ref", "$anchor"}
)
_ABOUT: Final = frozenset({"title", "description", "default", "example", "examples", "$schema", "$comment"})
"""Says nothing of what is valid."""


def is_enforced(schema: JsonObject) -> bool:
    """Whether every rule of the schema is one that Google goes by.

    Raises: :class:`RecursionError` where it is nested too deeply.
    """
    return all(_goes_by(key, value) for key, value in schema.items())


def _goes_by(key: str, value: Any) -> bool:  # Any: whatever a client wrote
    if key in _PLAIN or key in _ABOUT:
        return True
    if key == "enum":  # "for strings and numbers"
        return type(value) is list and all(type(item) in (str, int, float) for item in value)
    if key in _ONE:
        return _holds(value)
    if key in _SEVERAL:
        return type(value) is list and all(_holds(inner) for inner in value)
    return key in _NAMED and type(value) is dict and all(_holds(inner) for inner in value.values())


def _holds(schema: Any) -> bool:  # Any: a schema is an object or a truth value, from outside
    return is_enforced(schema) if type(schema) is dict else type(schema) is bool
