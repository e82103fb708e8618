"""Providers that fail, in every way that a socket can: what the client sees, what the event says, what stays.

Each test ends with a request that is answered, and with a log that holds no traceback.
"""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway import GatewayProcess
from tests.support.ledger import Ledger
from tests.support.patience import PATIENCE
from tests.support.raw_client import RawAnswer, RawClient, asking, chat, chunk, request
from tests.support.raw_upstream import (
    COMPLETION,
    EVENTS,
    JSON,
    STREAM_HEAD,
    RawUpstream,
    Script,
    Turn,
    complete,
    counted,
)

LIMIT = 1.0
"""Seconds that the hasty provider may be silent."""
PIECE = (
    b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
)
USAGE = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n'
DONE = b"data: [DONE]\n\n"


def config(url: str, nobody: int) -> str:
    """Return the providers; only ``kept`` ever has a connection that is used twice."""
    return f"""
providers:
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary}}
  kept: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary}}
  hasty:
    kind: openai
    base_url: "{url}/v1"
    api_key: sk-canary
    timeouts: {{first_byte: {LIMIT}, idle: {LIMIT}}}
  refusing: {{kind: openai, base_url: "http://127.0.0.1:{nobody}/v1", api_key: sk-canary}}
  refusing-a: {{kind: anthropic, base_url: "http://127.0.0.1:{nobody}/v1", api_key: sk-canary}}
  refusing-g: {{kind: gemini, base_url: "http://127.0.0.1:{nobody}/v1beta", api_key: canary}}
  nameless: {{kind: openai, base_url: "http://nowhere.invalid/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
"""


@pytest.fixture(scope="module")
def gateway_config(upstream: RawUpstream) -> Iterator[str]:
    with socket.socket() as nobody:  # bound, and never listening: whoever connects is refused
        nobody.bind(("127.0.0.1", 0))
        yield config(upstream.url, nobody.getsockname()[1])


@pytest.fixture
def ledger(gateway: GatewayProcess, upstream: RawUpstream) -> Iterator[Ledger]:
    upstream.begin()
    ledger = Ledger(gateway)
    yield ledger
    upstream.begin()
    ledger.balance("kept/gpt-after")


def ask(client: RawClient, model: str = "main/gpt-1", **fields: Any) -> RawAnswer:
    client.send(chat(model, **fields))
    return client.answer()


def upstream_error(ledger: Ledger, status: int, **more: Any) -> dict[str, Any]:
    """Return the event of a chat request that its provider failed."""
    expected: dict[str, Any] = {
        "status": "upstream_error",
        "http_status": status,
        "dialect": "openai",
        "route": "chat",
        "provider": "main",
        "model": "main/gpt-1",
        "upstream_model": "gpt-1",
        "modality": "text",
        "transport": "http",
        "attempts": 1,
        "stream": False,
        "tokens_in": None,
        "tokens_out": None,
    }
    event = ledger.one(**{**expected, **more})
    assert len(event["key_hash"]) == 12
    return event


def told(answer: RawAnswer, status: int) -> str:
    """Return the message of a refusal that has OpenAI's shape."""
    assert (answer.status, answer.whole) == (status, True)
    assert answer.value(b"content-type") == b"application/json"
    assert answer.value(b"x-gateway-request-id")
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == {502: "upstream_error", 504: "timeout_error"}[status]
    message: str = error["message"]
    return message


# It cannot be reached


def test_a_refused_connection_is_a_502_in_openais_shape(client: RawClient, ledger: Ledger) -> None:
    answer = ask(client, "refusing/gpt-1")
    assert "refused the connection" in told(answer, 502)
    event = upstream_error(ledger, 502, provider="refusing", model="refusing/gpt-1", ttft_ms=None)
    assert event["request_id"].encode() == answer.value(b"x-gateway-request-id")


