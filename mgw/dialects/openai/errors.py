"""Errors in OpenAI's shape: ``{"error": {"message", "type", "param", "code"}}`` (contract 6.1, 6.2).

Hosts that speak OpenAI's API write errors in shapes of their own, and all of them are read: the error as a
string, as the document itself (``{"message", "code"}``, ``{"object": "error", ...}`` of vLLM,
``{"detail": ...}`` of FastAPI), Google's ``{"error": {"code": 400, "status": ...}}``, alone or in an array;
in a choice (OpenRouter), ``x_groq`` (Groq) or ``base_resp`` (MiniMax); and what a proxy writes in plain text
or in HTML.  OpenRouter says "Provider returned error", and keeps what the provider said in ``metadata.raw``.
An answer or an event may be one whatever its status: :func:`is_error` recognizes those without choices.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any, Final

from msgspec import DecodeError, Struct
from msgspec.json import Decoder, Encoder
from msgspec.structs import replace

from mgw.canonical.conversation import JsonObject
from mgw.canonical.prompt_length import (
    CODES,
    CONTEXT_LENGTH_EXCEEDED,
    as_refusal,
    implied_status,
    is_prompt_too_long,
    prompt_numbers,
)
from mgw.canonical.reply import UpstreamError
from mgw.dialects.refusal import code_of, make_encodable, own_message, proxy_message
from mgw.nouns.errors import GatewayError, Reason

TYPES: Final = MappingProxyType(
    {
        Reason.MALFORMED: "invalid_request_error",
        Reason.EDGE_KEY: "authentication_error",
        Reason.INVALID_TOKEN: "authentication_error",
        Reason.ACCESS_DENIED: "invalid_request_error",
        Reason.NO_ISSUER_KEYS: "server_error",
        Reason.NO_PROVIDER_KEY: "authentication_error",
        Reason.CAPABILITY_OFF: "invalid_request_error",
        Reason.UNSUPPORTED_BY_KIND: "invalid_request_error",
        Reason.UNKNOWN_MODEL: "invalid_request_error",
        Reason.UNKNOWN_ROUTE: "invalid_request_error",
        Reason.WRONG_METHOD: "invalid_request_error",
        Reason.NO_WEBSOCKET: "invalid_request_error",
        Reason.ONLY_WEBSOCKET: "invalid_request_error",
        Reason.ORIGIN: "invalid_request_error",
        Reason.MISDIRECTED: "invalid_request_error",
        Reason.CLIENT_TOO_SLOW: "timeout_error",
        Reason.HEAD_TOO_LARGE: "invalid_request_error",
        Reason.BODY_TOO_LARGE: "invalid_request_error",
        Reason.TOO_MANY_SESSIONS: "rate_limit_error",
        Reason.CLIENT_LIMIT: "rate_limit_error",
        Reason.CLIENT_BUDGET: "insufficient_quota",
        Reason.MODEL_NOT_PRICED: "invalid_request_error",
        Reason.ROUTE_NOT_PRICED: "invalid_request_error",
        Reason.NOT_IMPLEMENTED: "not_implemented",
        Reason.NO_ACCOUNT: "rate_limit_error",
        Reason.INTERNAL: "server_error",
        Reason.UPSTREAM_BROKEN: "upstream_error",
        Reason.CREDENTIAL_SOURCE: "upstream_error",
        Reason.OVERLOADED: "server_error",
        Reason.DRAINING: "server_error",
        Reason.UPSTREAM_TOO_SLOW: "timeout_error",
    }
)
"""What OpenAI's clients call each refusal."""

MAX_MESSAGE_BYTES: Final = 8192
"""How much of an upstream's message is passed on."""

