"""Credentials that workers share: one token for all of them, and an account that rests does so in all."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.desk import Desk, fetch, message
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_client import RawClient, chat
from tests.support.simulator import SimulatorProcess
from tests.support.supervised import Workers


@pytest.fixture
def desk(tmp_path: Path, simulator: SimulatorProcess) -> Desk:
    fetch(f"{simulator.url}/_sim/accounts", "DELETE")
    desk = Desk(tmp_path, simulator)
    desk.write()
    return desk


def spread(gateway: GatewayProcess) -> None:
    """Wait until what one worker has said has reached the other: questions of the metrics come behind it."""
    for _ in range(2):
        gateway.get("/metrics")


def test_an_account_that_is_limited_in_one_worker_rests_in_all(desk: Desk) -> None:
    desk.import_login("a", "canaryA")
    desk.import_login("b", "canaryB")
    desk.account("canaryA", requests=0, retry_after=700)
    with start_gateway(f"workers: 2\n{desk.config}") as gateway:
        workers = Workers(gateway)

        def asked(slot: int) -> int:
            """Return how often the provider is asked for two answers of a worker."""
            before = desk.simulator.counters()["received"]
            with workers.only(slot):
                assert [message(gateway)[0] for _ in range(2)] == [200, 200]
            return desk.simulator.counters()["received"] - before

        assert asked(0) == 3
        spread(gateway)
        assert asked(1) == 2
        killed = workers.kill(1)
        workers.wait_for_replacement(1, killed)
        spread(gateway)
        assert asked(1) == 2


@pytest.fixture
def simulator_with_tokens(simulator: SimulatorProcess) -> Iterator[SimulatorProcess]:
    simulator.clear()
    simulator.tokens(required=True)
    yield simulator
    simulator.tokens()


def test_a_refresh_token_is_used_once_for_all_workers(
    simulator_with_tokens: SimulatorProcess, tmp_path: Path
) -> None:
    simulator = simulator_with_tokens
    config = f"""
workers: 2
providers:
  main:
    kind: openai
    base_url: "{simulator.url}/v1"
    auth: oauth2
    oauth:
      {{token_url: "{simulator.url}/oauth/token", client_id: a, refresh_token: canary, scopes: sim-rotate}}
defaults: {{openai_dialect: main}}
"""
    with start_gateway(config, {"HOME": str(tmp_path)}) as gateway, ExitStack() as stack:
        workers = Workers(gateway)
        clients = [stack.enter_context(workers.connect(number % 2)) for number in range(8)]

        def ask(client: RawClient) -> int:
            client.send(chat("gpt-1"))
            return client.read_response().status

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(ask, clients)) == [200] * 8
            assert len(simulator.token_requests()) == 1
            simulator.revoke_tokens()
            assert list(threads.map(ask, clients)) == [200] * 8
        assert len(simulator.token_requests()) == 2
        killed = workers.kill(0)
        workers.wait_for_replacement(0, killed)
        with workers.connect(0) as client:
            assert ask(client) == 200
        assert len(simulator.token_requests()) == 2
        assert b"sim-issued-" not in gateway.stderr.data
