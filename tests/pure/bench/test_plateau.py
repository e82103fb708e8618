"""Whether memory is steady, by the public method's test."""

from __future__ import annotations

import pytest

from bench.public.plateau import Sample, growth_per_minute, is_steady, window_of


def samples(*sizes: float, every: float = 1.0) -> list[Sample]:
    return [Sample(number * every, size) for number, size in enumerate(sizes)]


def test_memory_that_stays_is_steady() -> None:
    assert is_steady(samples(*[100.0, 100.4, 99.9, 100.1] * 3))


def test_a_slow_rise_is_not_steady_though_its_ends_are_near() -> None:
    assert not is_steady(samples(*(100 + 0.17 * number for number in range(12))))


def test_memory_that_swings_is_not_steady_though_it_does_not_rise() -> None:
    assert not is_steady(samples(*[100.0, 103.0, 100.0, 103.0] * 3))


def test_memory_that_falls_is_steady_once_it_has_come_near_its_end() -> None:
    assert is_steady(samples(*(101 - 0.1 * number for number in range(12))))


def test_few_samples_say_nothing() -> None:
    assert not is_steady(samples(100.0, 100.0, 100.0))


def test_a_window_has_the_last_seconds_and_is_not_there_too_soon() -> None:
    found = samples(*range(20))
    assert [one.mib for one in window_of(found, 5.0)] == [14, 15, 16, 17, 18, 19]
    assert window_of(found, 30.0) == []
    assert window_of([], 1.0) == []


def test_growth_is_the_slope_in_a_minute() -> None:
    assert growth_per_minute(samples(100, 101, 102, 103, every=0.5)) == pytest.approx(120.0)
    assert growth_per_minute(samples(100, 100, 100, 100)) == 0.0
    assert growth_per_minute(samples(100)) == 0.0
