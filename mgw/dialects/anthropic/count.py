"""The count of tokens, both ways: ``POST /v1/messages/count_tokens``.

Source: the SDK's ``MessageTokensCount``.  Its request is parsed and rendered as that of a message is.
"""

from __future__ import annotations

from typing import Final

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from mgw.canonical.reply import TokenUsage
from mgw.dialects.anthropic.request import parse_count_request, render_count_request
from mgw.dialects.dialect import ClientOperation, ProviderOperation, ReplyContext, ReplySource, identity
from mgw.dialects.metering import Count
from mgw.nouns.errors import GatewayError, Reason


class _TokenCount(Struct, frozen=True):
    input_tokens: Count


_DECODER: Final = Decoder(_TokenCount, strict=False)
_ENCODER: Final = Encoder()


def parse_reply(body: bytes, source: ReplySource) -> TokenUsage:  # noqa: ARG001 - it needs no identifiers
    """Parse the response."""
    try:
        return TokenUsage(_DECODER.decode(body).input_tokens)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        raise GatewayError(Reason.UPSTREAM_BROKEN, "the upstream's response is not a token count") from None


def render_reply(usage: TokenUsage, context: ReplyContext) -> bytes:  # noqa: ARG001 - it has no identifiers
    """Render the response."""
    return _ENCODER.encode(_TokenCount(usage.tokens_in or 0))


CLIENT: Final = ClientOperation(parse_count_request, render_reply)
"""The clients' side of token counts."""
PROVIDER: Final = ProviderOperation(render_count_request, parse_reply, usage=identity)
"""The providers' side of token counts."""
