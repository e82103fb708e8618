"""Clients that misbehave, in every way that a socket can: what they see, what the event says, what stays.

Each test ends with a request that is answered, and with a log that holds no traceback.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import brotli  # type: ignore[import-untyped]  # it ships no types
import pytest
import zstandard

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.ledger import Ledger
from tests.support.patience import PATIENCE
from tests.support.raw_client import RawClient, asking, chat, chunk, request
from tests.support.raw_upstream import JSON, STREAM_HEAD, RawUpstream, Turn, counted
from tests.support.simulator import SimulatorProcess

MAX_BODY = 100_000
BODY_MEMORY = 150_000
LIMIT = 1.5
"""Seconds that the hasty gateway lets a client be silent."""
PACE = 0.15
"""Seconds between the bytes of a client that is slow, and not silent."""
CHUNKED = b"Transfer-Encoding: chunked"
GEMINI = "/v1beta/models/gemini-1:generateContent"


def config(simulator: SimulatorProcess, upstream: RawUpstream) -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary}}
  claude: {{kind: anthropic, base_url: "{simulator.url}/v1", api_key: sk-ant-canary}}
  gem: {{kind: gemini, base_url: "{simulator.url}/v1beta", api_key: AIza-canary}}
  raw: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}}
max_body_bytes: {MAX_BODY}
spool: {{body_memory: {BODY_MEMORY}}}
"""


@pytest.fixture(scope="module")
def gateway_config(simulator: SimulatorProcess, upstream: RawUpstream) -> str:
    """A gateway with time for everybody, and little room for bodies."""
    return config(simulator, upstream)


@pytest.fixture(scope="module")
def hasty(simulator: SimulatorProcess, upstream: RawUpstream) -> Iterator[GatewayProcess]:
    """A gateway with no time for anybody."""
    names = ("write_stall", "client_headers", "client_body_idle", "client_idle")
    limits = ", ".join(f"{name}: {LIMIT}" for name in names)
    with start_gateway(config(simulator, upstream) + f"timeouts: {{{limits}}}\n") as process:
        yield process


def keep(gateway: GatewayProcess, simulator: SimulatorProcess) -> Iterator[Ledger]:
    simulator.clear()
    ledger = Ledger(gateway)
    yield ledger
    ledger.balance("main/gpt-after")


@pytest.fixture
def ledger(gateway: GatewayProcess, simulator: SimulatorProcess) -> Iterator[Ledger]:
    yield from keep(gateway, simulator)


@pytest.fixture
def hasty_ledger(hasty: GatewayProcess, simulator: SimulatorProcess) -> Iterator[Ledger]:
    yield from keep(hasty, simulator)


@pytest.fixture
def hurried(hasty: GatewayProcess) -> Iterator[RawClient]:
    """A client of the hasty gateway."""
    with RawClient(hasty.port) as connection:
        yield connection


def half_close(client: RawClient) -> None:
    """Leave by closing one direction, and see the gateway close the other."""
    client.half_close()
    client.incoming.rest()


def close(client: RawClient) -> None:
    client.socket.close()


LEAVING = {"close": close, "half close": half_close, "reset": RawClient.reset}
ways_to_leave = pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING.keys())
Leave = Callable[[RawClient], None]

CHAT_EVENT: dict[str, Any] = {
    "dialect": "openai",
    "route": "chat",
    "modality": "text",
    "transport": "http",
    "stream": False,
    "ttft_ms": None,
    "tokens_in": None,
    "tokens_out": None,
}
NOT_SENT = {"provider": None, "model": None, "upstream_model": None, "attempts": 0, "key_hash": None}
"""Of an event whose request never came as far as a provider."""


def rejected(status: int) -> dict[str, Any]:
    return {"status": "rejected", "http_status": status, **NOT_SENT, "tokens_in": None, "ttft_ms": None}


STALLS = "gpt-1+sim-stall-body-after-2"
ABORTED = {"status": "client_abort", "http_status": 499}


# It leaves


