"""Warnings about limits: settings that are valid but probably do not do what they are meant for."""

from __future__ import annotations

from collections.abc import Iterator

from mgw.config.limit_rows import Per
from mgw.config.settings import Config


def limit_advice(config: Config) -> Iterator[str]:
    """Yield all of them."""
    edge_auth, rows = config.edge_auth, [row for _, row in config.edge_auth.all_limits]
    if (edge_auth.limits or edge_auth.groups) and not edge_auth.enabled:
        what = "limits" if edge_auth.limits else "groups"
        yield f"edge_auth.{what}: edge auth is off, so no limit applies to any request"
    if config.fleet.redis is not None and any(row.per not in (None, Per.MINUTE) for row in rows):
        yield (
            "fleet.redis: limits per day and longer are counted there, so Redis must be persistent "
            "(appendonly yes): otherwise a restart of Redis may forget what has been used"
        )