_TYPES_BY_STATUS: Final = MappingProxyType(
    {
        401: "authentication_error",
        403: "permission_error",
        408: "timeout_error",
        429: "rate_limit_error",
        504: "timeout_error",
    }
)
_STATUSES: Final = MappingProxyType(
    {
        "invalid_request_error": 400,
        CONTEXT_LENGTH_EXCEEDED: 400,
        "exceed_context_size_error": 400,
        "invalid_prompt": 400,
        "invalid_encrypted_content": 400,
        "authentication_error": 401,
        "invalid_api_key": 401,
        "permission_error": 403,
        "not_found_error": 404,
        "model_not_found": 404,
        "timeout_error": 504,
        "rate_limit_error": 429,
        "rate_limit_exceeded": 429,
        "too_many_requests_error": 429,
        "insufficient_quota": 429,
        "overloaded_error": 503,
        "overloaded": 503,
        "server_is_overloaded": 503,
        "server_error": 500,
    }
)
"""The status that a word in a stream stands for."""
_OVERLOADED: Final = 529
"""Anthropic's own status, which no other family has."""
_BROKEN: Final = 502
"""What an error stands for that names no status."""
_IS_STATUS: Final = re.compile("[45][0-9]{2}")
_MESSAGE_KEYS: Final = ("message", "detail", "error_description", "msg", "status_msg")
"""Where an error has its message."""


class _Error(Struct, frozen=True):
    message: str
    type: str
    param: str | None
    code: str | None


class _Envelope(Struct, frozen=True):
    error: _Error


class _SessionError(Struct, frozen=True):
    type: str
    status: int
    error: _Error


_ENCODER: Final = Encoder()
_DECODER: Final = Decoder()


def parse_error(status: int, body: bytes) -> UpstreamError:
    """Return what an upstream's refusal says; of bytes without a message, only the status is known."""
    document = _decode(body)
    error = _unwrap(document)
    message, code = _message_and_code(error)
    if not message:
        message = f"the upstream returned status {status}"
        if words := proxy_message(body):
            message = f"{message}: {words}"
    own = _own_message(document, error)
    return UpstreamError(status, cut_message(message), code, _numbers_of(error), own_message=own)


def parse_stream_error(document: bytes) -> UpstreamError:
    """Return the error that a document of a successful answer has, with the status that it stands for."""
    found = _decode(document)
    error = _unwrap(found)
    message, code = _message_and_code(error)
    message = message or proxy_message(document) or "the upstream's stream ended with an error"
    status = _status_of(error) or implied_status(message, _BROKEN)
    own = _own_message(found, error)
    return UpstreamError(status, cut_message(message), code, _numbers_of(error), own_message=own)


def find_session_error(message: bytes) -> UpstreamError | None:
    """Return the error that a message of a session is, or tells of a response."""
    found = _decode(message)
    kind = found.get("type") if type(found) is dict else None
    if kind == "response.failed" and type(found.get("response")) is dict:
        return parse_stream_error(_ENCODER.encode({"error": found["response"].get("error")}))
    return parse_stream_error(message) if kind == "error" else None


def is_error(document: bytes) -> bool:
    """Whether a document without choices is an error, and not something that means nothing."""
    found = _decode(document)
    if type(found) is list and found:
        found = found[0]
    if type(found) is not dict:
        return type(found) is str and bool(found)
    if _find_error(found) is not None or found.get("object") == "error" or found.get("type") == "error":
        return True
    return any(found.get(key) for key in _MESSAGE_KEYS)


def _decode(body: bytes) -> Any:  # Any: JSON of whatever type
    try:
        return _DECODER.decode(body)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _unwrap(found: Any) -> Any:  # Any: JSON of whatever type
    """Return what holds the words: a string, an object, or the whole where it holds no error."""
    if type(found) is list and found:
        found = found[0]
    if type(found) is not dict:
        return found
    error = _find_error(found)
    return found if error is None else error


def _find_error(found: JsonObject) -> Any:  # Any: JSON of whatever type
    """Return the error that an object holds, in any of the places where hosts put it."""
    if error := found.get("error"):
        return error
    for key in ("errors", "choices"):
        first = found.get(key)
        first = first[0] if type(first) is list and first else None
        if key == "choices":
            first = first.get("error") if type(first) is dict else None
        if first:
            return first
    groq, minimax = found.get("x_groq"), found.get("base_resp")
    if type(groq) is dict and groq.get("error"):
        return groq["error"]
    if type(minimax) is dict and minimax.get("status_code"):
        return minimax
    return None


def _message_and_code(error: Any) -> tuple[str, str | None]:  # Any: JSON of whatever type
    """Return the message and the machine-readable word."""
    message, code = _own_message_and_code(error)
    if type(error) is dict and type(metadata := error.get("metadata")) is dict:
        return _add_raw(message, code, metadata.get("raw"))
    return message, code


