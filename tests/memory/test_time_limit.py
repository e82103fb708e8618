"""The promises of mgw.time_limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from mgw.time_limit import TimeLimit


def started(seconds: float) -> tuple[Clock, list[float], TimeLimit]:
    clock = Clock()
    expired: list[float] = []
    limit = TimeLimit(clock, lambda: expired.append(clock.seconds()))
    limit.within(seconds)
    return clock, expired, limit


def test_it_expires_once_when_its_time_has_passed() -> None:
    clock, expired, _ = started(10)
    clock.pump([9.5, 0.5, 100])
    assert expired == [10]


def test_moving_it_in_time_keeps_it_from_expiring() -> None:
    clock, expired, limit = started(10)
    clock.advance(9)
    limit.within(10)
    clock.pump([1, 8.5])
    assert not expired
    clock.advance(0.5)
    assert expired == [19]


def test_an_earlier_deadline_replaces_a_later_one() -> None:
    clock, expired, limit = started(100)
    limit.within(1)
    clock.advance(1)
    assert expired == [1]


def test_a_lifted_limit_does_not_expire() -> None:
    clock, expired, limit = started(10)
    limit.lift()
    clock.advance(1000)
    assert not expired


def test_a_lifted_limit_can_start_anew() -> None:
    clock, expired, limit = started(10)
    limit.lift()
    clock.advance(4)
    limit.within(10)
    clock.pump([6, 3.5, 0.5])
    assert expired == [14]


def test_an_expired_limit_can_start_anew() -> None:
    clock, expired, limit = started(10)
    clock.advance(10)
    limit.within(5)
    clock.advance(5)
    assert expired == [10, 15]


def test_a_later_deadline_costs_no_new_timer() -> None:
    clock, _, limit = started(10)
    (timer,) = clock.getDelayedCalls()
    clock.advance(3)
    limit.within(600)
    assert clock.getDelayedCalls() == [timer]


def test_closing_leaves_no_timer_behind() -> None:
    clock, _, limit = started(10)
    limit.close()
    assert not clock.getDelayedCalls()


def test_a_closed_limit_does_not_expire() -> None:
    clock, expired, limit = started(10)
    limit.close()
    clock.advance(1000)
    assert not expired


def test_starting_anew_from_within_the_expiry_works() -> None:
    clock = Clock()
    expired: list[float] = []

    def again() -> None:
        expired.append(clock.seconds())
        limit.within(2)

    limit = TimeLimit(clock, again)
    limit.within(1)
    clock.pump([1, 2, 2])
    assert expired == [1, 3, 5]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("within"), st.integers(1, 20)),
        st.tuples(st.just("advance"), st.integers(1, 20)),
        st.tuples(st.just("lift"), st.just(0)),
    ),
    max_size=30,
)


@given(steps=STEPS)
def test_it_expires_exactly_when_the_latest_deadline_says(steps: list[tuple[str, int]]) -> None:
    clock = Clock()
    expired: list[float] = []
    limit = TimeLimit(clock, lambda: expired.append(clock.seconds()))
    expected: list[float] = []
    deadline: float | None = None
    for step, number in steps:
        if step == "within":
            limit.within(number)
            deadline = clock.seconds() + number
        elif step == "lift":
            limit.lift()
            deadline = None
        else:
            for _ in range(number):  # the clock calls what is due once per second
                clock.advance(1)
                if deadline is not None and clock.seconds() >= deadline:
                    expected.append(clock.seconds())
                    deadline = None
    assert expired == expected