@ways_to_leave
def test_a_client_that_leaves_before_the_head_cancels_its_upstream_request(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess, leave: Leave
) -> None:
    client.send(chat("main/gpt-1+sim-stall-head"))
    simulator.wait_for("received")
    leave(client)
    simulator.wait_for("client_left")
    sent = {"provider": "main", "model": "main/gpt-1+sim-stall-head", "attempts": 1}
    event = ledger.one(**{**CHAT_EVENT, **ABORTED, **sent})
    assert len(event["key_hash"]) == 12
    (seen,) = simulator.requests()
    assert (seen.complete, seen.answered, seen.client_left) == (True, False, True)


@ways_to_leave
def test_a_client_that_leaves_in_mid_stream_cancels_its_upstream_request(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess, leave: Leave
) -> None:
    client.send(chat(f"main/{STALLS}", stream=True))
    assert client.incoming.until(b"\n\n\r\n") is not None
    leave(client)
    simulator.wait_for("client_left")
    event = ledger.one(
        **ABORTED, route="chat", provider="main", upstream_model=STALLS, stream=True, attempts=1
    )
    assert event["ttft_ms"] > 0


@ways_to_leave
@pytest.mark.parametrize("framing", [b"Content-Length: 5000", CHUNKED], ids=["counted", "chunked"])
def test_a_client_that_leaves_in_mid_upload_has_its_event_and_reaches_no_provider(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess, leave: Leave, framing: bytes
) -> None:
    client.send(request(None, JSON, framing) + (b"5\r\n" if framing is CHUNKED else b"") + b'{"mod')
    leave(client)
    ledger.one(**CHAT_EVENT, **ABORTED, **NOT_SENT)
    assert simulator.counters()["received"] == 0


@ways_to_leave
def test_a_client_that_leaves_in_its_head_leaves_no_event(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess, leave: Leave
) -> None:
    client.send(chat("main/gpt-1")[:60])
    leave(client)


@ways_to_leave
def test_a_client_that_leaves_takes_the_requests_behind_the_first_with_it(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess, leave: Leave
) -> None:
    client.send(chat("main/gpt-1+sim-stall-head") + chat("main/gpt-2") + chat("main/gpt-3"))
    simulator.wait_for("received")
    leave(client)
    simulator.wait_for("client_left")
    ledger.one(**CHAT_EVENT, **ABORTED, attempts=1)
    assert simulator.counters()["received"] == 1


# It is slow


def flood(turn: Turn) -> None:
    """Send events without end, as fast as they are taken."""
    assert turn.body
    turn.send(STREAM_HEAD)
    piece = chunk(b"data: " + b"x" * 65000 + b"\n\n")
    try:
        while True:
            turn.send(piece)
    except OSError:
        turn.wait_until_left()
        turn.closed = True


def test_a_client_that_stops_reading_is_left_and_its_provider_released(
    hasty: GatewayProcess, hasty_ledger: Ledger, upstream: RawUpstream
) -> None:
    upstream.begin(flood)
    with RawClient(hasty.port, receive_buffer=4096) as client:
        client.send(chat("raw/gpt-1", stream=True))
        upstream.wait_until_left()
        sent = {"provider": "raw", "attempts": 1, "stream": True}
        event = hasty_ledger.one(**ABORTED, **sent, route="chat")
        assert event["ttft_ms"] < event["latency_ms"]
        assert event["latency_ms"] >= LIMIT * 1000


def trickle(client: RawClient, data: bytes) -> bytes:
    """Send byte after byte until something comes back or all is sent; return what comes first."""
    client.socket.settimeout(PACE)
    try:
        for at in range(len(data)):
            with suppress(TimeoutError):
                if found := client.socket.recv(65536):
                    return found
            if not client.send(data[at : at + 1]):
                break
    finally:
        client.socket.settimeout(PATIENCE)
    return client.socket.recv(65536)


def test_a_head_that_trickles_is_a_408_and_no_event(hurried: RawClient, hasty_ledger: Ledger) -> None:
    answer = trickle(hurried, b"POST /v1/messages HTTP/1.1\r\nHost: gateway\r\n" + b"X: 1\r\n" * 100)
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"\r\nConnection: close\r\n" in answer


