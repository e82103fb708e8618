"""The promises of mgw.upstream.request."""

from __future__ import annotations

import pytest

from mgw.errors import GatewayError, Reason
from mgw.upstream.request import UpstreamRequest, head_of

HOST = b"api.example:8080"


def test_the_head_is_request_line_host_then_the_headers_as_given_then_the_length() -> None:
    headers = [(b"X-One", b"1"), (b"accept", b"*/*"), (b"X-One", b"2")]
    head = head_of(UpstreamRequest(b"POST", b"/v1/chat?a=%2F", headers, b"{}"), HOST)
    assert head == (
        b"POST /v1/chat?a=%2F HTTP/1.1\r\nHost: api.example:8080\r\n"
        b"X-One: 1\r\naccept: */*\r\nX-One: 2\r\nContent-Length: 2\r\n\r\n"
    )


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"PATCH"])
def test_a_method_that_means_content_says_that_there_is_none(method: bytes) -> None:
    assert b"Content-Length: 0\r\n" in head_of(UpstreamRequest(method, b"/", []), HOST)


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"DELETE"])
def test_another_method_without_a_body_has_no_length(method: bytes) -> None:
    assert b"Content-Length" not in head_of(UpstreamRequest(method, b"/", []), HOST)


@pytest.mark.parametrize(
    "request_",
    [
        UpstreamRequest(b"GET", b"/a\r\nX: y", []),
        UpstreamRequest(b"GET", b"/a b", []),
        UpstreamRequest(b"GET", b"", []),
        UpstreamRequest(b"GET", b"/", [(b"A", b"b\r\nC: d")]),
        UpstreamRequest(b"GET", b"/", [(b"A", b"b\nC: d")]),
        UpstreamRequest(b"GET", b"/", [(b"A", b"b\rC: d")]),
        UpstreamRequest(b"GET", b"/", [(b"A\r\nB", b"c")]),
        UpstreamRequest(b"GET", b"/", [(b"A", b"\0")]),
    ],
    ids=["path", "blank", "empty", "value", "lf", "cr", "name", "nul"],
)
def test_nothing_in_a_request_may_add_a_line(request_: UpstreamRequest) -> None:
    with pytest.raises(GatewayError) as caught:
        head_of(request_, HOST)
    assert caught.value.reason is Reason.MALFORMED


def test_a_request_does_not_print_its_credential_body_or_query() -> None:
    shown = repr(UpstreamRequest(b"POST", b"/v1?key=canary", [(b"Authorization", b"canary")], b"canary"))
    assert "canary" not in shown
