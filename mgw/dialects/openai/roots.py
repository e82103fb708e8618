"""Schemas whose root is no object, as OpenAI takes them.

Source: the guide on structured outputs ("Root objects must not be ``anyOf`` and must be an object").  A root
without ``type`` and a reference at the root are refused, too.  Other families take any root.  So a root is
completed, resolved or, for an answer, wrapped in an object with one member, and the answer unwrapped again
(:mod:`mgw.dialects.unwrapping`).
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final

from mgw.canonical.conversation import JsonObject
from mgw.dialects.unwrapping import MEMBER

_DEFINITIONS: Final = ("$defs", "definitions")
_KEPT_AT_ROOT: Final = ("$schema", *_DEFINITIONS)
_NO_OBJECTS: Final = frozenset(
    {
        *("$ref", "anyOf", "oneOf", "allOf", "not", "if", "enum", "const", "pattern", "format"),
        *(
            "items",
            "prefixItems",
            "contains",
            "minItems",
            "maxItems",
            "uniqueItems",
            "minLength",
            "maxLength",
        ),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    }
)
"""What a root without ``type`` may hold that is not, or not surely, an object."""
_OWN: Final = re.compile(r"#(?:/|\Z)")
"""A reference into the schema itself."""
_INTO_DEFINITIONS: Final = tuple(f"#/{key}/" for key in _DEFINITIONS)


def resolved(schema: JsonObject) -> JsonObject:
    """Return the schema with what its root refers to in place of the reference."""
    root, seen = schema, set()
    while type(reference := schema.get("$ref")) is str and reference not in seen:
        seen.add(reference)
        target = _target(root, reference)
        if target is None:
            break
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
        if "$ref" in target:
            schema["$ref"] = target["$ref"]
    return schema


def with_object_root(schema: JsonObject) -> tuple[JsonObject, bool]:
    """Return an answer's schema with an object at its root, and whether it had to be wrapped."""
    schema = resolved(schema)
    kind = schema.get("type")
    if kind == "object":
        return schema, False
    if kind == ["object"] or (kind is None and ("properties" in schema or not schema.keys() & _NO_OBJECTS)):
        return {"type": "object", **schema, **({} if kind is None else {"type": "object"})}, False
    return _wrapped(schema), True


def _target(root: JsonObject, reference: str) -> JsonObject | None:
    """Return what a reference into the schema itself means (RFC 6901)."""
    if not reference.startswith("#/"):
        return None
    found: Any = root  # Any: a schema, from outside
    for step in reference[2:].split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if type(found) is dict else None
    return found if type(found) is dict else None


def _wrapped(schema: JsonObject) -> JsonObject:
    kept: JsonObject = {key: schema[key] for key in _KEPT_AT_ROOT if key in schema}
    inner = {key: value for key, value in schema.items() if key not in kept}
    with suppress(RecursionError):  # whoever writes the request says that it is nested too deeply
        inner, kept = _moved(inner), _moved(kept)
    return {
        "type": "object",
        "properties": {MEMBER: inner},
        "required": [MEMBER],
        "additionalProperties": False,
        **kept,
    }


def _moved(value: Any) -> Any:  # Any: a schema, from outside
    """Return part of a schema with its references to the former root leading where that is now."""
    if type(value) is list:
        return [_moved(item) for item in value]
    if type(value) is not dict:
        return value
    moved = {key: _moved(item) for key, item in value.items()}
    reference = moved.get("$ref")
    if type(reference) is str and _OWN.match(reference) and not reference.startswith(_INTO_DEFINITIONS):
        moved["$ref"] = f"#/properties/{MEMBER}{reference[1:]}"
    return moved