def test_a_refused_connection_is_a_502_in_anthropics_shape(client: RawClient, ledger: Ledger) -> None:
    body = json.dumps({"model": "refusing-a/claude-1", "max_tokens": 9, "messages": []}).encode()
    client.send(request(body, JSON, path="/v1/messages"))
    answer = client.answer()
    assert (answer.status, answer.whole) == (502, True)
    assert (answer.json()["type"], answer.json()["error"]["type"]) == ("error", "api_error")
    assert answer.json()["request_id"].encode() == answer.value(b"x-gateway-request-id")
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
    answer = client.answer()
    assert (answer.status, answer.whole) == (502, True)
    assert (answer.json()["error"]["code"], answer.json()["error"]["status"]) == (502, "UNAVAILABLE")
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


def close_at_once(turn: Turn) -> None:
    assert turn.body
    turn.close()


def close_in_the_head(turn: Turn) -> None:
    assert turn.body
    turn.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
    turn.close()


def saying(*pieces: bytes) -> Script:
    """Return what answers with these bytes, and closes in order."""

    def script(turn: Turn) -> None:
        assert turn.body
        turn.send(*pieces)
        turn.close()

    return script


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


# It breaks in its body


def breaking(head: bytes, *pieces: bytes, reset: bool = False, stall: bool = False) -> Script:
    """Return what begins an answer and does not end it; each piece of it is seen by the client first."""

    def script(turn: Turn) -> None:
        assert turn.body
        turn.send(head, *pieces)
        if stall:
            turn.wait_until_left()
            turn.closed = True
        elif reset:
            turn.reset()
        else:
            turn.close()

    return script


COUNTED_HEAD = b"\r\n".join([b"HTTP/1.1 200 OK", JSON, b"Content-Length: %d" % len(COMPLETION), b"", b""])
HALF = COMPLETION[: len(COMPLETION) // 2]


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_counted_body_that_breaks_off_is_broken_for_the_client(
    client: RawClient, ledger: Ledger, upstream: RawUpstream, reset: bool
) -> None:
    upstream.begin(breaking(COUNTED_HEAD, HALF, reset=reset))
    answer = ask(client)
    assert (answer.status, answer.whole) == (200, False)
    assert HALF.startswith(answer.body)
    upstream_error(ledger, 200)


BROKEN_STREAMS = {
    "closed": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE)),
    "reset": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), reset=True),
    "closed in a chunk": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), chunk(PIECE)[:20]),
    "closed in a size": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), b"1"),
    "closed before the last line": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), b"0\r\n"),
    "garbage": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), b"this is no chunk\r\n"),
    "a negative size": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), b"-1\r\n"),
    "an endless size line": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), b"1;" + b"x" * 100_000),
    "endless trailers": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), b"0\r\n" + b"X: 1\r\n" * 20_000),
}


@pytest.mark.parametrize("script", BROKEN_STREAMS.values(), ids=BROKEN_STREAMS.keys())
def test_a_stream_that_breaks_off_never_ends_cleanly(
    client: RawClient, ledger: Ledger, upstream: RawUpstream, script: Script
) -> None:
    upstream.begin(script)
    answer = ask(client, stream=True)
    assert (answer.status, answer.whole) == (200, False)
    assert (PIECE + USAGE + PIECE).startswith(answer.body)
    event = upstream_error(ledger, 200, stream=True, tokens_in=7, tokens_out=3)
    assert event["ttft_ms"] > 0


def test_a_slow_reader_gets_all_that_came_before_the_break(
    gateway: GatewayProcess, ledger: Ledger, upstream: RawUpstream
) -> None:
    sent = PIECE * 60_000
    broken = threading.Event()

    def script(turn: Turn) -> None:
        assert turn.body
        turn.send(STREAM_HEAD, chunk(sent))
        broken.set()
        turn.close()

    upstream.begin(script)
    with RawClient(gateway.port, receive_buffer=4096) as client:
        client.send(chat("main/gpt-1", stream=True))
        answer = client.answer()
    assert broken.is_set()
    assert (answer.status, answer.whole, len(answer.body)) == (200, False, len(sent))
    assert answer.body == sent
    upstream_error(ledger, 200, stream=True)


