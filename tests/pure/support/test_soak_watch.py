"""What a long soak makes of its samples."""

from __future__ import annotations

from math import isnan

import pytest

from tests.support.soak.watch import Sample, percentile, summary


def sample(minute: float, memory: int, milliseconds: float) -> Sample:
    return Sample(minute * 60, memory * 2**20, 10, 0.5, (milliseconds * 1000,) * 10)


def test_the_minutes_behind_the_warm_up_are_compared_with_the_last_ones() -> None:
    warm_up = [sample(minute, 50 + minute, 90.0) for minute in range(1, 5)]
    early = [sample(5, 60, 80.0), *(sample(minute, 61, 4.0) for minute in range(6, 11))]
    middle = [sample(minute, 62, 70.0) for minute in range(11, 16)]
    late = [sample(minute, 63, 6.0) for minute in range(16, 21)]
    found = summary([*warm_up, *early, *middle, *late], 300.0)
    assert found is not None
    assert (found.memory_early, found.memory_late) == (60 * 2**20, 63 * 2**20)
    assert (found.p99_early, found.p99_late) == (4000.0, 6000.0)
    assert "60.0 MiB after the warm-up, 63.0 MiB at the end (1.05 x)" in found.text()


def test_a_short_run_compares_its_thirds() -> None:
    found = summary([sample(minute, minute, float(minute)) for minute in (1, 2, 3)], 300.0)
    assert found is not None
    assert (found.memory_early, found.memory_late) == (1 * 2**20, 3 * 2**20)
    assert (found.p99_early, found.p99_late) == (2000.0, 3000.0)


def test_one_sample_compares_nothing() -> None:
    assert summary([sample(1, 50, 1.0)], 300.0) is None


@pytest.mark.parametrize(("times", "expected"), [([5.0], 5.0), ([float(n) for n in range(101)], 99.0)])
def test_percentiles(times: list[float], expected: float) -> None:
    assert percentile(times, 99) == expected


def test_no_times_have_no_percentile() -> None:
    assert isnan(percentile([], 50))
