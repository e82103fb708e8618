"""Refusals in Google's shape: ``{"error": {"code", "message", "status", "details"}}`` (decisions, part 6).

``details`` holds one ``google.rpc.ErrorInfo``.  Its ``reason`` is the code that OpenAI's clients see, in
upper case; where a row has none, the row's own name.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from msgspec import Struct, field
from msgspec.json import Encoder

from mgw.dialects.refusal import code_of, encodable
from mgw.errors import GatewayError, Reason

STATUSES: Final = MappingProxyType(
    {
        Reason.MALFORMED: "INVALID_ARGUMENT",
        Reason.EDGE_KEY: "UNAUTHENTICATED",
        Reason.NO_PROVIDER_KEY: "UNAUTHENTICATED",
        Reason.CAPABILITY_OFF: "PERMISSION_DENIED",
        Reason.UNSUPPORTED_BY_KIND: "INVALID_ARGUMENT",
        Reason.UNKNOWN_MODEL: "NOT_FOUND",
        Reason.UNKNOWN_ROUTE: "NOT_FOUND",
        Reason.WRONG_METHOD: "NOT_FOUND",
        Reason.CLIENT_TOO_SLOW: "DEADLINE_EXCEEDED",
        Reason.HEAD_TOO_LARGE: "INVALID_ARGUMENT",
        Reason.BODY_TOO_LARGE: "INVALID_ARGUMENT",
        Reason.TOO_MANY_SESSIONS: "RESOURCE_EXHAUSTED",
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


class _Error(Struct, frozen=True):
    code: int
    message: str
    status: str
    details: tuple[_ErrorInfo]


class _Envelope(Struct, frozen=True):
    error: _Error


_ENCODER: Final = Encoder()


def error_body(error: GatewayError, request_id: str) -> bytes:  # noqa: ARG001 - this shape carries no id
    """Return the body; ``code`` repeats the HTTP status."""
    reason: str = code_of(error) or error.reason.value[0]
    details = _ErrorInfo("type.googleapis.com/google.rpc.ErrorInfo", reason.upper(), "mgw")
    return _ENCODER.encode(
        _Envelope(_Error(error.status, encodable(error.message), STATUSES[error.reason], (details,)))
    )
