"""Counts that two hosts share through a real Redis agree with a plain model of limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, cast

import pytest
from hypothesis import example, given
from twisted.internet.defer import Deferred, succeed

from mgw.clients.calendar_window import NoStore
from mgw.clients.limits import LimitReached, Limits, Permit, RowState, Taken, Unit, Warnings
from mgw.clients.local_counts import LocalCounts
from mgw.identity.shared_counts import SharedCounts
from mgw.redis.counts import RedisTallies
from mgw.redis.host_totals import HostTotals
from mgw.redis.limit_rows import Ticket
from mgw.redis.link import RedisLink
from mgw.redis.scripts import COARSE_MS, FINE_MS, HEARTBEAT, Script
from tests.support.counting import answer_of, decision_of
from tests.support.counting_law import (
    A_NEW_PROCESS,
    DAY,
    LATE_END,
    LOST_HOLDS,
    RUNS,
    RUNS_WITH_RESTARTS,
    SHARED_ROW,
    YOUNG_LIMIT,
    Now,
    Step,
    check,
    without_sets,
)
from tests.support.counting_model import Model
from tests.support.laws import examples
from tests.support.redis_clock import BEGUN, ClockedRedis
from tests.support.redis_server import RedisServer, needs_redis

pytestmark = needs_redis


@dataclass
class Link:
    """The link of one host, on which Redis answers at once."""

    redis: ClockedRedis
    now: Now
    host: str
    is_up: bool = True
    hosts: int = 2
    prefix: str = "mgw:"
    hosts_key: str = "mgw:hosts"

    def __post_init__(self) -> None:
        _ = self.run(HEARTBEAT, [self.hosts_key], self.host, "new", "", 1000 * DAY)

    def run(self, script: Script[Any], keys: Iterable[str], *arguments: str | int) -> Deferred[Any]:
        reply = self.redis.run(script, self.now.milliseconds - BEGUN, list(keys), *arguments)
        return succeed(script.read(reply))


class Hosts:
    """Two hosts with one Redis."""

    def __init__(self, redis: ClockedRedis, now: Now) -> None:
        redis.call("FLUSHALL")
        self.redis, self.now = redis, now
        self.restart()

    def restart(self) -> None:
        self.redis.call("DEL", "mgw:hosts")  # those before are gone
        self.hosts = list[SharedCounts[Ticket]]()
        for _ in range(2):
            link = cast(RedisLink, Link(self.redis, self.now, token_hex(8)))
            totals = HostTotals(link, NoStore())
            local = LocalCounts(self.now.seconds, totals)
            self.hosts.append(SharedCounts(RedisTallies(link, local, totals), local))

    def use(self, client: str, rows: Limits) -> None:
        for counts in self.hosts:
            counts.use(client, rows)

    def begin(self, by: int, rows: Limits, held: Taken) -> Permit | LimitReached:
        return decision_of(self.hosts[by].begin(rows, held))

    def end(self, by: int, permit: Permit, taken: Taken) -> Warnings:
        return answer_of(self.hosts[by].end(permit, taken))

    def add(self, by: int, rows: Limits, taken: Taken) -> None:
        self.hosts[by].add(rows, taken)

    def reset(self, holder: str, amount: int) -> None:
        answer_of(self.hosts[0].reset(holder, None, amount))

    def state(self) -> list[RowState]:
        return answer_of(self.hosts[1].state())


@pytest.fixture(scope="module")
def redis() -> Iterator[ClockedRedis]:
    with RedisServer() as server:
        client = ClockedRedis(server)
        yield client
        client.close()


def width(unit: Unit) -> int:
    return FINE_MS if unit is Unit.REQUEST else COARSE_MS


@examples(50)
@example(steps=YOUNG_LIMIT)
@example(steps=LATE_END)
@example(steps=A_NEW_PROCESS)
@example(steps=LOST_HOLDS)
@example(steps=SHARED_ROW)
@given(steps=RUNS_WITH_RESTARTS)
def test_counts_of_hosts_agree_with_the_model(redis: ClockedRedis, steps: list[Step]) -> None:
    now = Now()
    check(Hosts(redis, now), Model(width, keeps_minutes=True), now, steps)


@examples(50)
@given(steps=RUNS)
def test_estimates_that_hosts_hold_agree_with_the_model(redis: ClockedRedis, steps: list[Step]) -> None:
    now = Now()
    check(Hosts(redis, now), Model(width, keeps_minutes=True), now, steps)


class HostsOfStrangers(Hosts):
    """The same, where nobody knows of any client before it asks: only their tokens name them."""

    def use(self, client: str, rows: Limits) -> None:
        pass


@examples(50)
@example(steps=YOUNG_LIMIT)
@example(steps=LATE_END)
@example(steps=SHARED_ROW)
@given(steps=RUNS_WITH_RESTARTS)
def test_clients_that_nobody_has_made_known_are_counted_like_any_other(
    redis: ClockedRedis, steps: list[Step]
) -> None:
    now = Now()
    check(HostsOfStrangers(redis, now), Model(width, keeps_minutes=True), now, without_sets(steps))
