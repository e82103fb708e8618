"""Keys in responses, and how long they are good."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.web.http_headers import Headers

from mgw.credentials.aws.keys import AwsKeys
from mgw.credentials.aws.obtained import keys_of, read_keys
from mgw.nouns.secret import Secret
from tests.support.token_endpoints import WALL

FIELDS = {
    "AccessKeyId": "ASIA1",
    "SecretAccessKey": "s/+=",
    "Token": "t",
    "Expiration": "2027-01-15T09:00:00Z",
}
DATE = b"Fri, 15 Jan 2027 08:30:00 GMT"


def seconds(expiration: object, *headers: tuple[bytes, bytes], wall: float = WALL) -> float:
    found = Headers()
    for name, value in headers:
        found.addRawHeader(name, value)
    return read_keys({**FIELDS, "Expiration": expiration}, "Token", found, lambda: wall).expires_in


def test_keys_are_the_same_once_they_were_lent_to_another_process() -> None:
    keys = keys_of(read_keys(FIELDS, "Token", Headers(), lambda: WALL))
    assert keys == AwsKeys("ASIA1", Secret("s/+="), Secret("t"))


@pytest.mark.parametrize(
    ("expiration", "expected"),
    [
        ("2027-01-15T09:00:00Z", 3600.0),
        ("2027-01-15T09:00:00.5Z", 3600.5),
        ("2027-01-15T10:00:00+01:00", 3600.0),
        ("2027-01-15T09:00:00", 3600.0),
        ("2027-01-15T07:00:00Z", 1.0),
        ("9999-01-15T07:00:00Z", 36 * 3600.0),
        (None, 600.0),
    ],
)
def test_keys_are_good_until_they_expire(expiration: str | None, expected: float) -> None:
    assert seconds(expiration) == expected


def test_the_clock_of_this_machine_does_not_matter_where_the_response_has_a_date() -> None:
    for wall in (0.0, WALL, 2 * WALL):
        assert seconds("2027-01-15T09:00:00Z", (b"Date", DATE), wall=wall) == 1800.0


@pytest.mark.parametrize(
    "headers",
    [
        [(b"Date", DATE), (b"Age", b"900")],
        [(b"Date", DATE), (b"Date", DATE)],
        [(b"Date", b"yesterday")],
        [(b"Date", b"Fri, 15 Jan 99999 08:30:00 GMT")],
    ],
)
def test_a_date_that_says_nothing_of_now_is_not_used(headers: list[tuple[bytes, bytes]]) -> None:
    assert seconds("2027-01-15T09:00:00Z", *headers) == 3600.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("AccessKeyId", None),
        ("AccessKeyId", ""),
        ("AccessKeyId", "canary/20270115"),
        ("AccessKeyId", "canary" * 100),
        ("SecretAccessKey", None),
        ("SecretAccessKey", "canary two"),
        ("Token", 5),
        ("Token", "canary\r\nX: y"),
        ("Expiration", "canary-tomorrow"),
        ("Expiration", 1_800_000_000),
        ("Expiration", "2027-01-15T09:00:00Z" + " " * 100),
    ],
)
def test_what_cannot_be_used_is_said_and_not_repeated(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field) as caught:
        read_keys({**FIELDS, field: value}, "Token", Headers(), lambda: WALL)
    assert "canary" not in str(caught.value)


ANYTHING: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2),
)


@given(fields=st.fixed_dictionaries({name: st.just(value) | ANYTHING for name, value in FIELDS.items()}))
def test_whatever_stands_there_is_read_or_refused(fields: dict[str, object]) -> None:
    try:
        found = read_keys(fields, "Token", Headers(), lambda: WALL)
    except ValueError:
        return
    assert 1.0 <= found.expires_in <= 36 * 3600.0