@pytest.mark.parametrize(
    ("target", "shape"),
    [
        ("/v1/chat/completions", {"type": "timeout_error", "code": "request_timeout"}),
        ("/v1/messages", {"type": "timeout_error"}),
        (GEMINI, {"code": 408, "status": "DEADLINE_EXCEEDED"}),
    ],
    ids=["openai", "anthropic", "gemini"],
)
def test_a_head_that_stops_is_a_408_in_the_shape_of_its_path(
    hurried: RawClient, hasty_ledger: Ledger, target: str, shape: dict[str, Any]
) -> None:
    hurried.send(f"POST {target} HTTP/1.1\r\nHost: gate".encode())
    answer = hurried.answer()
    assert (answer.status, answer.whole, answer.value(b"connection")) == (408, True, b"close")
    error = answer.json()["error"]
    assert {name: error[name] for name in shape} == shape


def test_a_connection_without_a_byte_is_closed_without_a_word(
    hurried: RawClient, hasty_ledger: Ledger
) -> None:
    assert hurried.no_answer()


def test_a_connection_that_rests_too_long_is_closed_without_a_word(
    hurried: RawClient, hasty_ledger: Ledger
) -> None:
    hurried.send(chat("main/gpt-1"))
    assert hurried.answer().status == 200
    assert hurried.no_answer()
    hasty_ledger.one(status="ok", http_status=200)


@pytest.mark.parametrize(
    ("target", "route", "shape"),
    [
        ("/v1/chat/completions", "chat", {"type": "timeout_error", "code": "request_timeout"}),
        ("/v1/messages", "messages", {"type": "timeout_error"}),
        (GEMINI, "generate_content", {"code": 408, "status": "DEADLINE_EXCEEDED"}),
    ],
    ids=["openai", "anthropic", "gemini"],
)
@pytest.mark.parametrize("framing", [b"Content-Length: 5000", CHUNKED], ids=["counted", "chunked"])
def test_a_body_that_stops_is_a_408(
    hurried: RawClient,
    hasty_ledger: Ledger,
    simulator: SimulatorProcess,
    target: str,
    route: str,
    shape: dict[str, Any],
    framing: bytes,
) -> None:
    start = b"5\r\n" if framing is CHUNKED else b""
    hurried.send(request(None, JSON, framing, path=target) + start + b'{"mod')
    answer = hurried.answer()
    assert (answer.status, answer.whole, answer.value(b"connection")) == (408, True, b"close")
    error = answer.json()["error"]
    assert {name: error[name] for name in shape} == shape
    event = hasty_ledger.one(**rejected(408), route=route, modality="text")
    assert event["request_id"].encode() == answer.value(b"x-gateway-request-id")
    assert event["latency_ms"] >= LIMIT * 1000
    assert simulator.counters()["received"] == 0


def test_a_slow_body_within_the_limit_is_taken(hurried: RawClient, hasty_ledger: Ledger) -> None:
    whole = chat("main/gpt-1")
    hurried.send(whole[:-14])
    hurried.socket.settimeout(PACE)
    for at in range(len(whole) - 14, len(whole)):  # in all, longer than the limit
        with suppress(TimeoutError):
            hurried.socket.recv(1)
        hurried.send(whole[at : at + 1])
    hurried.socket.settimeout(PATIENCE)
    assert hurried.answer().status == 200
    event = hasty_ledger.one(status="ok", http_status=200)
    assert event["latency_ms"] >= LIMIT * 1000


def test_a_provider_that_takes_its_time_is_not_the_clients_fault(
    hurried: RawClient, hasty_ledger: Ledger
) -> None:
    hurried.send(chat("main/gpt-1+sim-delay-700"))
    assert hurried.answer().status == 200
    event = hasty_ledger.one(status="ok", http_status=200)
    assert event["latency_ms"] >= 700


# It asks for much at once


