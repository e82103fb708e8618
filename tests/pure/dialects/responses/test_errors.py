"""A prompt that is too long is told so by its code, whoever refused it and in whatever words."""

from __future__ import annotations

import json

import pytest

from mgw.canonical.reply import UpstreamError
from mgw.dialects.responses.errors import render_error, render_failure
from mgw.errors import GatewayError, Reason

TOO_LONG = [
    UpstreamError(400, "prompt is too long: 208310 tokens > 200000 maximum", "invalid_request_error"),
    UpstreamError(400, "The input token count (9) exceeds the maximum number of tokens allowed (8).", "x"),
    UpstreamError(400, "This model's maximum context length is 8192 tokens.", "BadRequestError"),
    UpstreamError(502, "too much", "context_length_exceeded"),
]


@pytest.mark.parametrize("error", TOO_LONG, ids=lambda error: error.message[:20])
def test_a_prompt_that_is_too_long_has_the_code_that_clients_know(error: UpstreamError) -> None:
    status, body = render_error(error, "req_1")
    assert status == error.status
    assert json.loads(body)["error"]["code"] == "context_length_exceeded"
    assert json.loads(body)["error"]["message"] == error.message
    assert render_failure(error) == {"code": "context_length_exceeded", "message": error.message}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UpstreamError(429, "prompt is too long for your tier"), "rate_limit_exceeded"),
        (UpstreamError(500, "prompt is too long"), "server_error"),
        (GatewayError(Reason.UPSTREAM_BROKEN, "it broke"), "server_error"),
        (GatewayError(Reason.CLIENT_LIMIT, "slow down"), "rate_limit_exceeded"),
    ],
)
def test_other_failures_have_the_codes_of_the_reference(
    error: GatewayError | UpstreamError, code: str
) -> None:
    assert render_failure(error)["code"] == code


def test_other_refusals_are_told_as_ever() -> None:
    body = render_error(UpstreamError(404, "no such model", "not_found_error"), "req_1")[1]
    assert json.loads(body)["error"]["code"] == "not_found_error"