def _add_raw(message: str, code: str | None, raw: Any) -> tuple[str, str | None]:  # Any: JSON
    """Return a host's message and code with those of the provider behind it."""
    if type(raw) is str:
        raw = _decode(raw.encode("utf-8", "replace")) or raw
    told, told_code = _own_message_and_code(_unwrap(raw))
    if told and told not in message:
        message = f"{message}: {told}" if message else told
    return message, told_code if code is None or told_code in CODES else code


def _own_message_and_code(error: Any) -> tuple[str, str | None]:  # Any: JSON of whatever type
    if type(error) is str:
        return error, None
    if type(error) is not dict:
        return "", None
    words = [word for key in ("code", "status", "type") if type(word := error.get(key)) is str and word]
    code = next((word for word in words if word in CODES), words[0] if words else None)
    for key in _MESSAGE_KEYS:
        message = error.get(key)
        if type(message) is str and message:
            return message, code
        if message:
            return _encode(message), code
    return "", code


def _own_message(document: Any, error: Any) -> str | None:  # Any: JSON of whatever type
    """Return what stands in the error's message field, and in that of the error which a host passes on."""
    message = own_message(document, error, _MESSAGE_KEYS)
    metadata = error.get("metadata") if type(error) is dict else None
    raw = metadata.get("raw") if type(metadata) is dict else None
    if type(raw) is str:
        raw = _decode(raw.encode("utf-8", "replace"))
    inner = own_message(raw, _unwrap(raw), _MESSAGE_KEYS)
    if inner is None or (message is not None and inner in message):
        return message
    return inner if message is None else f"{message}: {inner}"


def _numbers_of(error: Any) -> JsonObject | None:  # Any: JSON of whatever type
    return prompt_numbers(error) if type(error) is dict else None


def _encode(value: Any) -> str:  # Any: JSON of whatever type
    try:
        return _ENCODER.encode(value).decode()
    except RecursionError:
        return ""


def _status_of(error: Any) -> int | None:  # Any: JSON of whatever type
    """Return the status that an error names, as a number or by its code or type."""
    if type(error) is not dict:
        return None
    for key in ("code", "status", "status_code", "type"):
        word = error.get(key)
        if type(word) is str:
            word = _STATUSES.get(word) or (int(word) if _IS_STATUS.fullmatch(word) else None)
        if type(word) is int and 400 <= word < 600:
            return word
    return None


def render_refusal(error: GatewayError, request_id: str) -> bytes:  # noqa: ARG001 - this shape carries no id
    """Return the body; ``param`` and ``code`` are null where there is none."""
    return _ENCODER.encode(_Envelope(_error_of(error)))


def render_session_error(error: GatewayError) -> bytes:
    """Return a refusal as a message of a session of responses, whose errors tell a status."""
    return _ENCODER.encode(_SessionError("error", error.status, _error_of(error)))


def _error_of(error: GatewayError) -> _Error:
    param = None if error.param is None else make_encodable(error.param)
    return _Error(make_encodable(error.message), TYPES[error.reason], param, code_of(error))


def render_error(error: UpstreamError, request_id: str) -> tuple[int, bytes]:  # noqa: ARG001 - as above
    """Return the status and body of an upstream's error for this dialect's clients."""
    if is_prompt_too_long(error):
        error = replace(as_refusal(error), code=CONTEXT_LENGTH_EXCEEDED)
    status = 503 if error.status == _OVERLOADED else error.status
    kind = _TYPES_BY_STATUS.get(status) or ("server_error" if status >= 500 else "invalid_request_error")
    code = None if error.code is None else make_encodable(error.code)
    return status, _ENCODER.encode(_Envelope(_Error(cut_message(error.message), kind, None, code)))


def cut_message(message: str) -> str:
    """Return a message that can be encoded and is not too long."""
    data = make_encodable(message).encode()
    return make_encodable(message) if len(data) <= MAX_MESSAGE_BYTES else _truncate(data)


def _truncate(data: bytes) -> str:
    return data[:MAX_MESSAGE_BYTES].decode("utf-8", "ignore") + "…"
