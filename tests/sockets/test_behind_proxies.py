"""Gateways behind HAProxy, nginx and Envoy with the shipped configurations: clients notice nothing of it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from websockets.asyncio.client import connect

from tests.support.balancers import Balancer, check_config, program_or_skip, start_balancer
from tests.support.certificates import Authority
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_client import RawResponse, chat, chunk, request
from tests.support.raw_upstream import STREAM_HEAD, RawUpstream, Turn, complete
from tests.support.simulator import SimulatorProcess
from tests.support.tls_front import trusting
from tests.support.waiting import WAIT_SECONDS, wait_until

NAMES: Final = ("haproxy", "nginx", "envoy")
FIRST: Final = b'data: {"choices":[{"delta":{"content":"first"}}]}\n\n'
LAST: Final = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\ndata: [DONE]\n\n'
UPLOAD: Final = "/upload/v1beta/files"


def configuration(simulator: SimulatorProcess, upstream: RawUpstream) -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary}}
  gem: {{kind: gemini, base_url: "{simulator.url}/v1beta", api_key: AIza-canary}}
  held: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main, gemini_dialect: gem}}
edge_auth: {{enabled: false}}
trusted_proxies: ["127.0.0.1"]
drain_seconds: 300
drain_delay_seconds: 1
"""


@dataclass
class Hosts:
    """Two gateways and what stands before them."""

    gateways: tuple[GatewayProcess, GatewayProcess]
    balancer: Balancer

    def ask(self, data: bytes) -> RawResponse:
        """Send one request on a connection of its own."""
        with self.balancer.connect() as client:
            client.send(data)
            return client.read_response()


@contextmanager
def start_hosts(
    name: str, folder: Path, ca: Authority, simulator: SimulatorProcess, upstream: RawUpstream
) -> Iterator[Hosts]:
    program_or_skip(name)
    config = configuration(simulator, upstream)
    with (
        start_gateway(config) as one,
        start_gateway(config) as two,
        start_balancer(name, folder, ca, (one.port, two.port)) as balancer,
    ):
        yield Hosts((one, two), balancer)


@pytest.fixture(scope="module", params=NAMES)
def hosts(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    ca: Authority,
    simulator: SimulatorProcess,
    upstream: RawUpstream,
) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp(request.param)
    with start_hosts(request.param, folder, ca, simulator, upstream) as started:
        yield started


@pytest.mark.parametrize("name", NAMES)
def test_the_program_takes_its_shipped_configuration(name: str, tmp_path: Path, ca: Authority) -> None:
    check_config(name, tmp_path, ca)


def test_a_request_is_answered(hosts: Hosts) -> None:
    response = hosts.ask(chat("gpt-1"))
    assert (response.status, response.json()["object"]) == (200, "chat.completion")


def test_an_error_of_the_gateway_keeps_its_form(hosts: Hosts) -> None:
    response = hosts.ask(request(b"{", b"Content-Type: application/json"))
    assert (response.status, response.json()["error"]["type"]) == (400, "invalid_request_error")


def test_each_piece_of_a_stream_comes_when_it_was_sent(hosts: Hosts, upstream: RawUpstream) -> None:
    go_on = threading.Event()

    def held(turn: Turn) -> None:
        assert turn.body
        turn.send(STREAM_HEAD, chunk(FIRST))
        assert go_on.wait(WAIT_SECONDS)
        turn.send(chunk(LAST), chunk(b""))

    upstream.begin(held)
    with hosts.balancer.connect() as client:
        client.send(chat("held/gpt", stream=True))
        assert client.incoming.until(FIRST) is not None  # while the rest has not been sent
        go_on.set()
        assert client.incoming.until(LAST) is not None


def test_a_session_over_a_websocket_goes_both_ways(hosts: Hosts, ca: Authority) -> None:
    async def run() -> None:
        url = f"wss://localhost:{hosts.balancer.port}/v1/realtime?model=sim-echo"
        async with connect(url, ssl=trusting(ca), proxy=None) as session:
            await session.recv()
            for message in ("hello", "x" * 100_000):
                await session.send(message)
                assert await session.recv() == message

    asyncio.run(run())


