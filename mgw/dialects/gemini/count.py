"""The responses of countTokens, both ways.

Sources: the Gemini API's reference of countTokens; ``CountTokensResponse`` of google-genai 3.4.
"""

from __future__ import annotations

from typing import Final

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from mgw.canonical.conversation import JsonObject
from mgw.canonical.reply import TokenUsage
from mgw.dialects.dialect import ClientOperation, ProviderOperation, ReplyContext, ReplySource, identity
from mgw.dialects.gemini.request import parse_count_request, render_count_request
from mgw.dialects.metering import Count
from mgw.nouns.errors import GatewayError, Reason


class _CountResponse(Struct, frozen=True, rename="camel"):
    total_tokens: Count = 0
    """Proto3 JSON leaves a zero out."""
    cached_content_token_count: Count | None = None


_DECODER: Final = Decoder(_CountResponse, strict=False)
_ENCODER: Final = Encoder()


def parse_reply(body: bytes, source: ReplySource) -> TokenUsage:  # noqa: ARG001 - it needs no identifiers
    """Return the count.

    :raises GatewayError: ``UPSTREAM_BROKEN`` where there is none.
    """
    try:
        found = _DECODER.decode(body)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        raise GatewayError(Reason.UPSTREAM_BROKEN, "the provider's response is not a token count") from None
    return TokenUsage(found.total_tokens, cache_read=found.cached_content_token_count)


def render_reply(usage: TokenUsage, context: ReplyContext) -> bytes:  # noqa: ARG001 - it has no identifiers
    """Return the count as Google's clients read it."""
    body: JsonObject = {"totalTokens": usage.tokens_in or 0}
    if usage.cache_read is not None:
        body["cachedContentTokenCount"] = usage.cache_read
    return _ENCODER.encode(body)


CLIENT: Final = ClientOperation(parse_count_request, render_reply)
"""The clients' side of token counts."""
PROVIDER: Final = ProviderOperation(render_count_request, parse_reply, usage=identity)
"""The providers' side of token counts."""