def test_pipelined_requests_are_answered_in_order(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess
) -> None:
    models = ["main/gpt-1+sim-delay-100", "main/gpt-2+sim-status-404", "main/gpt-3", "nobody/x", "main/gpt-4"]
    client.send(b"".join(chat(model) for model in models))
    answers = [client.answer() for _ in models]
    assert [answer.status for answer in answers] == [200, 404, 200, 200, 200]
    events = ledger.take(len(models))
    assert [event["model"] for event in events] == models
    assert [answer.value(b"x-gateway-request-id") for answer in answers] == [
        event["request_id"].encode() for event in events
    ]
    assert [request.json()["model"] for request in simulator.requests()] == [
        event["upstream_model"] for event in events
    ]


def test_a_pipelined_stream_ends_before_the_next_answer_begins(client: RawClient, ledger: Ledger) -> None:
    client.send(chat("main/gpt-1+sim-chunk-delay-5", stream=True) + chat("main/gpt-2"))
    stream, after = client.answer(), client.answer()
    assert (stream.whole, stream.body.endswith(b"data: [DONE]\n\n")) == (True, True)
    assert after.json()["object"] == "chat.completion"
    assert [event["stream"] for event in ledger.take(2)] == [True, False]


def test_more_than_the_gateway_holds_may_be_pipelined(client: RawClient, ledger: Ledger) -> None:
    requests = [request(asking(f"main/gpt-{number}").ljust(30_000), JSON) for number in range(10)]
    client.send(b"".join(requests))
    assert [client.answer().status for _ in requests] == [200] * 10
    assert [event["model"] for event in ledger.take(10)] == [f"main/gpt-{number}" for number in range(10)]


def test_one_connection_serves_many_requests(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess
) -> None:
    for model, status in [("gpt-1", 200), ("gpt-2+sim-status-500", 500), ("gpt-3", 200)]:
        client.send(chat(model))
        answer = client.answer()
        assert (answer.status, answer.value(b"connection")) == (status, None)
        outcome = "ok" if status == 200 else "upstream_error"
        ledger.one(status=outcome, http_status=status, model=model)
    client.send(request(b"{}", JSON))
    assert client.answer().status == 400
    ledger.one(**rejected(400), route="chat")
    client.send(chat("gpt-4"))
    assert client.answer().status == 200
    ledger.one(status="ok", http_status=200, model="gpt-4")


def test_a_client_that_wants_the_end_gets_it(client: RawClient, ledger: Ledger) -> None:
    client.send(chat("main/gpt-1", b"Connection: close"))
    answer = client.answer()
    assert (answer.status, answer.value(b"connection")) == (200, b"close")
    assert client.no_answer()
    ledger.one(status="ok", http_status=200)


# It speaks HTTP in a way of its own


def test_a_client_that_waits_for_it_is_told_to_continue(client: RawClient, ledger: Ledger) -> None:
    body = asking("main/gpt-1")
    head = request(body, JSON, b"Expect: 100-continue")[: -len(body)]
    client.send(head)
    assert client.incoming.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(body)
    answer = client.answer()
    assert (answer.status, answer.interim) == (200, [])
    ledger.one(status="ok", http_status=200)


def test_a_client_that_does_not_wait_for_it_is_served_as_well(client: RawClient, ledger: Ledger) -> None:
    client.send(chat("main/gpt-1", b"Expect: 100-continue"))
    answer = client.answer()
    assert (answer.status, answer.interim) in [(200, [100]), (200, [])]
    ledger.one(status="ok", http_status=200)


def test_a_client_that_waits_with_too_much_is_refused_instead(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess
) -> None:
    client.send(request(None, JSON, b"Expect: 100-continue", b"Content-Length: %d" % (MAX_BODY + 1)))
    answer = client.answer()
    assert (answer.status, answer.interim, answer.value(b"connection")) == (413, [], b"close")
    ledger.one(**CHAT_EVENT | rejected(413))
    assert simulator.counters()["received"] == 0


