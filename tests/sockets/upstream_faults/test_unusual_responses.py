"""Responses of providers that are odd, and still right."""

from __future__ import annotations

import gzip

import pytest

from tests.support.ledger import Ledger
from tests.support.raw_client import RawClient, asking, chat, chunk, request
from tests.support.raw_upstream import COMPLETION, EVENTS, JSON, STREAM_HEAD, RawUpstream, Turn, counted
from tests.support.upstream_faults import (
    DONE,
    HALF,
    KEPT,
    PIECE,
    USAGE,
    ask,
    breaking,
    saying,
    upstream_error,
)


def test_interim_answers_stay_with_the_gateway(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    def with_interim(turn: Turn) -> None:
        assert turn.body
        turn.send(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
        turn.send(b"HTTP/1.1 102 Processing\r\nContent-Length: 3\r\n\r\n", counted(COMPLETION, JSON))

    upstream.begin(with_interim)
    response = ask(client, "kept/gpt-1")
    assert (response.interim, response.status, response.body) == ([], 200, COMPLETION)
    assert response.value(b"link") is None
    ledger.one(status="ok", http_status=200, tokens_in=7, tokens_out=3, attempts=1)


def test_a_gzipped_answer_passes_byte_for_byte_and_is_metered(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    packed = gzip.compress(COMPLETION)

    def zipped(turn: Turn) -> None:
        assert turn.value(b"accept-encoding") == b"gzip"
        turn.send(counted(packed, JSON, b"Content-Encoding: gzip"))

    upstream.begin(zipped)
    client.send(chat("kept/gpt-1", b"Accept-Encoding: br, gzip"))
    response = client.read_response()
    assert (response.body, response.value(b"content-encoding")) == (packed, b"gzip")
    ledger.one(status="ok", http_status=200, tokens_in=7, tokens_out=3)


def test_a_gzipped_stream_passes_byte_for_byte_and_is_metered(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    packed = gzip.compress(PIECE * 50 + USAGE + DONE)
    head = STREAM_HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n"

    def zipped(turn: Turn) -> None:
        turn.send(head, *[chunk(packed[at : at + 7]) for at in range(0, len(packed), 7)], chunk(b""))

    upstream.begin(zipped)
    client.send(chat("kept/gpt-1", b"Accept-Encoding: gzip", stream=True))
    response = client.read_response()
    assert (response.body, response.whole) == (packed, True)
    ledger.one(status="ok", http_status=200, stream=True, tokens_in=7, tokens_out=3)


def test_an_answer_that_is_no_gzip_although_it_says_so_still_passes(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    def lying(turn: Turn) -> None:
        turn.send(counted(COMPLETION, JSON, b"Content-Encoding: gzip"))

    upstream.begin(lying)
    client.send(chat("kept/gpt-1", b"Accept-Encoding: gzip"))
    response = client.read_response()
    assert (response.body, response.whole) == (COMPLETION, True)
    ledger.one(status="ok", http_status=200, tokens_in=None)


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_an_answer_that_ends_with_its_connection_is_whole(
    client: RawClient, ledger: Ledger, upstream: RawUpstream, version: bytes
) -> None:
    upstream.begin(saying(b"HTTP/%b 200 OK\r\n%b\r\n\r\n" % (version, JSON), HALF, COMPLETION[len(HALF) :]))
    response = ask(client, "kept/gpt-1")
    assert (response.status, response.body, response.whole) == (200, COMPLETION, True)
    ledger.one(status="ok", http_status=200, tokens_in=7, tokens_out=3)


def test_an_answer_of_http_1_0_with_a_length_is_whole(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    upstream.begin(saying(counted(COMPLETION, JSON).replace(b"HTTP/1.1", b"HTTP/1.0")))
    response = ask(client, "kept/gpt-1")
    assert (response.status, response.body, response.whole) == (200, COMPLETION, True)
    assert response.value(b"content-length") == b"%d" % len(COMPLETION)
    ledger.one(status="ok", http_status=200, tokens_in=7)


def test_an_answer_of_http_1_0_that_is_reset_is_broken(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    upstream.begin(breaking(b"HTTP/1.0 200 OK\r\n%b\r\n\r\n" % EVENTS, PIECE, reset=True))
    response = ask(client, "kept/gpt-1", stream=True)
    assert (response.status, response.whole) == (200, False)
    upstream_error(ledger, 200, **KEPT, stream=True)


def bare(turn: Turn) -> None:
    assert turn.body
    turn.send(b"HTTP/1.1 204 No Content\r\nX-Left: me\r\n\r\n")


def test_a_204_has_no_body_and_its_connection_is_kept(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    upstream.begin(bare)
    for _ in range(2):
        response = ask(client, "kept/gpt-1")
        assert (response.status, response.body, response.whole) == (204, b"", True)
        assert (response.value(b"content-length"), response.value(b"transfer-encoding")) == (None, None)
        assert response.value(b"x-left") == b"me"
        ledger.one(status="ok", http_status=204)
    first, second = upstream.turns
    assert (first.connection, second.number) == (second.connection, first.number + 1)


def test_an_empty_answer_is_an_empty_answer(client: RawClient, ledger: Ledger, upstream: RawUpstream) -> None:
    upstream.begin(lambda turn: turn.send(counted(b"")))
    response = ask(client, "kept/gpt-1")
    assert (response.status, response.body, response.value(b"content-length")) == (200, b"", b"0")
    ledger.one(status="ok", http_status=200, ttft_ms=None)


def test_the_providers_own_errors_pass_as_they_are(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    body = b'{"error": {"message": "no such model"}}'
    upstream.begin(lambda turn: turn.send(counted(body, JSON, b"X-Own: 1", b"Server: x", status=404)))
    response = ask(client, "kept/gpt-1")
    assert (response.status, response.body) == (404, body)
    assert (response.value(b"x-own"), response.value(b"server")) == (b"1", None)
    upstream_error(ledger, 404, **KEPT)


def test_a_request_body_of_many_megabytes_reaches_a_slow_provider_whole(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    body = asking("gpt-8", padding="x" * 8_000_000)
    client.send(request(body, JSON))
    assert client.read_response().body == COMPLETION
    assert upstream.turns[0].body == body
    ledger.one(status="ok", http_status=200, provider="main", model="gpt-8")
