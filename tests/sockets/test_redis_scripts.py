"""What hosts keep in Redis, to the millisecond: how long it counts, and how long it is there.

The scripts run in a real Redis, whose clock is a key here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from mgw.redis.scripts import (
    BEGIN,
    COARSE_MS,
    COOL_DOWN,
    COOLDOWNS,
    END,
    FINE_MS,
    HEARTBEAT,
    HOST_MS,
    RESET,
    RETURN,
    STATE,
    TAKE_OVER,
)
from tests.support.redis_clock import BEGUN, ClockedRedis, Reply
from tests.support.redis_server import RedisServer, needs_redis

pytestmark = needs_redis

MINUTES: Final = ("requests:order", "requests:amounts", "tokens:order", "tokens:amounts")
WINDOW: Final = 60_000


class Redis(ClockedRedis):
    """Runs the scripts for one holder with three limits."""

    ends: int = 0

    def beat(self, now: int, host: str = "a", new: str = "new", *more: str) -> Reply:
        return self.run(HEARTBEAT, now, ("hosts", *more), host, new, "", HOST_MS)

    def begin(self, now: int, *, most: int = 0, requests: int = 0, tokens: int = 0, host: str = "a") -> Reply:
        keys, rows = ["under-way", "under-way"], list[str | int](["none", most, 1, 0, 0, 0, ""])
        if requests:
            keys += MINUTES[:2]
            rows += ["minute", requests, 1, FINE_MS, 0, 0, ""]
        if tokens:
            keys += MINUTES[2:]
            rows += ["minute", tokens, 0, COARSE_MS, 0, 0, ""]
        admitted, row, milliseconds, buckets, _ = self.run(
            BEGIN, now, ("hosts", "totals", "begun", *keys), host, 0, "", *rows
        )
        return [admitted, buckets[-1] if admitted == 1 else row, milliseconds]

    def end(self, now: int, *, bucket: str = "", tokens: int = 0, host: str = "a") -> Reply:
        keys, rows = ["under-way", "under-way"], list[str | int](["none", "", -1, 0, 0, 0, 0, "", ""])
        if bucket:
            keys += MINUTES[:2]
            rows += ["minute", bucket, -1, 0, FINE_MS, 0, 0, "", ""]
        if tokens:
            keys += MINUTES[2:]
            rows += ["minute", "", tokens, 0, COARSE_MS, 0, 0, "", ""]
        return self.tell(now, keys, host, *rows)

    def tell(self, now: int, keys: Sequence[str], host: str, *rows: str | int) -> Reply:
        """Tell of an end; each has another number."""
        self.ends += 1
        return self.run(END, now, ("hosts", "totals", f"last-end:{host}", *keys), host, self.ends, *rows)


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
    assert redis.begin(2, most=2) == [0, 0, 1000]
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
    assert redis.begin(at, requests=1) == [0, 1, WINDOW + FINE_MS - at]
    redis.beat(WINDOW)
    assert redis.begin(WINDOW + FINE_MS - 1, requests=1) == [0, 1, 1]
    assert redis.begin(WINDOW + FINE_MS, requests=1)[0] == 1


def test_windows_are_there_longer_than_what_is_in_them_counts(redis: Redis) -> None:
    redis.beat(0)
    redis.begin(0, requests=5, tokens=100)
    redis.end(0, tokens=7)
    lives = [redis.life(key) for key in MINUTES]
    assert all(WINDOW + COARSE_MS < life <= WINDOW + 1000 for life in lives), lives


def test_each_addition_prolongs_a_window(redis: Redis) -> None:
    redis.beat(0)
    redis.begin(0, requests=5)
    for key in MINUTES[:2]:
        redis.call("PEXPIRE", key, 5000)
    redis.begin(1, requests=5)
    assert all(redis.life(key) > WINDOW for key in MINUTES[:2])


def test_tokens_count_for_a_minute_and_say_when_there_is_room(redis: Redis) -> None:
    redis.beat(0)
    redis.end(0, tokens=60)
    redis.end(3000, tokens=40)
    redis.beat(4000)
    assert redis.begin(4000, tokens=101)[0] == 1
    assert redis.begin(4000, tokens=100) == [0, 1, WINDOW + COARSE_MS - 4000]
    assert redis.begin(4000, tokens=40) == [0, 1, WINDOW + COARSE_MS - 1000]
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


SPENT: Final = "alice:usd_per_month:2023-11"
ABOUT: Final = "alice\nusd_per_month\n1\n2023-11\n9000"
DAY: Final = 86_400_000
SHARES: Final = "500000000:5,1000000000:10"


def ask(redis: Redis, now: int, host: str = "a", **row: int) -> Reply:
    """Ask for money, and return whether there is some, for how many milliseconds not, and the sums."""
    values = {"most": 10, "held": 0, "ends": 9000, "resets": 0, "used": 0} | row
    known = values["resets"], values["used"], ABOUT
    arguments = "total", values["most"], values["held"], BEGUN + values["ends"], *known
    admitted, _, milliseconds, _, (sums,) = redis.run(
        BEGIN, now, ("hosts", "totals", "begun", SPENT, SPENT), host, 0, "", *arguments
    )
    return [admitted, milliseconds, sums[:3]]


def spend(redis: Redis, now: int, used: int, held: int = 0, ends: int = 9000, host: str = "a") -> Reply:
    row = "total", "", used, held, BEGUN + ends, 0, 0, SHARES, ABOUT
    answer = redis.tell(now, (SPENT, SPENT), host, *row)
    return answer[1][0] if answer else None


def test_a_period_has_room_until_its_sum_is_reached_and_says_when_it_ends(redis: Redis) -> None:
    redis.beat(0)
    most = 2**53
    assert ask(redis, 1000, most=most)[0] == 1
    spend(redis, 2000, most - 1)
    assert ask(redis, 3000, most=most) == [1, 0, [most - 1, 0, 0]]
    spend(redis, 4000, 1)
    assert ask(redis, 4000, most=most) == [0, 5000, [most, 0, 0]]


def test_what_is_held_takes_room_until_it_is_replaced(redis: Redis) -> None:
    redis.beat(0)
    assert ask(redis, 0, held=9) == [1, 0, [0, 9, 0]]
    assert ask(redis, 0, held=9) == [1, 0, [0, 18, 0]]
    assert ask(redis, 0, held=9)[0] == 0
    assert spend(redis, 0, 2, 9)[:2] == [2, 9]
    assert spend(redis, 0, 2, 9)[:2] == [4, 0]
    assert spend(redis, 0, 0, 9)[:2] == [4, 0], "what Redis has lost is not given back"


def test_what_a_host_held_that_is_gone_counts_in_full_after_twelve_seconds(redis: Redis) -> None:
    redis.beat(0, "a")
    redis.beat(HOST_MS - 1, "b")
    ask(redis, 0, held=4)
    assert ask(redis, HOST_MS - 1, "b")[2] == [0, 4, 0]
    assert ask(redis, HOST_MS, "b")[2] == [4, 0, 0]
    assert ask(redis, HOST_MS, "b")[2] == [4, 0, 0]


def come_back(redis: Redis, now: int, before: str, host: str, held: int) -> Reply:
    redis.run(HEARTBEAT, now, ("hosts",), host, "new", before, HOST_MS)
    keys = ("hosts", "totals", f"last-end:{before}", f"begun:{before}", SPENT)
    return redis.run(RETURN, now, keys, host, 1, 1, 0, before, held, 1, BEGUN + 9000, ABOUT)


@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_host_that_returns_takes_back_what_it_holds(redis: Redis, is_noticed: bool) -> None:
    redis.beat(0, "a")
    ask(redis, 0, held=4)
    spend(redis, 0, 1)
    redis.beat(HOST_MS, "b")
    if is_noticed:
        assert ask(redis, HOST_MS, "b")[2] == [5, 0, 0]
    assert come_back(redis, HOST_MS + 1, "a", "c", 3) == [[redis.ends, []]]
    assert ask(redis, HOST_MS + 2, "b")[2] == [1, 3, int(is_noticed)]
    assert spend(redis, HOST_MS + 3, 2, 3, host="c")[:2] == [3, 0]


def test_an_end_that_comes_late_under_an_id_that_is_gone_counts_nothing(redis: Redis) -> None:
    redis.beat(0, "a")
    spend(redis, 0, 1)
    last = redis.ends
    assert come_back(redis, 1, "a", "b", 0) == [[last, []]]
    assert spend(redis, 1, 5, host="a") is None
    assert ask(redis, 2, "b")[2] == [1, 0, 0]


def test_a_redis_without_memory_goes_on_from_what_hosts_have_seen(redis: Redis) -> None:
    redis.beat(0)
    assert ask(redis, 0, used=7)[2] == [7, 0, 0]
    assert ask(redis, 0, used=5)[2] == [7, 0, 0], "another host has seen less"
    assert spend(redis, 0, 2)[0] == 9
    assert ask(redis, 0, resets=1, used=3)[2] == [3, 0, 1], "somebody has set it, which more hosts know"
    assert ask(redis, 0, used=9)[2] == [3, 0, 1]


def test_what_is_used_can_be_set_and_what_is_held_stays(redis: Redis) -> None:
    redis.beat(0)
    ask(redis, 0, held=2)
    spend(redis, 0, 9)
    for name, changed in (("usd_total", 0), ("usd_per_month", 1), ("", 1)):
        assert redis.run(RESET, 0, ("hosts", "totals"), "alice", name, 3, "alice:") == changed
    assert redis.run(RESET, 0, ("hosts", "totals"), "ali", "", 0, "ali") == 0
    assert ask(redis, 0, used=9)[2] == [3, 2, 2]
    assert redis.run(RESET, 9001, ("hosts", "totals"), "alice", "", 0, "alice:") == 0, "the period is over"


def test_a_total_that_is_not_there_can_be_set(redis: Redis) -> None:
    redis.beat(0)
    arguments = "alice", "usd_per_month", 3, "alice:", BEGUN + 9000, ABOUT
    assert redis.run(RESET, 0, ("hosts", "totals", SPENT), *arguments) == 1
    assert ask(redis, 0)[2] == [3, 0, 1]


def test_all_totals_of_periods_that_are_not_over_are_listed(redis: Redis) -> None:
    redis.beat(0)
    ask(redis, 0, held=2)
    spend(redis, 0, 3)
    assert redis.run(STATE, 8999, ("hosts", "totals")) == [[ABOUT.encode(), 10, 3, 2]]
    assert redis.run(STATE, 9000, ("hosts", "totals")) == []


def test_a_share_is_warned_of_once(redis: Redis) -> None:
    redis.beat(0)
    found = [spend(redis, 0, amount)[5:] for amount in (4, 1, 1, 4, 9)]
    half, whole = 500_000_000, 1_000_000_000
    assert found == [[0, 0], [0, half], [half, half], [half, whole], [whole, whole]]


def test_requests_of_a_minute_warn_again_where_they_were_fewer_between(redis: Redis) -> None:
    shares, found = "500000000:1,1000000000:2", []
    for now in (0, WINDOW + FINE_MS, WINDOW + 2 * FINE_MS):
        redis.beat(now)
        row = "minute", 2, 1, FINE_MS, 0, 0, shares
        admitted, *_ = redis.run(BEGIN, now, ("hosts", "totals", "begun", *MINUTES[:2]), "a", 0, "", *row)
        assert admitted == 1
        ended = redis.tell(now, MINUTES[:2], "a", "minute", "", 0, 0, FINE_MS, 0, 0, shares, "")
        found.append(ended[1][0][5:])
    half, whole = 500_000_000, 1_000_000_000
    assert found == [[0, half], [0, half], [half, whole]]


def test_a_host_with_a_slow_clock_asks_again_at_once_and_not_never(redis: Redis) -> None:
    redis.beat(0)
    spend(redis, 0, 10, ends=1000)
    assert ask(redis, 1500, ends=1000)[:2] == [0, 1]


def test_a_period_is_kept_for_forty_days_after_its_end(redis: Redis) -> None:
    redis.beat(0)
    spend(redis, 0, 5, ends=30 * DAY)
    assert 70 * DAY - 5000 < redis.life(SPENT) <= 70 * DAY
    spend(redis, 0, 5, ends=-1000)
    assert 40 * DAY - 5000 < redis.life(SPENT) <= 40 * DAY, "a request that ends late belongs to it"


def test_what_never_begins_anew_is_kept(redis: Redis) -> None:
    redis.beat(0)
    spend(redis, 0, 5, ends=2**53 - BEGUN)
    assert redis.life(SPENT) == -1
    assert ask(redis, 0, ends=2**53 - BEGUN)[0] == 1


def test_estimates_of_a_minute_take_room_until_they_are_replaced_or_their_host_is_gone(redis: Redis) -> None:
    redis.beat(0, "a")
    redis.beat(HOST_MS - 1, "b")

    def reserve(now: int, host: str) -> Reply:
        row = "reserved", 5, 5, COARSE_MS, 0, 0, ""
        return redis.run(BEGIN, now, ("hosts", "totals", "begun", *MINUTES[2:]), host, 0, "", *row)[:3]

    assert reserve(0, "a")[0] == 1
    assert reserve(0, "a") == [0, 0, 1000]
    redis.tell(0, MINUTES[2:], "a", "minute", "", 1, 5, COARSE_MS, 0, 0, "", "")
    assert reserve(1, "a")[0] == 1
    assert reserve(HOST_MS, "b") == [0, 0, WINDOW + COARSE_MS - HOST_MS % COARSE_MS], "it counts in full"


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


def begin_requests(redis: Redis, now: int, number: int, answered: str = "") -> Reply:
    row = "minute", 9, 1, FINE_MS, 0, 0, ""
    keys = ("hosts", "totals", "begun:a", *MINUTES[:2])
    return redis.run(BEGIN, now, keys, "a", number, answered, *row)[3]


def test_the_buckets_of_what_began_are_told_until_their_answer_has_come(redis: Redis) -> None:
    redis.beat(0)
    buckets = [begin_requests(redis, 100 * number, number)[0] for number in (1, 2)]
    begin_requests(redis, 300, 3, "1")
    begin_requests(redis, 300, 0)
    keys = "hosts", "totals", "last-end:a", "begun:a"
    ((last, begun),) = redis.run(RETURN, 300, keys, "b", 1, 0, 0, "a")
    assert (last, begun[:2], begun[2]) == (0, [b"2", buckets[1]], b"3")
    assert 60_000 < redis.life("begun:a") <= 61_000


def test_what_a_host_has_under_way_is_its_own_under_another_id(redis: Redis) -> None:
    redis.beat(0)
    redis.beat(0, "b")
    for host in ("a", "a", "b"):
        redis.begin(0, most=9, host=host)
    redis.call("PEXPIRE", "under-way", 5000)
    keys = "hosts", "totals", "last-end:a", "begun:a", "under-way", "empty"
    redis.run(RETURN, 1, keys, "c", 1, 0, 2, "a", 7, 0)
    assert redis.call("HGETALL", "under-way") == [b"b", b"1", b"c", b"7"]
    assert redis.life("under-way") > 59_000
    assert not redis.call("EXISTS", "empty")


def test_what_was_used_a_while_ago_counts_for_the_rest_of_its_minute(redis: Redis) -> None:
    redis.beat(WINDOW)
    redis.end(WINDOW, tokens=1)
    ages = "60200:9,30000:2,29999:3,0:4"
    for _ in range(2):
        redis.tell(WINDOW, MINUTES[2:], "a", "aged", ages, 0, 0, COARSE_MS, 0, 0, "", "")
    assert redis.call("LRANGE", MINUTES[2], 0, -1) == [b"%d" % (BEGUN + end) for end in (30_100, 60_100)]
    redis.beat(WINDOW + 29_000)
    assert redis.begin(WINDOW + 29_000, tokens=20)[0] == 1
    assert redis.begin(WINDOW + 29_000, tokens=19) == [0, 1, 1100]
    redis.beat(WINDOW + 30_100)
    assert redis.begin(WINDOW + 30_100, tokens=10)[0] == 1
    assert redis.begin(WINDOW + 30_100, tokens=9)[0] == 0


def take_over(redis: Redis, now: int, name: str, used: int) -> Reply:
    row = used, BEGUN + 9000, 0, 0, ABOUT
    answer = redis.run(TAKE_OVER, now, ("hosts", "totals", f"part:{name}", SPENT), "a", *row)
    return answer[1][0][0] if answer else None


def test_a_part_of_a_host_is_added_once(redis: Redis) -> None:
    assert take_over(redis, 0, "x", 3) is None, "the host is not alive"
    redis.beat(0)
    assert [take_over(redis, 0, name, 3) for name in ("x", "x", "y", "x")] == [3, 3, 6, 6]
    assert 40 * DAY - 5000 < redis.life("part:x") <= 40 * DAY


def test_the_requests_of_a_host_that_is_gone_are_counted(redis: Redis) -> None:
    redis.beat(0, "a")
    redis.beat(HOST_MS - 1, "b")
    for held in (4, 2, 3, 0):
        ask(redis, 0, most=99, held=held)
    spend(redis, 0, 1, 2)
    row = "total", 99, 0, BEGUN + 9000, 0, 0, ABOUT
    keys = "hosts", "totals", "begun", SPENT, SPENT
    (*_, (sums,)) = redis.run(BEGIN, HOST_MS, keys, "b", 0, "", *row)
    assert sums == [8, 0, 0, 7, 2]


def test_the_names_of_totals_are_forgotten_with_them(redis: Redis) -> None:
    redis.beat(0)
    spend(redis, 0, 1, ends=1000)
    redis.beat(40 * DAY + 1000)
    other = "total", "", 1, 0, BEGUN + 50 * DAY, 0, 0, SHARES, ABOUT
    redis.tell(40 * DAY + 1000, ("another", "another"), "a", *other)
    assert redis.call("ZRANGE", "totals", 0, -1) == [b"another"]


def test_so_many_totals_are_listed_as_fit_into_an_answer(redis: Redis) -> None:
    redis.beat(0)
    about = "x" * 1_000_000 + ABOUT
    for name in "abcd":
        row = "total", "", 1, 0, BEGUN + 9000, 0, 0, SHARES, about
        redis.tell(0, (name, name), "a", *row)
    assert len(redis.run(STATE, 0, ("hosts", "totals"))) == 2
