"""Enumerations of proto3 JSON: names, or the numbers that Google's older SDKs write for them.

Sources: https://protobuf.dev/programming-guides/json/; the types of google-ai-generativelanguage 0.12.
"""

from __future__ import annotations

from typing import Final

from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields

MODES: Final = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")
"""``FunctionCallingConfig.Mode`` by its numbers, and so the others."""
TYPES: Final = ("TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL")
RESOLUTIONS: Final = tuple(f"MEDIA_RESOLUTION_{name}" for name in ("UNSPECIFIED", "LOW", "MEDIUM", "HIGH"))
PART_RESOLUTIONS: Final = (*RESOLUTIONS, "MEDIA_RESOLUTION_ULTRA_HIGH")
MODALITIES: Final = ("MODALITY_UNSPECIFIED", "TEXT", "IMAGE", "AUDIO")


def named(value: object, names: tuple[str, ...]) -> object:
    """Return the name of a number; the value itself where it is no number of one."""
    return names[value] if type(value) is int and 0 <= value < len(names) else value


def enum_text(fields: Fields, key: str, names: tuple[str, ...], feature: Feature | None = None) -> str | None:
    """Take a name, which may be written as its number."""
    value = named(fields.take(key, feature), names)
    if value is None or type(value) is str:
        return value
    raise fields.mistyped(key, str, value)
