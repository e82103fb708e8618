"""A price list is read as it is written, and within bounds."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.usage.price_import.json_document import (
    MAX_DIGITS,
    MAX_LIST_BYTES,
    PriceListError,
    number_in,
    read_document,
)


@given(st.decimals(-1000, 1000, places=15))
def test_a_number_is_what_is_written(number: Decimal) -> None:
    assert read_document(b'{"m": %s}' % str(number).encode()) == {"m": number}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON: Expecting value on line 1"),
        (b'{"m": 1,\n}', "not JSON: Expecting property name enclosed in double quotes on line 2"),
        (b'{"m": NaN}', "not JSON: NaN is not a number"),
        (b'{"m": -Infinity}', "not JSON: -Infinity is not a number"),
        (b'{"m": 1e400}', "a number is out of bounds: 1e400"),
        (b'{"m": 1e-101}', "a number is out of bounds: 1e-101"),
        (b'{"m": 1e99999999999999999999}', "a number is out of bounds: 1e99999999999999999999"),
        (b'{"m": {"a": 1, "b": 2, "a": 3}}', "duplicate key 'a'"),
        (b"[]", "not a JSON object"),
        (b"3", "not a JSON object"),
        (b'{"m": "\xff"}', "not UTF-8"),
        (b'{"m": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
        (b'{"m": ' * 100_000 + b"1" + b"}" * 100_000, "nested too deep"),
        (b" " * 20_000_000, f"larger than {MAX_LIST_BYTES} bytes"),
    ],
    ids=lambda value: value[:24] if isinstance(value, bytes) else "",
)
def test_what_is_no_price_list_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(PriceListError) as caught:
        read_document(content)
    assert str(caught.value) == reason


def test_exactly_so_many_bytes_are_read() -> None:
    content = b"{}".ljust(MAX_LIST_BYTES)
    assert read_document(content) == {}
    with pytest.raises(PriceListError):
        read_document(content + b" ")


def test_a_number_has_exactly_so_many_digits() -> None:
    assert number_in("1" * MAX_DIGITS) == Decimal("1" * MAX_DIGITS)
    assert number_in("1" * (MAX_DIGITS + 1)) is None


def test_a_zero_may_have_any_exponent_and_is_zero() -> None:
    assert str(number_in("0e-999999999")) == "0"


@pytest.mark.parametrize("text", ["", "cheap", "NaN", "Infinity", "1e101"])
def test_other_texts_are_no_numbers(text: str) -> None:
    assert number_in(text) is None