def test_a_client_that_waits_at_an_unknown_path_is_refused_instead(client: RawClient, ledger: Ledger) -> None:
    client.send(request(None, b"Expect: 100-continue", b"Content-Length: 10", path="/v1/nothing"))
    answer = client.answer()
    assert (answer.status, answer.interim, answer.value(b"connection")) == (404, [], b"close")


def test_a_client_of_http_1_0_gets_one_answer_and_the_end(client: RawClient, ledger: Ledger) -> None:
    client.send(chat("main/gpt-1", version="1.0"))
    answer = client.answer()
    assert (answer.status, answer.whole, answer.value(b"connection")) == (200, True, b"close")
    assert client.no_answer()
    ledger.one(status="ok", http_status=200)


def test_a_client_of_http_1_0_may_keep_its_connection(client: RawClient, ledger: Ledger) -> None:
    for _ in range(2):
        client.send(chat("main/gpt-1", b"Connection: keep-alive", version="1.0"))
        answer = client.answer()
        assert (answer.status, answer.whole, answer.value(b"connection")) == (200, True, b"keep-alive")
        ledger.one(status="ok", http_status=200)


def test_a_client_of_http_1_0_gets_a_stream_up_to_the_end_of_the_connection(
    client: RawClient, ledger: Ledger
) -> None:
    client.send(chat("main/gpt-1", b"Connection: keep-alive", version="1.0", stream=True))
    answer = client.answer()
    assert (answer.value(b"transfer-encoding"), answer.value(b"content-length")) == (None, None)
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert (answer.whole, answer.value(b"connection")) == (True, b"close")
    ledger.one(status="ok", http_status=200, stream=True)


def test_a_broken_stream_does_not_look_whole_to_a_client_of_http_1_0(
    client: RawClient, ledger: Ledger
) -> None:
    client.send(chat("main/gpt-1+sim-reset-after-2", version="1.0", stream=True))
    answer = client.answer()
    assert (answer.status, answer.whole) == (200, False)
    ledger.one(status="upstream_error", http_status=200, stream=True)


def test_a_target_in_absolute_form_is_served(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess
) -> None:
    body = asking("main/gpt-1")
    client.send(request(body, JSON, path="http://gateway/v1/chat/completions"))
    assert client.answer().status == 200
    (seen,) = simulator.requests()
    assert (seen.target, seen.value("host")) == (
        "/v1/chat/completions",
        simulator.url.removeprefix("http://"),
    )
    ledger.one(status="ok", http_status=200, route="chat")


def test_a_chunked_request_goes_up_with_a_length(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess
) -> None:
    body = asking("main/gpt-1")
    pieces = b"".join(chunk(body[at : at + 5]) for at in range(0, len(body), 5))
    client.send(request(None, JSON, CHUNKED) + pieces + b"0;ext=1\r\nX-Trailer: 1\r\n\r\n")
    assert client.answer().status == 200
    (seen,) = simulator.requests()
    assert seen.body == asking("gpt-1")
    assert (seen.value("transfer-encoding"), seen.value("x-trailer")) == (None, None)
    ledger.one(status="ok", http_status=200)


# It sends too much

TOO_LARGE = [
    pytest.param(
        "/v1/chat/completions", "chat", {"type": "invalid_request_error", "code": "request_too_large"}
    ),
    pytest.param("/v1/messages", "messages", {"type": "request_too_large"}),
    pytest.param(GEMINI, "generate_content", {"code": 413, "status": "INVALID_ARGUMENT"}),
]
too_large = pytest.mark.parametrize(
    ("target", "route", "shape"), TOO_LARGE, ids=["openai", "anthropic", "gemini"]
)


