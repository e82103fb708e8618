"""The promises of mgw.reactor.deadline."""

from __future__ import annotations

import gc
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from mgw.reactor.deadline import TICKS_PER_SECOND, Deadline, TimerWheel


def started(seconds: float) -> tuple[Clock, list[float], Deadline]:
    clock = Clock()
    expired: list[float] = []
    deadline = Deadline(TimerWheel(clock), lambda: expired.append(clock.seconds()))
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

    deadline = Deadline(TimerWheel(clock), again)
    deadline.start(1)
    clock.pump([1, 2, 2])
    assert expired == [1, 3, 5]


def test_deadlines_share_one_timer() -> None:
    clock, expired = Clock(), list[float]()
    wheel = TimerWheel(clock)
    for tenth in range(100):
        Deadline(wheel, lambda: expired.append(clock.seconds())).start(30 - tenth / 10)
    assert len(clock.getDelayedCalls()) == 1
    clock.pump([0.01] * 3100)
    assert len(expired) == 100
    assert not clock.getDelayedCalls()


@given(
    starts=st.lists(st.tuples(st.floats(0, 3), st.floats(0.001, 100)), min_size=1, max_size=20),
    step=st.sampled_from([0.003, 0.1, 1.0]),
)
def test_none_expires_early_or_much_too_late(starts: list[tuple[float, float]], step: float) -> None:
    clock = Clock()
    wheel = TimerWheel(clock)
    late: list[tuple[float, float]] = []
    for wait, seconds in starts:
        clock.advance(wait)
        due = clock.seconds() + seconds

        def on_expired(due: float = due, seconds: float = seconds) -> None:
            late.append((clock.seconds() - due, seconds))

        Deadline(wheel, on_expired).start(seconds)
    while clock.getDelayedCalls():
        clock.advance(step)
    assert len(late) == len(starts)
    for seconds_late, seconds in late:
        tick = 1 / TICKS_PER_SECOND if seconds >= 1 else 0
        # where one step of the clock goes past several, all see the time after it
        assert 0 <= seconds_late <= tick + max(step, *(wait for wait, _ in starts)) + 1e-6


def test_a_deadline_moved_by_little_does_not_expire_at_its_old_time() -> None:
    clock, expired, deadline = started(5)
    clock.advance(0.004)
    deadline.start(5)
    clock.advance(4.996)
    assert not expired
    clock.advance(0.004)
    assert len(expired) == 1


def test_a_deadline_may_close_another_of_the_same_moment() -> None:
    clock = Clock()
    wheel = TimerWheel(clock)
    expired: list[int] = []
    pair = [Deadline(wheel, lambda each=each: close_other(each)) for each in (0, 1)]  # type: ignore[misc]  # a bound default

    def close_other(each: int) -> None:
        expired.append(each)
        pair[1 - each].close()

    for deadline in pair:
        deadline.start(2)
    clock.advance(2)
    assert len(expired) == 1
    assert not clock.getDelayedCalls()


def test_an_exception_leaves_the_other_deadlines_as_they_are() -> None:
    clock, expired = Clock(), list[float]()
    wheel = TimerWheel(clock)
    failing = Deadline(wheel, [].pop)
    others = [Deadline(wheel, lambda: expired.append(clock.seconds())) for _ in range(2)]
    others[0].start(5)
    failing.start(5)
    others[1].start(6)
    with pytest.raises(IndexError):
        clock.advance(5)
    clock.pump([0, 1])
    assert expired == [5, 6]


class SlowClock(Clock):
    """A clock on which each look takes a fifth of a millisecond."""

    def seconds(self) -> float:
        self.rightNow += 0.0002
        return float(self.rightNow)


def test_many_that_expire_at_once_let_others_have_their_turn() -> None:
    clock = SlowClock()
    wheel = TimerWheel(clock)
    expired: list[float] = []
    for _ in range(100):
        Deadline(wheel, lambda: expired.append(clock.rightNow)).start(0.5)
    clock.rightNow = 1.0
    turns = 0
    while clock.getDelayedCalls():
        timer = clock.calls.pop()
        before = clock.rightNow
        timer.called = 1
        timer.func()
        assert clock.rightNow - before < 0.002
        turns += 1
    assert len(expired) == 100
    assert turns > 10


def test_a_closed_deadline_keeps_nothing_alive() -> None:
    class Owner:
        def __init__(self, wheel: TimerWheel) -> None:
            self.deadline = Deadline(wheel, self.on_deadline)

        def on_deadline(self) -> None:
            """Nothing."""

    clock = Clock()
    wheel = TimerWheel(clock)
    gc.disable()
    try:
        owner = Owner(wheel)
        owner.deadline.start(5)
        owner.deadline.close()
        gone = ref(owner)
        del owner
        assert gone() is None
    finally:
        gc.enable()


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
    deadline = Deadline(TimerWheel(clock), lambda: expired.append(clock.seconds()))
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
