"""Clients that send too much: in one body, packed, or all of them together."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from typing import Any

import brotli  # type: ignore[import-untyped]  # it ships no types
import pytest
import zstandard

from tests.support.client_faults import ABORTED, CHUNKED, GEMINI, MAX_BODY, close, rejected
from tests.support.gateway import GatewayProcess
from tests.support.ledger import Ledger
from tests.support.raw_client import RawClient, asking, chat, chunk, request
from tests.support.raw_upstream import JSON
from tests.support.simulator import SimulatorProcess

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
    response = client.read_response()
    assert (response.status, response.whole, response.value(b"connection")) == (413, True, b"close")
    error = response.json()["error"]
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
    response = client.read_response()
    assert (response.status, response.whole, response.value(b"connection")) == (413, True, b"close")
    error = response.json()["error"]
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
    assert client.read_response().status == 200
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
    response = client.read_response()
    assert (response.status, response.json()["error"]["code"]) == (413, "request_too_large")
    ledger.one(**rejected(413), route="chat")
    assert simulator.counters()["received"] == 0


@packed
def test_a_packed_body_within_the_limit_is_taken(
    client: RawClient, ledger: Ledger, simulator: SimulatorProcess, coding: str
) -> None:
    client.send(request(PACKERS[coding](asking("main/gpt-1")), JSON, b"Content-Encoding: " + coding.encode()))
    assert client.read_response().status == 200
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
    assert client.read_response().status == 400
    ledger.one(**rejected(400), route="chat")
    assert simulator.counters()["received"] == 0


def test_an_unknown_coding_is_a_400(client: RawClient, ledger: Ledger, simulator: SimulatorProcess) -> None:
    client.send(chat("main/gpt-1", b"Content-Encoding: compress"))
    assert client.read_response().status == 400
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
        response = second.read_response()
    assert (response.status, response.value(b"retry-after")) == (503, b"1")
    assert response.json()["error"]["code"] == "overloaded"
    ledger.one(**rejected(503), route="chat")
    with RawClient(gateway.port) as third:
        third.send(chat("main/gpt-3"))
        assert third.read_response().status == 200
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
        response = second.read_response()
    assert (response.status, response.value(b"retry-after"), response.value(b"connection")) == (
        503,
        b"1",
        b"close",
    )
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
        assert second.read_response().status == 200
    ledger.one(status="ok", model="main/gpt-2")
    close(client)
    ledger.one(**ABORTED, route="chat", attempts=0)


def test_room_comes_back_from_every_end_of_a_request(
    client: RawClient, gateway: GatewayProcess, ledger: Ledger
) -> None:
    body = asking("main/gpt-1+sim-reset-before").ljust(LARGE)
    for _ in range(3):
        client.send(request(body, JSON))
        assert client.read_response().status == 502
        ledger.one(status="upstream_error", http_status=502)
        with RawClient(gateway.port) as leaving:
            leaving.send(request(body, JSON)[:-1])
        ledger.one(**ABORTED, attempts=0)
    client.send(request(asking("main/gpt-1").ljust(LARGE), JSON))
    assert client.read_response().status == 200
    ledger.one(status="ok", http_status=200)
