"""Shapes of requests as tables, and what a body does against them.

A vendor's module says which fields there are; the problems found here become errors in that vendor's words.
"""

import enum
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

Path = tuple[str | int, ...]


class ProblemKind(enum.Enum):
    """What is wrong with a value."""

    UNKNOWN = "unknown"
    MISSING = "missing"
    TYPE = "type"
    VALUE = "value"


class Problem(Struct, frozen=True):
    """One thing that is wrong: ``wanted`` and ``found`` are words for a message."""

    kind: ProblemKind
    path: Path
    wanted: str = ""
    found: str = ""


class Field(Struct, frozen=True):
    """What one value may be: its JSON types, and for each what else must hold."""

    kinds: tuple[str, ...]
    null: bool = True
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    shape: "Shape | None" = None
    items: "Field | None" = None
    variants: "dict[str, Shape] | None" = None
    """The shapes of objects that say by ``type`` which one they have."""


class Shape(Struct, frozen=True):
    """The fields of an object; without ``is_open`` no others are taken."""

    fields: dict[str, Field]
    required: tuple[str, ...] = ()
    is_open: bool = False


def string(*choices: str) -> Field:
    """Text; one of the choices where there are any."""
    return Field(("string",), choices=choices)


def integer(low: float | None = None, high: float | None = None) -> Field:
    """A whole number within bounds, both included."""
    return Field(("integer",), low=low, high=high)


def number(low: float | None = None, high: float | None = None) -> Field:
    """A number within bounds, both included."""
    return Field(("number",), low=low, high=high)


def boolean() -> Field:
    """True or false."""
    return Field(("boolean",))


def array(items: Field | None = None) -> Field:
    """A list."""
    return Field(("array",), items=items)


def mapping(shape: Shape | None = None) -> Field:
    """An object, of any content where no shape is given."""
    return Field(("object",), shape=shape)


def either(*fields: Field) -> Field:
    """A value of several types: what holds for each is taken from the field of that type."""
    return Field(
        tuple(kind for field in fields for kind in field.kinds),
        choices=tuple(choice for field in fields for choice in field.choices),
        shape=next((field.shape for field in fields if field.shape), None),
        items=next((field.items for field in fields if field.items), None),
        variants=next((field.variants for field in fields if field.variants), None),
    )


def tagged(**variants: Shape) -> Field:
    """An object whose ``type`` names its shape."""
    return Field(("object",), variants=variants)


ANYTHING = Field(())


def json_type(value: Any) -> str:  # any JSON value
    """The JSON type of a value, in words; whole numbers are ``integer``."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def find_problems(value: Any, field: Field, path: Path = ()) -> Iterator[Problem]:  # any JSON value
    """Everything that is wrong with a value, in the order in which it stands."""
    kind = json_type(value)
    if not field.kinds or (kind == "null" and field.null):
        return
    if kind not in field.kinds and not (kind == "integer" and "number" in field.kinds):
        yield Problem(ProblemKind.TYPE, path, _with_article(field.kinds), _with_article((kind,)))
        return
    if kind in {"integer", "number"}:
        yield from _find_bound_problems(value, field, path)
    elif kind == "string" and field.choices and value not in field.choices:
        yield Problem(
            ProblemKind.VALUE, path, " or ".join(f"'{choice}'" for choice in field.choices), f"'{value}'"
        )
    elif kind == "array" and field.items:
        for index, item in enumerate(value):
            if item is None:  # an absent element makes no sense, even where an absent value does
                yield Problem(ProblemKind.TYPE, (*path, index), _with_article(field.items.kinds), "null")
            else:
                yield from find_problems(item, field.items, (*path, index))
    elif kind == "object":
        yield from _find_object_problems(value, field, path)


def _with_article(kinds: tuple[str, ...]) -> str:
    return " or ".join("null" if kind == "null" else f"a{'n' * (kind[0] in 'aio')} {kind}" for kind in kinds)


def _find_bound_problems(value: float, field: Field, path: Path) -> Iterator[Problem]:
    if field.low is not None and value < field.low:
        yield Problem(ProblemKind.VALUE, path, f"a value >= {field.low}", str(value))
    if field.high is not None and value > field.high:
        yield Problem(ProblemKind.VALUE, path, f"a value <= {field.high}", str(value))


def _find_object_problems(
    value: dict[str, Any], field: Field, path: Path
) -> Iterator[Problem]:  # an object of JSON
    shape = field.shape
    if field.variants is not None:
        tag = value.get("type")
        shape = field.variants.get(tag) if isinstance(tag, str) else None
        if shape is None:
            kind = ProblemKind.VALUE if "type" in value else ProblemKind.MISSING
            yield Problem(
                kind, (*path, "type"), " or ".join(f"'{name}'" for name in field.variants), f"'{tag}'"
            )
            return
    if shape is None:
        return
    for name in shape.required:
        if value.get(name) is None:
            yield Problem(ProblemKind.MISSING, (*path, name))
    for name, item in value.items():
        field_of_name = shape.fields.get(name)
        if field_of_name is not None:
            yield from find_problems(item, field_of_name, (*path, name))
        elif not shape.is_open and not (name == "type" and field.variants is not None):
            yield Problem(ProblemKind.UNKNOWN, (*path, name))
