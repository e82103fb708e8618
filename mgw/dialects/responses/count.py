"""The count of a request's tokens: ``POST /v1/responses/input_tokens``.

Its body is that of a request.  Source: the SDK's ``InputTokenCountResponse``; contract 11.2.
"""

from __future__ import annotations

from typing import Final

from msgspec.json import Encoder

from mgw.canonical.conversation import Conversation
from mgw.canonical.reply import TokenUsage
from mgw.dialects.dialect import ClientOperation, ReplyContext
from mgw.dialects.responses.request import parse_count_request

_ENCODER: Final = Encoder()


def render_reply(usage: TokenUsage, context: ReplyContext) -> bytes:  # noqa: ARG001 - it has no identifiers
    """Return the count as OpenAI's clients read it."""
    return _ENCODER.encode({"object": "response.input_tokens", "input_tokens": usage.tokens_in or 0})


COUNT: Final[ClientOperation[Conversation, TokenUsage]] = ClientOperation(parse_count_request, render_reply)
"""The clients' side of token counts."""
