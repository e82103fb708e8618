"""Schemas as OpenAI takes them: an object at the root, and the rules of strict mode.

Sources: the guide on structured outputs ("Supported schemas"; "Root objects must not be ``anyOf`` and must be
an object"), the SDK's ``to_strict_json_schema``, and the API's own words for two rules that the guide does
not name ("'default' is not permitted", "Objects provided via 'anyOf' must not share identical first keys").

A root without ``type`` and a reference at the root are refused, too, where other families take any root.  So
a root is completed, resolved or, for an answer, wrapped in an object with one member, and the answer
unwrapped again (:mod:`mgw.dialects.unwrapping`).  A schema that breaks a rule of strict mode is refused, and
the whole request with it, so strict mode is asked for only where a schema keeps them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from mgw.canonical.conversation import JsonObject
from mgw.dialects.unwrapping import MEMBER

_DEFINITIONS: Final = ("$defs", "definitions")
_KEPT_KEYS: Final = ("$schema", *_DEFINITIONS)
_NON_OBJECT_KEYS: Final = frozenset(
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
_LOCAL_REFERENCE: Final = re.compile(r"#(?:/|\Z)")
"""A reference into the schema itself."""
_DEFINITION_PREFIXES: Final = tuple(f"#/{key}/" for key in _DEFINITIONS)

_MAX_DEPTH: Final = 5
_MAX_PROPERTIES: Final = 5_000
_MAX_ENUM_VALUES: Final = 1_000
"""Values of all enumerations together."""
_MAX_CHARACTERS: Final = 120_000
"""The most characters in names of properties and definitions, and in values of ``enum`` and ``const``."""
_LONG_ENUM: Final = 250
_LONG_ENUM_CHARACTERS: Final = 15_000

_ROOT_KEYS: Final = frozenset({*_DEFINITIONS, "$schema"})
_KNOWN_KEYS: Final = frozenset(
    {
        *("type", "title", "description", "enum", "const", "anyOf", "pattern", "format"),
        *("properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
        *("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    }
)
_UNION_KEYS: Final = frozenset({"anyOf", "title", "description"})
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_LOOKAROUND: Final = re.compile(r"\(\?<?[=!]")


def resolve_root(schema: JsonObject) -> JsonObject:
    """Return the schema with what its root refers to in place of the reference."""
    root, seen = schema, set()
    while type(reference := schema.get("$ref")) is str and reference not in seen:
        seen.add(reference)
        target = _find_target(root, reference)
        if target is None:
            break
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
        if "$ref" in target:
            schema["$ref"] = target["$ref"]
    return schema


def wrap_root(schema: JsonObject) -> tuple[JsonObject, bool]:
    """Return an answer's schema with an object at its root, and whether it had to be wrapped."""
    schema = resolve_root(schema)
    kind = schema.get("type")
    if kind == "object":
        return schema, False
    if kind == ["object"] or (
        kind is None and ("properties" in schema or not schema.keys() & _NON_OBJECT_KEYS)
    ):
        return {"type": "object", **schema, **({} if kind is None else {"type": "object"})}, False
    return _wrap(schema), True


def _find_target(root: JsonObject, reference: str) -> JsonObject | None:
    """Return what a reference into the schema itself means (RFC 6901)."""
    if not reference.startswith("#/"):
        return None
    found: Any = root  # Any: a schema, from outside
    for step in reference[2:].split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if type(found) is dict else None
    return found if type(found) is dict else None


def _wrap(schema: JsonObject) -> JsonObject:
    kept: JsonObject = {key: schema[key] for key in _KEPT_KEYS if key in schema}
    inner = {key: value for key, value in schema.items() if key not in kept}
    with suppress(RecursionError):  # whoever writes the request says that it is nested too deeply
        inner, kept = _move_references(inner), _move_references(kept)
    return {
        "type": "object",
        "properties": {MEMBER: inner},
        "required": [MEMBER],
        "additionalProperties": False,
        **kept,
    }


def _move_references(value: Any) -> Any:  # Any: a schema, from outside
    """Return part of a schema with its references to the former root leading where that is now."""
    if type(value) is list:
        return [_move_references(item) for item in value]
    if type(value) is not dict:
        return value
    moved = {key: _move_references(item) for key, item in value.items()}
    reference = moved.get("$ref")
    if (
        type(reference) is str
        and _LOCAL_REFERENCE.match(reference)
        and not reference.startswith(_DEFINITION_PREFIXES)
    ):
        moved["$ref"] = f"#/properties/{MEMBER}{reference[1:]}"
    return moved


