"""The search for the highest load within a bound: what it reads from its probes, and where it ends."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.public.search import PRECISION, Probe, Reading, next_load, reading

BOUNDS = [100_000.0, 50_000.0, 10_000.0, 5_000.0, 1_000.0]


def ok(load: float, worst_us: float = 500.0) -> Probe:
    return Probe(load, worst_us, 0)


def search(server: Callable[[float], Probe], most: float, limit: int = 60) -> list[Probe]:
    """Probe until all bounds are known."""
    probes: list[Probe] = []
    for probed in count():
        load = next_load(probes, BOUNDS, most, most / 64)
        if load is None:
            return probes
        assert probed < limit, "the search does not end"
        probes.append(server(load))
    raise AssertionError


def queue(capacity: float) -> Callable[[float], Probe]:
    """A server of which the latency rises without limit as the load nears its capacity."""

    def server(load: float) -> Probe:
        return Probe(load, 200 / (1 - load / capacity), 0) if load < capacity else Probe(load, 1e6, 7)

    return server


def test_a_reading_is_the_highest_load_that_kept_its_bound_and_says_what_it_came_to() -> None:
    probes = [ok(100), ok(200, 900.0), ok(400, 4_000.0), ok(300, 1_200.0)]
    assert reading(probes, 1_000.0) == Reading(200, 900.0, is_floor=False)
    assert reading(probes, 10_000.0) == Reading(400, 4_000.0, is_floor=True)


def test_a_load_that_passes_above_one_that_failed_is_luck_and_does_not_count() -> None:
    probes = [ok(100), Probe(200, 9_000.0, 0), Probe(200, 8_000.0, 0), ok(300)]
    assert reading(probes, 1_000.0).load == 100


def test_a_request_that_failed_keeps_no_bound() -> None:
    assert reading([ok(100), Probe(200, 300.0, 1)], 1_000.0).load == 100


def test_a_bound_that_nothing_kept_reads_zero() -> None:
    assert reading([ok(10, 2_000.0)], 1_000.0) == Reading(0.0, 0.0, is_floor=False)
    assert reading([], 1_000.0) == Reading(0.0, 0.0, is_floor=False)


def test_a_probe_that_failed_nearly_is_repeated_once_and_the_better_one_counts() -> None:
    failed = [ok(100), Probe(200, 2_000.0, 0)]
    assert next_load(failed, [1_000.0], 1_000, 10) == 200
    assert reading([*failed, ok(200)], 1_000.0).load == 200
    assert next_load([*failed, Probe(200, 2_500.0, 0)], [1_000.0], 1_000, 10) == pytest.approx(141.4, abs=0.1)


def test_a_probe_that_failed_a_request_within_the_bound_is_repeated_and_a_hopeless_one_is_not() -> None:
    assert next_load([ok(100), Probe(200, 300.0, 1)], [1_000.0], 1_000, 10) == 200
    assert next_load([ok(100), Probe(200, 30_000.0, 1)], [1_000.0], 1_000, 10) == pytest.approx(
        141.4, abs=0.1
    )


def test_no_load_above_the_most_is_tried_and_what_it_kept_is_a_floor() -> None:
    probes = search(ok, 1_000)
    assert max(probe.load for probe in probes) == 1_000
    assert reading(probes, 1_000.0) == Reading(1_000, 500.0, is_floor=True)


def test_a_server_that_keeps_no_bound_is_given_up() -> None:
    probes = search(lambda load: Probe(load, 1e9, 0), 1_000)
    assert all(reading(probes, bound).load == 0 for bound in BOUNDS)
    assert len(probes) <= 6


@given(capacity=st.floats(50, 1e5), most=st.floats(0.5, 1.3))
def test_each_reading_is_near_the_truth_and_a_looser_bound_never_reads_less(
    capacity: float, most: float
) -> None:
    probes = search(queue(capacity), capacity * most)
    readings = [reading(probes, bound) for bound in BOUNDS]
    assert [one.load for one in readings] == sorted((one.load for one in readings), reverse=True)
    for bound, one in zip(BOUNDS, readings, strict=True):
        true = capacity * (1 - 200 / bound)
        assert one.load <= true
        assert one.is_floor or one.load * PRECISION * 1.001 >= true
        assert not one.is_floor or one.load == capacity * most
