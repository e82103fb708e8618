"""A thousand requests at once against rows of limits, through two hosts with two workers each and one Redis.

Each request costs the same, and holds a little more until its end.  So a row is overdrawn by less than one
hold, whatever happens; and whatever is killed, all that the provider has answered is counted.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from mgw.tokens.hold import input_hold
from tests.support.commands import run_mgw
from tests.support.crowds import CONNECTIONS, LOST, Crowd
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_upstream import COMPLETION, JSON, RawUpstream, Turn, counted
from tests.support.redis_server import PASSWORD, RedisServer, needs_redis
from tests.support.simulator import SimulatorProcess
from tests.support.supervised import Workers, alive
from tests.support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.slow

REQUESTS: Final = 1000
TOKENS_IN, TOKENS_OUT, MAX_TOKENS = 120, 50, 60
PRICE_IN, PRICE_OUT = 10_000, 20_000
"""Nanodollars for a token."""
COST: Final = TOKENS_IN * PRICE_IN + TOKENS_OUT * PRICE_OUT
BODY: Final[Any] = {  # Any: JSON
    "model": f"sim/gpt-5+sim-usage-{TOKENS_IN}-{TOKENS_OUT}+sim-delay-20",
    "messages": [{"role": "user", "content": "fox " * 120}],
    "max_completion_tokens": MAX_TOKENS,
}
HELD_IN: Final = input_hold(json.dumps(BODY).encode())
HELD_TOKENS: Final = HELD_IN + MAX_TOKENS
HELD: Final = HELD_IN * PRICE_IN + MAX_TOKENS * PRICE_OUT
MOST_USD: Final = 1_000_000_000
MOST_TOKENS: Final = 80_000
MOST_IN_FLIGHT: Final = 8
ALICE, BOB, CAROL, DAVE, WATCHER, DASHBOARD = (
    f"edge-canary-of-{n}" for n in ("alice", "bob", "carol", "dave", "watcher", "dashboard")
)
MONEY: Final = ("group:research", "usd_per_month")
TOKENS: Final = ("carol", "tokens_per_day")


def config_text(
    simulator: str, folder: Path, redis: RedisServer | None, upstream: str = "http://127.0.0.1:1"
) -> str:
    fleet = "" if redis is None else f"fleet: {{redis: {{url: 'unix://:{PASSWORD}@{redis.path}'}}}}"
    return f"""
