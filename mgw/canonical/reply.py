"""What a model answered, whatever wire it came by."""

from __future__ import annotations

from msgspec import Struct


class TokenUsage(Struct, frozen=True):
    """Token counts in the canonical convention; ``None`` means unknown, never zero.

    ``tokens_in`` includes tokens read from and written to the cache, ``tokens_out`` includes reasoning,
    whatever the provider's own convention is (decisions, parts 7 and 8).
    """

    tokens_in: int | None = None
    tokens_out: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


NO_USAGE = TokenUsage()
"""Nothing is known."""
