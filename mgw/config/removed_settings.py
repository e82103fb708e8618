"""Settings that were removed and are still accepted, with a warning, for one minor version."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.config.yaml_document import Value

REMOVED: Final = MappingProxyType(
    {
        "express": (
            "removed, since all requests take one path now: delete this setting, which the next minor "
            "version will reject"
        ),
    }
)
"""What is said of each, by its name at the top of a file."""


def without_removed(settings: dict[str, Value]) -> tuple[dict[str, Value], tuple[str, ...]]:
    """Return the settings of a file that still mean something, and the names of the others."""
    removed = tuple(name for name in settings if name in REMOVED)
    return {name: value for name, value in settings.items() if name not in removed}, removed
