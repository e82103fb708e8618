"""Three gateways that share a real Redis, one of them with workers: together they are one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.desk import Desk, fetch, message
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask
from tests.support.raw_client import CHAT, RawClient, asking
from tests.support.raw_sessions import REALTIME, handshake
from tests.support.raw_upstream import RawUpstream, Turn
from tests.support.redis_server import PASSWORD, RedisServer, needs_redis
from tests.support.simulator import SimulatorProcess
from tests.support.supervised import Load, held_turns, holding
from tests.support.waiting import wait_until

pytestmark = needs_redis

PLAIN: Final = "edge-canary-plain"
FOUR: Final = "edge-canary-four"
TEN: Final = "edge-canary-ten"
SESSIONS: Final = 10


def fleet_of(redis: RedisServer) -> str:
    return f"\nfleet: {{redis: {{url: 'unix://:{PASSWORD}@{redis.path}?db=1'}}}}\n"


@contextmanager
def started(config: str, redis: RedisServer, key: str | None = None) -> Iterator[list[GatewayProcess]]:
    """Start three gateways, and wait until each of them knows the others."""
    config += fleet_of(redis)
    with ExitStack() as stack:
        configs = [config, config, f"{config}\nworkers: 2\n"]
        gateways = [stack.enter_context(start_gateway(text)) for text in configs]
        for gateway in gateways:
            wait_until(lambda one=gateway: hosts(one, key) == 3, "three hosts")  # type: ignore[misc]  # bound now
        yield gateways


def hosts(gateway: GatewayProcess, key: str | None) -> float:
    return metric(gateway, "mgw_fleet_hosts", key)


def metric(gateway: GatewayProcess, name: str, key: str | None = PLAIN) -> float:
    return gateway.metric(name, {} if key is None else {"Authorization": f"Bearer {key}"})


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="module")
def gateways(redis: RedisServer, upstream: RawUpstream) -> Iterator[list[GatewayProcess]]:
    config = f"""
providers:
  main: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
edge_auth:
  enabled: true
  keys:
    - {PLAIN}
    - {{name: four, key: {FOUR}, max_in_flight: 4}}
    - {{name: ten, key: {TEN}, requests_per_minute: 10}}
