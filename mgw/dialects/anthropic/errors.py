"""Refusals in Anthropic's shape (decisions, part 6).

It is ``{"type": "error", "error": {"type", "message"}, "request_id"}``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.json import Encoder

from mgw.dialects.refusal import encodable
from mgw.errors import GatewayError, Reason

TYPES: Final = MappingProxyType(
    {
        Reason.MALFORMED: "invalid_request_error",
        Reason.EDGE_KEY: "authentication_error",
        Reason.NO_PROVIDER_KEY: "authentication_error",
        Reason.CAPABILITY_OFF: "permission_error",
        Reason.UNSUPPORTED_BY_KIND: "invalid_request_error",
        Reason.UNKNOWN_MODEL: "not_found_error",
        Reason.UNKNOWN_ROUTE: "not_found_error",
        Reason.WRONG_METHOD: "not_found_error",
        Reason.CLIENT_TOO_SLOW: "timeout_error",
        Reason.HEAD_TOO_LARGE: "invalid_request_error",
        Reason.BODY_TOO_LARGE: "request_too_large",
        Reason.TOO_MANY_SESSIONS: "rate_limit_error",
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


class _Error(Struct, frozen=True):
    type: str
    message: str


class _Envelope(Struct, frozen=True, tag_field="type", tag="error"):
    error: _Error
    request_id: str


_ENCODER: Final = Encoder()


def error_body(error: GatewayError, request_id: str) -> bytes:
    """Return the body; ``request_id`` is the gateway's."""
    return _ENCODER.encode(_Envelope(_Error(TYPES[error.reason], encodable(error.message)), request_id))
