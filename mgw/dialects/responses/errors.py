"""Errors of Responses: OpenAI's shape, the ``error`` of a response that failed, and refusals of its own.

Clients of Responses compact the history when they read ``context_length_exceeded``, so a prompt that is too
long has this code, whoever says it (:mod:`mgw.canonical.prompt_length`, contract 8.28).

What a stateless translation cannot do is refused (contract 11.3, 11.4): the codes tell programs which part of
the request is at fault, and each message says what to send instead.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from mgw.canonical.conversation import JsonObject
from mgw.canonical.prompt_length import CONTEXT_LENGTH_EXCEEDED, is_prompt_too_long
from mgw.canonical.reply import UpstreamError
from mgw.dialects.fields import Fields
from mgw.dialects.openai.errors import cut_message, parse_stream_error
from mgw.nouns.errors import GatewayError

_TOO_MANY: Final = 429
PARAMETER: Final = "unsupported_parameter"
TOOL: Final = "unsupported_tool"
ITEM: Final = "unsupported_item"
LONGEST_SHOWN: Final = 64
"""Characters of a client's word in a message or in a path."""
_STATUSES: Final = frozenset({400, 404, 422})
_ABOUT_THOUGHTS: Final = re.compile(
    r"[Ee]ncrypted[ _]content|\brs_|'reasoning'|\breasoning items?\b|input\[\d+\]\.(?:summary|encrypted)"
)


def parse_event_error(document: bytes) -> UpstreamError:
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


def unsupported(fields: Fields, key: str, message: str, code: str) -> GatewayError:
    """Return the refusal of ``key``, or of the object where it is empty, with a code of its own."""
    error = fields.wrong(key, message)
    error.code = code
    return error


def hosted_tool(tool: Fields, kind: str, key: str = "") -> GatewayError:
    """Return the refusal of a tool that only OpenAI's servers run."""
    message = (
        f"tools of type {kind[:LONGEST_SHOWN]!r} run on OpenAI's servers only: remove the tool, let the "
        "gateway drop it (translation.responses.hosted_tools: drop), or use an OpenAI provider"
    )
    return unsupported(tool, key, message, TOOL)


def not_encodable(fields: Fields, key: str) -> GatewayError:
    """Return the refusal of a value that cannot be written as JSON again."""
    return fields.wrong(key, "is nested too deeply, or contains a value that JSON cannot represent")


def refuses_thoughts(error: UpstreamError) -> bool:
    """Whether a refusal is about reasoning items of earlier turns: stale ones, or those of somebody else.

    The API's words, as bug reports of clients quote them: "Item with id 'rs_…' not found", "The encrypted
    content … could not be verified" (``invalid_encrypted_content``), "Item 'rs_…' of type 'reasoning' was
    provided without its required following item", "Item 'fc_…' of type 'function_call' was provided without
    its required 'reasoning' item".
    """
    if error.status not in _STATUSES:
        return False
    return error.code == "invalid_encrypted_content" or _ABOUT_THOUGHTS.search(error.message) is not None
