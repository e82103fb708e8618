"""What Google refuses, and what others refuse as Google's clients read it."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from google.genai import errors as genai_errors
from hypothesis import given, settings
from hypothesis import strategies as st

from mgw.canonical.reply import UpstreamError
from mgw.dialects.gemini import CLIENT, PROVIDER


def parse(status: int, body: Any) -> UpstreamError:
    return PROVIDER.parse_error(status, json.dumps(body).encode())


def test_an_error_keeps_its_status_its_words_and_its_code() -> None:
    error = {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED", "details": [{"a": 1}]}
    details, words = {"details": [{"a": 1}]}, "Slow down."
    expected = UpstreamError(429, words, "RESOURCE_EXHAUSTED", details, own_message=words)
    assert parse(429, {"error": error}) == expected
    assert parse(429, [{"error": error}]) == expected  # how a refused stream is answered


RETRY: Final = "type.googleapis.com/google.rpc.RetryInfo"


@pytest.mark.parametrize(
    ("details", "seconds"),
    [
        ([{"@type": "type.googleapis.com/google.rpc.Help"}, {"@type": RETRY, "retryDelay": "27s"}], 27.0),
        ([{"@type": RETRY, "retryDelay": "1.5s"}], 1.5),
        ([{"@type": RETRY, "retryDelay": "0s"}], 0.0),
        ([{"@type": RETRY, "retryDelay": "-3s"}], None),
        ([{"@type": RETRY, "retryDelay": "27"}], None),
        ([{"@type": RETRY, "retryDelay": "27s or more"}], None),
        ([{"@type": RETRY, "retryDelay": "9" * 400 + "s"}], None),
        ([{"@type": RETRY, "retryDelay": 27}], None),
        ([{"@type": RETRY}, None, 7, "27s"], None),
        ([{"retryDelay": "27s"}], None),
        ({"@type": RETRY, "retryDelay": "27s"}, None),
    ],
)
def test_the_time_to_wait_is_read_from_the_details(details: Any, seconds: float | None) -> None:
    error = {"code": 429, "message": "Slow down.", "details": details}
    assert parse(429, {"error": error}).retry_after == seconds


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>Bad <b>gateway</b></html>", "the provider returned status 502: Bad gateway"),
        (b"upstream connect error", "the provider returned status 502: upstream connect error"),
        (b"", "the provider returned status 502"),
        (b"[]", "the provider returned status 502"),
        (b'{"error":"no"}', "no"),
        (b'{"error":{"status":"INTERNAL"}}', "the provider returned status INTERNAL"),
        (b'{"error":{"message":5}}', "the provider returned status 502"),
        (b'{"error":null}', "the provider returned status 502"),
    ],
)
def test_what_says_nothing_is_told_by_its_status(body: bytes, message: str) -> None:
    assert PROVIDER.parse_error(502, body).message == message


@pytest.mark.parametrize(
    "body",
    [
        [{"error": {"message": "Slow down."}}],
        [{"candidates": []}, {"error": {"message": "Slow down."}}],
        {"error": {"detail": "Slow down."}},
        {"message": "Slow down.", "code": 429},
        {"detail": "Slow down."},
        {"fault": {"faultstring": "Slow down.", "detail": {"errorcode": "policies.ratelimit"}}},
        {"error": None, "message": "Slow down."},
    ],
)
def test_an_error_of_another_shape_keeps_its_words(body: Any) -> None:
    assert parse(429, body).message == "Slow down."


def test_a_message_is_cut() -> None:
    assert len(parse(400, {"error": {"message": "x" * 10_000}}).message) == 8192


@settings(deadline=None)
@given(st.binary(max_size=30) | st.text('{}[]":,erocdmsatu0', max_size=30).map(str.encode))
def test_no_bytes_make_it_raise(body: bytes) -> None:
    assert PROVIDER.parse_error(500, body).status == 500


@pytest.mark.parametrize(
    ("status", "code", "name"),
    [
        (400, 400, "INVALID_ARGUMENT"),
        (401, 401, "UNAUTHENTICATED"),
        (403, 403, "PERMISSION_DENIED"),
        (404, 404, "NOT_FOUND"),
        (409, 409, "ABORTED"),
        (413, 413, "INVALID_ARGUMENT"),
        (418, 418, "INVALID_ARGUMENT"),
        (429, 429, "RESOURCE_EXHAUSTED"),
        (500, 500, "INTERNAL"),
        (503, 503, "UNAVAILABLE"),
        (504, 504, "DEADLINE_EXCEEDED"),
        (520, 520, "INTERNAL"),
        (529, 503, "UNAVAILABLE"),
    ],
)
def test_an_error_of_others_is_read_by_googles_sdk(status: int, code: int, name: str) -> None:
    found, body = CLIENT.render_error(UpstreamError(status, "Do otherwise.", "some_code"), "req_1")
    assert found == code
    with pytest.raises(genai_errors.APIError) as caught:
        genai_errors.APIError.raise_error(found, json.loads(body), None)
    raised = caught.value
    assert (raised.code, raised.status, raised.message) == (code, name, "Do otherwise.")
    assert json.loads(body)["error"]["details"][0]["reason"] == "SOME_CODE"


def test_lone_surrogates_do_not_break_an_error() -> None:
    _, body = CLIENT.render_error(UpstreamError(400, "a\ud800", "b\ud800"), "req_1")
    assert json.loads(body)["error"]["message"] == "a?"
