"""Errors in Anthropic's shape, both ways (contract 6.1, 6.2).

It is ``{"type": "error", "error": {"type", "message"}, "request_id"}``, as a body and as the data of a
stream's ``error`` event.  Hosts of this API and proxies before them write errors in shapes of their own
(Amazon ``{"message"}``, Google ``[{"error": {"code", "message", "status"}}]``, a string, plain text, HTML);
all of them are parsed.  Sources: the SDK's ``ErrorResponse``; the vendor's page on errors for the types
``request_too_large`` (413) and ``overloaded_error`` (529), where others use 503.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any, Final

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from mgw.canonical.conversation import JsonObject
from mgw.canonical.prompt_length import (
    PromptLength,
    as_refusal,
    find_code,
    find_prompt_length,
    implied_status,
    prompt_numbers,
)
from mgw.canonical.reply import UpstreamError
from mgw.dialects.refusal import make_encodable, own_message, proxy_message
from mgw.nouns.errors import GatewayError, Reason

TYPES: Final = MappingProxyType(
    {
        Reason.MALFORMED: "invalid_request_error",
        Reason.EDGE_KEY: "authentication_error",
        Reason.INVALID_TOKEN: "authentication_error",
        Reason.ACCESS_DENIED: "permission_error",
        Reason.NO_ISSUER_KEYS: "overloaded_error",
        Reason.NO_PROVIDER_KEY: "authentication_error",
        Reason.CAPABILITY_OFF: "permission_error",
        Reason.UNSUPPORTED_BY_KIND: "invalid_request_error",
        Reason.UNKNOWN_MODEL: "not_found_error",
        Reason.UNKNOWN_ROUTE: "not_found_error",
        Reason.WRONG_METHOD: "not_found_error",
        Reason.NO_WEBSOCKET: "invalid_request_error",
        Reason.ONLY_WEBSOCKET: "invalid_request_error",
        Reason.ORIGIN: "permission_error",
        Reason.MISDIRECTED: "invalid_request_error",
        Reason.CLIENT_TOO_SLOW: "timeout_error",
        Reason.HEAD_TOO_LARGE: "invalid_request_error",
        Reason.BODY_TOO_LARGE: "request_too_large",
        Reason.TOO_MANY_SESSIONS: "rate_limit_error",
        Reason.CLIENT_LIMIT: "rate_limit_error",
        Reason.CLIENT_BUDGET: "billing_error",
        Reason.MODEL_NOT_PRICED: "permission_error",
        Reason.ROUTE_NOT_PRICED: "permission_error",
        Reason.NOT_IMPLEMENTED: "api_error",
        Reason.NO_ACCOUNT: "rate_limit_error",
        Reason.INTERNAL: "api_error",
        Reason.UPSTREAM_BROKEN: "api_error",
        Reason.CREDENTIAL_SOURCE: "api_error",
        Reason.OVERLOADED: "overloaded_error",
        Reason.DRAINING: "overloaded_error",
        Reason.UPSTREAM_TOO_SLOW: "timeout_error",
    }
)
"""What Anthropic's clients call each refusal."""


MAX_MESSAGE_BYTES: Final = 8192
"""How much of an upstream's message is passed on."""

_STATUSES: Final = MappingProxyType(
    {
        "invalid_request_error": 400,
        "authentication_error": 401,
        "billing_error": 402,
        "permission_error": 403,
        "not_found_error": 404,
        "conflict_error": 409,
        "request_too_large": 413,
        "rate_limit_error": 429,
        "api_error": 500,
        "timeout_error": 504,
        "overloaded_error": 529,
    }
)
"""The HTTP status that each type stands for."""
_BY_STATUS: Final = MappingProxyType(
    {**{status: name for name, status in _STATUSES.items()}, 408: "timeout_error", 503: "overloaded_error"}
)


NO_THREADS: Final = "thread_unsupported_request"
"""The code of a refusal after which the vendor's SDK sends the whole conversation again, without a thread."""
_DETAILS: Final = MappingProxyType({NO_THREADS: {"error_code": NO_THREADS, "unsupported": ["thread"]}})
"""What the refusals with a code of their own hold besides."""


class _Error(Struct, frozen=True, omit_defaults=True):
    type: str
    message: str
    details: JsonObject | None = None


class _Envelope(Struct, frozen=True, tag_field="type", tag="error"):
    error: _Error
    request_id: str


_ENCODER: Final = Encoder()
_DECODER: Final = Decoder()
_REFUSED: Final = "invalid_request_error"
_FAILED: Final = 502
"""What an error stands for that names no status."""
_ABOUT_THOUGHTS: Final = re.compile("signature|block_binding|thinking-binding|bound to|thinking`? block")
_MESSAGE_KEYS: Final = ("message", "Message", "detail", "error_description", "msg")
"""Where hosts and proxies put the message."""
_CODE_KEYS: Final = ("type", "__type", "status", "code")
"""Where they put the type of the error, as a name or a status."""


