"""Requests that two servers might read differently, and noise: nothing of it reaches a provider or stays.

The table of malformed requests is that of the channel's own tests; here each goes to a whole gateway, with a
request behind it that must not be served.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.memory.web.test_smuggling import CHUNKS, HEADS
from tests.support.gateway import GatewayProcess
from tests.support.ledger import Ledger, event_of
from tests.support.raw_client import CHAT, RawClient, asking, chat, chunk, request
from tests.support.raw_upstream import COMPLETION, EVENTS, JSON, RawUpstream, Turn, counted
from tests.support.waiting import wait_until

LIMIT: Final = 1.5
"""Seconds of silence, on either side."""
SMUGGLED: Final = chat("smuggled")
OPEN: Final = b"\r\n\r\n"


@pytest.fixture(scope="module")
def gateway_config(upstream: RawUpstream) -> str:
    limits = ("first_byte", "idle", "write_stall", "client_headers", "client_body_idle")
    return f"""
providers:
  main: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
max_body_bytes: 100000
timeouts: {{{", ".join(f"{name}: {LIMIT}" for name in limits)}}}
"""


@pytest.fixture
def ledger(gateway: GatewayProcess, upstream: RawUpstream) -> Iterator[Ledger]:
    upstream.begin()
    ledger = Ledger(gateway)
    ledger.rest("main/gpt-before")
    upstream.begin()
    yield ledger
    upstream.begin()
    ledger.balance("main/gpt-after")


@pytest.fixture(scope="module")
def unheard(gateway: GatewayProcess) -> Iterator[set[str]]:
    """The ids of refusals that leave no event; all events are looked through once, at the end."""
    ids: set[str] = set()
    yield ids
    Ledger(gateway).rest("main/gpt-last")
    assert ids.isdisjoint(event["request_id"] for event in gateway.events())


def descriptors(gateway: GatewayProcess) -> int:
    """Return how many files and sockets the gateway has open."""
    return len(os.listdir(f"/proc/{gateway.process.pid}/fd"))


# What two servers might read differently


def aimed(head: bytes) -> bytes:
    """Return a malformed request with a path of the gateway's that leads to a provider."""
    for method in (b"POST", b"GET"):
        head = head.replace(method + b" / ", method + b" " + CHAT.encode() + b" ", 1)
    return head


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS.keys())
def test_a_malformed_request_is_refused_and_what_stands_behind_it_is_not_served(
    gateway: GatewayProcess, upstream: RawUpstream, unheard: set[str], head: bytes
) -> None:
    upstream.begin()
    with RawClient(gateway.port) as client:
        client.send(aimed(head) + SMUGGLED)
        response = client.read_response()
        client.half_close()
        assert client.no_answer()
    assert (response.status, response.whole, response.value(b"connection")) == (400, True, b"close")
    assert upstream.turns == []
    unheard.add((response.value(b"x-gateway-request-id") or b"").decode())
    with RawClient(gateway.port) as client:
        client.send(chat("main/gpt-after"))
        assert client.read_response().status == 200


@pytest.mark.parametrize("body", CHUNKS.values(), ids=CHUNKS.keys())
def test_a_malformed_chunked_body_is_refused_and_what_stands_behind_it_is_not_served(
    gateway: GatewayProcess, upstream: RawUpstream, ledger: Ledger, body: bytes
) -> None:
    with RawClient(gateway.port) as client:
        client.send(request(None, JSON, b"Transfer-Encoding: chunked") + body + SMUGGLED)
        response = client.read_response()
        client.half_close()
        assert client.no_answer()
    assert (response.status, response.whole, response.value(b"connection")) == (400, True, b"close")
    ledger.one(status="rejected", http_status=400, route="chat", attempts=0)
    assert upstream.turns == []


HIDDEN = {
    "a length of nothing": request(None, b"Content-Length: 0") + SMUGGLED,
    "no length": request(None) + SMUGGLED,
    "a body of GET": request(asking("main/gpt-1"), path="/healthz", method="GET") + SMUGGLED,
    "a body of HEAD": request(asking("main/gpt-1"), path="/healthz", method="HEAD") + SMUGGLED,
}


@pytest.mark.parametrize("sent", HIDDEN.values(), ids=HIDDEN.keys())
def test_a_request_behind_one_without_a_use_for_its_body_is_one_of_its_own(
    gateway: GatewayProcess, upstream: RawUpstream, sent: bytes
) -> None:
    """Not smuggled: every server reads these two alike.  What must not happen is a third."""
    upstream.begin()
    with RawClient(gateway.port) as client:
        client.send(sent)
        client.read_response("HEAD" if sent.startswith(b"HEAD") else "POST")
        response = client.read_response()
        assert response.body == COMPLETION
        event_of(gateway, response)
    assert [turn.model() for turn in upstream.turns] == ["smuggled"]


@pytest.mark.parametrize(
    "value",
    ["a\r\nX-Smuggled: 1", "a\nX-Smuggled: 1", "a\r\n\r\nGET / HTTP/1.1", "a b", "a?b", "a%0d%0ab", "../a"],
)
def test_a_model_cannot_carry_a_request_of_its_own(
    gateway: GatewayProcess, upstream: RawUpstream, ledger: Ledger, value: str
) -> None:
    with RawClient(gateway.port) as client:
        client.send(chat(value))
        assert client.read_response().status == 200
    (turn,) = upstream.turns
    assert turn.model() == value
    assert turn.value(b"x-smuggled") is None
    ledger.one(status="ok", model=value)


# Noise

