"""Token counts for clients of Responses; those of providers are read as all of OpenAI's are."""

from __future__ import annotations

from mgw.canonical.conversation import JsonObject
from mgw.canonical.reply import TokenUsage


def render_usage(usage: TokenUsage) -> JsonObject:
    """Return ``usage``; clients demand every count, so what is unknown is 0."""
    tokens_in, tokens_out = usage.tokens_in or 0, usage.tokens_out or 0
    return {
        "input_tokens": tokens_in,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read or 0,
            "cache_write_tokens": usage.cache_write or 0,
        },
        "output_tokens": tokens_out,
        "output_tokens_details": {"reasoning_tokens": min(usage.reasoning or 0, usage.tokens_out or 0)},
        "total_tokens": tokens_in + tokens_out,
    }
