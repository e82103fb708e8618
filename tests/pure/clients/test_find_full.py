"""What is known at once to stand against a request, without counting it."""

from __future__ import annotations

from mgw.clients.limits import ONE_REQUEST, LimitReached, limits_of
from mgw.clients.local_counts import LocalCounts, LocalPermit


def test_what_is_full_at_once_is_found_and_counted_as_a_refusal() -> None:
    limits = limits_of("alice", {"max_in_flight": 1, "requests_per_minute": 2})
    counts = LocalCounts(lambda: 0.0)
    assert counts.find_full(limits) is None
    assert counts.in_flight("alice") == 0
    permit = counts.begin(limits, ONE_REQUEST)
    assert isinstance(permit, LocalPermit)
    found = counts.find_full(limits)
    assert isinstance(found, LimitReached)
    assert found.limit.name == "max_in_flight"
    counts.end(permit, ONE_REQUEST)
    assert counts.find_full(limits) is None
    other = counts.begin(limits, ONE_REQUEST)
    assert isinstance(other, LocalPermit)
    counts.end(other, ONE_REQUEST)
    found = counts.find_full(limits)
    assert isinstance(found, LimitReached)
    assert (found.limit.name, found.seconds) == ("requests_per_minute", 60.0)
    assert counts.refusals() == {("alice", "max_in_flight"): 1, ("alice", "requests_per_minute"): 1}


def test_rows_of_the_calendar_are_not_asked() -> None:
    limits = limits_of("alice", {"requests_per_day": 1})
    counts = LocalCounts(lambda: 0.0)
    counts.begin(limits, ONE_REQUEST)
    assert counts.find_full(limits) is None
    assert isinstance(counts.begin(limits, ONE_REQUEST), LimitReached)
