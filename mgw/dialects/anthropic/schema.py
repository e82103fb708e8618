"""What this vendor enforces of a JSON Schema, and how the rest is described.

Source: the guide on structured outputs ("JSON Schema limitations", "How SDK transformation works") and the
SDK's ``transform_schema``.  Structured outputs and strict tools share the limits: every object closes itself
with ``additionalProperties: false``; bounds of numbers, lengths and lists are refused, as are look-arounds in
patterns.  An output's schema is brought within the limits the way that the SDK does it: what cannot be
enforced goes into the description, where the model reads it.  A tool's schema stays as it is, and its
strictness goes.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec.json import Encoder

from mgw.canonical.conversation import JsonObject

MAX_STRICT_TOOLS: Final = 20
MAX_OPTIONAL: Final = 24
"""Parameters that are not required, in all strict tools together."""
MAX_UNIONS: Final = 16
"""Parameters of several types, in all strict tools together."""

_ENCODER: Final = Encoder()
_FORMATS: Final = frozenset(
    "date-time time date duration email hostname uri ipv4 ipv6 uuid".split()  # noqa: SIM905  a list of words
)
_SUPPORTED: Final = frozenset({"type", "title", "description", "enum", "const", "default", "required"})
_ANNOTATIONS: Final = frozenset({"$schema", "$id", "$comment"})
"""Keywords that restrict nothing."""
_MAPS: Final = frozenset({"properties", "$defs", "definitions"})
_LISTS: Final = frozenset({"anyOf", "allOf", "oneOf"})
_BY_REFERENCE: Final = frozenset({"$ref", "$defs", "definitions"})
_UNSUPPORTED_PATTERN: Final = re.compile(r"\(\?[^:]|\\[bB1-9]")


def restrict_schema(schema: JsonObject) -> tuple[JsonObject, bool]:
    """Return the schema within the limits, and whether some of it is only described."""
    restriction = _Restriction()
    return restriction.restrict(schema), restriction.is_weaker


class StrictToolBudget:
    """Which tools of a request can be strict: those whose schemas are within the limits, as many as fit."""

    __slots__ = ("_optional", "_tools", "_unions")

    def __init__(self) -> None:
        self._tools = MAX_STRICT_TOOLS
        self._optional = MAX_OPTIONAL
        self._unions = MAX_UNIONS

    def admits(self, schema: JsonObject) -> bool:
        """Whether a tool with this schema can be strict; if so, it counts."""
        if restrict_schema(schema)[0] != schema:
            return False
        optional, unions = _complexity(schema)
        if not self._tools or optional > self._optional or unions > self._unions:
            return False
        self._tools -= 1
        self._optional -= optional
        self._unions -= unions
        return True


class _Restriction:
    """Brings one schema within the limits."""

    __slots__ = ("is_weaker",)

    def __init__(self) -> None:
        self.is_weaker = False

    def restrict(self, schema: Any) -> Any:  # Any: a schema is an object or a truth value, from outside
        if type(schema) is not dict:
            return schema
        if "$ref" in schema:
            return {key: self._value(key, schema[key]) for key in schema if key in _BY_REFERENCE}
        found: JsonObject = {}
        described: JsonObject = {}
        for key, value in schema.items():
            if key == "additionalProperties" and not (type(value) is dict and value):
                self.is_weaker |= value is not False
            elif key in _ANNOTATIONS:
                continue
            elif self._is_enforced(key, value):
                found["anyOf" if key == "oneOf" else key] = self._value(key, value)
            else:
                described[key] = value
        if _is_object(schema):
            found["additionalProperties"] = False
        if described:
            self.is_weaker = True
            description = found.get("description")
            rest = _ENCODER.encode(described).decode()
            if type(description) is str and description:
                rest = f"{description}\n\n{rest}"
            found["description"] = rest
        return found

    def _is_enforced(self, key: str, value: Any) -> bool:  # Any: whatever a client wrote
        if key in _SUPPORTED or key in _MAPS or key in _LISTS or key == "items":
            return True
        if key == "format":
            return type(value) is str and value in _FORMATS
        if key == "minItems":
            return value in {0, 1} if type(value) is int else False
        return key == "pattern" and type(value) is str and not _UNSUPPORTED_PATTERN.search(value)

    def _value(self, key: str, value: Any) -> Any:  # Any: whatever a client wrote
        if key in _MAPS and type(value) is dict:
            return {name: self.restrict(inner) for name, inner in value.items()}
        if key in _LISTS and type(value) is list:
            return [self.restrict(inner) for inner in value]
        return self.restrict(value) if key == "items" else value


def _is_object(schema: JsonObject) -> bool:
    kind = schema.get("type")
    return kind == "object" or (type(kind) is list and "object" in kind) or "properties" in schema


def _complexity(schema: Any) -> tuple[int, int]:  # Any: a schema is an object or a truth value
    """Return how many parameters are optional, and how many are unions."""
    if type(schema) is not dict:
        return 0, 0
    properties = schema.get("properties")
    required = schema.get("required")
    inner: list[Any] = []
    optional = 0
    if type(properties) is dict:
        inner += properties.values()
        named = {name for name in required if type(name) is str} if type(required) is list else set()
        optional = len(properties.keys() - named)
    unions = int("anyOf" in schema or type(schema.get("type")) is list)
    for key in ("$defs", "definitions"):
        if type(schema.get(key)) is dict:
            inner += schema[key].values()
    for key in ("anyOf", "allOf"):
        if type(schema.get(key)) is list:
            inner += schema[key]
    inner.append(schema.get("items"))
    for one in inner:
        more_optional, more_unions = _complexity(one)
        optional += more_optional
        unions += more_unions
    return optional, unions