WORDS: Final = [
    *(b"\r\n", b"\r\n\r\n", b"\n", b"\x00", b"\xff\xfe", b" ", b":", b"{", b'"model"', b"\x16\x03\x01"),
    *(b"POST ", b"GET ", CHAT.encode(), b"HTTP/1.1", b"HTTP/1.0", b"200 OK", b"Host: gateway", b"Upgrade: "),
    *(b"Content-Length: ", b"99999999999999999999", b"-1", b"0", b"5", b"Transfer-Encoding: chunked"),
    *(b"Connection: close", b"Expect: 100-continue", b"Content-Encoding: gzip"),
]


def noise(chance: random.Random) -> bytes:
    """Return bytes that mean nothing, some of them nearly something."""
    if chance.random() < 0.3:
        return chance.randbytes(chance.randint(1, 3000))
    return b"".join(chance.choices(WORDS, k=chance.randint(1, 60)))


def mangled(chance: random.Random, data: bytes) -> bytes:
    """Return good bytes with one place changed, doubled, cut out or cut off."""
    at, length = chance.randrange(len(data)), chance.randint(1, 8)
    before, gone, after = data[:at], data[at : at + length], data[at + length :]
    return chance.choice(
        [before + chance.randbytes(1) + after, before + gone + gone + after, before + after, before]
    )


def asked(seed: int) -> bytes:
    chance = random.Random(seed)
    if chance.random() < 0.3:
        return noise(chance)
    body = asking(f"main/noise-{seed}")
    good = chance.choice(
        [
            request(body, JSON),
            request(None, JSON, b"Transfer-Encoding: chunked")
            + chunk(body[:9])
            + chunk(body[9:])
            + chunk(b""),
            request(body, JSON, b"Expect: 100-continue"),
            request(None, path="/healthz", method="GET"),
        ]
    )
    return mangled(chance, good)


def test_noise_from_clients_leaves_nothing_behind(
    gateway: GatewayProcess, upstream: RawUpstream, ledger: Ledger
) -> None:
    upstream.begin()
    before = descriptors(gateway)
    for seed in range(250):
        with RawClient(gateway.port) as client:
            client.send(asked(seed))
            client.half_close()
            client.incoming.rest()  # it ends, whatever it was
    wait_until(lambda: descriptors(gateway) <= before, "every connection to be closed")
    asked_for = list(upstream.turns)
    assert {turn.target for turn in asked_for} == {CHAT}
    account(ledger.rest("main/gpt-between"), asked_for)


def test_noise_that_waits_is_refused_in_time(
    gateway: GatewayProcess, upstream: RawUpstream, ledger: Ledger
) -> None:
    upstream.begin(complete_and_close)
    before = descriptors(gateway)
    clients = [RawClient(gateway.port) for _ in range(150)]
    for seed, client in enumerate(clients):
        client.send(asked(1000 + seed))
    for client in clients:  # each is answered or closed, though it says nothing more
        with client:
            assert client.incoming.until(OPEN) is not None or client.incoming.ended
    wait_until(lambda: descriptors(gateway) <= before, "every connection to be closed")
    asked_for = list(upstream.turns)
    account(ledger.rest("main/gpt-between"), asked_for)


def complete_and_close(turn: Turn) -> None:
    """Answer, and keep no connection."""
    assert turn.body
    turn.send(counted(COMPLETION, JSON, b"Connection: close"))
    turn.close()


def account(events: list[dict[str, Any]], turns: list[Turn]) -> None:
    """Every request that reached the provider has its event, and no exchange has two."""
    assert len({event["request_id"] for event in events}) == len(events)
    assert {event["status"] for event in events} <= {"ok", "rejected", "client_abort", "upstream_error"}
    told = Counter({event["upstream_model"]: event["attempts"] for event in events if event["attempts"]})
    assert Counter(turn.model() for turn in turns) <= told


def answered(chance: random.Random) -> bytes:
    """Return what a provider out of its mind may answer."""
    if chance.random() < 0.3:
        return noise(chance)
    events = b"data: {}\n\n" * 3
    good = chance.choice(
        [
            counted(COMPLETION, JSON),
            counted(COMPLETION, JSON, b"Content-Encoding: gzip"),
            b"HTTP/1.1 200 OK\r\n%b\r\nTransfer-Encoding: chunked\r\n\r\n" % EVENTS
            + chunk(events) * 3
            + chunk(b""),
            b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + counted(b"{}", JSON, status=429),
            b"HTTP/1.0 200 OK\r\n\r\n" + COMPLETION,
        ]
    )
    return mangled(chance, good)


def test_noise_from_a_provider_leaves_nothing_behind_and_loses_no_event(
    gateway: GatewayProcess, upstream: RawUpstream, ledger: Ledger
) -> None:
    def script(turn: Turn) -> None:
        assert turn.body
        turn.send(answered(random.Random(turn.model())))
        turn.close()

    upstream.begin(script)
    before = descriptors(gateway)
    count = 200
    for seed in range(count):
        with RawClient(gateway.port) as client:
            client.send(chat(f"main/{seed}", b"Connection: close", b"Accept-Encoding: gzip"))
            came = client.incoming.rest()
            assert came == b"" or came.startswith(b"HTTP/1.1 ")
    wait_until(lambda: descriptors(gateway) <= before, "every connection to be closed")
    events = ledger.take(count)
    assert [event["model"] for event in events] == [f"main/{seed}" for seed in range(count)]
    assert {event["status"] for event in events} == {"ok", "upstream_error"}
    assert all(event["http_status"] == 502 or event["ttft_ms"] for event in events if event["status"] != "ok")