@too_large
@pytest.mark.parametrize("extra", [1, 60_000, 10_000_000], ids=["a byte", "60 kB", "10 MB"])
def test_a_counted_body_above_the_limit_is_a_413(
    client: RawClient,
    ledger: Ledger,
    simulator: SimulatorProcess,
    target: str,
    route: str,
    shape: dict[str, Any],
    extra: int,
) -> None:
    length = MAX_BODY + extra
    head = request(None, JSON, b"Content-Length: %d" % length, path=target)
    client.send(head + b" " * min(length, MAX_BODY + 60_000))
    answer = client.answer()
    assert (answer.status, answer.whole, answer.value(b"connection")) == (413, True, b"close")
    error = answer.json()["error"]
    assert {name: error[name] for name in shape} == shape
    ledger.one(**rejected(413), route=route)
    assert simulator.counters()["received"] == 0


@too_large
def test_a_chunked_body_above_the_limit_is_a_413(
    client: RawClient,
    ledger: Ledger,
    simulator: SimulatorProcess,
    target: str,
    route: str,
    shape: dict[str, Any],
) -> None:
    client.send(request(None, JSON, CHUNKED, path=target) + chunk(b" " * 10_000) * 11)
    answer = client.answer()
    assert (answer.status, answer.whole, answer.value(b"connection")) == (413, True, b"close")
    error = answer.json()["error"]
    assert {name: error[name] for name in shape} == shape
    ledger.one(**rejected(413), route=route)
    assert simulator.counters()["received"] == 0


@pytest.mark.parametrize("framing", ["counted", "chunked"])
def test_a_body_of_just_the_limit_is_taken(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess, framing: str
) -> None:
    body = asking("main/gpt-1").ljust(MAX_BODY)
    if framing == "counted":
        client.send(request(body, JSON))
    else:
        client.send(request(None, JSON, CHUNKED) + chunk(body) + chunk(b""))
    assert client.answer().status == 200
    assert len(simulator.requests()[0].body) == MAX_BODY - len("main/")
    ledger.one(status="ok", http_status=200)


def zeros(size: int) -> bytes:
    return b'{"model":"main/gpt-1","x":"' + b"0" * size + b'"}'


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: brotli.compress(data, quality=1),
    "zstd": zstandard.ZstdCompressor().compress,
}
packed = pytest.mark.parametrize("coding", PACKERS)


@packed
def test_a_body_that_unfolds_beyond_the_limit_is_a_413(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess, coding: str
) -> None:
    bomb = PACKERS[coding](zeros(50_000_000))
    assert len(bomb) < MAX_BODY
    client.send(request(bomb, JSON, b"Content-Encoding: " + coding.encode()))
    answer = client.answer()
    assert (answer.status, answer.json()["error"]["code"]) == (413, "request_too_large")
    ledger.one(**rejected(413), route="chat")
    assert simulator.counters()["received"] == 0


@packed
def test_a_packed_body_within_the_limit_is_taken(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess, coding: str
) -> None:
    client.send(request(PACKERS[coding](asking("main/gpt-1")), JSON, b"Content-Encoding: " + coding.encode()))
    assert client.answer().status == 200
    (seen,) = simulator.requests()
    assert (seen.body, seen.value("content-encoding")) == (asking("gpt-1"), None)
    ledger.one(status="ok", http_status=200)


@packed
def test_a_packed_body_that_is_cut_off_is_a_400(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess, coding: str
) -> None:
    client.send(
        request(PACKERS[coding](asking("main/gpt-1"))[:-9], JSON, b"Content-Encoding: " + coding.encode())
    )
    assert client.answer().status == 400
    ledger.one(**rejected(400), route="chat")
    assert simulator.counters()["received"] == 0


def test_an_unknown_coding_is_a_400(client: RawClient, ledger: Ledger, simulator: SimulatorProcess) -> None:
    client.send(chat("main/gpt-1", b"Content-Encoding: compress"))
    assert client.answer().status == 400
    ledger.one(**rejected(400), route="chat")
    assert simulator.counters()["received"] == 0


LARGE = 90_000


