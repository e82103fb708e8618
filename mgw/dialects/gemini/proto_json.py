"""Numbers and enumerations of proto3 JSON: what other JSON writes in one way has two here.

A number may be a string.  A member of an enumeration is a name, or the number that Google's older SDKs write
for it.

Sources: https://protobuf.dev/programming-guides/json/; the types of google-ai-generativelanguage 0.12.
"""

from __future__ import annotations

from math import isfinite

from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields


def parse_number(fields: Fields, key: str, feature: Feature | None = None) -> float | None:
    """Take a number, which may be written as a string."""
    value = fields.take(key, feature)
    if value is None or type(value) is int:
        return value
    if type(value) is str:
        try:
            value = float(value)
        except ValueError:
            raise fields.mistyped(key, float, value) from None
    if type(value) is float:
        if not isfinite(value):
            raise fields.wrong(key, "the number is out of range")
        return value
    raise fields.mistyped(key, float, value)


def parse_integer(fields: Fields, key: str, feature: Feature | None = None) -> int | None:
    """Take a whole number, which may be written as a string; what follows its point does not count."""
    value = parse_number(fields, key, feature)
    if value is None:
        return None
    if not -(2.0**63) <= value < 2.0**63:
        raise fields.wrong(key, "the number is out of range")
    return int(value)


def parse_enum(
    fields: Fields, key: str, names: tuple[str, ...], feature: Feature | None = None
) -> str | None:
    """Take a name, which may be written as its number: its place among ``names``."""
    value = fields.take(key, feature)
    if value is None:
        return None
    value = enum_name(value, names)
    if type(value) is str:
        return value
    raise fields.mistyped(key, str, value)


def enum_name(value: object, names: tuple[str, ...]) -> object:
    """Return the name of a number; the value itself where it is no number of one."""
    return names[value] if type(value) is int and 0 <= value < len(names) else value
