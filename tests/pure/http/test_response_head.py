"""Heads of responses: what is relayed, what stays here, and what the gateway has to know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.http.response_head import ResponseHead, judge_lines, read_response_head
from mgw.wire.headers import is_relayed, response_headers


def head(*lines: bytes, reason: bytes = b"OK") -> ResponseHead:
    raw = b"HTTP/1.1 200 %b\r\n%b\r\n" % (reason, b"".join(line + b"\r\n" for line in lines))
    return read_response_head(200, raw, judge_lines(raw))


def lines_of(found: ResponseHead) -> list[bytes]:
    return found.relayed_lines.split(b"\r\n")[:-1]


def test_lines_are_relayed_as_they_are() -> None:
    lines = [b"X-Up: 1", b"x-up: 1", b"Date: now", b"Content-Type: text/plain", b"Content-Length: 5"]
    assert lines_of(head(*lines)) == lines


@pytest.mark.parametrize("line", [b"X-Up:1", b"X-Up:  1", b"X-Up:\t1", b"X-Up: \t 1"])
def test_a_line_is_spaced_as_we_write_it(line: bytes) -> None:
    found = head(line)
    assert lines_of(found) == [b"X-Up: 1"]
    assert found.headers == [(b"X-Up", b"1")]


@pytest.mark.parametrize(
    "line",
    [b"Keep-Alive: timeout=5", b"Transfer-Encoding: chunked", b"Connection: close", b"TE: trailers"],
)
def test_what_speaks_of_the_connection_stays_here(line: bytes) -> None:
    assert lines_of(head(b"X-Up: 1", line, line.lower(), line.upper())) == [b"X-Up: 1"]


def test_what_connection_names_stays_here_wherever_it_stands() -> None:
    found = head(b"x-up: 1", b"Connection: X-Up, close", b"X-Other: 2", b"connection: x-other", b"X-Third: 3")
    assert lines_of(found) == [b"X-Third: 3"]
    assert found.connection_options == {b"x-up", b"close", b"x-other"}


def test_the_length_is_not_taken_away_by_connection() -> None:
    found = head(b"Content-Length: 5", b"Connection: content-length, close")
    assert lines_of(found) == [b"Content-Length: 5"]
    assert response_headers(found.headers) == [(b"Content-Length", b"5")]


def test_what_the_gateway_has_to_know_is_found_in_any_case() -> None:
    for change in (bytes.lower, bytes.upper, bytes.title):
        names = (
            b"Content-Type",
            b"Content-Encoding",
            b"Content-Length",
            b"Transfer-Encoding",
            b"X-Request-Id",
        )
        found = head(*(change(name) + b": 5" for name in names))
        assert (found.content_type, found.content_encoding, found.content_length) == (b"5", b"5", 5)
        assert (found.transfer_encoding, found.request_id) == (b"5", "5")


def test_the_first_of_several_counts_and_all_are_relayed() -> None:
    lines = [b"Content-Type: a/b", b"Content-Type: c/d", b"request-id: 1", b"x-request-id: 2"]
    lines += [b"Content-Encoding: gzip", b"Content-Encoding: br"]
    found = head(*lines)
    assert (found.content_type, found.request_id, found.content_encoding) == (b"a/b", "1", b"gzip")
    assert lines_of(found) == lines


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"req_0aZ~!", "req_0aZ~!"),
        (b"1" * 128, "1" * 128),
        *((value, None) for value in (b"", b"1" * 129, b"a b", b"a\tb", b"\xe9", b"a\x7f")),
    ],
)
def test_what_cannot_be_an_id_is_none(value: bytes, found: str | None) -> None:
    assert head(b"x-request-id: " + value).request_id == found


def test_transfer_codings_are_joined() -> None:
    found = head(b"Transfer-Encoding: gzip", b"transfer-encoding: chunked")
    assert found.transfer_encoding == b"gzip,chunked"


@pytest.mark.parametrize("reason", [b"a\x00b", b"a\x7fb", b"a\x1bb", b"a\nb"])
def test_a_phrase_that_is_none_is_left_out(reason: bytes) -> None:
    assert head(reason=reason).reason == b""


@pytest.mark.parametrize("reason", [b"", b"OK", b"I'm a teapot", b"d\xc3\xa9j\xc3\xa0", b"a\tb"])
def test_any_other_phrase_is_kept(reason: bytes) -> None:
    assert head(reason=reason).reason == reason


NAMES = st.sampled_from(
    [b"X-Up", b"x-UP", b"Date", b"Connection", b"Keep-Alive", b"Upgrade", b"Trailer", b"Content-Type", b"Via"]
) | st.from_regex(rb"[!#$%&'*+.^_`|~0-9a-zA-Z-]{1,70}", fullmatch=True)
PAIRS = st.lists(st.tuples(NAMES, st.sampled_from([b"", b"1", b"x-up", b"close, X-Up", b"a: b"])), max_size=6)


@given(PAIRS)
def test_the_lines_are_the_pairs_that_the_rules_let_through(pairs: list[tuple[bytes, bytes]]) -> None:
    found = head(*(b"%b: %b" % pair for pair in pairs))
    assert found.headers == pairs
    assert lines_of(found) == [b"%b: %b" % pair for pair in response_headers(pairs)]
    assert all(is_relayed(line.partition(b":")[0]) for line in lines_of(found))
