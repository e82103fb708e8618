"""Token counts of generateContent, both ways.

Google counts cached content in the prompt, as the canonical convention does, but thoughts and the results of
its own tools beside candidates and prompt (``GenerateContentResponseUsageMetadata`` of google-genai 3.4).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.json import Decoder

from mgw.canonical.conversation import JsonObject
from mgw.canonical.reply import NO_USAGE, TokenUsage
from mgw.dialects.metering import Count, attempt, total, updated, within


class UsageMetadata(Struct, frozen=True, rename="camel"):
    """``usageMetadata``."""

    prompt_token_count: Count | None = None
    tool_use_prompt_token_count: Count | None = None
    candidates_token_count: Count | None = None
    response_token_count: Count | None = None
    """What others of Google's answers call the last."""
    thoughts_token_count: Count | None = None
    cached_content_token_count: Count | None = None

    def counted(self) -> TokenUsage:
        """Return the canonical form."""
        answer = self.candidates_token_count
        prompt = total(self.prompt_token_count, self.tool_use_prompt_token_count)
        return TokenUsage(
            prompt,
            total(self.response_token_count if answer is None else answer, self.thoughts_token_count),
            cache_read=within(self.cached_content_token_count, prompt),
            reasoning=self.thoughts_token_count,
        )


_DECODER: Final = Decoder(UsageMetadata, strict=False)


def usage_of(metadata: bytes | memoryview, before: TokenUsage = NO_USAGE) -> TokenUsage:
    """Return what is known after ``usageMetadata``; what cannot be is not believed."""
    return attempt(_read, bytes(metadata), before)


def _read(metadata: bytes, before: TokenUsage) -> TokenUsage:
    return updated(before, _DECODER.decode(metadata).counted())


def usage_metadata(usage: TokenUsage) -> JsonObject:
    """Return ``usageMetadata``; what is unknown is left out."""
    answer, thoughts = usage.tokens_out, usage.reasoning
    if answer is not None and thoughts is not None:
        thoughts = min(thoughts, answer)  # the parts make up the total
        answer -= thoughts
    counts = {
        "promptTokenCount": usage.tokens_in,
        "candidatesTokenCount": answer,
        "totalTokenCount": total(usage.tokens_in, usage.tokens_out),
        "cachedContentTokenCount": usage.cache_read,
        "thoughtsTokenCount": thoughts,
    }
    return {key: count for key, count in counts.items() if count is not None}
