"""AWS's names of errors, wherever they stand."""

from __future__ import annotations

import pytest

from mgw.wire.amazon_errors import error_type, short_name
from mgw.wire.headers import RawHeaders

NAMED: RawHeaders = [(b"X-Amzn-ErrorType", b"ExpiredTokenException:http://internal.amazon.com/coral/x#y")]


@pytest.mark.parametrize(
    ("headers", "body", "name"),
    [
        (NAMED, b"", "ExpiredTokenException"),
        (NAMED, b'{"code":"Other","__type":"Another"}', "ExpiredTokenException"),
        ([(b"x-amzn-errortype", b"a.b#Foo")], b"", "Foo"),
        ([], b'{"code":"a.b#Foo:http://x","message":"m"}', "Foo"),
        (
            [],
            b'{"__type":"com.amazon.coral.service#UnrecognizedClientException"}',
            "UnrecognizedClientException",
        ),
        ([], b'{"code":7,"__type":"Foo"}', "Foo"),
        ([], b'{"code":"","__type":"Foo"}', "Foo"),
        ([], b'{"code":400,"type":"x"}', None),
        ([], b'{"error":{"code":"Foo"}}', None),
        ([(b"x-amzn-errortype", b"")], b'{"code":"Foo"}', "Foo"),
        ([], b"[" * 100_000, None),
        ([], b'{"code":"Foo"', None),
        ([], b'{"code":"\xff"}', None),
        ([], b'["code"]', None),
        ([], b"", None),
    ],
)
def test_an_error_is_named_by_its_header_else_by_its_body(
    headers: RawHeaders, body: bytes, name: str | None
) -> None:
    assert error_type(headers, body) == name


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("AccessDeniedException", "AccessDeniedException"),
        ("a.b#AccessDeniedException:http://x", "AccessDeniedException"),
        ("x#y", "y"),
        ("", None),
        (":http://x", None),
    ],
)
def test_the_name_of_a_refusal_is_what_is_left_of_it(said: str, name: str | None) -> None:
    assert short_name(said) == name
