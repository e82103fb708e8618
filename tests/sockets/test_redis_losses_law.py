"""Whatever answers of Redis are lost, executed or not, each request counts once in each of its rows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from mgw.clients.limits import NOTHING, Permit, Taken
from mgw.identity.shared_counts import SharedPermit
from mgw.redis.scripts import BEGIN, END, RETURN, TAKE_OVER, Script
from tests.sockets.test_redis_outage import Host, in_minute
from tests.support.counting import answer_of
from tests.support.counting_law import Now, row_of
from tests.support.laws import examples
from tests.support.redis_clock import ClockedRedis
from tests.support.redis_server import RedisServer, needs_redis

pytestmark = needs_redis
MOST = 10_000
BUDGET = row_of("usd_per_month", MOST, "gateway", is_reserved=True)
QUOTA = row_of("requests_per_day", MOST, "gateway")
MINUTE = row_of("requests_per_minute", MOST, "gateway")
TOKENS = row_of("tokens_per_minute", MOST, "gateway", is_reserved=True)
FLIGHT = row_of("max_in_flight", MOST, "gateway")
ROWS = (FLIGHT, MINUTE, TOKENS, QUOTA, BUDGET)


class Begin(Struct, frozen=True):
    """A request begins on one of the hosts."""

    host: int


class End(Struct, frozen=True):
    """One of those in progress ends."""

    which: int
    taken: Taken


class Lose(Struct, frozen=True):
    """A host loses Redis with a script that it runs, before that is executed or after it, or between two."""

    host: int
    script: int
    is_executed: bool
    taken: Taken


class Connect(Struct, frozen=True):
    """A host finds Redis again."""

    host: int


class Wait(Struct, frozen=True):
    """Some milliseconds pass, of few enough that all of it is in one minute."""

    milliseconds: int


Step = Begin | End | Lose | Connect | Wait
SCRIPTS: tuple[Script[Any] | None, ...] = (None, BEGIN, END, RETURN, TAKE_OVER)
ONE = st.integers(0, 1)
TAKEN = st.one_of(st.just(NOTHING), st.builds(Taken, st.just(1), st.integers(0, 9), st.integers(0, 9)))
STEPS = st.lists(
    st.one_of(
        *[st.builds(Begin, ONE)] * 2,
        *[st.builds(End, st.integers(0, 5), TAKEN)] * 2,
        *[st.builds(Lose, ONE, st.integers(0, len(SCRIPTS) - 1), st.booleans(), TAKEN)] * 2,
        *[st.builds(Connect, ONE)] * 2,
        st.builds(Wait, st.integers(0, 400)),
    ),
    min_size=20,
    max_size=40,
)


@pytest.fixture(scope="module")
def redis() -> Iterator[ClockedRedis]:
    with RedisServer() as server:
        client = ClockedRedis(server)
        yield client
        client.close()


class Run:
    """Two hosts, and what has to be counted."""

    def __init__(self, redis: ClockedRedis, folder: Path) -> None:
        redis.call("FLUSHALL")
        self.redis, self.now = redis, Now()
        self.hosts = [Host(redis, self.now, name, folder) for name in ("a", "b")]
        self.permits: list[tuple[int, Permit]] = []
        self.requests = self.tokens = self.nanodollars = self.refused_alone = 0

    def take(self, step: Step) -> None:
        match step:
            case Begin():
                found = self.hosts[step.host].begin(ROWS, 3)
                assert isinstance(found, Permit)
                self.permits.append((step.host, found))
            case End() if self.permits:
                self.end(step.which % len(self.permits), step.taken)
            case Lose():
                self.lose(step)
            case Connect() if not self.hosts[step.host].link.is_up:
                self.hosts[step.host].link.connect()
            case Wait():
                self.now.milliseconds += step.milliseconds

    def end(self, which: int, taken: Taken) -> None:
        by, permit = self.permits.pop(which)
        assert isinstance(permit, SharedPermit)
        answer_of(self.hosts[by].counts.end(permit, taken))
        self.hosts[by].store.write()
        self.requests += taken.requests
        self.tokens += taken.tokens
        self.nanodollars += taken.nanodollars
        self.refused_alone += permit.ticket is None and not taken.requests

    def lose(self, step: Lose) -> None:
        link, script = self.hosts[step.host].link, SCRIPTS[step.script]
        if script in (RETURN, TAKE_OVER, None) and link.is_up:
            link.lose()
        if script is None:
            return
        if script is TAKE_OVER:
            self.take(Begin(step.host))
            self.end(len(self.permits) - 1, step.taken)
        link.loses = script, step.is_executed
        own = [place for place, (by, _) in enumerate(self.permits) if by == step.host]
        if script is BEGIN:
            self.take(Begin(step.host))
        elif script is END and own:
            self.end(own[0], step.taken)
        elif not link.is_up:
            link.connect()
        link.loses = None

    def connect(self) -> None:
        for host in self.hosts:
            host.link.loses = None
            while not host.link.is_up:
                host.link.connect()

    def check(self) -> None:
        in_progress = len(self.permits)
        for host in self.hosts:
            assert host.sums((QUOTA,)) == (self.requests, in_progress)
            assert host.sums((BUDGET,)) == (self.nanodollars, 3 * in_progress)
        assert in_minute(self.redis, self.now, (TOKENS,)) == self.tokens
        flights = self.redis.call("HVALS", "mgw:gateway:under-way")
        assert sum(map(int, flights)) == in_progress


@examples(60)
@given(steps=STEPS)
def test_each_request_counts_once(redis: ClockedRedis, steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Run(redis, Path(folder))
        for step in steps:
            run.take(step)
        run.connect()
        run.check()
        assert in_minute(redis, run.now, (MINUTE,)) >= run.requests + len(run.permits)
        while run.permits:
            run.take(End(0, Taken(1, 1, 1)))
        run.check()
        for host in run.hosts:
            assert not host.tallies.totals.holding
        assert redis.call("HVALS", "mgw:gateway:tokens:amounts:held") in ([], [b"0"], [b"0", b"0"])
        # What was admitted alone, and refused when Redis had it, counts until its minute is over.
        assert run.requests <= in_minute(redis, run.now, (MINUTE,)) <= run.requests + run.refused_alone
