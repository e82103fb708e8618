"""What a whole answer and a stream of it share, on their way to a client.

Sources: the SDK's ``ChatCompletion`` and ``ChatCompletionChunk``, ``CompletionUsage``,
``AnnotationURLCitation``, ``ChatCompletionTokenLogprob``.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from mgw.canonical.conversation import Citation, JsonObject, Signature
from mgw.canonical.reply import Alternative, StopReason, TokenLogprob, TokenUsage
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.signatures import tagged

_FINISHES: Final = MappingProxyType(
    {
        StopReason.END: "stop",
        StopReason.STOP_SEQUENCE: "stop",
        StopReason.LENGTH: "length",
        StopReason.TOOL_USE: "tool_calls",
        StopReason.REFUSAL: "content_filter",
    }
)


def finish_word(stop: StopReason, *, calls: bool, deprecated: bool) -> str:
    """Return the ``finish_reason``; where there are calls, an end is for them."""
    if calls and stop not in {StopReason.LENGTH, StopReason.REFUSAL}:
        return "function_call" if deprecated else "tool_calls"
    return "stop" if stop is StopReason.TOOL_USE else _FINISHES[stop]


def completion_id(own: str | None, context: ReplyContext) -> str:
    """Return the provider's identifier, else one made from the request's."""
    return own or f"chatcmpl-{context.request_id}"


def usage_object(usage: TokenUsage) -> JsonObject:
    """Return ``usage``; the SDK demands its three totals, so what is unknown is 0 there."""
    tokens_in, tokens_out = usage.tokens_in or 0, usage.tokens_out or 0
    found: JsonObject = {
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
    }
    details = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    known = {key: value for key, value in details.items() if value is not None}
    if known:
        found["prompt_tokens_details"] = known
    if usage.reasoning is not None:
        found["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return found


def annotations_of(citations: Iterable[Citation]) -> list[JsonObject]:
    """Return the citations that name an address: all that this wire can say."""
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "start_index": citation.start or 0,
                "end_index": citation.end or 0,
                "title": citation.title or "",
                "url": citation.url,
            },
        }
        for citation in citations
        if citation.url is not None
    ]


def logprobs_object(tokens: Iterable[TokenLogprob]) -> JsonObject:
    """Return ``logprobs``."""
    content = [
        {**_logprob(token), "top_logprobs": [_logprob(other) for other in token.top]} for token in tokens
    ]
    return {"content": content, "refusal": None}


def _logprob(token: TokenLogprob | Alternative) -> JsonObject:
    return {"token": token.token, "logprob": token.logprob, "bytes": list(token.token.encode())}


def extra_object(signature: Signature) -> JsonObject:
    """Return Google's place for a signature on this wire, with a tagged one in it."""
    return {"google": {"thought_signature": tagged(signature)}}


def call_object(call_id: str, name: str, arguments: str, signature: Signature | None) -> JsonObject:
    """Return an entry of ``tool_calls``."""
    function = {"name": name, "arguments": arguments}
    written: JsonObject = {"id": call_id, "type": "function", "function": function}
    if signature is not None:
        written["extra_content"] = extra_object(signature)
    return written
