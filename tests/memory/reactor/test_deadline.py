"""The promises of mgw.reactor.deadline."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from mgw.reactor.deadline import Deadline


def started(seconds: float) -> tuple[Clock, list[float], Deadline]:
    clock = Clock()
    expired: list[float] = []
    deadline = Deadline(clock, lambda: expired.append(clock.seconds()))
    deadline.start(seconds)
    return clock, expired, deadline


def test_it_expires_once_when_its_time_has_passed() -> None:
    clock, expired, _ = started(10)
    clock.pump([9.5, 0.5, 100])
    assert expired == [10]


def test_moving_it_in_time_keeps_it_from_expiring() -> None:
    clock, expired, deadline = started(10)
    clock.advance(9)
    deadline.start(10)
    clock.pump([1, 8.5])
    assert not expired
    clock.advance(0.5)
    assert expired == [19]


def test_an_earlier_deadline_replaces_a_later_one() -> None:
    clock, expired, deadline = started(100)
    deadline.start(1)
    clock.advance(1)
    assert expired == [1]


def test_a_stopped_deadline_does_not_expire() -> None:
    clock, expired, deadline = started(10)
    deadline.stop()
    clock.advance(1000)
    assert not expired


def test_a_stopped_deadline_can_start_anew() -> None:
    clock, expired, deadline = started(10)
    deadline.stop()
    clock.advance(4)
    deadline.start(10)
    clock.pump([6, 3.5, 0.5])
    assert expired == [14]


def test_an_expired_deadline_can_start_anew() -> None:
    clock, expired, deadline = started(10)
    clock.advance(10)
    deadline.start(5)
    clock.advance(5)
    assert expired == [10, 15]


def test_a_later_deadline_costs_no_new_timer() -> None:
    clock, _, deadline = started(10)
    (timer,) = clock.getDelayedCalls()
    clock.advance(3)
    deadline.start(600)
    assert clock.getDelayedCalls() == [timer]


def test_closing_leaves_no_timer_behind() -> None:
    clock, _, deadline = started(10)
    deadline.close()
    assert not clock.getDelayedCalls()


def test_a_closed_deadline_does_not_expire() -> None:
    clock, expired, deadline = started(10)
    deadline.close()
    clock.advance(1000)
    assert not expired


def test_starting_anew_from_within_the_expiry_works() -> None:
    clock = Clock()
    expired: list[float] = []

    def again() -> None:
        expired.append(clock.seconds())
        deadline.start(2)

    deadline = Deadline(clock, again)
    deadline.start(1)
    clock.pump([1, 2, 2])
    assert expired == [1, 3, 5]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.integers(1, 20)),
        st.tuples(st.just("advance"), st.integers(1, 20)),
        st.tuples(st.just("stop"), st.just(0)),
    ),
    max_size=30,
)


@given(steps=STEPS)
def test_it_expires_exactly_when_the_latest_deadline_says(steps: list[tuple[str, int]]) -> None:
    clock = Clock()
    expired: list[float] = []
    deadline = Deadline(clock, lambda: expired.append(clock.seconds()))
    expected: list[float] = []
    expires_at: float | None = None
    for step, number in steps:
        if step == "start":
            deadline.start(number)
            expires_at = clock.seconds() + number
        elif step == "stop":
            deadline.stop()
            expires_at = None
        else:
            for _ in range(number):  # the clock calls what is due once per second
                clock.advance(1)
                if expires_at is not None and clock.seconds() >= expires_at:
                    expected.append(clock.seconds())
                    expires_at = None
    assert expired == expected