def fits_strict(schema: JsonObject) -> bool:
    """Whether OpenAI takes the schema with ``strict: true``; one without end does not fit."""
    if schema.get("type") != "object" or "anyOf" in schema:
        return False
    try:
        return _StrictWalk(schema).fits()
    except RecursionError:
        return False


class _StrictWalk:
    """One walk through a schema, and what it has counted."""

    __slots__ = ("_characters", "_enum_values", "_named", "_properties", "_root")

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._named: dict[str, Any] = {"#": root}  # Any: schemas, from outside
        self._properties = 0
        self._enum_values = 0
        self._characters = 0

    def fits(self) -> bool:
        """Whether the whole schema keeps the rules."""
        for key in _DEFINITIONS:
            definitions = self._root.get(key, {})
            if type(definitions) is not dict:
                return False
            self._characters += _length(definitions)
            self._named |= {f"#/{key}/{name}": inner for name, inner in definitions.items()}
        root = {key: value for key, value in self._root.items() if key not in _ROOT_KEYS}
        others = (inner for name, inner in self._named.items() if name != "#")
        return (
            self._fits_schema(root, 1)
            and all(self._fits_schema(inner, 1) for inner in others)
            and self._properties <= _MAX_PROPERTIES
            and self._enum_values <= _MAX_ENUM_VALUES
            and self._characters <= _MAX_CHARACTERS
        )

    def _fits_schema(self, schema: Any, depth: int) -> bool:  # Any: whatever a client wrote
        if type(schema) is not dict or depth > _MAX_DEPTH:
            return False
        if "$ref" in schema:
            target = schema["$ref"]
            return len(schema) == 1 and type(target) is str and target in self._named
        if not schema.keys() <= _KNOWN_KEYS or not self._has_known_values(schema):
            return False
        if "anyOf" in schema:
            return schema.keys() <= _UNION_KEYS and self._fits_union(schema["anyOf"], depth)
        kinds = _types_of(schema)
        return (
            kinds is not None
            and ("object" not in kinds or self._fits_object(schema, depth))
            and ("array" not in kinds or self._fits_schema(schema.get("items"), depth + 1))
        )

    def _fits_object(self, schema: JsonObject, depth: int) -> bool:
        """Whether an object is closed, and demands all that it has."""
        properties = schema.get("properties")
        required = schema.get("required", [])
        if type(properties) is not dict or type(required) is not list:
            return False
        if schema.get("additionalProperties") is not False:
            return False
        names = {name for name in required if type(name) is str}
        if len(names) != len(required) or names != properties.keys():
            return False
        self._properties += len(properties)
        self._characters += _length(properties)
        return all(self._fits_schema(inner, depth + 1) for inner in properties.values())

    def _fits_union(self, members: Any, depth: int) -> bool:  # Any: whatever a client wrote
        if type(members) is not list or not members:
            return False
        if not all(self._fits_schema(member, depth) for member in members):
            return False
        found = [self._discriminator(member) for member in members]
        keys = [key for key in found if key is not None]
        return len(set(keys)) == len(keys)

    def _discriminator(self, member: JsonObject) -> tuple[str, str] | None:
        """Return the first key of an object, and the value that tells it from others with this key."""
        target = self._named[member["$ref"]] if "$ref" in member else member
        properties = target.get("properties") if type(target) is dict else None
        if type(properties) is not dict or not properties:
            return None
        key, inner = next(iter(properties.items()))
        if type(inner) is not dict:
            return None
        values = [inner["const"]] if "const" in inner else inner.get("enum")
        return key, repr(values) if type(values) is list and len(values) == 1 else ""

    def _has_known_values(self, schema: JsonObject) -> bool:
        """Whether enumerations, patterns and formats are such as are known; if so, they count."""
        pattern = schema.get("pattern", "")
        if type(pattern) is not str or _LOOKAROUND.search(pattern):
            return False
        if "format" in schema and not (type(schema["format"]) is str and schema["format"] in _FORMATS):
            return False
        if "const" in schema:
            self._characters += _length([schema["const"]])
        values = schema.get("enum")
        if values is None:
            return "enum" not in schema
        if type(values) is not list or not values:
            return False
        length = _length(values)
        self._enum_values += len(values)
        self._characters += length
        return len(values) <= _LONG_ENUM or length <= _LONG_ENUM_CHARACTERS


def _types_of(schema: JsonObject) -> set[str] | None:
    """Return the types that a schema names; ``None`` where it names none, or no such."""
    stated = schema.get("type")
    kinds = stated if type(stated) is list else [stated]
    if not kinds or not all(type(kind) is str and kind in _TYPES for kind in kinds):
        return None
    return set(kinds)


def _length(texts: Iterable[Any]) -> int:  # Any: whatever a client wrote
    return sum(len(text) for text in texts if type(text) is str)
