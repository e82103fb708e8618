"""Refusals in Google's shape: ``{"error": {"code", "message", "status", "details"}}`` (contract 6.1, 6.2).

``details`` holds one ``google.rpc.ErrorInfo``.  Its ``reason`` is the code that OpenAI's clients see, in
upper case; where a row has none, the row's own name.  What a provider of another family refuses keeps its
status and its words.  Google itself answers a refused stream with the error in an array, and states in a
``google.rpc.RetryInfo`` of the details how long to wait: ``"retryDelay": "27s"``.

Hosts like Google's have shapes of their own (Apigee: ``{"fault": {"faultstring"}}``), and proxies before them
send plain text or HTML; each is an error in its own words.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any, Final

from msgspec import MsgspecError, Struct, field
from msgspec.json import Decoder, Encoder
from msgspec.structs import replace

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
from mgw.dialects.refusal import code_of, make_encodable, own_message, proxy_message
from mgw.nouns.errors import GatewayError, Reason

_REASON_STATUSES: Final = MappingProxyType(
    {
        Reason.MALFORMED: "INVALID_ARGUMENT",
        Reason.EDGE_KEY: "UNAUTHENTICATED",
        Reason.INVALID_TOKEN: "UNAUTHENTICATED",
        Reason.ACCESS_DENIED: "PERMISSION_DENIED",
        Reason.NO_ISSUER_KEYS: "UNAVAILABLE",
        Reason.NO_PROVIDER_KEY: "UNAUTHENTICATED",
        Reason.CAPABILITY_OFF: "PERMISSION_DENIED",
        Reason.UNSUPPORTED_BY_KIND: "INVALID_ARGUMENT",
        Reason.UNKNOWN_MODEL: "NOT_FOUND",
        Reason.UNKNOWN_ROUTE: "NOT_FOUND",
        Reason.WRONG_METHOD: "NOT_FOUND",
        Reason.NO_WEBSOCKET: "INVALID_ARGUMENT",
        Reason.ONLY_WEBSOCKET: "INVALID_ARGUMENT",
        Reason.ORIGIN: "PERMISSION_DENIED",
        Reason.MISDIRECTED: "INVALID_ARGUMENT",
        Reason.CLIENT_TOO_SLOW: "DEADLINE_EXCEEDED",
        Reason.HEAD_TOO_LARGE: "INVALID_ARGUMENT",
        Reason.BODY_TOO_LARGE: "INVALID_ARGUMENT",
        Reason.TOO_MANY_SESSIONS: "RESOURCE_EXHAUSTED",
        Reason.CLIENT_LIMIT: "RESOURCE_EXHAUSTED",
        Reason.CLIENT_BUDGET: "RESOURCE_EXHAUSTED",
        Reason.MODEL_NOT_PRICED: "PERMISSION_DENIED",
        Reason.ROUTE_NOT_PRICED: "PERMISSION_DENIED",
        Reason.NOT_IMPLEMENTED: "UNIMPLEMENTED",
        Reason.NO_ACCOUNT: "RESOURCE_EXHAUSTED",
        Reason.INTERNAL: "INTERNAL",
        Reason.UPSTREAM_BROKEN: "UNAVAILABLE",
        Reason.CREDENTIAL_SOURCE: "UNAVAILABLE",
        Reason.OVERLOADED: "UNAVAILABLE",
        Reason.DRAINING: "UNAVAILABLE",
        Reason.UPSTREAM_TOO_SLOW: "DEADLINE_EXCEEDED",
    }
)
"""What Google's clients call each refusal."""


class _ErrorInfo(Struct, frozen=True):
    type: str = field(name="@type")
    reason: str
    domain: str


class _RetryInfo(Struct, frozen=True):
    type: str = field(name="@type")
    retry_delay: str = field(name="retryDelay")


class _Error(Struct, frozen=True):
    code: int
    message: str
    status: str
    details: tuple[_ErrorInfo | _RetryInfo, ...]


class _Envelope(Struct, frozen=True):
    error: _Error


_STATUS_NAMES: Final = MappingProxyType(
    {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        408: "DEADLINE_EXCEEDED",
        409: "ABORTED",
        413: "INVALID_ARGUMENT",
        422: "INVALID_ARGUMENT",
        429: "RESOURCE_EXHAUSTED",
        499: "CANCELLED",
        500: "INTERNAL",
        501: "UNIMPLEMENTED",
        502: "UNAVAILABLE",
        503: "UNAVAILABLE",
        504: "DEADLINE_EXCEEDED",
    }
)
"""``google.rpc.Code`` by HTTP status, as ``google/rpc/code.proto`` maps them."""
_STATUSES: Final = MappingProxyType(
    {
        **{name: status for status, name in _STATUS_NAMES.items() if status not in {413, 422, 502}},
        "FAILED_PRECONDITION": 400,
        "OUT_OF_RANGE": 400,
        "ALREADY_EXISTS": 409,
        "UNKNOWN": 500,
        "DATA_LOSS": 500,
    }
)
"""HTTP statuses by the name of a code, the other way round."""
_MESSAGE_KEYS: Final = ("message", "detail", "error_description", "faultstring", "msg")
"""Where the message of an error stands."""
_ERROR_KEYS: Final = ("error", "fault")
_IS_STATUS: Final = re.compile("[45][0-9]{2}")
_OVERLOADED: Final = 529
"""Anthropic's status; Google's is 503."""
_BROKEN: Final = 502
_MAX_CHARACTERS: Final = 8192
_RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"
_DURATION: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)s")
"""``google.protobuf.Duration`` in JSON, without the negative ones."""
_ENCODER: Final = Encoder()
_DECODER: Final = Decoder()