def test_what_came_before_a_stall_reaches_the_client_and_then_the_stream_breaks(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    upstream.begin(breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), stall=True))
    answer = ask(client, "hasty/gpt-1", stream=True)
    assert (answer.status, answer.whole, answer.body) == (200, False, PIECE + USAGE)
    more = {"provider": "hasty", "model": "hasty/gpt-1", "tokens_in": 7, "tokens_out": 3}
    event = upstream_error(ledger, 200, stream=True, **more)
    assert event["latency_ms"] >= LIMIT * 1000
    upstream.wait_until_left()


def test_a_stall_in_a_counted_body_breaks_it(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    upstream.begin(breaking(COUNTED_HEAD, HALF, stall=True))
    answer = ask(client, "hasty/gpt-1")
    assert (answer.status, answer.whole, answer.body) == (200, False, HALF)
    upstream_error(ledger, 200, provider="hasty", model="hasty/gpt-1")
    upstream.wait_until_left()


def test_a_slow_stream_within_the_limit_is_whole(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    def paced(turn: Turn) -> None:
        """Send each piece when the client has the one before it."""
        assert turn.body
        turn.send(STREAM_HEAD)
        for _ in range(20):
            turn.send(chunk(PIECE))
        turn.send(chunk(USAGE), chunk(DONE), chunk(b""))

    upstream.begin(paced)
    answer = ask(client, "hasty/gpt-1", stream=True)
    assert (answer.whole, answer.body) == (True, PIECE * 20 + USAGE + DONE)
    ledger.one(status="ok", http_status=200, stream=True, tokens_in=7, tokens_out=3)


# It is odd, and still right

KEPT = {"provider": "kept", "model": "kept/gpt-1"}


def test_interim_answers_stay_with_the_gateway(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    def with_interim(turn: Turn) -> None:
        assert turn.body
        turn.send(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
        turn.send(b"HTTP/1.1 102 Processing\r\nContent-Length: 3\r\n\r\n", counted(COMPLETION, JSON))

    upstream.begin(with_interim)
    answer = ask(client, "kept/gpt-1")
    assert (answer.interim, answer.status, answer.body) == ([], 200, COMPLETION)
    assert answer.value(b"link") is None
    ledger.one(status="ok", http_status=200, tokens_in=7, tokens_out=3, attempts=1)


def closing_reused(turn: Turn) -> None:
    """Close each connection when its second request comes."""
    assert turn.body
    if turn.number == 1:
        turn.send(counted(COMPLETION, JSON))
    else:
        turn.close()


def resetting_reused(turn: Turn) -> None:
    assert turn.body
    if turn.number == 1:
        turn.send(counted(COMPLETION, JSON))
    else:
        turn.reset()


@pytest.mark.parametrize("script", [closing_reused, resetting_reused], ids=["closed", "reset"])
def test_a_connection_that_closes_as_it_is_reused_costs_the_client_nothing(
    client: RawClient, ledger: Ledger, upstream: RawUpstream, script: Script
) -> None:
    upstream.begin()
    ask(client, "kept/gpt-1")
    ledger.take()
    upstream.begin(script)
    answer = ask(client, "kept/gpt-2")
    assert (answer.status, answer.body) == (200, COMPLETION)
    ledger.one(status="ok", http_status=200, attempts=2, upstream_model="gpt-2", tokens_out=3)
    stale, fresh = upstream.turns
    assert stale.body == fresh.body
    assert (stale.number, fresh.number) == (2, 1) or stale.connection != fresh.connection


def test_a_second_failure_is_not_hidden(client: RawClient, ledger: Ledger, upstream: RawUpstream) -> None:
    upstream.begin()
    ask(client, "kept/gpt-1")
    ledger.take()
    upstream.begin(close_at_once)
    told(ask(client, "kept/gpt-1"), 502)
    upstream_error(ledger, 502, **KEPT, attempts=2)
    assert len(upstream.turns) == 2


def test_a_reused_connection_that_had_begun_to_answer_is_not_tried_again(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    upstream.begin()
    ask(client, "kept/gpt-1")
    ledger.take()
    upstream.begin(close_in_the_head)
    told(ask(client, "kept/gpt-1"), 502)
    upstream_error(ledger, 502, **KEPT, attempts=1)
    assert len(upstream.turns) == 1


def test_an_answer_before_the_body_was_taken_reaches_the_client(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    refusal = b'{"error":{"message":"too large","type":"x","param":null,"code":null}}'

    def early(turn: Turn) -> None:
        turn.send(counted(refusal, JSON, b"Connection: close", status=413))
        turn.wait_until_left()
        turn.closed = True

    upstream.begin(early)
    answer = ask(client, "kept/gpt-1", padding="x" * 8_000_000)
    assert (answer.status, answer.body, answer.whole) == (413, refusal, True)
    upstream_error(ledger, 413, **KEPT)
    upstream.wait_until_left()


def test_an_early_answer_on_a_kept_connection_does_not_mix_requests_up(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    answered = threading.Event()

    def early(turn: Turn) -> None:
        turn.send(counted(b"{}", JSON, status=429))
        assert answered.wait(PATIENCE)  # it reads nothing of the body before
        turn.wait_until_left()
        turn.closed = True

    upstream.begin(early)
    assert ask(client, "kept/gpt-1", padding="x" * 8_000_000).status == 429
    answered.set()
    upstream_error(ledger, 429, **KEPT)
    upstream.wait_until_left()
    upstream.begin()
    assert ask(client, "kept/gpt-1").body == COMPLETION
    ledger.one(status="ok", http_status=200)


def test_a_gzipped_answer_passes_byte_for_byte_and_is_metered(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    packed = gzip.compress(COMPLETION)

    def zipped(turn: Turn) -> None:
        assert turn.value(b"accept-encoding") == b"gzip"
        turn.send(counted(packed, JSON, b"Content-Encoding: gzip"))

    upstream.begin(zipped)
    client.send(chat("kept/gpt-1", b"Accept-Encoding: br, gzip"))
    answer = client.answer()
    assert (answer.body, answer.value(b"content-encoding")) == (packed, b"gzip")
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
    answer = client.answer()
    assert (answer.body, answer.whole) == (packed, True)
    ledger.one(status="ok", http_status=200, stream=True, tokens_in=7, tokens_out=3)


def test_an_answer_that_is_no_gzip_although_it_says_so_still_passes(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    def lying(turn: Turn) -> None:
        turn.send(counted(COMPLETION, JSON, b"Content-Encoding: gzip"))

    upstream.begin(lying)
    client.send(chat("kept/gpt-1", b"Accept-Encoding: gzip"))
    answer = client.answer()
    assert (answer.body, answer.whole) == (COMPLETION, True)
    ledger.one(status="ok", http_status=200, tokens_in=None)


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_an_answer_that_ends_with_its_connection_is_whole(
    client: RawClient, ledger: Ledger, upstream: RawUpstream, version: bytes
) -> None:
    upstream.begin(saying(b"HTTP/%b 200 OK\r\n%b\r\n\r\n" % (version, JSON), HALF, COMPLETION[len(HALF) :]))
    answer = ask(client, "kept/gpt-1")
    assert (answer.status, answer.body, answer.whole) == (200, COMPLETION, True)
    ledger.one(status="ok", http_status=200, tokens_in=7, tokens_out=3)


def test_an_answer_of_http_1_0_with_a_length_is_whole(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    upstream.begin(saying(counted(COMPLETION, JSON).replace(b"HTTP/1.1", b"HTTP/1.0")))
    answer = ask(client, "kept/gpt-1")
    assert (answer.status, answer.body, answer.whole) == (200, COMPLETION, True)
    assert answer.value(b"content-length") == b"%d" % len(COMPLETION)
    ledger.one(status="ok", http_status=200, tokens_in=7)


def test_an_answer_of_http_1_0_that_is_reset_is_broken(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    upstream.begin(breaking(b"HTTP/1.0 200 OK\r\n%b\r\n\r\n" % EVENTS, PIECE, reset=True))
    answer = ask(client, "kept/gpt-1", stream=True)
    assert (answer.status, answer.whole) == (200, False)
    upstream_error(ledger, 200, **KEPT, stream=True)


def bare(turn: Turn) -> None:
    assert turn.body
    turn.send(b"HTTP/1.1 204 No Content\r\nX-Left: me\r\n\r\n")


def test_a_204_has_no_body_and_its_connection_is_kept(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    upstream.begin(bare)
    for _ in range(2):
        answer = ask(client, "kept/gpt-1")
        assert (answer.status, answer.body, answer.whole) == (204, b"", True)
        assert (answer.value(b"content-length"), answer.value(b"transfer-encoding")) == (None, None)
        assert answer.value(b"x-left") == b"me"
        ledger.one(status="ok", http_status=204)
    first, second = upstream.turns
    assert (first.connection, second.number) == (second.connection, first.number + 1)


def test_an_empty_answer_is_an_empty_answer(client: RawClient, ledger: Ledger, upstream: RawUpstream) -> None:
    upstream.begin(lambda turn: turn.send(counted(b"")))
    answer = ask(client, "kept/gpt-1")
    assert (answer.status, answer.body, answer.value(b"content-length")) == (200, b"", b"0")
    ledger.one(status="ok", http_status=200, ttft_ms=None)


def test_the_providers_own_errors_pass_as_they_are(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    body = b'{"error": {"message": "no such model"}}'
    upstream.begin(lambda turn: turn.send(counted(body, JSON, b"X-Own: 1", b"Server: x", status=404)))
    answer = ask(client, "kept/gpt-1")
    assert (answer.status, answer.body) == (404, body)
    assert (answer.value(b"x-own"), answer.value(b"server")) == (b"1", None)
    upstream_error(ledger, 404, **KEPT)


def test_bytes_behind_an_answer_reach_nobody(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    def poisoning(turn: Turn) -> None:
        """Send a second answer that nobody has asked for."""
        assert turn.body
        turn.send(counted(COMPLETION, JSON) + counted(b"poison", JSON))
        turn.closed = True

    upstream.begin(poisoning)
    assert ask(client, "kept/gpt-1").body == COMPLETION
    upstream.begin()
    assert [ask(client, "kept/gpt-1").body for _ in range(3)] == [COMPLETION] * 3
    assert [event["status"] for event in ledger.take(4)] == ["ok"] * 4
    assert all(event["attempts"] == 1 for event in ledger.gateway.events()[-4:])


def test_what_a_provider_says_unasked_reaches_nobody(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    heard = threading.Event()

    def late(turn: Turn) -> None:
        """Answer, and again when the client has its answer."""
        complete(turn)
        assert heard.wait(PATIENCE)
        turn.send(counted(b"late", JSON))
        turn.wait_until_left()
        turn.closed = True

    upstream.begin(late)
    assert ask(client, "kept/gpt-1").body == COMPLETION
    heard.set()
    upstream.wait_until_left()
    upstream.begin()
    assert ask(client, "kept/gpt-2").body == COMPLETION
    assert [event["status"] for event in ledger.take(2)] == ["ok"] * 2


def test_a_request_body_of_many_megabytes_reaches_a_slow_provider_whole(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    body = asking("gpt-8", padding="x" * 8_000_000)
    client.send(request(body, JSON))
    assert client.answer().body == COMPLETION
    assert upstream.turns[0].body == body
    ledger.one(status="ok", http_status=200, provider="main", model="gpt-8")
