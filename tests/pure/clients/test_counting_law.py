"""Counts of one process agree with a plain model of limits."""

from __future__ import annotations

from hypothesis import example, given

from mgw.clients.limits import LimitReached, Limits, Permit, RowState, Taken, Warnings
from mgw.clients.local_counts import LocalCounts
from tests.support.counting import answer_of, decision_of
from tests.support.counting_law import LATE_END, RUNS, SHARED_ROW, YOUNG_LIMIT, Now, Step, check
from tests.support.counting_model import Model


class Local:
    """Counts of this process alone."""

    def __init__(self, now: Now) -> None:
        self.counts = LocalCounts(now.seconds)

    def use(self, client: str, rows: Limits) -> None:
        self.counts.use(client, rows)

    def begin(self, _: int, rows: Limits, held: Taken) -> Permit | LimitReached:
        return decision_of(self.counts.begin(rows, held))

    def end(self, _: int, permit: Permit, taken: Taken) -> Warnings:
        return self.counts.end(permit, taken)

    def add(self, _: int, rows: Limits, taken: Taken) -> None:
        self.counts.add(rows, taken)

    def reset(self, holder: str, amount: int) -> None:
        answer_of(self.counts.reset(holder, None, amount))

    def state(self) -> list[RowState]:
        return answer_of(self.counts.state())

    def restart(self) -> None:
        raise AssertionError("what it has counted is in no store")


@example(steps=YOUNG_LIMIT)
@example(steps=LATE_END)
@example(steps=SHARED_ROW)
@given(steps=RUNS)
def test_counts_of_one_process_agree_with_the_model(steps: list[Step]) -> None:
    now = Now()
    check(Local(now), Model(), now, steps)