def parse_error(status: int, body: bytes) -> UpstreamError:
    """Return the error in the body of a refusal, whatever bytes it is."""
    return find_error(body, status) or _error_of_status(status)


def find_error(body: bytes, status: int | None = None) -> UpstreamError | None:
    """Return the error that a document is, in whatever shape; ``None`` where it is none.

    Without a ``status`` it is the one that the error names.
    """
    try:
        document = _DECODER.decode(body)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        words = proxy_message(body)
        if not words:
            return None
        return UpstreamError(_BROKEN, words) if status is None else _error_of_status(status, words)
    if type(document) is list:
        document = next((one for one in document if type(one) is dict and one.get("error")), None)
    if type(document) is dict:
        inner = next((document[key] for key in _ERROR_KEYS if document.get(key)), None)
        if inner is None and not any(document.get(key) for key in _MESSAGE_KEYS):
            return None
        return parse_error_value(document if inner is None else inner, status)
    error = parse_error_value(document, status)
    return error if error is None else replace(error, own_message=None)  # a text alone is no error


def parse_error_value(error: Any, status: int | None = None) -> UpstreamError | None:  # Any: JSON
    """Return the error that an object holds; ``None`` where it holds none.

    Without a ``status`` it is the one that its ``code`` or its ``status`` names.
    """
    if type(error) is str and error:
        status = status or implied_status(error, _BROKEN)
        own = own_message(None, error, _MESSAGE_KEYS)
        return UpstreamError(status, make_encodable(error)[:_MAX_CHARACTERS], own_message=own)
    if type(error) is not dict:
        return None
    name = error.get("status")
    message = next((text for key in _MESSAGE_KEYS if type(text := error.get(key)) is str and text), "")
    status = status or _status_of(error) or implied_status(message, _BROKEN)
    if not message:
        message = f"the provider returned status {name if type(name) is str else status}"
    details = error.get("details")
    name = find_code([error.get("code"), error.get("type")]) or name
    return UpstreamError(
        status,
        make_encodable(message)[:_MAX_CHARACTERS],
        make_encodable(name) if type(name) is str and name else None,
        {"details": details} if type(details) is list and details else prompt_numbers(error),
        _retry_after(details) if type(details) is list else None,
        own_message(None, error, _MESSAGE_KEYS),
    )


def _error_of_status(status: int, words: str = "") -> UpstreamError:
    message = f"the provider returned status {status}"
    return UpstreamError(status, f"{message}: {words}" if words else message)


def _status_of(error: JsonObject) -> int | None:
    """Return the status that an error names, as a number or by its name."""
    for key in ("code", "status"):
        word = error.get(key)
        if type(word) is str:
            word = int(word) if _IS_STATUS.fullmatch(word) else _STATUSES.get(word)
        if type(word) is int and 400 <= word <= 599:
            return word
    return None


def _retry_after(details: list[Any]) -> float | None:  # Any: JSON
    for detail in details:
        if type(detail) is dict and detail.get("@type") == _RETRY_INFO:
            delay = detail.get("retryDelay")
            match = _DURATION.fullmatch(delay) if type(delay) is str else None
            if match is not None:
                return float(match[1])
    return None


def render_refusal(error: GatewayError, request_id: str) -> bytes:  # noqa: ARG001 - this shape carries no id
    """Return the body; ``code`` repeats the HTTP status."""
    reason: str = code_of(error) or error.reason.value[0]
    info = _ErrorInfo("type.googleapis.com/google.rpc.ErrorInfo", reason.upper(), "mgw")
    details: tuple[_ErrorInfo | _RetryInfo, ...] = (info,)
    if error.is_final and error.retry_after is not None:  # Gemini CLI takes more than 300 s as final
        details += (_RetryInfo(_RETRY_INFO, f"{error.retry_after:.0f}s"),)
    message, status = make_encodable(error.message), _REASON_STATUSES[error.reason]
    return _ENCODER.encode(_Envelope(_Error(error.status, message, status, details)))


def render_error(error: UpstreamError, request_id: str) -> tuple[int, bytes]:  # noqa: ARG001 - no id in this shape
    """Return the status and the body for a client."""
    value = render_error_value(error)
    status: int = value["error"]["code"]
    return status, _ENCODER.encode(value)


def render_error_value(error: UpstreamError) -> JsonObject:
    """Return a provider's error as the object that Google's clients read."""
    length = find_prompt_length(error)
    if length is not None:
        error = replace(as_refusal(error), message=_too_long(length))
    status = 503 if error.status == _OVERLOADED else error.status
    name = _STATUS_NAMES.get(status) or ("INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    value: JsonObject = {
        "code": status,
        "message": make_encodable(error.message)[:_MAX_CHARACTERS],
        "status": name,
    }
    if error.code is not None:
        reason = make_encodable(error.code).upper()
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "upstream"}
        value["details"] = [info]
    return {"error": value}


def _too_long(length: PromptLength) -> str:
    """Return how this vendor says that a prompt is too long."""
    used = "" if length.used is None else f" ({length.used})"
    limit = "" if length.limit is None else f" ({length.limit})"
    return f"The input token count{used} exceeds the maximum number of tokens allowed{limit}."
