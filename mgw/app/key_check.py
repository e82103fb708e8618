"""What ``mgw check`` says of gateway keys with names: files, patterns of models, and keys that end soon."""

from __future__ import annotations

import os
import re
import stat
from datetime import UTC, datetime
from typing import Final

from mgw.config.advice import key_file_patterns
from mgw.config.limit_advice import PERSISTENT, needs_persistence
from mgw.config.problems import dotted_path
from mgw.config.quoting import shown
from mgw.config.settings import Config
from mgw.config.time_zones import zone_of
from mgw.identity.key_rules import key_rules
from mgw.identity.keys_dir import ENDING, KeysDirectory, unreadable_directory

SOON_SECONDS: Final = 14 * 86_400
"""A key that expires sooner is named."""
MOST_NAMED: Final = 5
_LIKE_A_KEY_FILE: Final = re.compile(r"[^.].*\.ya?ml", re.IGNORECASE)


def directory_problem(config: Config) -> list[str]:
    """Return what keeps the directory of key files from being read, and the gateway from starting."""
    path = config.edge_auth.keys_dir
    fault = None if path is None else unreadable_directory(path)
    return [] if fault is None else [f"edge_auth.keys_dir: {fault}"]


def read_key_files(config: Config) -> KeysDirectory | None:
    """Read the key files; ``None``: there are none to read."""
    path = config.edge_auth.keys_dir
    if path is None or unreadable_directory(path) is not None:
        return None
    found = KeysDirectory(path, key_rules(config))
    found.read_all()
    return found


def key_warnings(config: Config, files: KeysDirectory | None, now: float) -> list[str]:
    """Return warnings about keys that end soon, patterns that match no model, and a directory open to others.

    :param now: Unix seconds.
    """
    zone, found = zone_of(config.edge_auth.timezone), []
    keys = [
        (key, dotted_path(("edge_auth", "keys", key.position, "expires"))) for key in config.edge_auth.named
    ]
    if files is not None:
        keys += [(key, "edge_auth.keys_dir") for key in files.keys.values()]
    ends = sorted(
        (key.expires.ends(zone), where, key.name) for key, where in keys if key.expires and not key.disabled
    )
    soon = [entry for entry in ends if now < entry[0] < now + SOON_SECONDS]
    for seconds, where, name in soon[:MOST_NAMED]:
        moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        found.append(f"{where}: the key {shown(name)} expires at {moment}")
    if len(soon) > MOST_NAMED:
        found.append(f"edge_auth: {len(soon) - MOST_NAMED} more keys expire within 14 days")
    return [
        *found,
        *_unmatched_patterns(config, files),
        *_lost_by_redis(config, files),
        *_other_endings(config),
        *_writable_by_others(config),
    ]


def _other_endings(config: Config) -> list[str]:
    """Return a warning for each of a few files that look like key files, but have another ending."""
    path = config.edge_auth.keys_dir
    try:
        names = [] if path is None else sorted(os.listdir(path))
    except OSError:
        return []
    ignored = [name for name in names if _LIKE_A_KEY_FILE.fullmatch(name) and not name.endswith(ENDING)]
    return [
        f"edge_auth.keys_dir: {shown(name)} is ignored: key files end with {ENDING}"
        for name in ignored[:MOST_NAMED]
    ]


def _unmatched_patterns(config: Config, files: KeysDirectory | None) -> list[str]:
    """Return a warning for each of a few patterns in key files, and one for the number of the rest."""
    if files is None:
        return []
    found = list(key_file_patterns(config, files.keys.values()))
    if len(found) <= MOST_NAMED:
        return found
    rest = len(found) - MOST_NAMED
    return [*found[:MOST_NAMED], f"edge_auth.keys_dir: {rest} more patterns of key files match no model"]


def _lost_by_redis(config: Config, files: KeysDirectory | None) -> list[str]:
    """Warn of limits that Redis has to keep, where only key files have some."""
    if files is None or needs_persistence(config) or not needs_persistence(config, files.keys.values()):
        return []
    return [PERSISTENT]


def _writable_by_others(config: Config) -> list[str]:
    path = config.edge_auth.keys_dir
    try:
        mode = 0 if path is None else os.stat(path).st_mode
    except OSError:
        return []
    if not mode & stat.S_IWOTH or mode & stat.S_ISVTX:
        return []
    return ["edge_auth.keys_dir: every user of this machine may write to it, and so add keys"]
