"""Warnings about limits: settings that are valid but probably do not do what they are meant for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from mgw.config.key_settings import NamedKeySettings
from mgw.config.limit_rows import Per
from mgw.config.settings import Config

PERSISTENT: Final = (
    "fleet.redis: limits per day and longer are counted there, so Redis must be persistent "
    "(appendonly yes): otherwise a restart of Redis may forget what has been used"
)


def limit_advice(config: Config) -> Iterator[str]:
    """Yield all of them."""
    edge_auth = config.edge_auth
    if (edge_auth.limits or edge_auth.groups) and not edge_auth.enabled:
        what = "limits" if edge_auth.limits else "groups"
        yield f"edge_auth.{what}: edge auth is off, so no limit applies to any request"
    if needs_persistence(config):
        yield PERSISTENT


def needs_persistence(config: Config, file_keys: Iterable[NamedKeySettings] = ()) -> bool:
    """Whether Redis counts limits that should outlive it.

    :param file_keys: those of key files, where their limits count, too.
    """
    if config.fleet.redis is None:
        return False
    rows = [row for _, row in config.edge_auth.all_limits]
    of_files = (row for key in file_keys for row in key.limits)
    return any(row.per not in (None, Per.MINUTE) for row in chain(rows, of_files))
