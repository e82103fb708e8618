"""The promises of mgw.http.request_head: the heads that we render."""

from __future__ import annotations

import pytest

from mgw.http.request_head import render_request_head
from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.headers import RawHeaders

HOST = b"api.example:8080"


def test_the_head_is_request_line_host_then_the_headers_as_given_then_the_length() -> None:
    headers = [(b"X-One", b"1"), (b"accept", b"*/*"), (b"X-One", b"2")]
    head = render_request_head(b"POST", b"/v1/chat?a=%2F", headers, HOST, 2)
    assert head == (
        b"POST /v1/chat?a=%2F HTTP/1.1\r\nHost: api.example:8080\r\n"
        b"X-One: 1\r\naccept: */*\r\nX-One: 2\r\nContent-Length: 2\r\n\r\n"
    )


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"PATCH"])
def test_a_method_that_means_content_says_that_there_is_none(method: bytes) -> None:
    assert b"Content-Length: 0\r\n" in render_request_head(method, b"/", [], HOST, 0)


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"DELETE"])
def test_another_method_without_a_body_has_no_length(method: bytes) -> None:
    assert b"Content-Length" not in render_request_head(method, b"/", [], HOST, 0)


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        (b"/a\r\nX: y", []),
        (b"/a b", []),
        (b"", []),
        (b"/", [(b"A", b"b\r\nC: d")]),
        (b"/", [(b"A", b"b\nC: d")]),
        (b"/", [(b"A", b"b\rC: d")]),
        (b"/", [(b"A\r\nB", b"c")]),
        (b"/", [(b"A", b"\0")]),
    ],
    ids=["path", "blank", "empty", "value", "lf", "cr", "name", "nul"],
)
def test_nothing_in_a_request_may_add_a_line(target: bytes, headers: RawHeaders) -> None:
    with pytest.raises(GatewayError) as caught:
        render_request_head(b"GET", target, headers, HOST, 0)
    assert caught.value.reason is Reason.MALFORMED
