"""Refusals in OpenAI's shape: ``{"error": {"message", "type", "param", "code"}}`` (decisions, part 6)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.json import Encoder

from mgw.dialects.refusal import code_of, encodable
from mgw.errors import GatewayError, Reason

TYPES: Final = MappingProxyType(
    {
        Reason.MALFORMED: "invalid_request_error",
        Reason.EDGE_KEY: "authentication_error",
        Reason.NO_PROVIDER_KEY: "authentication_error",
        Reason.CAPABILITY_OFF: "invalid_request_error",
        Reason.UNSUPPORTED_BY_KIND: "invalid_request_error",
        Reason.UNKNOWN_MODEL: "invalid_request_error",
        Reason.UNKNOWN_ROUTE: "invalid_request_error",
        Reason.WRONG_METHOD: "invalid_request_error",
        Reason.CLIENT_TOO_SLOW: "timeout_error",
        Reason.HEAD_TOO_LARGE: "invalid_request_error",
        Reason.BODY_TOO_LARGE: "invalid_request_error",
        Reason.TOO_MANY_SESSIONS: "rate_limit_error",
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


class _Error(Struct, frozen=True):
    message: str
    type: str
    param: str | None
    code: str | None


class _Envelope(Struct, frozen=True):
    error: _Error


_ENCODER: Final = Encoder()


def error_body(error: GatewayError, request_id: str) -> bytes:  # noqa: ARG001 - this shape carries no id
    """Return the body; ``param`` and ``code`` are null where there is none."""
    param = None if error.param is None else encodable(error.param)
    return _ENCODER.encode(
        _Envelope(_Error(encodable(error.message), TYPES[error.reason], param, code_of(error)))
    )
