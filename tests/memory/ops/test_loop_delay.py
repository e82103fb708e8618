"""How late the reactor is shows in a histogram, and nothing is left behind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from mgw.ops.exposition import Exposition
from mgw.ops.loop_delay import BUCKETS, INTERVAL, LoopDelay


def lines(delay: LoopDelay) -> dict[str, float]:
    """The samples, by what stands before their numbers."""
    (table,) = delay.tables()
    text = b"".join(Exposition(None).render_table(table)).decode()
    samples = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name.removeprefix("mgw_event_loop_delay_seconds"): float(number) for name, _, number in samples}


@pytest.mark.parametrize(
    ("late", "le"), [(0.0, "0.001"), (0.002, "0.0025"), (0.25, "0.25"), (0.26, "0.5"), (7.0, "+Inf")]
)
def test_a_timer_that_fires_late_falls_into_the_bucket_of_its_delay(late: float, le: str) -> None:
    clock = Clock()
    delay = LoopDelay(clock)
    delay.start()
    clock.advance(INTERVAL + late)
    bounds = [*map(str, BUCKETS), "+Inf"]
    found = lines(delay)
    for bound in bounds:
        expected = 1 if bounds.index(bound) >= bounds.index(le) else 0
        assert found[f'_bucket{{le="{bound}"}}'] == expected
    assert found["_sum"] == pytest.approx(late)


@given(delays=st.lists(st.integers(0, 64), max_size=20))
def test_there_is_one_look_a_second_however_late_each_is(delays: list[int]) -> None:
    clock = Clock()
    delay = LoopDelay(clock)
    delay.start()
    for late in delays:
        clock.advance(INTERVAL + late / 64)
    found = lines(delay)
    assert found["_count"] == len(delays)
    assert found["_sum"] == sum(delays) / 64


def test_a_clock_that_is_set_back_makes_no_negative_delay() -> None:
    clock = Clock()
    delay = LoopDelay(clock)
    delay.start()
    timers: Any = clock.getDelayedCalls()  # Any: a call has more than its interface
    (timer,) = timers
    clock.rightNow -= 100
    timer.func(*timer.args)
    assert lines(delay)["_sum"] == 0
    assert lines(delay)['_bucket{le="0.001"}'] == 1


def test_after_the_end_nothing_waits_and_the_numbers_stay() -> None:
    clock = Clock()
    delay = LoopDelay(clock)
    delay.start()
    delay.start()
    clock.advance(INTERVAL)
    delay.stop()
    delay.stop()
    assert not clock.getDelayedCalls()
    assert lines(delay)["_count"] == 1


def test_without_a_clock_nothing_is_measured() -> None:
    delay = LoopDelay()
    delay.start()
    assert lines(delay)["_count"] == 0
