"""Providers that cannot be reached, or break off before their head."""

from __future__ import annotations

import json

import pytest

from tests.support.ledger import Ledger
from tests.support.raw_client import RawClient, request
from tests.support.raw_upstream import COMPLETION, JSON, RawUpstream, Script, Turn
from tests.support.upstream_faults import (
    LIMIT,
    ask,
    close_at_once,
    close_in_the_head,
    saying,
    told,
    upstream_error,
)

# It cannot be reached


def test_a_refused_connection_is_a_502_in_openais_shape(client: RawClient, ledger: Ledger) -> None:
    response = ask(client, "refusing/gpt-1")
    assert "refused the connection" in told(response, 502)
    event = upstream_error(ledger, 502, provider="refusing", model="refusing/gpt-1", ttft_ms=None)
    assert event["request_id"].encode() == response.value(b"x-gateway-request-id")


def test_a_refused_connection_is_a_502_in_anthropics_shape(client: RawClient, ledger: Ledger) -> None:
    body = json.dumps({"model": "refusing-a/claude-1", "max_tokens": 9, "messages": []}).encode()
    client.send(request(body, JSON, path="/v1/messages"))
    response = client.read_response()
    assert (response.status, response.whole) == (502, True)
    assert (response.json()["type"], response.json()["error"]["type"]) == ("error", "api_error")
    assert response.json()["request_id"].encode() == response.value(b"x-gateway-request-id")
    model = {"model": "refusing-a/claude-1", "upstream_model": "claude-1"}
    upstream_error(ledger, 502, dialect="anthropic", route="messages", provider="refusing-a", **model)


@pytest.mark.parametrize(
    ("method", "route"),
    [("generateContent", "generate_content"), ("streamGenerateContent", "stream_generate_content")],
)
def test_a_refused_connection_is_a_502_in_geminis_shape(
    client: RawClient, ledger: Ledger, method: str, route: str
) -> None:
    client.send(request(b"{}", JSON, path=f"/v1beta/models/refusing-g/gemini-1:{method}"))
    response = client.read_response()
    assert (response.status, response.whole) == (502, True)
    assert (response.json()["error"]["code"], response.json()["error"]["status"]) == (502, "UNAVAILABLE")
    model = {"model": "refusing-g/gemini-1", "upstream_model": "gemini-1"}
    upstream_error(ledger, 502, dialect="gemini", route=route, provider="refusing-g", **model)


def test_a_name_without_an_address_is_a_502(client: RawClient, ledger: Ledger) -> None:
    words = told(ask(client, "nameless/gpt-1"), 502)
    assert "its host name has no address" in words
    assert "nowhere.invalid" not in words
    log = ledger.gateway.log(b"error=dns")
    assert b"provider nameless cannot be found: its host name has no address, at nowhere.invalid" in log
    upstream_error(ledger, 502, provider="nameless", model="nameless/gpt-1")


# It breaks before its head


def reset_at_once(turn: Turn) -> None:
    assert turn.body
    turn.reset()


def reset_in_the_head(turn: Turn) -> None:
    assert turn.body
    turn.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
    turn.reset()


def going_on(*pieces: bytes) -> Script:
    """Return what sends these bytes and then leaves it to the gateway to end the connection."""

    def script(turn: Turn) -> None:
        assert turn.body
        turn.send(*pieces)
        turn.wait_until_left()
        turn.closed = True

    return script


NO_ANSWERS = {
    "reset": reset_at_once,
    "reset in the head": reset_in_the_head,
    "closed": close_at_once,
    "closed in the head": close_in_the_head,
    "garbage": saying(b"\x16\x03\x01 this is not HTTP\r\n\r\n\x00\xff"),
    "line ends": saying(b"\r\n\r\n\r\n"),
    "another protocol": saying(b"RTSP/1.0 200 OK\r\n\r\n"),
    "another version": saying(b"HTTP/2.0 200 OK\r\n\r\n"),
    "no status": saying(b"HTTP/1.1 abc\r\n\r\n"),
    "a switch of protocols": saying(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
    "two lengths": saying(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
    "length and chunks": saying(
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "a folded header": saying(b"HTTP/1.1 200 OK\r\nX: 1\r\n 2\r\n\r\n"),
    "huge headers": going_on(
        b"HTTP/1.1 200 OK\r\n", *[b"X-%d: %b\r\n" % (n, b"x" * 1000) for n in range(100)]
    ),
    "one endless header": going_on(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000),
    "endless interim answers": going_on(b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" * 5000),
}


@pytest.mark.parametrize("script", NO_ANSWERS.values(), ids=NO_ANSWERS.keys())
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_what_is_no_answer_is_a_502(
    client: RawClient, ledger: Ledger, upstream: RawUpstream, script: Script, stream: bool
) -> None:
    upstream.begin(script)
    assert told(ask(client, stream=stream), 502).startswith("provider main ")
    upstream_error(ledger, 502, ttft_ms=None)
    assert len(upstream.turns) == 1


def test_the_clients_connection_survives_a_502(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    upstream.begin(reset_at_once)
    told(ask(client), 502)
    upstream.begin()
    assert ask(client, "kept/gpt-1").body == COMPLETION
    upstream_error(ledger, 502)
    ledger.one(status="ok", http_status=200)


def silent(turn: Turn) -> None:
    assert turn.body
    turn.wait_until_left()
    turn.closed = True


def test_a_silent_provider_is_a_504_and_is_left(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    upstream.begin(silent)
    assert f"within {LIMIT:g} s" in told(ask(client, "hasty/gpt-1"), 504)
    event = upstream_error(ledger, 504, provider="hasty", model="hasty/gpt-1", ttft_ms=None)
    assert event["latency_ms"] >= LIMIT * 1000
    upstream.wait_until_left()
