"""The response object, around the items of its output (contract 11.7).

Source: the SDK's ``Response``.  It repeats what the client asked for, with OpenAI's defaults for what it did
not say.  Nothing is stored, and it says so.  The first two events of a stream have the object without what
may be large, since it would be sent twice more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from msgspec.json import Encoder

from mgw.canonical.conversation import JsonObject
from mgw.canonical.reply import StopReason, TokenUsage
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.responses.identifiers import response_id

_ENCODER: Final = Encoder()
_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(  # Any: JSON
    {
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": None,
        "user": None,
    }
)
"""What OpenAI's response says of fields that the request did not have."""
_SHORT: Final[JsonObject] = {"instructions": None, "tools": []}
_REASONS: Final = MappingProxyType(
    {StopReason.LENGTH: "max_output_tokens", StopReason.REFUSAL: "content_filter"}
)
"""Why an answer is incomplete; all others are complete."""


def status_of(stop: StopReason) -> str:
    """Return the status of an answer that ended so."""
    return "incomplete" if stop in _REASONS else "completed"


def is_cut(stop: StopReason) -> bool:
    """Whether the answer ended in the middle of its last item."""
    return stop is StopReason.LENGTH


class ResponseRenderer:
    """Writes the object of one response, at any stage of it."""

    __slots__ = ("_context", "model")

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self.model = context.model
        """The model that the upstream reports, once it has."""

    def render_begun(self) -> bytes:
        """Return the object of a response that has begun; its usage is not known yet."""
        return _encode({**self._fields("in_progress"), **_SHORT, "output": [], "usage": None})

    def render_ended(self, stop: StopReason, items: Sequence[bytes], usage: TokenUsage) -> list[bytes]:
        """Return the object of a response that has ended, in pieces; ``items`` are its output."""
        reason = _REASONS.get(stop)
        fields = self._fields(status_of(stop))
        if reason is None:
            fields["completed_at"] = self._context.created
        else:
            fields["incomplete_details"] = {"reason": reason}
        return _insert_output(fields, items, usage)

    def render_failed(self, error: JsonObject, items: Sequence[bytes], usage: TokenUsage) -> list[bytes]:
        """Return the object of a response that failed, in pieces."""
        return _insert_output({**self._fields("failed"), "error": error}, items, usage)

    def _fields(self, status: str) -> JsonObject:
        context = self._context
        return {
            "id": response_id(context.request_id),
            "object": "response",
            "created_at": context.created,
            "status": status,
            "background": False,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "model": self.model,
            "previous_response_id": None,
            "store": False,
            "truncation": "disabled",
            **_DEFAULTS,
            **context.options.echoed,
        }


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


def _encode(fields: JsonObject) -> bytes:
    """Return the object; what is nested too deeply to be repeated here is not."""
    try:
        return _ENCODER.encode(fields)
    except RecursionError:
        return _ENCODER.encode({**fields, **_DEFAULTS})


def _insert_output(fields: JsonObject, items: Sequence[bytes], usage: TokenUsage) -> list[bytes]:
    """Return the pieces of an object, so that its items are copied once only."""
    fields["usage"] = render_usage(usage)
    pieces = [_encode(fields)[:-1], b',"output":[']
    for item in items:
        pieces += (item, b",")
    if items:
        pieces.pop()
    pieces.append(b"]}")
    return pieces
