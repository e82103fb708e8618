"""A sliding window: never more than the limit in any 60 s, and room again at the soonest moment."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw.clients.limits import ONE_REQUEST, LimitReached, Limits, Permit, Taken, limits_of
from mgw.clients.local_counts import LocalCounts
from mgw.clients.window import MAX_EXACT, SECONDS, SHARED_SECONDS, SlidingWindow
from tests.support.counting import HOLDER, Counting, limits, reached

TICKS = st.integers(0, 40 * 64)
"""Between two requests, in 64ths of a second: floats that add up without error."""
MOST_ENTRIES = 3 * MAX_EXACT + 2


def window_of(most: int) -> SlidingWindow:
    """Return a window of requests."""
    return SlidingWindow(*limits(requests_per_minute=most))


def in_any_minute(times: list[float]) -> int:
    """Return the most of these moments that lie within 60 s, wherever those begin."""
    return max((sum(start <= time < start + SECONDS for time in times) for start in times), default=0)


@given(limit=st.integers(1, 5), steps=st.lists(TICKS, max_size=60))
def test_no_minute_holds_more_requests_than_the_limit(limit: int, steps: list[int]) -> None:
    counts, now, admitted = Counting(requests_per_minute=limit), 0.0, []
    for ticks in steps:
        now += ticks / 64
        if isinstance(counts.acquire(now), Permit):
            admitted.append(now)
    assert in_any_minute(admitted) <= limit


@given(limit=st.integers(1, 5), steps=st.lists(TICKS, min_size=1, max_size=60))
def test_a_refused_request_is_told_the_soonest_moment_at_which_it_is_admitted(
    limit: int, steps: list[int]
) -> None:
    window, now = window_of(limit), 0.0
    for ticks in steps:
        now += ticks / 64
        seconds = window.wait(now, limit)
        if seconds:
            tick = 1 / 64
            assert window.wait(now + seconds - tick, limit) == tick
            assert window.wait(now + seconds, limit) == 0
            now += seconds
        window.add(now, 1)


@given(
    limit=st.integers(1, 1000),
    steps=st.lists(st.tuples(TICKS, st.integers(0, 900)), max_size=60),
)
def test_requests_wait_until_the_tokens_of_a_minute_are_below_the_limit(
    limit: int, steps: list[tuple[int, int]]
) -> None:
    counts, now = Counting(tokens_per_minute=limit), 0.0
    taken: list[tuple[float, int]] = []
    for ticks, tokens in steps:
        now += ticks / 64
        held = sum(count for time, count in taken if now - time < SECONDS)
        found = counts.acquire(now)
        assert isinstance(found, Permit) == (held < limit)
        if isinstance(found, LimitReached):
            now += found.seconds
            assert sum(count for time, count in taken if now - time < SECONDS) < limit
            found = counts.acquire(now)
        assert isinstance(found, Permit)
        counts.release(found, now, tokens, refused=False)
        taken.append((now, tokens))


@given(events=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60), limit=st.integers(1, 4))
def test_no_more_requests_are_in_flight_than_the_limit(events: list[tuple[bool, bool]], limit: int) -> None:
    counts = Counting(max_in_flight=limit)
    open_permits: list[Permit] = []
    for begins, refused in events:
        if begins:
            found = counts.acquire(0.0)
            assert isinstance(found, Permit) == (len(open_permits) < limit)
            if isinstance(found, Permit):
                open_permits.append(found)
            else:
                assert found.seconds == 1.0
        elif open_permits:
            counts.release(open_permits.pop(), 0.0, 7, refused=refused)
        assert counts.in_flight == len(open_permits)


@given(fates=st.lists(st.tuples(TICKS, st.booleans()), max_size=60), limit=st.integers(1, 5))
def test_a_refused_request_fills_no_window(fates: list[tuple[int, bool]], limit: int) -> None:
    counts, now = Counting(requests_per_minute=limit), 0.0
    kept: list[float] = []
    for ticks, refused in fates:
        now += ticks / 64
        found = counts.acquire(now)
        assert isinstance(found, Permit) == (sum(now - time < SECONDS for time in kept) < limit)
        if isinstance(found, Permit):
            counts.release(found, now, 0, refused=refused)
            if not refused:
                kept.append(now)


@given(
    steps=st.lists(
        st.tuples(st.sampled_from([0, 64, 20 * 64, 60 * 64]), st.sampled_from([None, None, 0, 1])),
        min_size=20,
    ),
    limit=st.integers(2, 4),
)
def test_a_refusal_frees_its_own_permit_alone_however_late_it_comes(
    steps: list[tuple[int, int | None]], limit: int
) -> None:
    """Each step begins a request, or refuses one of those that are under way, after some time."""
    counts, now = Counting(requests_per_minute=limit), 0.0
    open_permits: list[tuple[float, Permit]] = []
    for ticks, refuses in steps:
        now += ticks / 64
        if refuses is None:
            found = counts.acquire(now)
            held = sum(now - time < SECONDS for time, _ in open_permits)
            assert isinstance(found, Permit) == (held < limit)
            if isinstance(found, Permit):
                open_permits.append((now, found))
        elif open_permits:
            counts.release(open_permits.pop(refuses % len(open_permits))[1], now, 0, refused=True)


def test_a_refusal_before_the_last_addition_takes_nothing_of_that_one() -> None:
    counts = Counting(requests_per_minute=2)
    first, second = counts.acquire(0.0), counts.acquire(1.0)
    assert isinstance(first, Permit)
    assert isinstance(second, Permit)
    counts.release(first, 2.0, 0, refused=True)
    assert isinstance(counts.acquire(3.0), Permit)
    assert counts.acquire(4.0) == reached("requests_per_minute", 2, 57.0)


def test_a_refusal_after_a_minute_makes_no_room_for_another_request() -> None:
    counts = Counting(requests_per_minute=1)
    first = counts.acquire(0.0)
    assert isinstance(first, Permit)
    assert isinstance(counts.acquire(60.0), Permit)
    counts.release(first, 61.0, 0, refused=True)
    assert counts.acquire(62.0) == reached("requests_per_minute", 1, 58.0)


@pytest.mark.parametrize(("seconds", "entries"), [(0.0, 1), (0.009, 1), (SHARED_SECONDS, 2), (0.011, 2)])
def test_additions_share_an_entry_within_ten_milliseconds(seconds: float, entries: int) -> None:
    window = window_of(MAX_EXACT + 1)
    window.add(0.0, 1)
    window.add(seconds, 1)
    assert window.entries == entries


@pytest.mark.parametrize(("limit", "entries"), [(MAX_EXACT, 2), (MAX_EXACT + 1, 1)])
def test_up_to_a_limit_each_addition_has_an_entry_of_its_own(limit: int, entries: int) -> None:
    window = window_of(limit)
    window.add(0.0, 1)
    window.add(0.0, 1)
    assert window.entries == entries


def test_the_longest_wait_of_several_limits_is_told() -> None:
    counts = Counting(requests_per_minute=1, tokens_per_minute=10, max_in_flight=1)
    permit = counts.acquire(0.0)
    assert isinstance(permit, Permit)
    counts.release(permit, 30.0, 10, refused=False)
    assert counts.acquire(40.0) == reached("tokens_per_minute", 10, 50.0)
    assert counts.acquire(89.0) == reached("tokens_per_minute", 10, 1.0)
    assert isinstance(counts.acquire(90.0), Permit)
    assert counts.acquire(90.0) == reached("requests_per_minute", 1, 60.0)


def test_a_window_of_millions_takes_the_memory_of_a_few_thousand_entries() -> None:
    window = window_of(10**9)
    for number in range(90_000):
        window.add(number / 1000, 1)  # a thousand a second
    assert window.entries <= SECONDS / SHARED_SECONDS + 1


def test_requests_that_are_taken_back_take_no_memory() -> None:
    window = window_of(MAX_EXACT)
    for number in range(100_000):
        first, second = window.add(number / 2000, 1), window.add(number / 2000, 1)
        window.take_back(first, 1)
        if number % 100:
            window.take_back(second, 1)
    assert window.entries <= MOST_ENTRIES


def test_a_shared_entry_never_ceases_to_count_too_early() -> None:
    window = window_of(MAX_EXACT + 1)
    window.add(0.0, MAX_EXACT)
    window.add(0.005, 1)
    assert window.wait(60.0, MAX_EXACT + 1) == pytest.approx(0.005)
    assert window.wait(60.005, MAX_EXACT + 1) == 0


def test_a_clock_that_is_set_back_makes_nobody_wait_longer_than_a_minute() -> None:
    window = window_of(1)
    window.add(10_000.0, 1)
    assert window.wait(500.0, 1) == SECONDS
    assert window.wait(560.0, 1) == 0


def warned(counts: LocalCounts, rows: Limits, taken: Taken) -> tuple[str, ...]:
    """Begin and end a request, and return its warnings."""
    permit = counts.begin(rows, ONE_REQUEST)
    assert isinstance(permit, Permit)
    return counts.end(permit, taken)


def test_a_share_of_a_minute_warns_again_only_after_the_sum_was_below_it() -> None:
    now = 0.0
    counts = LocalCounts(lambda: now)
    rows = (replace(*limits(tokens_per_minute=10), warn_at=(500_000_000,), refuses=False),)
    half, whole = f"{HOLDER} tokens_per_minute 0.5", f"{HOLDER} tokens_per_minute 1"
    assert warned(counts, rows, Taken(tokens=4)) == ()
    now = 1.0
    assert warned(counts, rows, Taken(tokens=1)) == (half,)
    now = 2.0
    assert warned(counts, rows, Taken(tokens=20)) == (whole,)
    assert warned(counts, rows, Taken(tokens=1)) == ()
    now = 62.0
    assert warned(counts, rows, Taken(tokens=10)) == (half, whole)


def test_requests_of_a_minute_warn_again_where_they_were_fewer_between() -> None:
    now = 0.0
    counts = LocalCounts(lambda: now)
    rows = (replace(*limits(requests_per_minute=2), warn_at=(500_000_000,)),)
    half = (f"{HOLDER} requests_per_minute 0.5",)
    assert warned(counts, rows, Taken()) == half
    now = 60.0
    assert warned(counts, rows, Taken()) == half, "the first had ceased to count when the second began"
    now = 61.0
    assert warned(counts, rows, Taken()) == (f"{HOLDER} requests_per_minute 1",)


def test_what_is_in_flight_warns_where_shares_are_stated() -> None:
    counts = LocalCounts(lambda: 0.0)
    plain = limits(max_in_flight=2)
    rows = (replace(*plain, warn_at=(500_000_000,)),)
    half, whole = f"{HOLDER} max_in_flight 0.5", f"{HOLDER} max_in_flight 1"
    assert warned(counts, plain, Taken()) == ()
    assert [warned(counts, rows, Taken()) for _ in range(2)] == [(half,), (half,)], "none was left between"
    first, second = counts.begin(rows, ONE_REQUEST), counts.begin(rows, ONE_REQUEST)
    assert isinstance(first, Permit)
    assert isinstance(second, Permit)
    assert counts.end(first, Taken()) == (half, whole)
    assert counts.end(second, Taken()) == ()


def test_an_estimate_takes_room_until_the_request_has_ended_however_long_it_lasts() -> None:
    now = 0.0
    counts = LocalCounts(lambda: now)
    rows = (replace(*limits(tokens_per_minute=10), is_reserved=True),)
    permit = counts.begin(rows, Taken(1, 12))
    assert isinstance(permit, Permit)
    now = 300.0
    assert counts.begin(rows, ONE_REQUEST) == reached("tokens_per_minute", 10, 1.0)
    counts.end(permit, Taken(1, 10))
    now = 301.0
    assert counts.begin(rows, ONE_REQUEST) == reached("tokens_per_minute", 10, 59.0)


def test_a_row_that_only_warns_refuses_nothing() -> None:
    counts = LocalCounts(lambda: 0.0)
    rows = tuple(replace(row, refuses=False) for row in limits(requests_per_minute=1, max_in_flight=1))
    assert all(isinstance(counts.begin(rows, ONE_REQUEST), Permit) for _ in range(5))


def test_of_several_holders_the_row_that_frees_last_is_named_and_none_counts() -> None:
    counts = LocalCounts(lambda: 0.0)
    own, group = limits(requests_per_minute=1), limits_of("group:research", {"requests_per_day": 2})
    gateway = limits_of("gateway", {"requests_total": 1})
    assert isinstance(counts.begin((*own, *group), ONE_REQUEST), Permit)
    assert counts.begin((*own, *group), ONE_REQUEST) == reached("requests_per_minute", 1, 60.0)
    assert isinstance(counts.begin(group, ONE_REQUEST), Permit), "the refusal has not counted for the group"
    day = LimitReached("group:research", group[0].limit, 2, 86_400.0, 86_400.0)
    assert counts.begin((*own, *group), ONE_REQUEST) == day
    assert isinstance(counts.begin(gateway, ONE_REQUEST), Permit)
    assert counts.begin((*own, *group, *gateway), ONE_REQUEST) == LimitReached(
        "gateway", gateway[0].limit, 1, inf, None
    )
    assert counts.refusals() == {
        (HOLDER, "requests_per_minute"): 1,
        ("group:research", "requests_per_day"): 1,
        ("gateway", "requests_total"): 1,
    }


def test_other_limits_leave_what_was_counted() -> None:
    counts = Counting(requests_per_minute=1)
    assert isinstance(counts.acquire(0.0), Permit)
    counts.use(requests_per_minute=2)
    assert isinstance(counts.acquire(1.0), Permit)
    assert counts.acquire(2.0) == reached("requests_per_minute", 2, 58.0)
    counts.use(requests_per_minute=1)
    assert counts.acquire(2.0) == reached("requests_per_minute", 1, 59.0)


def test_a_client_that_loses_its_limits_and_gets_them_back_has_lost_nothing() -> None:
    counts = Counting(requests_per_minute=1)
    before = counts.acquire(0.0)
    counts.use()
    counts.use(requests_per_minute=1)
    assert counts.acquire(1.0) == reached("requests_per_minute", 1, 59.0)
    assert isinstance(before, Permit)
    counts.release(before, 2.0, 0, refused=True)
    assert isinstance(counts.acquire(2.0), Permit)


def test_a_limit_that_goes_and_comes_back_has_lost_nothing() -> None:
    counts = Counting(requests_per_minute=1, max_in_flight=9)
    assert isinstance(counts.acquire(0.0), Permit)
    counts.use(max_in_flight=9)
    counts.use(requests_per_minute=1, max_in_flight=9)
    assert counts.acquire(1.0) == reached("requests_per_minute", 1, 59.0)
