"""Where a setting stands in the file, which of those places hold secrets, and which are not available yet.

What is planned and this version does not do yet is an error of its own (contract 2.1): an operator who wrote
it relies on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from mgw.config.quoting import HIDDEN, quotable, shown

Path = tuple[str | int, ...]
"""The keys and list positions that lead to a value."""

ANY: Final = "*"
"""In a pattern: any one key."""

SECRET_PLACES: Final[tuple[Path, ...]] = (
    ("edge_auth", "keys"),
    ("edge_auth", "keys_env"),
    ("providers", ANY, "api_key"),
    ("providers", ANY, "api_key_env"),
    ("providers", ANY, "base_url"),
    ("providers", ANY, "headers", "set", ANY),
    ("public_url",),
)
"""Values at and below these never stand in a message: there a key stands, or may stand by mistake."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_./-]+")


def matches(path: Path, pattern: Path) -> bool:
    """Say whether ``path`` is at or below the place that ``pattern`` names."""
    return len(path) >= len(pattern) and all(
        wanted in (ANY, part) for part, wanted in zip(path, pattern, strict=False)
    )


def is_among(path: Path, patterns: Iterable[Path]) -> bool:
    """Say whether ``path`` is at or below one of these places."""
    return any(matches(path, pattern) for pattern in patterns)


def dotted(path: Path) -> str:
    """Write a path as an operator reads it: one line, without what stands below a secret place."""
    return ".".join(
        HIDDEN if isinstance(part, str) and is_among(path[:depth], SECRET_PLACES) else _component(part)
        for depth, part in enumerate(path)
    )


def _component(part: str | int) -> str:
    text = str(part)
    if text == HIDDEN or not quotable(text):
        return HIDDEN
    return text if _PLAIN.fullmatch(text) else shown(text)


NOT_AVAILABLE: Final[tuple[Path, ...]] = (
    ("realtime",),
    ("server_timing",),
    ("retries",),
    ("dashboard",),
    ("hooks", "webhook"),
    ("hooks", "sqlite"),
    ("spool", "max_bytes"),
    ("providers", ANY, "proxy"),
    ("providers", ANY, "retries"),
    ("providers", ANY, "pool"),
    ("providers", ANY, "oauth"),
    ("providers", ANY, "service_account_file"),
)
"""Keys."""

AUTH_NOT_AVAILABLE: Final = frozenset({"oauth2", "adc", "service_account"})
"""Values of a provider's ``auth``."""

NOT_AVAILABLE_MESSAGE: Final = "not available in this version"
