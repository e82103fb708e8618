"""The gateway keys with names, as commands and the dashboard list them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import tzinfo
from math import inf
from typing import Final

from msgspec import Struct

from mgw.config.file_faults import shown_path
from mgw.config.key_settings import NamedKeySettings
from mgw.config.time_zones import rfc3339
from mgw.nouns.key_state import KeyState, key_state

IN_CONFIG: Final = "config"
IN_DIRECTORY: Final = "keys_dir"


class KeyRow(Struct, frozen=True, omit_defaults=True):
    """What may be seen of a key."""

    name: str
    state: KeyState
    where: str
    """Whether it is a key of the configuration or of a file."""
    groups: tuple[str, ...] = ()
    expires: str | None = None
    """RFC 3339."""
    previous_expires: str | None = None
    """Until when the key from before a rotation is valid too, in RFC 3339; ``None``: it is not."""


def key_row(key: NamedKeySettings, now: float, zone: tzinfo, where: str) -> KeyRow:
    """Return what may be seen of a key.

    :param zone: where the day ends that its settings may state.
    """
    ends = None if key.expires is None else key.expires.ends(zone)
    state = key_state(is_disabled=key.disabled, expires=ends, now=now)
    expires, previous = None if ends is None else rfc3339(ends), None
    if key.previous is not None and state is KeyState.ACTIVE:
        both_end = min(key.previous.expires.ends(zone), inf if ends is None else ends)
        previous = rfc3339(both_end) if both_end > now else None
    return KeyRow(key.name, state, where, key.groups, expires, previous)


def file_rows(
    keys: Mapping[str, NamedKeySettings], faults: Iterable[str], now: float, zone: tzinfo
) -> list[KeyRow]:
    """Return what may be seen of key files, sorted by name.

    :param keys: those in force, by name.
    :param faults: the names of files that cannot be used: of a key that is in force nevertheless, or not; the
        empty one stands for the directory.
    """
    rows = [key_row(key, now, zone, IN_DIRECTORY) for key in keys.values()]
    rows += [
        KeyRow(shown_path(name), KeyState.INVALID, IN_DIRECTORY)
        for name in faults
        if name and name not in keys
    ]
    return sorted(rows, key=lambda row: row.name)
