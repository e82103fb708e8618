"""Errors of providers that speak this wire, and errors of others for its clients."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw.canonical.reply import UpstreamError
from mgw.dialects.openai.errors import MAX_MESSAGE_BYTES, parse_error, render_error


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        ('{"error":{"message":"m","type":"t","param":null,"code":"c"}}', "m", "c"),
        ('{"error":{"message":"m","type":"t","code":null}}', "m", "t"),
        ('{"error":"m"}', "m", None),
        ('[{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}]', "m", "INVALID_ARGUMENT"),
        ('{"object":"error","message":"m","type":"BadRequestError","code":400}', "m", "BadRequestError"),
        ('{"detail":"m"}', "m", None),
        ('{"detail":[{"msg":"m"}]}', '[{"msg":"m"}]', None),
        ("<html>Bad gateway</html>", "the upstream returned status 418: Bad gateway", None),
        ("no healthy upstream\n", "the upstream returned status 418: no healthy upstream", None),
        ('{"errors":[{"message":"m"}]}', "m", None),
        ('{"message":{"detail":["m"]}}', '{"detail":["m"]}', None),
        ("{cut", "the upstream returned status 418", None),
        ("\x00\x01", "the upstream returned status 418", None),
        ("", "the upstream returned status 418", None),
        ('{"error":{}}', "the upstream returned status 418", None),
    ],
    ids=[
        "openai",
        "type alone",
        "string",
        "google",
        "vllm",
        "fastapi",
        "list",
        "html",
        "text",
        "errors",
        "mistral",
        "cut",
        "binary",
        "nothing",
        "empty",
    ],
)
def test_the_words_of_every_host_are_found(body: str, message: str, code: str | None) -> None:
    found = parse_error(418, body.encode())
    assert replace(found, own_message=None) == UpstreamError(418, message, code)


@given(st.binary() | st.text().map(str.encode) | st.just(b"[" * 99_999))
def test_no_bytes_raise(body: bytes) -> None:
    assert parse_error(500, body).message


@pytest.mark.parametrize(
    ("status", "told", "kind"),
    [
        (400, 400, "invalid_request_error"),
        (401, 401, "authentication_error"),
        (403, 403, "permission_error"),
        (404, 404, "invalid_request_error"),
        (429, 429, "rate_limit_error"),
        (500, 500, "server_error"),
        (504, 504, "timeout_error"),
        (529, 503, "server_error"),
    ],
)
def test_a_status_stays_but_for_the_one_that_this_family_does_not_have(
    status: int, told: int, kind: str
) -> None:
    found, body = render_error(UpstreamError(status, "m", "c"), "req_1")
    assert found == told
    assert json.loads(body) == {"error": {"message": "m", "type": kind, "param": None, "code": "c"}}


def test_a_message_is_cut_and_can_always_be_encoded() -> None:
    _, body = render_error(UpstreamError(500, "\ud83d" + "é" * MAX_MESSAGE_BYTES), "req_1")
    assert len(body) < MAX_MESSAGE_BYTES + 200
