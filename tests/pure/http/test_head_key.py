"""Keys of heads: equal for heads that differ in what every request has of its own, and for no others."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.http.head_key import MAX_KEY_BYTES, HeadKey, RepeatedHead, key_of_head
from mgw.http.request_head import RequestHead, RequestHeadReader
from mgw.nouns.errors import GatewayError

HEAD = b"POST /v1/x HTTP/1.1\r\nHost: gateway\r\nContent-Length: %b\r\nX: 1\r\n\r\n"


def read(data: bytes) -> RequestHead | None:
    """Return the head that the data begins with, if it is complete and in order."""
    reader = RequestHeadReader(64 * 1024, 256)
    try:
        end = reader.feed(data.lstrip(b"\r\n"))
        return None if end is None else reader.head()
    except GatewayError:
        return None


@pytest.mark.parametrize("length", [b"1", b"10", b"999999999"])
@pytest.mark.parametrize("name", [b"Content-Length", b"content-length", b"Content-length"])
def test_the_key_is_the_head_without_the_digits_of_its_length(length: bytes, name: bytes) -> None:
    head = (HEAD % length).replace(b"Content-Length", name)
    without = head.replace(length + b"\r\nX", b"\r\nX").removesuffix(b"\r\n\r\n")
    assert key_of_head(head + b"body") == (without, len(head), int(length), ())


@pytest.mark.parametrize(
    "length",
    [b"0", b"01", b"007", b"+1", b"-1", b"1 ", b" 1", b"1,1", b"1_0", b"0x1", b"", b"1000000000", b"\xb2"],
)
def test_no_other_spelling_of_a_length_has_a_key(length: bytes) -> None:
    assert key_of_head(HEAD % length) is None


@pytest.mark.parametrize(
    "line",
    [
        b"CONTENT-LENGTH: 5",
        b"Content-Length:5",
        b"Content-Length:\t5",
        b"Content-Length : 5",
        b" Content-Length: 5",
        b"X-Content-Length: 5",
        b"Transfer-Encoding: chunked",
    ],
)
def test_a_head_that_says_it_otherwise_has_no_key(line: bytes) -> None:
    assert key_of_head(b"POST / HTTP/1.1\r\nHost: g\r\n" + line + b"\r\n\r\n") is None


def test_a_length_behind_the_head_is_not_the_heads() -> None:
    head = b"POST / HTTP/1.1\r\nHost: g\r\n\r\n"
    assert key_of_head(head + b"\r\nContent-Length: 5\r\n\r\n") is None
    assert key_of_head(b"\r\n\r\n" + HEAD % b"5") is None


def test_a_length_that_is_the_last_line_is_found() -> None:
    head = b"POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 5\r\n\r\n"
    assert key_of_head(head) == (head.removesuffix(b"5\r\n\r\n"), len(head), 5, ())


def test_a_head_that_is_not_complete_has_no_key_wherever_it_is_cut() -> None:
    head = HEAD % b"5"
    assert not [cut for cut in range(len(head)) if key_of_head(head[:cut]) is not None]


def test_a_long_head_has_no_key() -> None:
    room = MAX_KEY_BYTES - len(HEAD % b"5")
    fits, long = (HEAD.replace(b"X: 1", b"X: 1" + b"x" * more) % b"5" for more in (room, room + 1))
    assert key_of_head(fits) is not None
    assert key_of_head(long) is None


FINE_LINES = st.sampled_from(
    [
        b"X: Content-Length: 5",
        b"X-Content-Length: 5",
        b"X: traceparent: a",
        b"X: 1",
        b"x: 1",
        b"X: 15",
        b"X:1",
        b"X: ",
        b"traceparent: a",
        b"traceparent: b",
        b"Traceparent: b",
        b"TRACEPARENT: a",
        b"traceparent:a",
        b"traceparent: a b",
        b"tracestate: a",
        b"idempotency-key: 5",
    ]
)
BAD_LINES = st.sampled_from(
    [
        b"Host: other",
        b"Content-Length: 5",
        b"content-length: 15",
        b"CONTENT-LENGTH: 5",
        b"Content-Length: 05",
        b"Content-Length: ",
        b"Content-Length:",
        b" Content-Length: 5",
        b" folded",
        b"Transfer-Encoding: chunked",
        b"X: \x00",
        b"X: \x001",
    ]
)
START = st.sampled_from([b"POST /a HTTP/1.1", b"POST /5 HTTP/1.1", b"\r\nPOST /a HTTP/1.1"])
LENGTH = st.tuples(
    st.sampled_from([b"Content-Length: ", b"content-length: "]), st.integers(1, 1200).map(b"%d".__mod__)
).map(b"".join)


def heads(lines: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    several = st.lists(lines, max_size=3)
    return st.tuples(START, several, LENGTH, several).map(
        lambda drawn: b"\r\n".join([drawn[0], b"Host: gateway", *drawn[1], drawn[2], *drawn[3], b"", b""])
    )


def rebuild(found: HeadKey) -> bytes:
    """Return the head that a key was made of: all that it leaves out stands beside it."""
    key, _, length, values = found
    for value in values:
        key = key.replace(b"\0", value, 1)
    before, name, after = re.split(rb"(\r\n[Cc]ontent-[Ll]ength: (?=\r\n|$))", key, maxsplit=1)
    return before + name + b"%d" % length + after + b"\r\n\r\n"


@given(heads(FINE_LINES))
def test_nothing_is_lost_between_a_head_in_order_and_its_key(head: bytes) -> None:
    found, said = key_of_head(head + b"body"), read(head)
    assert found is not None
    assert said is not None
    assert rebuild(found) == head
    assert (found[1], found[2]) == (len(head), said.content_length)


@given(heads(FINE_LINES), heads(FINE_LINES | BAD_LINES))
def test_a_head_that_is_not_in_order_has_no_key_that_one_in_order_has(fine: bytes, other: bytes) -> None:
    found, key = key_of_head(other), key_of_head(fine)
    assert key is not None
    if found is not None and read(other) is None:
        assert found[0] != key[0]


DIGITS = (st.text("0159 \r", min_size=1, max_size=11) | st.integers(10**7, 10**11).map(str)).map(str.encode)


@given(heads(FINE_LINES), heads(FINE_LINES | BAD_LINES), DIGITS, st.booleans())
def test_a_likely_head_changes_no_key(likely: bytes, other: bytes, digits: bytes, same: bool) -> None:
    found = key_of_head(likely)
    assert found is not None
    repeated = RepeatedHead.of_key(found[0])
    assert (repeated is None) == bool(found[3])
    if same:
        other = re.sub(rb"(\r\n[Cc]ontent-[Ll]ength: )[0-9]+", lambda name: name[1] + digits, likely, count=1)
    for data in (likely, likely + b"body", other, other[:-1], other + b"body"):
        assert key_of_head(data, repeated) == key_of_head(data)


@pytest.mark.parametrize("line", [b"X: 1", b"Y: Content-Length: "])
def test_a_plain_head_is_recognised_whatever_its_length(line: bytes) -> None:
    head = HEAD.replace(b"X: 1", line)
    found = key_of_head(head % b"5")
    assert found is not None
    repeated = RepeatedHead.of_key(found[0])
    assert repeated is not None
    assert repeated.before + b"17" + repeated.after == head % b"17"
    again = key_of_head(head % b"17" + b"body", repeated)
    assert again == (found[0], len(head % b"17"), 17, ())
    assert again[0] is repeated.key


def test_a_head_that_a_longer_length_makes_too_long_is_not_plain() -> None:
    longest = MAX_KEY_BYTES - len(HEAD % b"123456789")
    heads = [HEAD.replace(b"X: 1", b"X: 1" + b"x" * (longest + more)) for more in (0, 1)]
    keys = [key_of_head(head % b"1") for head in heads]
    assert [key is not None and RepeatedHead.of_key(key[0]) is not None for key in keys] == [True, False]


def test_heads_that_differ_in_what_varies_alone_have_one_key() -> None:
    head = HEAD.replace(b"X: 1", b"traceparent: %b\r\nX-Client-Request-Id: %b")
    one, other = key_of_head(head % (b"5", b"a", b"b")), key_of_head(head % (b"10", b"c", b"d"))
    assert one is not None
    assert other is not None
    assert one[0] == other[0]
    assert (one[3], other[3]) == ((b"a", b"b"), (b"c", b"d"))


@pytest.mark.parametrize("value", [b"", b"a b", b" a", b"a ", b"\xe9", b"\x01", b"x" * 513])
def test_a_value_that_is_not_plain_does_not_vary(value: bytes) -> None:
    keys = [key_of_head(HEAD.replace(b"X: 1", b"traceparent: " + one) % b"5") for one in (value, b"a")]
    assert keys[0] is not None
    assert keys[1] is not None
    assert keys[0][3] == ()
    assert keys[0][0] != keys[1][0]


def test_a_head_with_a_nul_has_no_key() -> None:
    assert key_of_head(HEAD.replace(b"X: 1", b"traceparent: \0") % b"5") is None


def test_a_head_with_two_lengths_has_no_key() -> None:
    for length in (b"5", b"6"):
        assert key_of_head(HEAD.replace(b"X: 1", b"Content-Length: " + length) % b"5") is None
