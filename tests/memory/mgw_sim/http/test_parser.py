"""The simulator's strict reading of requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw_sim.http.parser import BadRequestError, Data, End, Event, Head, RequestParser

HEAD = b"POST /a?b HTTP/1.1\r\nHost: h\r\nX-Odd: 1 \r\n"
REQUESTS = (
    (HEAD + b"\r\n", b""),
    (HEAD + b"Content-Length: 3\r\n\r\nabc", b"abc"),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", b"abc"),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: 1\r\n\r\n", b""),
)


def read(pieces: list[bytes]) -> list[Head | bytes]:
    """Each request's head and then its body."""
    reader = RequestParser()
    found: list[Head | bytes] = []
    body = b""
    events: list[Event] = [event for piece in pieces for event in reader.feed(piece)]
    for event in events:
        if isinstance(event, Head):
            found.append(event)
        elif isinstance(event, Data):
            body += event.data
        else:
            assert isinstance(event, End)
            found.append(body)
            body = b""
    return found


@given(
    chosen=st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=3),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=9),
)
def test_any_cut_gives_the_same_requests(chosen: list[tuple[bytes, bytes]], sizes: list[int]) -> None:
    whole = b"".join(raw for raw, _ in chosen)
    pieces: list[bytes] = []
    at = 0
    while at < len(whole):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(whole[at : at + size])
        at += size
    found = read(pieces)
    assert [one for one in found if isinstance(one, bytes)] == [body for _, body in chosen]
    assert found == read([whole])


def test_names_keep_their_case_and_values_lose_their_blanks() -> None:
    head = read([REQUESTS[0][0]])[0]
    assert isinstance(head, Head)
    assert head.headers == ((b"Host", b"h"), (b"X-Odd", b"1"))
    assert head.target == b"/a?b"


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\nHost: h\n\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: h\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\n folded: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
        HEAD + b"Content-Length: +1\r\n\r\na",
        HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;ext\r\na\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    ],
)
def test_what_a_careful_server_refuses_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRequestError):
        read([raw])


def test_a_head_without_end_is_refused() -> None:
    with pytest.raises(BadRequestError, match="too large"):
        read([b"GET / HTTP/1.1\r\n", b"X: y\r\n" * 100_000])
