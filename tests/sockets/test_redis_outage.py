"""What hosts count in rows of periods while Redis is away; afterwards nothing counts twice or never."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace
from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import capturedLogs

from mgw.clients.limits import NOTHING, LimitReached, Limits, Permit, Taken
from mgw.clients.local_counts import LocalCounts
from mgw.identity.shared_counts import SharedCounts
from mgw.redis.counts import RedisTallies
from mgw.redis.host_totals import HostTotals
from mgw.redis.limit_rows import Ticket, row_keys
from mgw.redis.link import RedisLink
from mgw.redis.protocol import RedisError
from mgw.redis.scripts import BEGIN, END, HEARTBEAT, HOST_MS, RETURN, TAKE_OVER, Script
from tests.support.counting import answer_of, decision_of
from tests.support.counting_law import DAY, Now, row_of
from tests.support.limit_stores import MortalStore
from tests.support.redis_clock import BEGUN, ClockedRedis
from tests.support.redis_server import RedisServer, needs_redis

pytestmark = needs_redis
BUDGET = (row_of("usd_per_month", 10, "gateway", is_reserved=True),)
QUOTA = (row_of("requests_per_day", 10, "gateway"),)


class Link:
    """The link of one host, which can be lost with the next script, before that is executed or after it."""

    prefix = "mgw:"
    hosts_key = "mgw:hosts"
    hosts = 2

    def __init__(self, redis: ClockedRedis, now: Now, name: str) -> None:
        self.redis, self.now, self.name = redis, now, name
        self.tallies: RedisTallies | None = None
        self.number = 0
        self.host = ""
        self.is_up = False
        self.loses: tuple[Script[Any], bool] | None = None
        """The script with which it is lost, and whether that is executed."""
        self.answers_late: Script[Any] | None = None
        """The script whose answers come when the test says."""
        self.late: list[tuple[Deferred[Any], Any]] = []  # Any: what scripts answer

    def beat(self, before: str = "") -> None:
        new = "new" if before or not self.is_up else ""
        self._run(HEARTBEAT, [self.hosts_key], self.host, new, before, HOST_MS)

    def connect(self) -> None:
        before, self.number = self.host, self.number + 1
        self.host = f"{self.name}{self.number}"
        self.beat(before or "nobody")
        self.is_up = True
        assert self.tallies is not None
        self.tallies.came_up()

    def lose(self) -> None:
        self.is_up = False
        assert self.tallies is not None
        self.tallies.went_down()

    def run(self, script: Script[Any], keys: Iterable[str], *arguments: str | int) -> Deferred[Any]:
        if not self.is_up:
            return fail(RedisError("Redis is unavailable"))
        loses = self.loses
        if loses is None or loses[0] is not script:
            answer = script.read(self._run(script, keys, *arguments))
            if script is not self.answers_late:
                return succeed(answer)
            self.late.append((Deferred(), answer))
            return self.late[-1][0]
        self.loses = None
        if loses[1]:
            self._run(script, keys, *arguments)
        self.lose()
        return fail(RedisError("it did not answer"))

    def tell(self, *words: str | int) -> None:
        self.redis.call(*words)

    def fault(self, reason: str) -> None:
        raise AssertionError(reason)

    def _run(self, script: Script[Any], keys: Iterable[str], *arguments: str | int) -> Any:
        return self.redis.run(script, self.now.milliseconds - BEGUN, list(keys), *arguments)


class Host:
    """One host of a fleet, with a store of its own."""

    def __init__(self, redis: ClockedRedis, now: Now, name: str, folder: Path) -> None:
        self.link, self.now = Link(redis, now, name), now
        self.store = MortalStore(str(folder / f"{name}.db"))
        self.start()

    def start(self) -> None:
        """Begin in another process."""
        link = cast(RedisLink, self.link)
        totals = HostTotals(link, self.store.open(self.now.seconds()))
        self.local = LocalCounts(self.now.seconds, totals)
        self.tallies = RedisTallies(link, self.local, totals)
        self.link.tallies = self.tallies
        self.counts = SharedCounts[Ticket](self.tallies, self.local)
        self.link.connect()

    def begin(self, rows: Limits, held: int = 0) -> Permit | LimitReached:
        return decision_of(self.counts.begin(rows, Taken(1, 0, held)))

    def permit(self, rows: Limits, held: int = 0) -> Permit:
        found = self.begin(rows, held)
        assert isinstance(found, Permit)
        return found

    def end(self, permit: Permit, amount: int) -> tuple[str, ...]:
        warnings = answer_of(self.counts.end(permit, Taken(1, 0, amount)))
        self.store.write()
        return warnings

    def spend(self, amount: int) -> None:
        self.end(self.permit(BUDGET), amount)

    def admits(self, rows: Limits) -> bool:
        found = self.begin(rows)
        if isinstance(found, Permit):
            answer_of(self.counts.end(found, NOTHING))
        return isinstance(found, Permit)

    def sums(self, rows: Limits = BUDGET) -> tuple[int, int]:
        """Return what is used and held, of all hosts."""
        self.counts.use("somebody", rows)
        (state,) = [
            row
            for row in answer_of(self.counts.state())
            if (row.limit, row.refuses) == (rows[0].limit, rows[0].refuses)
        ]
        return state.used, state.reserved


@pytest.fixture(scope="module")
def redis() -> Iterator[ClockedRedis]:
    with RedisServer() as server:
        client = ClockedRedis(server)
        yield client
        client.close()


Fleet = tuple[Host, Host, Now]


@pytest.fixture
def fleet(redis: ClockedRedis, tmp_path: Path) -> Fleet:
    redis.call("FLUSHALL")
    now = Now()
    first, second = (Host(redis, now, name, tmp_path) for name in ("a", "b"))
    return first, second, now


def test_a_host_alone_goes_on_with_its_part_of_what_was_left(fleet: Fleet) -> None:
    first, second, _ = fleet
    first.spend(4)
    assert first.admits(BUDGET)
    first.link.lose()
    for _ in range(3):  # 6 were left for two hosts
        first.spend(1)
    refused = first.begin(BUDGET)
    assert isinstance(refused, LimitReached)
    assert (refused.most, refused.resets is not None) == (10, True)
    second.spend(5)
    first.link.connect()
    assert first.sums() == second.sums() == (12, 0)


def test_what_was_used_meanwhile_is_counted_before_anything_else_can_begin(fleet: Fleet) -> None:
    first, second, _ = fleet
    first.link.lose()
    first.spend(3)
    first.link.answers_late = RETURN
    first.link.connect()
    assert second.sums() == (3, 0)
    ((returned, answer),) = first.link.late
    returned.callback(answer)
    assert second.sums() == (3, 0)


def test_what_redis_does_not_have_yet_is_not_forgotten_in_the_next_outage(fleet: Fleet) -> None:
    first, second, _ = fleet
    first.spend(2)
    first.link.lose()
    first.spend(3)
    first.link.loses = RETURN, False  # with what it is told when it is back
    first.link.connect()
    assert not first.link.is_up
    first.spend(1)
    assert first.admits(BUDGET) is False, "its part of 8 is 4"
    first.link.connect()
    assert second.sums() == (6, 0)


def test_an_end_without_an_answer_takes_room_while_redis_is_away(fleet: Fleet) -> None:
    first, _, _ = fleet
    first.link.loses = END, False
    first.spend(5)
    assert not first.admits(BUDGET), "its part of 10 is 5"


def test_what_a_host_has_used_alone_outlives_its_process(fleet: Fleet) -> None:
    first, second, _ = fleet
    first.spend(1)
    first.link.lose()
    first.spend(2)
    first.permit(BUDGET, 3)
    first.store.kill()
    first.start()
    assert second.sums() == (6, 0), "what it held as well"
    first.link.lose()
    first.link.connect()
    assert second.sums() == (6, 0)


@pytest.mark.parametrize("is_executed", [True, False])
def test_an_end_whose_answer_is_lost_counts_once(fleet: Fleet, is_executed: bool) -> None:
    first, second, _ = fleet
    permit = first.permit(BUDGET, 5)
    first.link.loses = END, is_executed
    assert first.end(permit, 2) == ()
    assert first.admits(BUDGET)
    first.link.connect()
    assert second.sums() == (2, 0)
    first.link.lose()
    first.link.connect()
    assert second.sums() == (2, 0)


@pytest.mark.parametrize("is_executed", [True, False])
@pytest.mark.parametrize("rows", [BUDGET, QUOTA], ids=["money", "requests"])
@pytest.mark.parametrize("ends_alone", [True, False])
def test_a_request_whose_admission_is_lost_counts_once(
    fleet: Fleet, rows: Limits, is_executed: bool, ends_alone: bool
) -> None:
    first, second, _ = fleet
    first.link.loses = BEGIN, is_executed
    permit = first.permit(rows, 1)
    if ends_alone:
        first.end(permit, 1)
    first.link.connect()
    assert second.sums(rows) == ((1, 0) if ends_alone else (0, 1))
    if not ends_alone:
        first.end(permit, 1)
    assert second.sums(rows) == (1, 0)


def test_a_request_that_redis_has_admitted_and_its_host_has_refused_holds_nothing(fleet: Fleet) -> None:
    first, second, _ = fleet
    minute = row_of("requests_per_minute", 2, "alice")
    rows = (*BUDGET, minute)
    first.end(first.permit((minute,)), 0)
    first.link.loses = BEGIN, True
    assert isinstance(first.begin(rows, 5), LimitReached), "of two requests, one is this host's part"
    assert second.sums() == (0, 5)
    first.link.connect()
    assert second.sums() == (0, 0)


@pytest.mark.parametrize("lasts", [1, HOST_MS + 1], ids=["short", "longer than a host counts as alive"])
def test_what_a_host_holds_is_its_own_again_when_it_is_back(fleet: Fleet, lasts: int) -> None:
    first, second, now = fleet
    kept, ended = first.permit(BUDGET, 3), first.permit(BUDGET, 4)
    first.link.lose()
    now.milliseconds += lasts
    second.link.beat()
    second.link.lose()
    second.link.connect()
    assert sum(second.sums()) == 7
    first.end(ended, 1)
    first.link.connect()
    assert second.sums() == (1, 3)
    first.end(kept, 1)
    assert second.sums() == (2, 0)


def test_what_a_host_held_that_is_gone_is_said_once(fleet: Fleet) -> None:
    first, second, now = fleet
    permits = [first.permit(BUDGET, held) for held in (1, 2, 3)]
    first.end(permits[1], 0)
    now.milliseconds += HOST_MS
    second.link.lose()
    second.link.connect()
    assert second.sums() == (4, 0)
    with capturedLogs() as events:  # whoever has looked before
        for _ in range(2):
            assert second.admits(BUDGET)
    (said,) = events
    assert (said["holder"], said["limit"], said["amount"]) == ("gateway", "usd_per_month", 4)
    assert said["requests"] == 2


def test_a_redis_that_has_lost_its_memory_goes_on_from_what_hosts_have_seen(
    fleet: Fleet, redis: ClockedRedis
) -> None:
    first, second, _ = fleet
    first.spend(3)
    permit = first.permit(BUDGET, 2)
    second.spend(4)
    redis.call("FLUSHALL")
    for host in (second, first):
        host.link.lose()
        host.link.connect()
        host.admits(BUDGET)
    assert first.sums() == (7, 2)
    first.end(permit, 1)
    assert second.sums() == (8, 0)


def test_a_share_is_warned_of_once_by_all_hosts(fleet: Fleet) -> None:
    first, second, _ = fleet
    first.spend(6)
    assert second.end(second.permit(BUDGET), 4) == ("gateway usd_per_month 1",)
    assert first.sums() == (10, 0)
    assert answer_of(second.counts.reset("gateway", "usd_per_month", 9))
    assert first.end(first.permit(BUDGET), 1) == ("gateway usd_per_month 1",)


def test_what_a_worker_has_admitted_alone_is_counted(fleet: Fleet) -> None:
    first, second, _ = fleet
    first.counts.add(BUDGET, Taken(nanodollars=2))
    first.link.lose()
    first.counts.add(BUDGET, Taken(nanodollars=3))
    first.link.connect()
    assert second.sums() == (5, 0)


def test_nothing_is_set_while_redis_is_away(fleet: Fleet) -> None:
    first, second, _ = fleet
    first.spend(4)
    first.link.lose()
    assert not answer_of(first.counts.reset("gateway", None, 0))
    assert first.sums() == (4, 0)
    first.link.connect()
    assert second.sums() == (4, 0)


MINUTE = (row_of("requests_per_minute", 10, "gateway"),)
TOKENS = (row_of("tokens_per_minute", 10, "gateway"),)


def in_minute(redis: ClockedRedis, now: Now, rows: Limits) -> int:
    """Return what counts in a row of a minute, as Redis has it."""
    keys = row_keys("mgw:", rows[0], None)
    buckets = redis.call("HGETALL", keys[1])
    amounts = {name: int(amount) for name, amount in zip(buckets[::2], buckets[1::2], strict=True)}
    listed = redis.call("LRANGE", keys[0], 0, -1)
    assert listed == sorted(set(listed), key=int), "in their order, each once"
    return sum(amounts.get(end, 0) for end in listed if int(end) + 60_000 > now.milliseconds)


@pytest.mark.parametrize("is_executed", [True, False])
@pytest.mark.parametrize("ends", ["alone", "refused", "later", "refused later"])
@pytest.mark.parametrize("loses_return", [True, False])
def test_a_request_of_a_minute_whose_admission_is_lost_counts_once(
    fleet: Fleet, redis: ClockedRedis, is_executed: bool, ends: str, loses_return: bool
) -> None:
    first, _, now = fleet
    first.end(first.permit(MINUTE), 0)
    first.link.loses = BEGIN, is_executed
    permit = first.permit(MINUTE)
    if ends in ("alone", "refused"):
        answer_of(first.counts.end(permit, Taken() if ends == "alone" else NOTHING))
    if loses_return:
        first.link.loses = RETURN, is_executed
        first.link.connect()
        assert not first.link.is_up
    first.link.connect()
    counted = 2 if ends != "refused" else 1
    assert in_minute(redis, now, MINUTE) == counted
    if ends.endswith("later"):
        answer_of(first.counts.end(permit, Taken() if ends == "later" else NOTHING))
        assert in_minute(redis, now, MINUTE) == counted


@pytest.mark.parametrize("is_executed", [True, False])
@pytest.mark.parametrize("loses_again", [True, False])
def test_the_tokens_of_an_end_whose_answer_is_lost_count_once(
    fleet: Fleet, redis: ClockedRedis, is_executed: bool, loses_again: bool
) -> None:
    first, _, now = fleet
    permit = first.permit(TOKENS)
    first.link.loses = END, is_executed
    answer_of(first.counts.end(permit, Taken(1, 5)))
    now.milliseconds += 30_000
    if loses_again:
        first.link.connect()
        first.link.lose()
    first.link.connect()
    assert in_minute(redis, now, TOKENS) == 5
    now.milliseconds += 29_900
    assert in_minute(redis, now, TOKENS) == 5
    now.milliseconds += 300
    assert in_minute(redis, now, TOKENS) == 0, "a minute after they were used"


def test_what_was_used_alone_counts_for_the_rest_of_its_minute(fleet: Fleet, redis: ClockedRedis) -> None:
    first, second, now = fleet
    first.link.lose()
    for _ in range(5):
        now.milliseconds += 20_000
        answer_of(first.counts.end(first.permit(TOKENS), Taken(1, 1)))
    now.milliseconds += 300
    second.link.lose()
    second.link.connect()
    answer_of(second.counts.end(second.permit(TOKENS), Taken(1, 3)))
    first.link.connect()
    assert in_minute(redis, now, TOKENS) == 3 + 3
    for left in (5, 4, 0):
        now.milliseconds += 20_100
        assert in_minute(redis, now, TOKENS) == left


@pytest.mark.parametrize("is_known", [True, False])
def test_a_request_that_redis_has_counted_and_that_is_refused_in_an_outage_never_counted(
    fleet: Fleet, redis: ClockedRedis, is_known: bool
) -> None:
    first, _, now = fleet
    permit = first.permit(MINUTE)
    first.link.lose()
    answer_of(first.counts.end(permit, NOTHING))
    if not is_known:
        redis.call("FLUSHALL")
    first.link.connect()
    assert in_minute(redis, now, MINUTE) == 0


def restart(host: Host) -> None:
    """Kill a host and start it; Redis notices that after a while."""
    host.store.kill()
    host.link.host = ""
    host.link.is_up = False
    host.start()
    host.now.milliseconds += HOST_MS - 1
    host.link.beat()
    host.now.milliseconds += 1


@pytest.mark.parametrize("is_executed", [True, False])
def test_a_host_that_is_killed_while_it_hands_over_is_counted_once(fleet: Fleet, is_executed: bool) -> None:
    first, second, _ = fleet
    first.link.lose()
    first.spend(3)
    first.link.loses = RETURN, is_executed
    first.link.connect()
    restart(first)
    second.link.connect()
    assert second.sums() == (3, 0)
    first.link.lose()
    first.spend(1)
    first.link.connect()
    assert second.sums() == (4, 0)


def test_a_host_that_is_killed_before_it_has_forgotten_what_redis_has_is_counted_once(fleet: Fleet) -> None:
    first, second, _ = fleet
    first.link.lose()
    first.spend(3)
    first.link.connect()  # what it writes about that waits for others
    restart(first)
    second.link.connect()
    assert second.sums() == (3, 0)


@pytest.mark.parametrize("hands_over", ["before", "after", "never"])
def test_what_a_request_holds_that_was_admitted_alone_counts_once_if_its_host_is_killed(
    fleet: Fleet, hands_over: str
) -> None:
    first, second, _ = fleet
    first.link.lose()
    first.permit(BUDGET, 4)
    if hands_over != "never":
        first.link.connect()
        first.store.write()
    if hands_over == "after":
        first.link.lose()
        first.link.connect()
        first.store.write()
    restart(first)
    second.link.connect()
    assert second.admits(BUDGET)
    assert second.sums() == (4, 0)


def test_a_host_that_is_killed_while_it_hands_over_what_requests_held_is_counted_once(fleet: Fleet) -> None:
    first, second, _ = fleet
    first.link.lose()
    first.permit(BUDGET, 4)
    first.store.kill()
    first.link.loses = TAKE_OVER, True
    first.start()
    assert not first.link.is_up
    restart(first)
    second.link.connect()
    assert second.sums() == (4, 0)


@pytest.mark.parametrize("returns_lost", [1, 2, 250])
def test_an_end_counts_once_however_often_a_host_fails_to_return(fleet: Fleet, returns_lost: int) -> None:
    first, second, _ = fleet
    permit, kept = first.permit(BUDGET, 5), first.permit(BUDGET, 3)
    first.link.loses = END, True
    first.end(permit, 2)
    for number in range(returns_lost):
        first.link.loses = RETURN, number % 2 == 0
        first.link.connect()
    first.link.connect()
    assert second.sums() == (2, 3)
    first.end(kept, 1)
    assert second.sums()[1] == 0


def test_an_end_without_an_answer_is_told_again_as_soon_as_redis_is_back(fleet: Fleet) -> None:
    first, second, _ = fleet
    first.link.loses = END, False
    first.spend(5)
    assert second.sums() == (0, 0)
    first.link.connect()
    assert second.sums() == (5, 0), "nothing else has to happen"


def test_what_is_held_by_a_host_that_comes_back_after_a_reset_is_not_taken_from_what_is_used(
    fleet: Fleet,
) -> None:
    first, second, now = fleet
    permit = first.permit(BUDGET, 4)
    first.link.lose()
    now.milliseconds += HOST_MS
    second.link.lose()
    second.link.connect()
    assert second.admits(BUDGET)
    assert second.sums() == (4, 0)
    assert answer_of(second.counts.reset("gateway", None, 0))
    first.link.connect()
    assert second.sums() == (0, 4)
    first.end(permit, 1)
    assert second.sums() == (1, 0)


def test_nothing_is_kept_of_totals_in_which_nobody_holds_anything(fleet: Fleet) -> None:
    first, _, now = fleet
    daily = (row_of("usd_per_day", 10, "gateway", is_reserved=True),)
    for _ in range(3):
        first.end(first.permit(daily, 1), 1)
        now.milliseconds += DAY
        for host in fleet[:2]:
            host.link.lose()
            host.link.connect()
    gc.collect()
    assert not first.tallies.totals.holding
    assert len(first.tallies.totals._totals) <= 1


def test_sums_that_lua_cannot_count_exactly_refuse_and_take_no_host_down(fleet: Fleet) -> None:
    first, second, _ = fleet
    for _ in range(3):
        first.end(first.permit((replace(BUDGET[0], refuses=False),)), 2**53 - 1)
    assert first.link.is_up
    first.end(first.permit(BUDGET), 2**53 - 1)
    first.end(first.permit((replace(BUDGET[0], most=2**60),)), 2)
    assert not first.admits((replace(BUDGET[0], most=2**53),))
    assert second.sums()[0] >= 2**53


def test_a_reload_keeps_counts_and_a_row_that_is_gone(fleet: Fleet) -> None:
    first, second, _ = fleet
    first.counts.use("alice", BUDGET)
    first.spend(4)
    permit = first.permit(BUDGET, 3)
    for rows in ((replace(BUDGET[0], most=5),), QUOTA):
        first.counts.use("alice", rows)
    assert first.admits(QUOTA)
    first.end(permit, 2)
    first.counts.use("alice", BUDGET)
    assert first.sums() == second.sums() == (6, 0)


def test_the_requests_are_counted_that_a_host_held_which_was_killed_in_an_outage(fleet: Fleet) -> None:
    first, _, _ = fleet
    rows = (*BUDGET, row_of("usd_total", 10, "gateway", is_reserved=True))
    first.link.lose()
    for _ in range(2):
        first.end(first.permit(rows, 1), 1)
        first.permit(rows, 1)
    first.store.kill()
    with capturedLogs() as events:
        first.start()
    (said,) = [event for event in events if "amounts" in event]
    assert said["requests"] == 2


def test_a_redis_that_is_restored_from_an_old_snapshot_goes_on_from_what_hosts_have_seen(
    fleet: Fleet, redis: ClockedRedis
) -> None:
    first, second, _ = fleet
    first.spend(3)
    permit = first.permit(BUDGET, 2)
    snapshot = {key: redis.call("DUMP", key) for key in redis.call("KEYS", "mgw:*")}
    first.end(permit, 1)
    assert answer_of(second.counts.reset("gateway", None, 1))
    second.spend(2)
    redis.call("FLUSHALL")
    for key, dump in snapshot.items():
        redis.call("RESTORE", key, 0, dump)
    for host in (first, second):
        host.link.lose()
        host.link.connect()
        assert host.admits(BUDGET)
    assert first.sums() == second.sums() == (3, 0)


class Killed(Exception):
    """The host is killed at this moment."""


def serve_until_killed(host: Host, scripts: int, *, is_executed: bool) -> tuple[int, int]:
    """Serve, also in an outage, until a host is killed with a script of this number.

    Returns what has to be counted at least and at most.
    """
    counted, kept = [0, 0], dict[str, Permit]()
    run, left = host.link.run, iter(range(scripts))

    def kill(*words: Any) -> Deferred[Any]:
        if next(left, None) is None:
            if is_executed:
                _ = run(*words)
            raise Killed
        return run(*words)

    def begin(name: str, held: int) -> None:
        counted[1] += held  # Redis may have counted it, though the host has not heard of that
        kept[name] = host.permit(BUDGET, held)
        counted[0] += held

    def end(name: str, held: int, used: int) -> None:
        counted[0] += used - held
        host.end(kept[name], used)
        counted[1] += used - held

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host.link, "run", kill)
        try:
            begin("a", 3)
            begin("b", 4)
            end("b", 4, 2)
            host.link.lose()
            for name in ("c", "d"):
                begin(name, 5)
            end("c", 5, 1)
            end("a", 3, 2)
            host.link.connect()
            begin("e", 1)
            end("d", 5, 3)
            host.link.lose()
            begin("f", 2)
            host.link.connect()
            end("f", 2, 1)
        except Killed:
            pass
    return counted[0], counted[1]


@pytest.mark.parametrize("is_executed", [True, False])
@pytest.mark.parametrize("scripts", range(15))
def test_a_host_that_is_killed_at_any_script_is_counted_once(
    redis: ClockedRedis, tmp_path: Path, scripts: int, is_executed: bool
) -> None:
    redis.call("FLUSHALL")
    now = Now()
    first, second = (Host(redis, now, name, tmp_path) for name in ("a", "b"))
    rows = (replace(BUDGET[0], most=1000),)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[__name__], "BUDGET", rows)
        least, most = serve_until_killed(first, scripts, is_executed=is_executed)
        restart(first)
        second.link.connect()
        assert second.admits(rows)
        used, held = second.sums(rows)
    assert held == 0
    assert least <= used <= most