def test_bodies_beyond_the_memory_for_all_of_them_are_a_503(
    client: RawClient, gateway: GatewayProcess, ledger: Ledger, simulator: SimulatorProcess
) -> None:
    client.send(request(asking("main/gpt-1+sim-stall-head").ljust(LARGE), JSON))
    simulator.wait_for("received")  # its room is taken until an answer begins
    with RawClient(gateway.port) as second:
        second.send(request(asking("main/gpt-2").ljust(LARGE), JSON))
        answer = second.answer()
    assert (answer.status, answer.value(b"retry-after")) == (503, b"1")
    assert answer.json()["error"]["code"] == "overloaded"
    ledger.one(**rejected(503), route="chat")
    with RawClient(gateway.port) as third:
        third.send(chat("main/gpt-3"))
        assert third.answer().status == 200
    ledger.one(status="ok", model="main/gpt-3")
    close(client)
    ledger.one(**ABORTED, route="chat", attempts=1)


def test_a_chunked_body_that_finds_no_room_on_its_way_is_a_503(
    client: RawClient, gateway: GatewayProcess, ledger: Ledger, simulator: SimulatorProcess
) -> None:
    client.send(request(asking("main/gpt-1+sim-stall-head").ljust(LARGE), JSON))
    simulator.wait_for("received")
    with RawClient(gateway.port) as second:
        second.send(request(None, JSON, CHUNKED) + chunk(b" " * 10_000) * 7)
        answer = second.answer()
    assert (answer.status, answer.value(b"retry-after"), answer.value(b"connection")) == (503, b"1", b"close")
    ledger.one(**rejected(503), route="chat")
    close(client)
    ledger.one(**ABORTED, route="chat", attempts=1)


def test_a_body_that_is_only_announced_keeps_nobody_out(
    client: RawClient, gateway: GatewayProcess, ledger: Ledger
) -> None:
    client.send(request(None, JSON, b"Expect: 100-continue", b"Content-Length: %d" % LARGE))
    assert client.incoming.until(b"\r\n\r\n")
    with RawClient(gateway.port) as second:
        second.send(request(asking("main/gpt-2").ljust(LARGE), JSON))
        assert second.answer().status == 200
    ledger.one(status="ok", model="main/gpt-2")
    close(client)
    ledger.one(**ABORTED, route="chat", attempts=0)


def test_room_comes_back_from_every_end_of_a_request(
    client: RawClient, gateway: GatewayProcess, ledger: Ledger
) -> None:
    body = asking("main/gpt-1+sim-reset-before").ljust(LARGE)
    for _ in range(3):
        client.send(request(body, JSON))
        assert client.answer().status == 502
        ledger.one(status="upstream_error", http_status=502)
        with RawClient(gateway.port) as leaving:
            leaving.send(request(body, JSON)[:-1])
        ledger.one(**ABORTED, attempts=0)
    client.send(request(asking("main/gpt-1").ljust(LARGE), JSON))
    assert client.answer().status == 200
    ledger.one(status="ok", http_status=200)


# It asks for what has no body


def test_head_requests_have_heads_alone(client: RawClient, ledger: Ledger) -> None:
    for path in ("/", "/healthz", "/"):
        client.send(request(None, path=path, method="HEAD"))
        answer = client.answer("HEAD")
        assert (answer.status, answer.body) == (200, b"")
    client.send(chat("main/gpt-1"))
    assert client.answer().status == 200
    ledger.one(status="ok", http_status=200)


def test_an_answer_with_odd_headers_is_one_answer(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    headers = (
        b"X-Empty:",
        b"X-Twice: 1",
        b"x-twice: 2",
        "X-Latin: é".encode("latin-1"),
        b"Connection: x-hop",
    )
    upstream.begin(lambda turn: turn.send(counted(b"{}", JSON, *headers, b"X-Hop: 1", b"Keep-Alive: 1")))
    client.send(chat("raw/gpt-1"))
    answer = client.answer()
    assert (answer.values(b"x-empty"), answer.values(b"x-twice")) == ([b""], [b"1", b"2"])
    assert answer.value(b"x-latin") == "é".encode("latin-1")
    assert (answer.value(b"x-hop"), answer.value(b"keep-alive")) == (None, None)
    assert json.loads(answer.body) == {}
    ledger.one(status="ok", http_status=200, provider="raw")
