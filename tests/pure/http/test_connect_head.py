"""The promises of mgw.http.connect_head."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.http.connect_head import MAX_CONNECT_HEAD, ConnectReader, authority_of, render_connect
from mgw.http.upstream_connection import NOT_HTTP

OPENED = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 proxy\r\n\r\n"
EARLY = "sent unsolicited data"
TOO_LONG = f"sent more than {MAX_CONNECT_HEAD} bytes without opening a tunnel"
SWITCHED = "switched to another protocol without being asked"


def read(*pieces: bytes) -> ConnectReader:
    reader = ConnectReader()
    for piece in pieces:
        reader.feed(piece)
    return reader


def outcome(reader: ConnectReader) -> tuple[bool, int | None, str | None]:
    return reader.opened, reader.status, reader.fault


@pytest.mark.parametrize(
    ("host", "port", "authority"),
    [
        ("api.example.com", 443, "api.example.com:443"),
        ("10.0.0.1", 80, "10.0.0.1:80"),
        ("2001:db8::1", 8443, "[2001:db8::1]:8443"),
    ],
)
def test_the_target_always_has_a_port(host: str, port: int, authority: str) -> None:
    assert authority_of(host, port) == authority


def test_a_request_has_one_host_and_nothing_that_is_not_needed() -> None:
    assert render_connect("a:1", None) == b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"
    assert render_connect("a:1", "Basic eDp5") == (
        b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nProxy-Authorization: Basic eDp5\r\n\r\n"
    )


@pytest.mark.parametrize(
    "head",
    [
        OPENED,
        b"HTTP/1.0 200 Connection established\r\n\r\n",
        b"HTTP/1.1 200\r\n\r\n",
        b"HTTP/1.1 204 \r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 299 \xe9\r\nX:\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 P\r\nA: b\r\n\r\n" + OPENED,
    ],
)
def test_any_2xx_opens_the_tunnel_whatever_it_says_of_a_body(head: bytes) -> None:
    reader = read(head)
    assert reader.opened
    assert reader.fault is None


@pytest.mark.parametrize("status", [300, 302, 400, 403, 407, 500, 502, 503, 504])
def test_any_other_status_is_a_refusal_whose_body_nobody_reads(status: int) -> None:
    head = b"HTTP/1.1 %d No\r\nContent-Length: 4\r\n\r\n" % status
    assert outcome(read(head + b"nope", b"more")) == (False, status, None)


@pytest.mark.parametrize("pieces", [(OPENED + b"x",), (OPENED, b"x"), (OPENED[:-1], b"\nx")])
def test_bytes_that_come_with_the_head_are_a_fault(pieces: tuple[bytes, ...]) -> None:
    assert outcome(read(*pieces)) == (False, 200, EARLY)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-x\r\n",
        b"\x15\x03\x01\x00\x02\x02\x50",
        b"h",
        b"\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.2 200 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 600 OK\r\n\r\n",
        b"HTTP/1.1  200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\nX: y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: \x00\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    ],
)
def test_what_is_not_http_is_a_fault(data: bytes) -> None:
    assert outcome(read(data)) == (False, None, NOT_HTTP)


def test_another_protocol_is_a_fault() -> None:
    assert outcome(read(b"HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\n")) == (False, None, SWITCHED)


@pytest.mark.parametrize(
    "pieces",
    [
        (b"HTTP/1.1 200 " + b"x" * MAX_CONNECT_HEAD,),
        (b"HTTP/1.1 200 OK\r\n", *[b"X: y\r\n"] * (MAX_CONNECT_HEAD // 6 + 1)),
        (b"HTTP/1.1 102 P\r\n\r\n",) * (MAX_CONNECT_HEAD // 18 + 1),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * MAX_CONNECT_HEAD + b"\r\n\r\n",),
    ],
    ids=["line", "lines", "interim", "whole"],
)
def test_a_proxy_cannot_talk_for_ever(pieces: tuple[bytes, ...]) -> None:
    assert outcome(read(*pieces)) == (False, None, TOO_LONG)


def test_the_longest_head_is_read() -> None:
    head = b"HTTP/1.1 200 OK\r\nX: \r\n\r\n"
    longest = head.replace(b": ", b": " + b"y" * (MAX_CONNECT_HEAD - len(head)))
    assert len(longest) == MAX_CONNECT_HEAD
    assert read(*(longest[at : at + 1] for at in range(len(longest)))).opened


PIECES = st.sampled_from(
    [
        *(b"HTTP/1.1 ", b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 407 No\r\n", b"HTTP/1.1 100 C\r\n\r\n", b"200"),
        *(b" OK", b"\r\n", b"\r", b"\n", b"X: y\r\n", b": ", b"x", b"\x00", b"Content-Length: 3\r\n", OPENED),
        *(b"y" * 9000, b"HTTP/1.1 101 S\r\n\r\n", b" "),
    ]
)


@given(pieces=st.lists(PIECES, max_size=12))
def test_any_cut_reads_the_same(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    expected = outcome(read(whole) if whole else read())
    assert outcome(read(*filter(None, pieces))) == expected
    if len(whole) < 200:
        assert outcome(read(*(whole[at : at + 1] for at in range(len(whole))))) == expected