def parse_error(status: int, body: bytes) -> UpstreamError:
    """Parse the body of a refused request, whatever it is."""
    document = _decode(body)
    error = _unwrap(document)
    message = _message_of(error)
    if message is None:
        words = proxy_message(body)
        message = f"the upstream rejected the request with status {status}" + (f": {words}" if words else "")
    own = own_message(document, error, _MESSAGE_KEYS)
    return UpstreamError(status, _cut(message), _code_of(error), _details_of(error), own_message=own)


def refuses_thoughts(error: UpstreamError) -> bool:
    """Whether a refusal is about thoughts in history, or about the option of the request that binds them.

    Sources: the guides on preserved thinking and on thinking blocks.  Their refusals are "Invalid `signature`
    in `thinking` block", "The block is bound to a different conversation", "`thinking` or
    `redacted_thinking` blocks in the latest assistant message cannot be modified".
    """
    return error.status == 400 and _ABOUT_THOUGHTS.search(error.message) is not None


def find_error(document: bytes) -> UpstreamError | None:
    """Return the error that a response or an event is, whatever its type; ``None``: it is none."""
    found = _decode(document)
    error = _unwrap(found)
    message = _message_of(error)
    if message is None and not (type(found) is dict and (found.get("error") or found.get("type") == "error")):
        return None
    message = message or "the upstream's response was cut off"
    status = _status_of(error) or implied_status(message, _FAILED)
    own = own_message(found, error, _MESSAGE_KEYS)
    return UpstreamError(status, _cut(message), _code_of(error), _details_of(error), own_message=own)


def parse_stream_error(document: bytes) -> UpstreamError:
    """Parse the error that breaks a stream; its type stands for a status."""
    words = proxy_message(document) or "the upstream's response was cut off"
    return find_error(document) or UpstreamError(502, _cut(words))


def _decode(document: bytes) -> Any:  # Any: JSON of whatever type
    try:
        return _DECODER.decode(document)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _unwrap(found: Any) -> Any:  # Any: JSON of whatever type
    """Return what holds the message: the vendor's own object, or what others put in its place."""
    if type(found) is list and found:  # Google, before Anthropic's models
        found = found[0]
    return (found.get("error") or found) if type(found) is dict else found


def _message_of(error: Any) -> str | None:  # Any: JSON of whatever type
    if type(error) is dict:
        error = next(
            (error[key] for key in _MESSAGE_KEYS if type(error.get(key)) is str and error[key]), None
        )
    return error if type(error) is str and error else None


def _code_of(error: Any) -> str | None:  # Any: JSON of whatever type
    found = [error.get(key) for key in _CODE_KEYS] if type(error) is dict else []
    codes = [code for code in found if type(code) is str and code != "error"]
    return find_code(codes) or next(iter(codes), None)


def _details_of(error: Any) -> JsonObject | None:  # Any: JSON of whatever type
    if type(error) is not dict:
        return None
    details = error.get("details")
    return details if type(details) is dict else prompt_numbers(error)


def _status_of(error: Any) -> int | None:  # Any: JSON of whatever type
    """Return the status that an error names, as a number or by its type."""
    for key in _CODE_KEYS if type(error) is dict else ():
        code = error.get(key)
        if type(code) is str:
            code = _STATUSES.get(code)
        if type(code) is int and 400 <= code <= 599:
            return code
    return None


def render_refusal(error: GatewayError, request_id: str) -> bytes:
    """Render an error of the gateway; ``request_id`` is the gateway's."""
    details = None if error.code is None else _DETAILS.get(error.code)
    rendered = _Error(TYPES[error.reason], make_encodable(error.message), details)
    return _ENCODER.encode(_Envelope(rendered, request_id))


def render_error(error: UpstreamError, request_id: str) -> tuple[int, bytes]:
    """Render an upstream's error, with the status that this vendor's clients know."""
    if find_prompt_length(error) is not None:
        error = as_refusal(error)
    status = 529 if error.status == 503 and error.vendor_type is None else error.status
    if not 400 <= status <= 599:
        status = 502
    return status, render_upstream_error(error, request_id)


def render_upstream_error(error: UpstreamError, request_id: str) -> bytes:
    """Render an upstream's error as the body of a response or the data of an event."""
    length = find_prompt_length(error)
    if length is not None:
        rendered = _Error(_REFUSED, _cut(_too_long(length, error.message)))
        return _ENCODER.encode(_Envelope(rendered, request_id))
    generic = "api_error" if not 400 <= error.status < 500 else "invalid_request_error"
    kind = error.vendor_type or _BY_STATUS.get(error.status, generic)
    return _ENCODER.encode(_Envelope(_Error(kind, _cut(error.message)), request_id))


def _too_long(length: PromptLength, told: str) -> str:
    """Return how this vendor says that a prompt is too long, with what was told.

    Claude Code reads the numbers of both forms, and compacts on the second.
    """
    used, answer, limit = length.used, length.answer, length.limit
    message = "prompt is too long"
    if used is not None and limit is not None:
        if answer is not None and used <= limit:
            message = f"input length and `max_tokens` exceed context limit: {used} + {answer} > {limit}"
        else:
            message = f"{message}: {used} tokens > {limit} maximum"
    return told if told.startswith(message) else f"{message} ({told})"


def _cut(message: str) -> str:
    data = message.encode("utf-8", "replace")
    return data[:MAX_MESSAGE_BYTES].decode("utf-8", "ignore")
