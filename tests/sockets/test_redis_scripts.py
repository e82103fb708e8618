"""What hosts keep in Redis, to the millisecond: how long it counts, and how long it is there.

The scripts run in a real Redis, whose clock is a key here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from mgw.redis.scripts import BEGIN, COARSE_MS, COOL_DOWN, COOLDOWNS, END, FINE_MS, HEARTBEAT, HOST_MS
from tests.support.redis_clock import BEGUN, ClockedRedis, Reply
from tests.support.redis_server import RedisServer, needs_redis

pytestmark = needs_redis

KEYS: Final = (
    *("hosts", "under-way", "under-way"),
    *("requests:order", "requests:amounts", "tokens:order", "tokens:amounts"),
)
WINDOW: Final = 60_000


class Redis(ClockedRedis):
    """Runs the scripts for one holder with three limits."""

    def beat(self, now: int, host: str = "a", new: str = "new", *more: str) -> Reply:
        return self.run(HEARTBEAT, now, ("hosts", *more), host, new, "", HOST_MS)

    def begin(self, now: int, *, most: int = 0, requests: int = 0, tokens: int = 0, host: str = "a") -> Reply:
        keys, rows = list(KEYS[:3]), list[str | int](["none", "max_in_flight", most, 1, 0])
        if requests:
            keys += KEYS[3:5]
            rows += ["minute", "requests_per_minute", requests, 1, FINE_MS]
        if tokens:
            keys += KEYS[5:7]
            rows += ["minute", "tokens_per_minute", tokens, 0, COARSE_MS]
        return self.run(BEGIN, now, keys, host, *rows)

    def end(self, now: int, *, bucket: str = "", tokens: int = 0, host: str = "a") -> Reply:
        keys, rows = list(KEYS[:3]), list[str | int](["none", "", -1, 0])
        if bucket:
            keys += KEYS[3:5]
            rows += ["minute", bucket, -1, FINE_MS]
        if tokens:
            keys += KEYS[5:7]
            rows += ["minute", "", tokens, COARSE_MS]
        return self.run(END, now, keys, host, *rows)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
def redis(server: RedisServer) -> Iterator[Redis]:
    client = Redis(server)
    client.call("FLUSHALL")
    yield client
    client.close()


def test_a_host_is_alive_for_twelve_seconds_after_it_said_so(redis: Redis) -> None:
    assert redis.beat(0) == [1, 1]
    assert redis.beat(HOST_MS - 1, new="") == [1, 1]
    assert redis.beat(2 * HOST_MS - 2, new="") == [1, 1]
    assert redis.beat(3 * HOST_MS - 2, new="") == [0, 0], "it was given up at this moment"
    assert redis.beat(3 * HOST_MS - 2) == [1, 1]


def test_a_host_that_says_nothing_is_counted_no_longer(redis: Redis) -> None:
    assert redis.beat(0, "a") == [1, 1]
    assert redis.beat(1, "b") == [1, 2]
    assert redis.beat(HOST_MS - 1, "b", "") == [1, 2]
    assert redis.beat(HOST_MS, "b", "") == [1, 1]


def test_who_comes_under_another_name_leaves_the_one_before(redis: Redis) -> None:
    redis.beat(0, "a")
    assert redis.run(HEARTBEAT, 1, ("hosts",), "b", "new", "a", HOST_MS) == [1, 1]
    assert redis.begin(2, most=1, host="a")[0] == -1


def test_what_is_under_way_is_there_longer_than_a_host_takes_to_say_that_it_lives(redis: Redis) -> None:
    redis.beat(0)
    assert redis.begin(0, most=1) == [1, b"", 0]
    assert WINDOW - 5000 < redis.life("under-way") <= WINDOW
    assert WINDOW < redis.life("hosts") <= 3_600_000


def test_a_heartbeat_prolongs_what_its_host_has_under_way(redis: Redis) -> None:
    redis.beat(0)
    redis.begin(0, most=1)
    redis.call("HSET", "sessions", "a", 1)
    redis.call("PEXPIRE", "under-way", 5000)
    redis.call("PEXPIRE", "sessions", 5000)
    redis.beat(4000, "a", "", "under-way", "sessions")
    assert all(WINDOW - 5000 < redis.life(key) <= WINDOW for key in ("under-way", "sessions"))


def test_no_more_is_under_way_than_the_limit_and_a_dead_host_has_nothing(redis: Redis) -> None:
    redis.beat(0, "a")
    redis.beat(1, "b")
    assert [redis.begin(2, most=2, host=host)[0] for host in ("a", "b", "a")] == [1, 1, 0]
    assert redis.begin(2, most=2) == [0, b"max_in_flight", 1000]
    redis.beat(HOST_MS - 1, "b", "")
    assert redis.begin(HOST_MS - 1, most=2, host="b")[0] == 0, "the other one is alive for a millisecond"
    assert redis.begin(HOST_MS, most=2, host="b")[0] == 1
    assert redis.begin(HOST_MS, most=3, host="a")[0] == -1


def test_what_ends_makes_room_and_what_nobody_began_makes_none(redis: Redis) -> None:
    redis.beat(0)
    redis.begin(0, most=1)
    for _ in range(3):
        redis.end(1)
    assert redis.begin(2, most=1)[0] == 1
    assert redis.begin(2, most=1)[0] == 0


@pytest.mark.parametrize("at", [0, 1, FINE_MS - 1])
def test_a_request_counts_for_a_minute_from_the_end_of_its_bucket(redis: Redis, at: int) -> None:
    redis.beat(0)
    admitted, bucket, _ = redis.begin(at, requests=1)
    assert (admitted, int(bucket)) == (1, BEGUN + FINE_MS)
    assert redis.begin(at, requests=1) == [0, b"requests_per_minute", WINDOW + FINE_MS - at]
    redis.beat(WINDOW)
    assert redis.begin(WINDOW + FINE_MS - 1, requests=1) == [0, b"requests_per_minute", 1]
    assert redis.begin(WINDOW + FINE_MS, requests=1)[0] == 1


def test_windows_are_there_longer_than_what_is_in_them_counts(redis: Redis) -> None:
    redis.beat(0)
    redis.begin(0, requests=5, tokens=100)
    redis.end(0, tokens=7)
    lives = [redis.life(key) for key in KEYS[3:]]
    assert all(WINDOW + COARSE_MS < life <= WINDOW + 1000 for life in lives), lives


def test_each_addition_prolongs_a_window(redis: Redis) -> None:
    redis.beat(0)
    redis.begin(0, requests=5)
    for key in KEYS[3:5]:
        redis.call("PEXPIRE", key, 5000)
    redis.begin(1, requests=5)
    assert all(redis.life(key) > WINDOW for key in KEYS[3:5])


def test_tokens_count_for_a_minute_and_say_when_there_is_room(redis: Redis) -> None:
    redis.beat(0)
    redis.end(0, tokens=60)
    redis.end(3000, tokens=40)
    redis.beat(4000)
    assert redis.begin(4000, tokens=101)[0] == 1
    assert redis.begin(4000, tokens=100) == [0, b"tokens_per_minute", WINDOW + COARSE_MS - 4000]
    assert redis.begin(4000, tokens=40) == [0, b"tokens_per_minute", WINDOW + COARSE_MS - 1000]
    redis.beat(WINDOW)
    assert redis.begin(WINDOW + COARSE_MS, tokens=100)[0] == 1


def test_a_refused_request_is_taken_back_and_no_other_with_it(redis: Redis) -> None:
    redis.beat(0)
    _, first, _ = redis.begin(0, requests=2)
    redis.begin(1000, requests=2)
    redis.end(2000, bucket=first.decode())
    assert redis.begin(3000, requests=2)[0] == 1
    assert redis.begin(3000, requests=2)[0] == 0


def test_a_request_that_is_refused_after_its_minute_makes_no_room(redis: Redis) -> None:
    redis.beat(0)
    _, first, _ = redis.begin(0, requests=1)
    redis.beat(WINDOW)
    assert redis.begin(WINDOW + FINE_MS, requests=1)[0] == 1
    redis.end(WINDOW + 20, bucket=first.decode())
    assert redis.begin(WINDOW + 30, requests=1)[0] == 0


def test_a_clock_that_is_set_back_forgets_a_window(redis: Redis) -> None:
    redis.beat(WINDOW)
    redis.begin(WINDOW, requests=1)
    redis.beat(0)
    assert redis.begin(0, requests=1)[0] == 1, "it would count for more than a minute"


SPENT: Final = "nanodollars:2023-11"


def spend(redis: Redis, now: int, amount: int, ends: int) -> Reply:
    row = ("calendar", "", amount, BEGUN + ends)
    return redis.run(END, now, ("hosts", SPENT, SPENT), "a", *row)


def ask_for_money(redis: Redis, now: int, most: int, ends: int) -> Reply:
    row = ("calendar", "nanodollars_per_month", most, 0, BEGUN + ends)
    return redis.run(BEGIN, now, ("hosts", SPENT, SPENT), "a", *row)


def test_a_period_has_room_until_its_sum_is_reached_and_says_when_it_ends(redis: Redis) -> None:
    redis.beat(0)
    most = 2**52
    assert ask_for_money(redis, 1000, most, 9000)[0] == 1
    spend(redis, 2000, most - 1, 9000)
    assert ask_for_money(redis, 3000, most, 9000)[0] == 1
    spend(redis, 4000, 1, 9000)
    assert ask_for_money(redis, 4000, most, 9000) == [0, b"nanodollars_per_month", 5000]


def test_a_host_with_a_slow_clock_asks_again_at_once_and_not_never(redis: Redis) -> None:
    redis.beat(0)
    spend(redis, 0, 5, 1000)
    assert ask_for_money(redis, 1500, 5, 1000) == [0, b"nanodollars_per_month", 1]


def test_a_period_is_kept_for_a_day_after_its_end(redis: Redis) -> None:
    day = 86_400_000
    spend(redis, 0, 5, 30 * day)
    assert 31 * day - 5000 < redis.life(SPENT) <= 31 * day
    spend(redis, 0, 5, -1000)
    assert day - 5000 < redis.life(SPENT) <= day, "a request that ends late belongs to it"


def test_a_rest_is_kept_as_long_as_it_lasts(redis: Redis) -> None:
    now = int(redis.call("TIME")[0]) * 1000 - BEGUN
    redis.run(COOL_DOWN, now, ("rests", "news"), "a", 100_000, "x")
    redis.run(COOL_DOWN, now, ("rests", "news"), "b", 50_000, "x")
    assert redis.run(COOLDOWNS, now, ("rests",)) == [b"b", b"50000", b"a", b"100000"]
    assert 90_000 < redis.life("rests") <= 101_000, "as long as the longest, and no longer"
    assert redis.run(COOLDOWNS, now + 50_000, ("rests",)) == [b"a", b"50000"]
    assert redis.run(COOLDOWNS, now + 100_000, ("rests",)) == []


def test_a_rest_that_is_over_early_is_gone(redis: Redis) -> None:
    now = int(redis.call("TIME")[0]) * 1000 - BEGUN
    redis.run(COOL_DOWN, now, ("rests", "news"), "a", 100_000, "x")
    redis.run(COOL_DOWN, now, ("rests", "news"), "a", 0, "x")
    assert redis.run(COOLDOWNS, now, ("rests",)) == []