workers: 2
providers:
  sim: {{kind: openai, base_url: "{simulator}/v1", api_key: sk-canary}}
  raw: {{kind: openai, base_url: "{upstream}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: sim}}
prices: {{rows: [{{model: "*", input: {PRICE_IN // 1000}, output: {PRICE_OUT // 1000}}}]}}
limit_store: {folder}/limits.db
dashboard: {{enabled: true, keys: [{DASHBOARD}]}}
edge_auth:
  enabled: true
  groups: {{research: {{limits: [{{usd: {MOST_USD / 1e9}, per: month}}]}}}}
  keys:
    - {{name: alice, key: {ALICE}, groups: [research]}}
    - {{name: bob, key: {BOB}, groups: [research]}}
    - {{name: carol, key: {CAROL}, limits: [{{tokens: {MOST_TOKENS}, per: day, count: before}}]}}
    - {{name: dave, key: {DAVE}, limits: [{{in_flight: {MOST_IN_FLIGHT}}}]}}
    - {WATCHER}
drain_seconds: 5
{fleet}
"""


@contextmanager
def hosts(
    simulator: SimulatorProcess, folder: Path, redis: RedisServer, upstream: str = "http://127.0.0.1:1"
) -> Iterator[list[GatewayProcess]]:
    """Start two hosts of one fleet, and wait until each knows the other."""
    with ExitStack() as stack:
        found = []
        for name in ("a", "b"):
            (folder / name).mkdir()
            text = config_text(simulator.url, folder / name, redis, upstream)
            found.append(stack.enter_context(start_gateway(text)))
        for gateway in found:
            wait_until(lambda one=gateway: metric(one, "mgw_fleet_hosts") == 2, "two hosts")  # type: ignore[misc]  # bound now
        yield found


def metric(gateway: GatewayProcess, name: str) -> float:
    return gateway.metric(name, {"Authorization": f"Bearer {WATCHER}"})


def crowd_of(
    gateways: Sequence[GatewayProcess], *keys: str, body: Any = BODY, connections: int = CONNECTIONS
) -> Crowd:
    return Crowd([gateway.port for gateway in gateways], keys, body, connections)


def states(gateway: GatewayProcess) -> dict[tuple[str, str], Any]:  # Any: JSON
    """Return the rows, as the command shows them, which needs no gateway."""
    done = run_mgw(["budget", "show", "--format", "json", "-c", str(gateway.config_file)])
    assert done.returncode == 0, done.stderr
    return {(row["holder"], row["limit"]): row for row in json.loads(done.stdout)}


def wait_for_rows(gateway: GatewayProcess) -> dict[tuple[str, str], Any]:  # Any: JSON
    """Return the rows, once no request holds anything: of a host that is gone, after 12 s."""
    ends = time.monotonic() + WAIT_SECONDS
    rows = states(gateway)
    while any(row["reserved"] for row in rows.values()):
        assert time.monotonic() < ends, rows
        rows = states(gateway)
    return rows


def used(rows: Mapping[tuple[str, str], Any]) -> int:
    """Return what is used of the row of money, in nanodollars."""
    return round(float(rows[MONEY]["used"]) * 1e9)


def events(gateways: Sequence[GatewayProcess]) -> list[Any]:  # Any: JSON
    """Return the events of gateways that have ended, of the requests that they admitted."""
    found = [json.loads(line) for one in gateways for line in one.stdout.whole(WAIT_SECONDS).splitlines()]
    return [event for event in found if event["status"] != "rejected"]


def charged(gateways: Sequence[GatewayProcess]) -> int:
    """Return the sum of the charges of these events, in nanodollars."""
    return sum(round(float(event.get("charged_usd", 0)) * 1e9) for event in events(gateways))


def fill(gateway: GatewayProcess, key: str) -> int:
    """Send requests one after another until there is no room; return how many there was room for."""
    crowd = Crowd([gateway.port], [key], BODY, connections=1)
    while crowd.send(1) == [200]:
        pass
    assert crowd.statuses[-1] == 429
    return len(crowd.statuses) - 1


def fill_up(gateway: GatewayProcess, key: str) -> int:
    """Do the same until there is no room though nothing is held: a hold is more than a request costs.

    A client has its response before other processes know what the request came to.
    """
    count = fill(gateway, key)
    wait_for_rows(gateway)
    return count + fill(gateway, key)


def lost_requests(gateway: GatewayProcess) -> int:
    """Return how many requests of processes that are gone a gateway has counted in full."""
    said = re.findall(
        rb"(\d+) requests of processes that are gone count in full with what they held: group:research "
        rb"usd_per_month (\d+)",
        gateway.stderr.data,
    )
    assert [int(amount) for _, amount in said] == [HELD * int(requests) for requests, _ in said]
    assert said
    return sum(int(requests) for requests, _ in said)


def overdraft(gateways: Sequence[GatewayProcess]) -> int:
    """Return by how much the row of money may be overdrawn, in nanodollars.

    On a busy machine Redis may take more than a quarter of a second for an answer.  Then a host decides alone
    about all that have asked meanwhile.
    """
    is_busy = any(b"] Redis is unavailable" in one.stderr.data for one in gateways)
    return HELD * CONNECTIONS if is_busy else HELD


def most_of_outages(gateways: Sequence[GatewayProcess]) -> int:
    """Return by how much the row of money may be overdrawn where Redis was killed, in nanodollars.

    Each host goes on with its part of what was left, and overdraws that by less than one hold.  What was left
    is known as of a host's last answer: of the other one's requests, those of one round may be missing.
    """
    outages = [one.stderr.data.count(b"] Redis is available again") for one in gateways]
    is_busy = outages != [1] * len(gateways)  # it was too slow as well, at whatever moment
    return overdraft(gateways) if is_busy else HELD * (len(gateways) + CONNECTIONS // 4)


@contextmanager
def act_in_thread(act: Callable[[], object]) -> Iterator[None]:
    """Do something in a thread while the block runs; both have ended behind it."""
    thread = threading.Thread(target=act)
    thread.start()
    yield
    thread.join(WAIT_SECONDS)


@contextmanager
def act_during(crowd: Crowd, count: int, act: Callable[[], object]) -> Iterator[None]:
    """Do something in a thread once so many responses have come."""
    thread = threading.Thread(target=act)

    def on_response(number: int) -> None:
        if number == count:
            thread.start()

    crowd.on_response = on_response
    yield
    thread.join(WAIT_SECONDS)


@needs_redis
def test_no_row_is_overdrawn_by_more_than_one_hold_and_all_is_counted(
    simulator: SimulatorProcess, tmp_path: Path
) -> None:
    simulator.clear()
    with RedisServer() as redis, hosts(simulator, tmp_path, redis) as gateways:
        found = {}
        for keys, row in (((ALICE, BOB), MONEY), ((CAROL,), TOKENS)):
            statuses = Counter(crowd_of(gateways, *keys).send(REQUESTS))
            assert set(statuses) == {200, 429}
            found[row] = statuses[200] + fill_up(gateways[1], keys[0])
        rows = wait_for_rows(gateways[0])
        shown = gateways[1].get("/v1/dashboard/limits", {"Authorization": f"Bearer {DASHBOARD}"})
        assert {(row["holder"], row["limit"]): row for row in json.loads(shown)["limits"]} == rows
        assert [gateway.stop() for gateway in gateways] == [0, 0]
        assert (
            MOST_USD
            <= used(rows)
            == found[MONEY] * COST
            == charged(gateways)
            < MOST_USD + overdraft(gateways)
        )
        tokens = [
            event["tokens_in"] + event["tokens_out"]
            for event in events(gateways)
            if event["client"] == "carol"
        ]
        assert len(tokens) == found[TOKENS]
        assert MOST_TOKENS <= rows[TOKENS]["used"] == sum(tokens) < MOST_TOKENS + HELD_TOKENS
    assert simulator.counters()["received"] == sum(found.values())


@needs_redis
def test_never_more_are_in_flight_than_a_row_allows(
    simulator: SimulatorProcess, upstream: RawUpstream, tmp_path: Path
) -> None:
    go_on, lock = threading.Event(), threading.Lock()
    in_flight, peak = 0, 0

    def answer(turn: Turn) -> None:
        nonlocal in_flight, peak
        is_held = turn.model() == "held"
        with lock:
            in_flight += 1
            peak = max(peak, in_flight)
        if is_held:
            assert go_on.wait(WAIT_SECONDS)
        with lock:
            in_flight -= 1
        turn.send(counted(COMPLETION, JSON))

    upstream.begin(answer)
    with RedisServer() as redis, hosts(simulator, tmp_path, redis, upstream.url) as gateways:
        crowd = crowd_of(gateways, DAVE, body={**BODY, "model": "raw/free"})
        assert set(crowd.send(REQUESTS)) == {200, 429}
        assert peak <= MOST_IN_FLIGHT
        for is_last in (False, True):  # all are free again, also those of a worker that was killed
            go_on.clear()
            before = len(upstream.turns)
            wave = crowd_of(
                gateways, DAVE, body={**BODY, "model": "raw/held"}, connections=2 * MOST_IN_FLIGHT
            )
            with act_in_thread(partial(wave.send, 2 * MOST_IN_FLIGHT)):
                upstream.wait_for(
                    partial(has_turns, upstream, before + MOST_IN_FLIGHT), "all places to be taken"
                )
                wait_until(partial(has_refused, wave), "the others to be refused")
                if not is_last:
                    Workers(gateways[0]).kill(0)
                go_on.set()
            assert wave.statuses.count(429) == MOST_IN_FLIGHT
            wait_until(lambda: in_flight == 0, "the provider to be done")


def has_turns(upstream: RawUpstream, count: int) -> bool:
    return len(upstream.turns) == count


def has_refused(wave: Crowd) -> bool:
    return len(wave.statuses) == MOST_IN_FLIGHT


@needs_redis
@pytest.mark.parametrize("victim", ["worker", "host"])
def test_what_a_killed_process_had_admitted_is_counted(
    simulator: SimulatorProcess, tmp_path: Path, victim: str
) -> None:
    simulator.clear()
    with RedisServer() as redis, hosts(simulator, tmp_path, redis) as gateways:
        first = Workers(gateways[0])
        pids = first.processes()
        crowd = crowd_of(gateways, ALICE, BOB)
        kill = partial(first.kill, 0) if victim == "worker" else gateways[0].process.kill
        with act_during(crowd, REQUESTS // 4, kill):
            statuses = Counter(crowd.send(REQUESTS))
        assert {200, 429, LOST} <= set(statuses) <= {200, 429, 503, LOST}  # 503: its workers end
        fill(gateways[1], BOB)
        if victim == "host":
            wait_until(lambda: not any(map(alive, pids)), "its workers to end")
        wait_for_rows(gateways[1])
        fill(gateways[1], BOB)  # whoever asks next takes over what a host held that is gone
        found = used(wait_for_rows(gateways[1]))
        for gateway in gateways[victim == "host" :]:
            assert gateway.stop() == 0
        told, received = charged(gateways), simulator.counters()["received"]
        unknown = received - len(events(gateways))
        assert COST * received <= found < MOST_USD + overdraft(gateways)
        assert told <= found <= told + HELD * (unknown + statuses[LOST])
        said = re.findall(
            rb"(\d+) requests of a host that is gone count in full with what they held: group:research "
            rb"usd_per_month (\d+)",
            gateways[1].stderr.data,
        )
        assert len(said) == (victim == "host")
        assert [int(amount) for _, amount in said] == [HELD * int(requests) for requests, _ in said]


def test_a_supervisor_that_is_killed_forgets_nothing(simulator: SimulatorProcess, tmp_path: Path) -> None:
    simulator.clear()
    text = config_text(simulator.url, tmp_path, None)
    with start_gateway(text) as first:
        pids = Workers(first).processes()
        crowd = crowd_of([first], ALICE, BOB)
        with act_during(crowd, REQUESTS // 4, first.process.kill):
            statuses = Counter(crowd.send(REQUESTS))
        wait_until(lambda: not any(map(alive, pids)), "its workers to end")
        received = simulator.counters()["received"]
        assert statuses[200] <= received < REQUESTS
        with start_gateway(text) as second:
            more = fill_up(second, ALICE)
            rows = wait_for_rows(second)
            found = used(rows) - more * COST
            lost = lost_requests(second)
            settled, rest = divmod(found - HELD * lost, COST)
            assert rest == 0
            assert len(events([first])) <= settled <= received <= settled + lost
            # Those under way may have been counted, and their worker ended before it sent them on.
            assert settled + lost <= received + CONNECTIONS
            assert MOST_USD <= used(rows) < MOST_USD + HELD
            assert second.stop() == 0
            assert charged([second]) == more * COST


@needs_redis
@pytest.mark.parametrize("is_persistent", [True, False], ids=["on disk", "in memory alone"])
def test_a_redis_that_is_killed_and_started_again(
    simulator: SimulatorProcess, tmp_path: Path, is_persistent: bool
) -> None:
    settings = {"appendonly": "yes"} if is_persistent else {}
    with RedisServer(settings) as redis, hosts(simulator, tmp_path, redis) as gateways:
        crowd = crowd_of(gateways, ALICE, BOB)

        def kill() -> None:
            redis.kill()
            wait_for_redis(gateways, is_up=False)
            redis.start()

        with act_during(crowd, REQUESTS // 4, kill):
            statuses = Counter(crowd.send(REQUESTS))
        assert set(statuses) == {200, 429}
        wait_for_redis(gateways, is_up=True)
        for gateway in gateways:  # one that says what it knows, and one that hears of it
            fill_up(gateway, ALICE)
        found = used(wait_for_rows(gateways[0]))
        assert [gateway.stop() for gateway in gateways] == [0, 0]
        told = charged(gateways)
        assert MOST_USD <= told < MOST_USD + most_of_outages(gateways)
        missed = 0 if is_persistent else HELD * CONNECTIONS
        assert told - missed <= found <= told


@needs_redis
@pytest.mark.parametrize("is_persistent", [True, False], ids=["on disk", "in memory alone"])
def test_hosts_without_redis_use_their_parts_of_what_was_left(
    simulator: SimulatorProcess, tmp_path: Path, is_persistent: bool
) -> None:
    settings = {"appendonly": "yes"} if is_persistent else {}
    with RedisServer(settings) as redis, hosts(simulator, tmp_path, redis) as gateways:
        crowd = crowd_of(gateways, ALICE, connections=4)
        assert set(crowd.send(150)) == {200}
        wait_for_rows(gateways[0])
        for gateway in gateways:  # each hears of all that was used
            assert crowd_of([gateway], BOB, connections=1).send(1) == [200]
        spent = used(wait_for_rows(gateways[0]))
        assert spent == 152 * COST
        redis.kill()
        wait_for_redis(gateways, is_up=False)
        found = []
        for gateway in gateways:
            statuses = Counter(crowd_of([gateway], ALICE, BOB).send(REQUESTS // 2))
            found.append((statuses[200] + fill(gateway, ALICE)) * COST)
        part = (MOST_USD - spent) // 2
        for alone in found:
            assert part - COST <= alone < part + HELD + COST
        redis.start()
        wait_for_redis(gateways, is_up=True)
        for gateway in gateways:
            assert fill(gateway, ALICE) == 0
        # One of the hosts has not heard of the last request, and is the first to say what was used.
        missed = 0 if is_persistent else COST
        assert spent + sum(found) - missed <= used(wait_for_rows(gateways[0])) <= spent + sum(found)
        assert [gateway.stop() for gateway in gateways] == [0, 0]
        assert charged(gateways) == spent + sum(found)


def wait_for_redis(gateways: Sequence[GatewayProcess], *, is_up: bool) -> None:
    for gateway in gateways:
        wait_until(lambda one=gateway: metric(one, "mgw_fleet_redis_up") == is_up, "Redis")  # type: ignore[misc]  # bound now