realtime: {{max_sessions: {SESSIONS}}}
drain_seconds: 1
"""
    with started(config, redis, PLAIN) as found:
        yield found


def bearer(key: str) -> bytes:
    return f"Authorization: Bearer {key}".encode()


def status(gateway: GatewayProcess, key: str, model: str = "gpt-1") -> int:
    return ask(gateway.port, CHAT, bearer(key), body=asking(model)).status


def test_a_key_has_its_limits_once_for_all_hosts(
    gateways: list[GatewayProcess], upstream: RawUpstream
) -> None:
    with holding(upstream) as go_on, ThreadPoolExecutor(12) as threads:
        waiting = [threads.submit(status, gateways[number % 3], FOUR, "held") for number in range(12)]
        wait_until(lambda: sum(one.done() for one in waiting) == 8, "eight refusals")
        upstream.wait_for(lambda: held_turns(upstream) == 4, "four requests")
        go_on.set()
        assert Counter(one.result() for one in waiting) == {200: 4, 429: 8}
        wait_until(lambda: status(gateways[2], FOUR) == 200, "a place to be free again")
        found = Counter(threads.map(lambda number: status(gateways[number % 3], TEN), range(24)))
    assert found == {200: 10, 429: 14}


def accept_session(turn: Turn) -> None:
    turn.switch_protocols()
    turn.wait_until_left()
    turn.closed = True


def open_session(gateway: GatewayProcess, stack: ExitStack) -> tuple[RawClient, int]:
    client = stack.enter_context(RawClient(gateway.port))
    client.send(handshake(f"{REALTIME}m-1", PLAIN))
    head = client.incoming.head()
    assert head is not None
    return client, int(head[0].split(b" ")[1])


def test_all_hosts_together_have_so_many_sessions(
    gateways: list[GatewayProcess], upstream: RawUpstream
) -> None:
    upstream.begin(accept_session)
    with ExitStack() as stack:
        found = [open_session(gateways[number % 3], stack) for number in range(SESSIONS)]
        assert [status for _, status in found] == [101] * SESSIONS
        assert [open_session(gateway, stack)[1] for gateway in gateways] == [429] * 3
        for client, _ in found[:2]:  # of the first and the second
            client.socket.close()
        wait_until(lambda: open_session(gateways[2], stack)[1] == 101, "a slot to be free")
    for gateway in gateways:
        wait_until(lambda one=gateway: metric(one, "mgw_sessions_in_flight") == 0, "all to end")  # type: ignore[misc]  # bound now


def test_no_request_is_lost_while_redis_dies_and_comes_back(
    gateways: list[GatewayProcess], redis: RedisServer, upstream: RawUpstream
) -> None:
    with holding(upstream) as go_on, ThreadPoolExecutor(12) as threads, ExitStack() as stack:
        held = [threads.submit(status, gateways[0], FOUR, "held") for _ in range(2)]
        upstream.wait_for(lambda: held_turns(upstream) == 2, "two requests")
        loads = [Load(gateway.port, (bearer(PLAIN),), clients=1) for gateway in gateways]
        limited = [Load(gateway.port, (bearer(FOUR),), clients=1) for gateway in gateways[1:]]
        for load in (*loads, *limited):
            stack.enter_context(load.running())
        for load in (*loads, *limited):
            load.wait_for_more(5)
        redis.kill()
        for gateway in gateways:
            wait_until(lambda one=gateway: metric(one, "mgw_fleet_redis_up") == 0, "no Redis")  # type: ignore[misc]  # bound now
        for load in (*loads, *limited):
            load.wait_for_more(5)
        assert status(gateways[0], FOUR) == 429  # the share of a host is one, which is used up
        redis.start()
        for gateway in gateways:
            wait_until(lambda one=gateway: metric(one, "mgw_fleet_redis_up") == 1, "Redis")  # type: ignore[misc]  # bound now
            wait_until(lambda one=gateway: hosts(one, PLAIN) == 3, "three hosts")  # type: ignore[misc]  # bound now
        for load in (*loads, *limited):
            load.wait_for_more(5)
        stack.close()
        assert [load.failed for load in loads] == [[]] * 3
        refused = {what for load in limited for what in load.failed}  # they come back at once, four at a time
        assert refused <= {"429, whole: True"}
        more = [threads.submit(status, gateways[1], FOUR, "held") for _ in range(2)]
        upstream.wait_for(lambda: held_turns(upstream) == 4, "two more requests")
        assert [status(gateway, FOUR) for gateway in gateways] == [429] * 3  # what began before counts
        go_on.set()
        assert [one.result() for one in (*held, *more)] == [200] * 4


def test_an_account_that_one_host_finds_limited_rests_at_all(
    simulator: SimulatorProcess, tmp_path: Path
) -> None:
    fetch(f"{simulator.url}/_sim/accounts", "DELETE")
    desk = Desk(tmp_path, simulator)
    desk.write()
    desk.import_login("a", "canaryA")
    desk.import_login("b", "canaryB")
    desk.account("canaryA", requests=0, retry_after=700)
    with RedisServer() as own, started(f"{desk.config}\ndrain_seconds: 1\n", own) as found:

        def asked(gateway: GatewayProcess) -> int:
            """Return how often the provider is asked for two answers."""
            before = simulator.counters()["received"]
            assert [message(gateway)[0] for _ in range(2)] == [200, 200]
            return simulator.counters()["received"] - before

        assert asked(found[0]) == 3
        for gateway in found[1:]:
            wait_until(lambda one=gateway: resting(one) == 1, "the account to rest")  # type: ignore[misc]  # bound now
            assert asked(gateway) == 2


def resting(gateway: GatewayProcess) -> float:
    return metric(gateway, "mgw_accounts_resting", None)
