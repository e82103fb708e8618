"""countTokens, both ways.

Contents alone go as they are; with instructions or tools they go as ``generateContentRequest``.

Sources: the Gemini API's reference of countTokens; ``CountTokensResponse`` of google-genai 3.4.
"""

from __future__ import annotations

from typing import Final

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from mgw.canonical.conversation import Conversation, JsonObject
from mgw.canonical.features import Feature
from mgw.canonical.reply import TokenUsage
from mgw.dialects.dialect import (
    ClientOperation,
    Parsed,
    ProviderOperation,
    Rendered,
    RenderOptions,
    ReplyContext,
    ReplySource,
    RequestContext,
    itself,
    parsed,
)
from mgw.dialects.fields import Ledger, open_request
from mgw.dialects.gemini.request import (
    CARRIED,
    encode_body,
    parse_conversation,
    render_body,
    render_model,
    render_target,
)
from mgw.dialects.identifiers import GEMINI_NAME
from mgw.dialects.metering import Count
from mgw.dialects.names import Names
from mgw.errors import GatewayError, Reason


class _CountResponse(Struct, frozen=True, rename="camel"):
    total_tokens: Count = 0
    """Proto3 JSON leaves a zero out."""
    cached_content_token_count: Count | None = None


_DECODER: Final = Decoder(_CountResponse, strict=False)
_ENCODER: Final = Encoder()


def parse_request(body: bytes, context: RequestContext) -> Parsed[Conversation]:
    """Return what is to be counted.

    Raises: :class:`GatewayError` (``MALFORMED``).
    """
    ledger = Ledger(snake_too=True)
    request = open_request(body, ledger)
    inner = request.nested("generateContentRequest")
    if inner is not None:
        request.skip("model")
    return parsed(parse_conversation(request if inner is None else inner, context), ledger)


def parse_reply(body: bytes, source: ReplySource) -> TokenUsage:  # noqa: ARG001 - it needs no identifiers
    """Return the count.

    Raises: :class:`GatewayError` (``UPSTREAM_BROKEN``) where there is none.
    """
    try:
        found = _DECODER.decode(body)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        raise GatewayError(Reason.UPSTREAM_BROKEN, "the provider's response is not a token count") from None
    return TokenUsage(found.total_tokens, cache_read=found.cached_content_token_count)


def render_request(conversation: Conversation, options: RenderOptions) -> Rendered:
    """Return the request to Google; ``generationConfig`` does not count.

    Raises: :class:`GatewayError` (``MALFORMED``) for what Google can in no way read.
    """
    lost: set[Feature] = set()
    body: JsonObject = render_body(conversation, options, Names(GEMINI_NAME), lost)
    if len(body) > 1:
        body = {"generateContentRequest": {"model": render_model(options.model), **body}}
    return Rendered(render_target(options.model, b"countTokens"), encode_body(body), CARRIED, frozenset(lost))


def render_reply(usage: TokenUsage, context: ReplyContext) -> bytes:  # noqa: ARG001 - it has no identifiers
    """Return the count as Google's clients read it."""
    body: JsonObject = {"totalTokens": usage.tokens_in or 0}
    if usage.cache_read is not None:
        body["cachedContentTokenCount"] = usage.cache_read
    return _ENCODER.encode(body)


CLIENT: Final = ClientOperation(parse_request, render_reply)
"""The clients' side of token counts."""
PROVIDER: Final = ProviderOperation(render_request, parse_reply, usage=itself)
"""The providers' side of token counts."""
