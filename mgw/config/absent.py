"""What is planned and this version does not do yet (contract 2.1).

Such a setting is an error of its own: an operator who wrote it relies on it.
"""

from __future__ import annotations

from typing import Final

from mgw.config.paths import ANY, Path

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

MESSAGE: Final = "not available in this version"
