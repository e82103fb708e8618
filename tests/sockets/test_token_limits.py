"""Limits of people whom only one process knows: each sends over one connection, so to one worker of one host.

The rows of a group hold for all of them together, and those with ``each`` for each by themselves, through one
host with two workers and through two such hosts with one Redis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.sockets.test_limits_under_load import (
    BODY,
    COST,
    PRICE_IN,
    PRICE_OUT,
    WATCHER,
    charged,
    events,
    metric,
    overdraft,
    wait_for_rows,
)
from tests.support.crowds import Crowd
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.idp import Idp
from tests.support.redis_server import PASSWORD, RedisServer, needs_redis
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

PEOPLE: Final = 20
EACH: Final = 30
"""Requests that each of them may send, and all of them together: fewer than each alone would use."""
ALL: Final = 400
SENT: Final = 40
MOST_USD: Final = 200_000_000
"""Nanodollars."""


def config_text(simulator: str, issuer: str, folder: Path, redis: RedisServer | None) -> str:
    fleet = "" if redis is None else f"fleet: {{redis: {{url: 'unix://:{PASSWORD}@{redis.path}'}}}}"
    return f"""
workers: 2
providers: {{sim: {{kind: openai, base_url: "{simulator}/v1", api_key: sk-canary}}}}
defaults: {{openai_dialect: sim}}
prices: {{rows: [{{model: "*", input: {PRICE_IN // 1000}, output: {PRICE_OUT // 1000}}}]}}
limit_store: {folder}/limits.db
edge_auth:
  enabled: true
  groups:
    counted: {{limits: [{{requests: {EACH}, per: day, each: true}}]}}
    together: {{limits: [{{requests: {ALL}, per: day}}, {{requests: {EACH}, per: day, each: true}}]}}
    paid: {{limits: [{{usd: {MOST_USD / 1e9}, per: month}}]}}
  keys: [{WATCHER}]
  jwt:
    - name: corp
      issuer: {issuer}
      audience: mgw
      rules:
        - {{when: {{role: counted}}, groups: [counted]}}
        - {{when: {{role: together}}, groups: [together]}}
        - {{when: {{role: paid}}, groups: [paid]}}
drain_seconds: 5
{fleet}
"""


@contextmanager
def hosts(
    simulator: SimulatorProcess, idp: Idp, folder: Path, redis: RedisServer | None
) -> Iterator[list[GatewayProcess]]:
    """Start one host, or two of a fleet that know each other and the issuer's keys."""
    with ExitStack() as stack:
        found = []
        for name in ("a",) if redis is None else ("a", "b"):
            (folder / name).mkdir()
            text = config_text(simulator.url, idp.issuer, folder / name, redis)
            found.append(stack.enter_context(start_gateway(text)))
        for gateway in found:
            gateway.log(b"issuer corp: keys added: ")
            if redis is not None:
                wait_until(lambda one=gateway: metric(one, "mgw_fleet_hosts") == 2, "two hosts")  # type: ignore[misc]  # bound now
        yield found


def send(gateways: Sequence[GatewayProcess], tokens: Sequence[str], count: int) -> list[Counter[int]]:
    """Have each token send so many requests over a connection of its own, all at once."""
    ports = [gateways[number % len(gateways)].port for number in range(len(tokens))]
    crowds = [Crowd([port], [token], BODY, connections=1) for port, token in zip(ports, tokens, strict=True)]
    with ThreadPoolExecutor(len(crowds)) as pool:
        return [Counter(statuses) for statuses in pool.map(lambda crowd: crowd.send(count), crowds)]


@needs_redis
@pytest.mark.parametrize("has_redis", [False, True], ids=["one host", "two hosts"])
def test_no_row_is_exceeded_and_all_is_counted(
    simulator: SimulatorProcess, tmp_path: Path, has_redis: bool
) -> None:
    idp = Idp(simulator.url, f"limits{has_redis}")
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer()) if has_redis else None
        gateways = stack.enter_context(hosts(simulator, idp, tmp_path, redis))
        sent = {}
        for role in ("counted", "together", "paid"):
            names = [f"{role}{number}" for number in range(PEOPLE)]
            tokens = [idp.token(sub=name, role=role) for name in names]
            found = send(gateways, tokens, SENT)
            again = send(gateways[::-1], tokens, 2)  # most of them by another worker
            assert set().union(*found, *again) == {200, 429}
            counts = [one[200] + two[200] for one, two in zip(found, again, strict=True)]
            sent[role] = dict(zip(names, counts, strict=True))
        rows = wait_for_rows(gateways[0])
        assert [gateway.stop() for gateway in gateways] == [0] * len(gateways)
        assert set(sent["counted"].values()) == {EACH}
        assert sum(sent["together"].values()) == ALL == rows["group:together", "requests_per_day"]["used"]
        for role in ("counted", "together"):
            for name, count in sent[role].items():
                row = rows.get((f"group:{role}/corp:{name}", "requests_per_day"))
                assert (0 if row is None else row["used"]) == count <= EACH
        used = round(float(rows["group:paid", "usd_per_month"]["used"]) * 1e9)
        paid = sum(sent["paid"].values())
        assert MOST_USD <= used == paid * COST == charged(gateways) < MOST_USD + overdraft(gateways)
        assert Counter(event["client"] for event in events(gateways)) == Counter(
            {f"corp:{name}": count for people in sent.values() for name, count in people.items() if count}
        )
