"""What has become of a gateway key, in a few words for the log.

No key and no digest is named: a rotation is told by its name alone, and of other settings, that they have
changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mgw.config.key_settings import NamedKeySettings

_SETTINGS: Final = ("expires", "models", "groups", "tags", "priority")
ADDED: Final = "added"
CHANGED: Final = "changed"
REMOVED: Final = "removed"


def describe_key_change(before: NamedKeySettings | None, after: NamedKeySettings | None) -> str | None:
    """Return what has become of a key, such as ``changed (rotated, limits)``; ``None``: nothing.

    :param before: ``None``: it was not there; ``after``: it is there no more.
    """
    if before is None or after is None:
        return REMOVED if before is not None else ADDED if after is not None else None
    words = ", ".join(_differences(before, after))
    return f"{CHANGED} ({words})" if words else None


def key_changes(
    before: Mapping[str, NamedKeySettings], after: Mapping[str, NamedKeySettings]
) -> Iterator[tuple[str, str]]:
    """Yield the names of keys with what has become of them; those that are gone come first."""
    for name in before:
        if name not in after:
            yield name, REMOVED
    for name, key in after.items():
        what = describe_key_change(before.get(name), key)
        if what is not None:
            yield name, what


def _differences(before: NamedKeySettings, after: NamedKeySettings) -> Iterator[str]:
    if before.sha256 != after.sha256:
        yield "rotated"
    elif before.previous != after.previous:
        yield "previous key"
    if before.disabled != after.disabled:
        yield "disabled" if after.disabled else "enabled"
    if (before.limits, before.older_limits) != (after.limits, after.older_limits):
        yield "limits"
    yield from (name for name in _SETTINGS if getattr(before, name) != getattr(after, name))
