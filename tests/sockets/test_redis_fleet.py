"""Several hosts share limits, slots and rests through a real Redis, and go on alone while it is away."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import random
from typing import Any, Final, TypeVar

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import ILogObserver, globalLogPublisher
from zope.interface import implementer

from mgw.clients.calendar_window import NoStore
from mgw.clients.limits import ONE_REQUEST, LimitReached, Limits, Permit, Taken, limits_of
from mgw.realtime.sessions import SESSIONS as SESSIONS_HOLDER
from mgw.redis.hosts import Fleet, open_fleet
from tests.support.certificates import authority, issue
from tests.support.counting import limits
from tests.support.reactor import in_reactor, running_reactor
from tests.support.redis_server import PASSWORD, RedisServer, needs_redis

pytestmark = needs_redis
T = TypeVar("T")
FIVE: Final = limits(max_in_flight=5)
TEN: Final = limits_of(SESSIONS_HOLDER, {"max_sessions": 10})
SESSIONS: Final = "realtime: {max_sessions: 10}"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await deferLater(running_reactor(), 0.01)


class Hosts:
    """Three hosts of a fleet, in one process."""

    def __init__(self, server: RedisServer, limits: Limits) -> None:
        reactor = running_reactor()
        self.server = server
        self.heard: list[tuple[int, str, str, str | None, float]] = []
        self.limits = limits
        self.slots: dict[int, list[Permit]] = {number: [] for number in range(3)}
        config = server.config(SESSIONS)
        self.fleets = [
            open_fleet(config, reactor, random, self._hears(number), NoStore()) for number in range(3)
        ]

    def _hears(self, number: int) -> Callable[[str, str, str | None, float], None]:
        return lambda *rest: self.heard.append((number, *rest))

    def begin(self, number: int) -> Permit | LimitReached | Deferred[Permit | LimitReached]:
        return self.fleets[number].counts.begin(self.limits, ONE_REQUEST)

    async def acquire(self, number: int) -> Permit | LimitReached:
        found = self.begin(number)
        return await found if isinstance(found, Deferred) else found

    async def begin_all(self, times: int) -> list[tuple[int, Permit | LimitReached]]:
        return [(turn % 3, await self.acquire(turn % 3)) for turn in range(times)]

    def release(
        self, number: int, permit: Permit | LimitReached, tokens: int = 0, *, refused: bool = False
    ) -> None:
        assert isinstance(permit, Permit)
        self.fleets[number].counts.end(permit, Taken(int(not refused), tokens))

    async def eventually(self, ask: Callable[[], Awaitable[Any]], kind: type[T]) -> T:
        """Ask until there is such an answer: what ends on one connection may be overtaken on another."""
        while not isinstance(found := await ask(), kind):
            pass
        return found

    async def take(self, number: int) -> bool:
        found = self.fleets[number].counts.begin(TEN, ONE_REQUEST)
        taken = await found if isinstance(found, Deferred) else found
        if isinstance(taken, Permit):
            self.slots[number].append(taken)
        return isinstance(taken, Permit)

    def free(self, number: int) -> None:
        self.fleets[number].counts.end(self.slots[number].pop(), Taken())

    async def up(self) -> None:
        await until(lambda: all(fleet.link.is_up and fleet.link.hosts == 3 for fleet in self.fleets))

    async def down(self) -> None:
        await until(lambda: not any(fleet.link.is_up for fleet in self.fleets))


@contextmanager
def listening(said: list[str]) -> Iterator[None]:
    """Gather what the log says of Redis."""

    @implementer(ILogObserver)
    def hear(event: dict[str, Any]) -> None:
        if event.get("log_namespace", "").startswith("mgw.redis"):
            said.append(event["log_format"].format(**event))

    globalLogPublisher.addObserver(hear)
    try:
        yield
    finally:
        globalLogPublisher.removeObserver(hear)


def run(
    server: RedisServer,
    work: Callable[[Hosts], Coroutine[Deferred[Any], Any, None]],
    limits: Limits = FIVE,
) -> list[str]:
    """Let three hosts do something, and return what the log said."""
    said: list[str] = []

    async def working() -> None:
        hosts = Hosts(server, limits)
        try:
            await hosts.up()
            await work(hosts)
        finally:
            for fleet in hosts.fleets:
                await fleet.stop()

    with listening(said):
        in_reactor(working)
    assert not any(PASSWORD in text or str(server.path) in text for text in said)
    return said


def refusals(found: list[tuple[int, Permit | LimitReached]]) -> list[str]:
    return [permit.limit.name for _, permit in found if isinstance(permit, LimitReached)]


def test_three_hosts_have_one_limit_together(server: RedisServer) -> None:
    async def work(hosts: Hosts) -> None:
        found = await hosts.begin_all(8)
        assert refusals(found) == ["max_in_flight"] * 3
        hosts.release(*found[0])
        await hosts.eventually(lambda: hosts.acquire(2), Permit)
        assert isinstance(await hosts.acquire(1), LimitReached)

    run(server, work)


def test_a_window_of_requests_counts_for_all_and_not_what_is_refused(server: RedisServer) -> None:
    async def work(hosts: Hosts) -> None:
        found = await hosts.begin_all(6)
        assert refusals(found) == ["requests_per_minute"] * 2
        hosts.release(*found[0], refused=True)
        hosts.release(*found[1])
        assert isinstance(await hosts.acquire(0), Permit)
        refused = await hosts.acquire(1)
        assert isinstance(refused, LimitReached)
        assert (refused.limit.name, refused.most) == ("requests_per_minute", 4)
        assert 55 < refused.seconds <= 60.02

    run(server, work, limits(requests_per_minute=4))


def test_a_window_of_tokens_counts_for_all(server: RedisServer) -> None:
    async def work(hosts: Hosts) -> None:
        for number, permit in await hosts.begin_all(3):
            hosts.release(number, permit, tokens=40)
        refused = await hosts.eventually(lambda: hosts.acquire(0), LimitReached)
        assert (refused.limit.name, refused.most) == ("tokens_per_minute", 100)
        assert isinstance(await hosts.acquire(1), LimitReached)

    run(server, work, limits(tokens_per_minute=100))


def test_three_hosts_have_ten_slots_together(server: RedisServer) -> None:
    async def work(hosts: Hosts) -> None:
        assert [await hosts.take(turn % 3) for turn in range(12)] == [True] * 10 + [False] * 2
        hosts.free(0)
        while not await hosts.take(1):
            pass
        assert not await hosts.take(2)

    run(server, work)


def test_a_host_that_leaves_frees_what_it_had(server: RedisServer) -> None:
    async def work(hosts: Hosts) -> None:
        assert [await hosts.take(0) for _ in range(11)] == [True] * 10 + [False]
        await hosts.fleets[0].stop()
        while not await hosts.take(1):  # its farewell is on another connection
            await deferLater(running_reactor(), 0.01)

    run(server, work)


def test_an_account_that_rests_rests_for_all(server: RedisServer) -> None:
    async def work(hosts: Hosts) -> None:
        hosts.fleets[0].cooldowns.tell("/store", "work", "claude", 30.0)
        await until(lambda: len(hosts.heard) == 2)
        assert sorted(hosts.heard) == [
            (1, "/store", "work", "claude", 30.0),
            (2, "/store", "work", "claude", 30.0),
        ]
        late: list[tuple[str, str, str | None, float]] = []
        store = NoStore()
        fleet = open_fleet(server.config(), running_reactor(), random, lambda *rest: late.append(rest), store)
        await until(lambda: bool(late))
        await fleet.stop()
        ((*rest, seconds),) = late
        assert rest == ["/store", "work", "claude"]
        assert 25 < seconds <= 30

    run(server, work)


def test_while_redis_is_away_each_host_keeps_to_its_share_and_says_so(server: RedisServer) -> None:
    async def work(hosts: Hosts) -> None:
        found = await hosts.begin_all(3)
        server.kill()
        await hosts.down()
        alone = [hosts.begin(0) for _ in range(3)]
        assert [isinstance(each, LimitReached) for each in alone] == [
            False,
            True,
            True,
        ]  # 6 // 3, one is under way
        hosts.fleets[1].cooldowns.tell("/store", "work", None, 30.0)
        hosts.release(*found[1])
        server.start()
        await hosts.up()
        await until(lambda: len(hosts.heard) >= 2)
        # Two are under way on the first host, none on the second, one on the third.
        assert refusals([(1, await hosts.acquire(1)) for _ in range(5)]) == ["max_in_flight"] * 2

    said = run(server, work, limits(max_in_flight=6))
    assert sum("Redis is unavailable" in text for text in said) == 3  # one for each host
    assert "this host enforces its share of all limits, 1 of 3" in " ".join(said)
    assert sum("Redis is available again" in text for text in said) == 3


def test_requests_under_way_to_a_redis_that_hangs_are_decided_alone_in_time(server: RedisServer) -> None:
    async def work(hosts: Hosts) -> None:
        reactor = running_reactor()
        server.hang()
        began = reactor.seconds()
        assert isinstance(await hosts.acquire(0), Permit)
        assert 0.2 < reactor.seconds() - began < 1.5
        second = hosts.begin(0)
        assert isinstance(second, LimitReached)  # its share is 1, and nobody waits a second time
        server.go_on()
        await hosts.up()
        # Redis has found the first command meanwhile, from a host that is gone: it is not counted twice.
        assert refusals([(1, await hosts.acquire(1)) for _ in range(5)]) == ["max_in_flight"]

    run(server, work)


def test_a_redis_that_hangs_counts_each_request_of_a_minute_once(server: RedisServer) -> None:
    async def work(hosts: Hosts) -> None:
        assert isinstance(await hosts.acquire(1), Permit)
        server.hang()
        alone = [await hosts.acquire(number) for number in (0, 0, 0, 0, 2)]
        assert [type(each) is LimitReached for each in alone] == [False, False, False, True, False]
        await deferLater(running_reactor(), 2)
        hosts.release(0, alone[1], refused=True)
        server.go_on()
        await hosts.up()
        # Of nine, one was counted before and three alone, and whatever Redis found later is taken back.
        for number in (0, 1, 2, 0, 1):
            await hosts.eventually(lambda number=number: hosts.acquire(number), Permit)  # type: ignore[misc]  # bound now
        assert (
            refusals([(number, await hosts.acquire(number)) for number in range(3)])
            == ["requests_per_minute"] * 3
        )

    run(server, work, limits(requests_per_minute=9))


def test_a_change_of_the_prefix_is_another_fleet(server: RedisServer) -> None:
    async def work(hosts: Hosts) -> None:
        config = server.config(SESSIONS)
        redis = config.fleet.redis
        assert redis is not None
        other = config.fleet.model_copy(update={"redis": redis.model_copy(update={"prefix": "other:"})})
        assert [await hosts.take(1) for _ in range(10)] == [True] * 10
        hosts.fleets[0].use(config.model_copy(update={"fleet": other}))
        await until(lambda: hosts.fleets[0].link.is_up)
        assert await hosts.take(0)
        without = config.fleet.model_copy(update={"redis": None})
        hosts.fleets[0].use(config.model_copy(update={"fleet": without}))
        assert isinstance(hosts.fleets[0].counts.begin(TEN, ONE_REQUEST), Permit)
        assert list(hosts.fleets[0].tables()) == []

    run(server, work)


def test_the_numbers_say_whether_redis_is_there(server: RedisServer) -> None:
    def numbers(fleet: Fleet) -> dict[str, float]:
        return {table.family.name: row[1][0] for table in fleet.tables() for row in table.rows()}

    async def work(hosts: Hosts) -> None:
        before = numbers(hosts.fleets[0])
        assert before == {"mgw_fleet_redis_up": 1, "mgw_fleet_redis_errors": 0, "mgw_fleet_hosts": 3}
        server.kill()
        await hosts.down()
        after = numbers(hosts.fleets[0])
        assert (after["mgw_fleet_redis_up"], after["mgw_fleet_hosts"]) == (0, 3)
        assert after["mgw_fleet_redis_errors"] >= 1

    run(server, work)


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("localhost", "limits are shared through Redis by 1 hosts"),
        ("127.0.0.1", "Redis is unavailable (it has a certificate that is not valid for its host name)"),
    ],
)
def test_tls_checks_whose_certificate_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, said: str
) -> None:
    issuer = authority(tmp_path)
    issued = issue(issuer, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(issuer.ca_file))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    tls = {
        "bind": "127.0.0.1",
        "tls-port": str(port),
        "tls-cert-file": str(issued.cert_file),
        "tls-key-file": str(issued.key_file),
        "tls-auth-clients": "no",
    }
    with RedisServer(tls) as server:
        heard: list[str] = []

        async def work() -> None:
            config = server.config(url=f"rediss://default:{PASSWORD}@{host}:{port}/1")
            store = NoStore()
            fleet = open_fleet(config, running_reactor(), random, lambda *_: None, store)
            await until(lambda: bool(heard))
            await fleet.stop()

        with listening(heard):
            in_reactor(work)
    assert heard[0].startswith(said)
    assert str(port) not in heard[0]
