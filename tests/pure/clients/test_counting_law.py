"""Counts of one process agree with a plain model of limits."""

from __future__ import annotations

from hypothesis import example, given

from mgw.clients.limits import ONE_REQUEST, LimitReached, Limits, Permit, Taken
from mgw.clients.local_counts import LocalCounts
from tests.support.counting import HOLDER
from tests.support.counting_law import LATE_END, RUNS, YOUNG_LIMIT, Model, Now, Step, check


class Local:
    """Counts of this process alone."""

    def __init__(self, now: Now) -> None:
        self.counts = LocalCounts(now.seconds)

    def use(self, rows: Limits) -> None:
        self.counts.use(HOLDER, rows)

    def begin(self, _: int, rows: Limits) -> Permit | LimitReached:
        return self.counts.begin(rows, ONE_REQUEST)

    def end(self, _: int, permit: Permit, taken: Taken) -> None:
        self.counts.end(permit, taken)

    def restart(self) -> None:
        raise AssertionError("what it has counted is in no store")


@example(steps=YOUNG_LIMIT)
@example(steps=LATE_END)
@given(steps=RUNS)
def test_counts_of_one_process_agree_with_the_model(steps: list[Step]) -> None:
    now = Now()
    check(Local(now), Model(), now, steps)