def test_a_body_of_a_mebibyte_arrives_whole(hosts: Hosts, simulator: SimulatorProcess) -> None:
    sent = chat("main/gpt-1", user="y" * 2**20)
    assert hosts.ask(sent).status == 200
    assert len(sent.partition(b"\r\n\r\n")[2]) - simulator.requests()[-1].body_size == len("main/")


def test_the_gateway_knows_its_address_and_nobody_else_says_it(hosts: Hosts) -> None:
    """What the client itself says of proxies does not count."""
    start = request(
        b"{}",
        b"Content-Type: application/json",
        b"X-Goog-Upload-Protocol: resumable",
        b"X-Goog-Upload-Command: start",
        b"X-Goog-Upload-Header-Content-Length: 3",
        b"X-Forwarded-Proto: http",
        b"X-Forwarded-For: 192.0.2.1",
        b"Forwarded: for=192.0.2.1;proto=http",
        path=UPLOAD,
    ).replace(b"Host: gateway", b"Host: localhost:%d" % hosts.balancer.port)
    response = hosts.ask(start)
    address = (response.value(b"x-goog-upload-url") or b"").decode()
    assert address.startswith(f"https://localhost:{hosts.balancer.port}{UPLOAD}?"), response


@pytest.mark.parametrize("path", ["/metrics", "/ui", "/ui/", "/v1/dashboard", "/v1/dashboard/usage"])
def test_what_is_about_one_gateway_is_not_served_for_all(hosts: Hosts, path: str) -> None:
    assert hosts.ask(request(None, path=path, method="GET")).status == 404


@pytest.mark.parametrize("name", NAMES)
def test_no_request_is_lost_when_a_gateway_stops(
    name: str, tmp_path: Path, ca: Authority, simulator: SimulatorProcess, upstream: RawUpstream
) -> None:
    go_on, stop = threading.Event(), threading.Event()

    def held(turn: Turn) -> None:
        assert turn.body
        turn.send(STREAM_HEAD, chunk(FIRST))
        assert go_on.wait(WAIT_SECONDS)
        turn.send(chunk(LAST), chunk(b""))

    upstream.begin(held)
    statuses: list[int] = []
    with start_hosts(name, tmp_path, ca, simulator, upstream) as hosts, hosts.balancer.connect() as streaming:

        def ask_on_and_on() -> None:
            while not stop.is_set():
                try:
                    statuses.append(hosts.ask(chat("main/gpt-1", b"Connection: close")).status)
                except (AssertionError, OSError):
                    statuses.append(0)

        streaming.send(chat("held/gpt", stream=True))
        assert streaming.incoming.until(FIRST) is not None
        leaving = next(each for each in hosts.gateways if each.metric("mgw_requests_in_flight ") > 1)
        clients = [threading.Thread(target=ask_on_and_on) for _ in range(2)]
        for thread in clients:
            thread.start()
        try:
            wait_until(lambda: len(statuses) >= 10, "requests")
            hosts.balancer.take_out(leaving.port)
            leaving.process.terminate()
            leaving.log(b"draining")
            asked = len(statuses)
            wait_until(lambda: len(statuses) >= asked + 10, "requests during the drain")
            go_on.set()
            assert streaming.incoming.until(LAST) is not None
            assert leaving.process.wait(WAIT_SECONDS) == 0
            asked = len(statuses)
            wait_until(lambda: len(statuses) >= asked + 10, "requests without it")
        finally:
            stop.set()
            go_on.set()
            for thread in clients:
                thread.join(WAIT_SECONDS)
            upstream.begin(complete)
    assert set(statuses) == {200}
    served = [json.loads(line)["http_status"] for line in leaving.stdout.data.splitlines()]
    assert set(served) == {200}
