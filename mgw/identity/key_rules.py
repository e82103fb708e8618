"""What a configuration says of key files: how they are read, and which keys it has itself."""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import partial
from typing import Final

from mgw.config.edge_auth import digest_of
from mgw.config.file_faults import shown_path
from mgw.config.key_settings import NamedKeySettings
from mgw.config.load import parse_key_file
from mgw.config.places import Places
from mgw.config.quoting import shown
from mgw.config.settings import Config
from mgw.identity.keys_dir import ENDING, KeyRules, KeysDirectory, digests_of, unreadable_directory
from mgw.nouns.secret import Secret

MOST_NAMED: Final = 10
"""So many of the files that name missing groups are named."""


def key_rules(config: Config | None) -> KeyRules:
    """Return the rules of a configuration; without one, groups may have any name."""
    parse = partial(_parse, config)
    if config is None:
        return KeyRules(parse)
    digests = [Secret(digest_of(key)) for key in (*config.edge_auth.secrets, *config.dashboard.keys)]
    for key in config.edge_auth.named:
        digests += digests_of(key)
    return KeyRules(parse, frozenset(config.edge_auth.client_names), frozenset(digests))


def read_keys(config: Config, before: KeysDirectory | None = None) -> KeysDirectory | None:
    """Read the key files of a configuration, in a thread once requests are served.

    :param before: what was in force: the last good state of a file that can be used no more stays.
    :returns: ``None`` where the configuration names no directory.
    :raises ValueError: there is no such directory, or a file names a group that is there no more.
    """
    path = config.edge_auth.keys_dir
    if path is None:
        return None
    fault = unreadable_directory(path)
    if fault is not None:
        raise ValueError(f"edge_auth.keys_dir: {fault}")
    known = before.keys if before is not None and before.path == path else {}
    found = KeysDirectory(path, key_rules(config), known)
    found.read_all()
    _check_groups(found, config.edge_auth.groups)
    return found


def _check_groups(files: KeysDirectory, groups: Collection[str]) -> None:
    """See that each group that a file names is still there: the file may be the last good state of a name.

    :raises ValueError: some are not; it names a few of the files.
    """
    missing = [
        (shown_path(os.path.join(files.path, name + ENDING)), shown(group))
        for name, key in sorted(files.keys.items())
        for group in key.groups
        if group not in groups
    ]
    if not missing:
        return
    named = ", ".join(f"{file} names the group {group}" for file, group in missing[:MOST_NAMED])
    more = len(missing) - MOST_NAMED
    rest = f" and {more} more" if more > 0 else ""
    what = "which is not there" if len(missing) == 1 else "which are not there"
    raise ValueError(f"edge_auth.groups: {named}{rest}, {what}")


def _parse(config: Config | None, text: str, name: str, file: str) -> tuple[NamedKeySettings, Places]:
    return parse_key_file(text, name, file, config)
