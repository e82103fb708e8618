"""Errors towards clients of Responses: OpenAI's shape, with the code by which clients know a long prompt.

Every vendor refuses a prompt that is too long in words of its own.  Clients of Responses compact the history
when they read ``context_length_exceeded``, so whatever says that says it with this code (contract 11.8).
"""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from mgw.canonical.conversation import JsonObject
from mgw.canonical.reply import UpstreamError
from mgw.dialects.openai import errors
from mgw.errors import GatewayError

CONTEXT_LENGTH_EXCEEDED: Final = "context_length_exceeded"
_TOO_MANY: Final = 429
_MOST_READ: Final = 2000
_TOO_LONG: Final = re.compile(
    r"prompt is too long"  # Anthropic
    r"|exceeds the maximum number of tokens"  # Gemini
    r"|maximum context length",  # OpenAI, vLLM
    re.IGNORECASE,
)


def is_prompt_too_long(error: UpstreamError) -> bool:
    """Whether an upstream's error is about a prompt that does not fit its model."""
    if error.code == CONTEXT_LENGTH_EXCEEDED:
        return True
    is_refusal = 400 <= error.status < 500 and error.status != _TOO_MANY
    return is_refusal and _TOO_LONG.search(error.message[:_MOST_READ]) is not None


def parse_failure(document: bytes) -> UpstreamError:
    """Return the error of an event, whose own type is no code, and neither is a response's status."""
    error = errors.parse_stream_error(document)
    return replace(error, code=None) if error.code in {"error", "failed"} else error


def render_error(error: UpstreamError, request_id: str) -> tuple[int, bytes]:
    """Return the status and body of an upstream's error for this dialect's clients."""
    if is_prompt_too_long(error):
        error = replace(error, code=CONTEXT_LENGTH_EXCEEDED)
    return errors.render_error(error, request_id)


def render_failure(error: GatewayError | UpstreamError) -> JsonObject:
    """Return the ``error`` of a response that failed; the codes are those of the SDK's ``ResponseError``."""
    if isinstance(error, UpstreamError) and is_prompt_too_long(error):
        code = CONTEXT_LENGTH_EXCEEDED
    else:
        code = "rate_limit_exceeded" if error.status == _TOO_MANY else "server_error"
    return {"code": code, "message": errors.cut_message(error.message)}
