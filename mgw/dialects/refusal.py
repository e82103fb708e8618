"""What the refusals of all dialects share: the machine-readable code and words that can be encoded.

Source: the table of decisions, part 6, column "openai type / code".  The code is the same in every dialect
that can carry one; each dialect's own words stand in its ``errors.py``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.errors import GatewayError, Reason

CODES: Final = MappingProxyType(
    {
        Reason.MALFORMED: None,
        Reason.EDGE_KEY: "invalid_api_key",
        Reason.NO_PROVIDER_KEY: "no_provider_key",
        Reason.CAPABILITY_OFF: "unsupported_modality",
        Reason.UNSUPPORTED_BY_KIND: "unsupported_provider_capability",
        Reason.UNKNOWN_MODEL: "model_not_found",
        Reason.UNKNOWN_ROUTE: "not_found",
        Reason.WRONG_METHOD: "method_not_allowed",
        Reason.CLIENT_TOO_SLOW: "request_timeout",
        Reason.HEAD_TOO_LARGE: "headers_too_large",
        Reason.BODY_TOO_LARGE: "request_too_large",
        Reason.TOO_MANY_SESSIONS: "too_many_sessions",
        Reason.NOT_IMPLEMENTED: "not_implemented",
        Reason.NO_ACCOUNT: "no_account_available",
        Reason.INTERNAL: "internal_error",
        Reason.UPSTREAM_BROKEN: None,
        Reason.CREDENTIAL_SOURCE: "credential_source_failed",
        Reason.OVERLOADED: "overloaded",
        Reason.DRAINING: "draining",
        Reason.UPSTREAM_TOO_SLOW: None,
    }
)
"""Each row's own code; ``None`` where the row has none."""


def code_of(error: GatewayError) -> str | None:
    """Return the error's own code, else its row's."""
    return CODES[error.reason] if error.code is None else error.code


def encodable(text: str) -> str:
    """Return ``text`` with each lone surrogate replaced by ``?``: a refusal may quote what a client sent."""
    return text.encode("utf-8", "replace").decode()
