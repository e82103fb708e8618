"""Errors towards clients of Responses: OpenAI's shape, and the ``error`` of a response that failed.

Clients of Responses compact the history when they read ``context_length_exceeded``, so a prompt that is too
long has this code, whoever says it (:mod:`mgw.canonical.prompt_length`, contract 8.28).
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mgw.canonical.conversation import JsonObject
from mgw.canonical.prompt_length import CONTEXT_LENGTH_EXCEEDED, is_prompt_too_long
from mgw.canonical.reply import UpstreamError
from mgw.dialects.openai.errors import cut_message, parse_stream_error
from mgw.nouns.errors import GatewayError

_TOO_MANY: Final = 429


def parse_failure(document: bytes) -> UpstreamError:
    """Return the error of an event, whose own type is no code, and neither is a response's status."""
    error = parse_stream_error(document)
    return replace(error, code=None) if error.code in {"error", "failed"} else error


def render_failure(error: GatewayError | UpstreamError) -> JsonObject:
    """Return the ``error`` of a response that failed; the codes are those of the SDK's ``ResponseError``."""
    if isinstance(error, UpstreamError) and is_prompt_too_long(error):
        code = CONTEXT_LENGTH_EXCEEDED
    else:
        code = "rate_limit_exceeded" if error.status == _TOO_MANY else "server_error"
    return {"code": code, "message": cut_message(error.message)}
