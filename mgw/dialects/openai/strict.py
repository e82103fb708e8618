"""Whether a schema keeps the rules of OpenAI's strict mode, for tools and for answers.

A schema that breaks one is refused, and the whole request with it.  Sources: the guide on structured outputs
("Supported schemas"), the SDK's ``to_strict_json_schema``, and the API's own words for two rules that the
guide does not name ("'default' is not permitted", "Objects provided via 'anyOf' must not share identical
first keys").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from mgw.canonical.conversation import JsonObject

_DEEPEST: Final = 5
_MOST_PROPERTIES: Final = 5_000
_MOST_WORDS: Final = 1_000
"""Values of all enumerations together."""
_MOST_CHARACTERS: Final = 120_000
"""Of names of properties and definitions, and of values of ``enum`` and ``const``."""
_LONG_ENUM: Final = 250
_LONG_ENUM_CHARACTERS: Final = 15_000

_DEFINITIONS: Final = ("$defs", "definitions")
_AT_ROOT: Final = frozenset({*_DEFINITIONS, "$schema"})
_KNOWN: Final = frozenset(
    {
        *("type", "title", "description", "enum", "const", "anyOf", "pattern", "format"),
        *("properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
        *("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    }
)
_BESIDE_UNION: Final = frozenset({"anyOf", "title", "description"})
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_LOOKS_AROUND: Final = re.compile(r"\(\?<?[=!]")


def fits_strict(schema: JsonObject) -> bool:
    """Whether OpenAI takes the schema with ``strict: true``; one without end does not fit."""
    if schema.get("type") != "object" or "anyOf" in schema:
        return False
    try:
        return _Walk(schema).fits()
    except RecursionError:
        return False


class _Walk:
    """One walk through a schema, and what it has counted."""

    __slots__ = ("_characters", "_named", "_properties", "_root", "_words")

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._named: dict[str, Any] = {"#": root}  # Any: schemas, from outside
        self._properties = 0
        self._words = 0
        self._characters = 0

    def fits(self) -> bool:
        """Whether the whole schema keeps the rules."""
        for key in _DEFINITIONS:
            definitions = self._root.get(key, {})
            if type(definitions) is not dict:
                return False
            self._characters += _length(definitions)
            self._named |= {f"#/{key}/{name}": inner for name, inner in definitions.items()}
        root = {key: value for key, value in self._root.items() if key not in _AT_ROOT}
        others = (inner for name, inner in self._named.items() if name != "#")
        return (
            self._schema(root, 1)
            and all(self._schema(inner, 1) for inner in others)
            and self._properties <= _MOST_PROPERTIES
            and self._words <= _MOST_WORDS
            and self._characters <= _MOST_CHARACTERS
        )

    def _schema(self, schema: Any, depth: int) -> bool:  # Any: whatever a client wrote
        if type(schema) is not dict or depth > _DEEPEST:
            return False
        if "$ref" in schema:
            target = schema["$ref"]
            return len(schema) == 1 and type(target) is str and target in self._named
        if not schema.keys() <= _KNOWN or not self._says_values(schema):
            return False
        if "anyOf" in schema:
            return schema.keys() <= _BESIDE_UNION and self._union(schema["anyOf"], depth)
        kinds = _types(schema)
        return (
            kinds is not None
            and ("object" not in kinds or self._object(schema, depth))
            and ("array" not in kinds or self._schema(schema.get("items"), depth + 1))
        )

    def _object(self, schema: JsonObject, depth: int) -> bool:
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
        return all(self._schema(inner, depth + 1) for inner in properties.values())

    def _union(self, members: Any, depth: int) -> bool:  # Any: whatever a client wrote
        if type(members) is not list or not members:
            return False
        if not all(self._schema(member, depth) for member in members):
            return False
        begins = [begin for member in members if (begin := self._begin(member)) is not None]
        return len(set(begins)) == len(begins)

    def _begin(self, member: JsonObject) -> tuple[str, str] | None:
        """Return the first key of an object, and the value that tells it from others with this key."""
        target = self._named[member["$ref"]] if "$ref" in member else member
        properties = target.get("properties") if type(target) is dict else None
        if type(properties) is not dict or not properties:
            return None
        key, inner = next(iter(properties.items()))
        if type(inner) is not dict:
            return None
        said = [inner["const"]] if "const" in inner else inner.get("enum")
        return key, repr(said) if type(said) is list and len(said) == 1 else ""

    def _says_values(self, schema: JsonObject) -> bool:
        """Whether enumerations, patterns and formats are such as are known; if so, they count."""
        pattern = schema.get("pattern", "")
        if type(pattern) is not str or _LOOKS_AROUND.search(pattern):
            return False
        if "format" in schema and not (type(schema["format"]) is str and schema["format"] in _FORMATS):
            return False
        if "const" in schema:
            self._characters += _length([schema["const"]])
        words = schema.get("enum")
        if words is None:
            return "enum" not in schema
        if type(words) is not list or not words:
            return False
        length = _length(words)
        self._words += len(words)
        self._characters += length
        return len(words) <= _LONG_ENUM or length <= _LONG_ENUM_CHARACTERS


def _types(schema: JsonObject) -> set[str] | None:
    """Return the types that a schema names; ``None`` where it names none, or no such."""
    said = schema.get("type")
    kinds = said if type(said) is list else [said]
    if not kinds or not all(type(kind) is str and kind in _TYPES for kind in kinds):
        return None
    return set(kinds)


def _length(words: Iterable[Any]) -> int:  # Any: whatever a client wrote
    return sum(len(word) for word in words if type(word) is str)
