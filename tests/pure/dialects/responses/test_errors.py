"""The errors of responses that failed have the codes of the reference."""

from __future__ import annotations

import pytest

from mgw.canonical.reply import UpstreamError
from mgw.dialects.responses.errors import render_failure
from mgw.nouns.errors import GatewayError, Reason


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UpstreamError(400, "prompt is too long"), "context_length_exceeded"),
        (UpstreamError(502, "too much", "context_length_exceeded"), "context_length_exceeded"),
        (UpstreamError(429, "prompt is too long for your tier"), "rate_limit_exceeded"),
        (UpstreamError(500, "prompt is too long"), "server_error"),
        (GatewayError(Reason.UPSTREAM_BROKEN, "it broke"), "server_error"),
        (GatewayError(Reason.CLIENT_LIMIT, "slow down"), "rate_limit_exceeded"),
    ],
)
def test_a_failure_has_a_code_of_the_reference(error: GatewayError | UpstreamError, code: str) -> None:
    assert render_failure(error) == {"code": code, "message": error.message}
