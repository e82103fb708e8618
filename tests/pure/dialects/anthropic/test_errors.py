"""What an upstream's errors keep to, read and written."""

from __future__ import annotations

import json

import anthropic
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.reply import UpstreamError
from mgw.dialects.anthropic.errors import MAX_MESSAGE_BYTES, parse_error, render_error
from mgw.dialects.anthropic.reply import parse_reply
from mgw.dialects.dialect import ReplySource
from mgw.dialects.refusal import AnswerError


def parsed(status: int, **error: object) -> UpstreamError:
    return parse_error(status, json.dumps({"type": "error", "error": error, "request_id": "r"}).encode())


def test_the_vendors_words_are_kept() -> None:
    found = parsed(
        400, type="invalid_request_error", message="max_tokens: required", details={"error_code": "x"}
    )
    words, details = "max_tokens: required", {"error_code": "x"}
    expected = UpstreamError(400, words, "invalid_request_error", details, own_message=words)
    assert found == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"message": "Forbidden"}', "Forbidden"),
        (b'{"error": "no such deployment"}', "no such deployment"),
        (b'{"detail": "down"}', "down"),
        (
            b"<html><h1>Bad Gateway</h1></html>",
            "the upstream rejected the request with status 502: Bad Gateway",
        ),
        (b"", "the upstream rejected the request with status 502"),
        (b'{"error": {"type": "x"}}', "the upstream rejected the request with status 502"),
        (b"[" * 100_000, "the upstream rejected the request with status 502"),
    ],
    ids=["message", "text", "detail", "html", "nothing", "no words", "nested"],
)
def test_any_body_has_its_words(body: bytes, message: str) -> None:
    assert parse_error(502, body).message == message


@given(status=st.integers(0, 999), body=st.binary(max_size=60))
def test_no_bytes_break_the_reader_or_the_writer(status: int, body: bytes) -> None:
    error = parse_error(status, body)
    written, data = render_error(error, "req_1")
    assert 400 <= written <= 599
    assert json.loads(data)["request_id"] == "req_1"


@pytest.mark.parametrize(
    ("status", "expected", "kind"),
    [
        (400, 400, "invalid_request_error"),
        (401, 401, "authentication_error"),
        (402, 402, "billing_error"),
        (403, 403, "permission_error"),
        (404, 404, "not_found_error"),
        (408, 408, "timeout_error"),
        (413, 413, "request_too_large"),
        (422, 422, "invalid_request_error"),
        (429, 429, "rate_limit_error"),
        (500, 500, "api_error"),
        (502, 502, "api_error"),
        (503, 529, "overloaded_error"),
        (504, 504, "timeout_error"),
        (529, 529, "overloaded_error"),
        (302, 502, "api_error"),
    ],
)
def test_an_error_keeps_its_status_and_gets_its_type(status: int, expected: int, kind: str) -> None:
    written, body = render_error(UpstreamError(status, "Do otherwise.", "whatever"), "req_1")
    assert written == expected
    assert json.loads(body) == {
        "type": "error",
        "error": {"type": kind, "message": "Do otherwise."},
        "request_id": "req_1",
    }


def test_long_and_odd_words_are_cut_and_written() -> None:
    _, body = render_error(UpstreamError(500, "\ud800" + "é" * MAX_MESSAGE_BYTES), "r")
    message = json.loads(body)["error"]["message"]
    assert message.startswith("?é")
    assert len(message.encode()) <= MAX_MESSAGE_BYTES
    assert len(parsed(500, message="x" * 10_000).message) == MAX_MESSAGE_BYTES


def test_the_sdk_raises_what_the_status_means() -> None:
    status, body = render_error(UpstreamError(503, "Busy"), "req_1")

    def respond(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, content=body, headers={"content-type": "application/json"})

    http = httpx2.Client(transport=httpx2.MockTransport(respond))
    with (
        anthropic.Anthropic(api_key="k", http_client=http, max_retries=0) as client,
        pytest.raises(anthropic.APIStatusError) as caught,
    ):
        client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}])
    assert caught.value.status_code == 529
    assert caught.value.type == "overloaded_error"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'[{"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}}]', "slow"),
        (b'{"__type": "ThrottlingException", "message": "Too many"}', "Too many"),
        (b'{"Message": "User is not authorized"}', "User is not authorized"),
        (b'"overloaded"', "overloaded"),
        (b'{"error": {"type": "x", "message": "hm", "details": "odd"}}', "hm"),
        (b"no healthy upstream", "no healthy upstream"),
        (b"<html><title>502 Bad Gateway</title></html>", "502 Bad Gateway"),
    ],
)
def test_errors_of_hosts_and_proxies_keep_their_own_words(body: bytes, words: str) -> None:
    assert words in parse_error(502, body).message


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}', 529),
        (b'{"message":"busy"}', 502),
        (b'{"error":"busy"}', 502),
        (b'{"error":{"code":429,"message":"busy"}}', 429),
    ],
)
def test_a_response_of_good_status_that_is_an_error_has_the_status_of_its_words(
    body: bytes, status: int
) -> None:
    with pytest.raises(AnswerError) as caught:
        parse_reply(body, ReplySource("seed"))
    assert (caught.value.error.status, caught.value.error.message) == (status, "busy")
