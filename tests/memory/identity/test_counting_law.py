"""Counts of one process whose totals are in a file agree with a plain model, whenever it begins anew."""

from __future__ import annotations

from tempfile import TemporaryDirectory

from hypothesis import example, given

from mgw.clients.limits import LimitReached, Limits, Permit, RowState, Taken, Warnings
from mgw.clients.local_counts import LocalCounts
from tests.support.counting import answer_of, decision_of
from tests.support.counting_law import (
    A_NEW_PROCESS,
    LATE_END,
    LOST_HOLDS,
    RUNS_WITH_RESTARTS,
    SHARED_ROW,
    Now,
    Step,
    check,
)
from tests.support.counting_model import Model
from tests.support.laws import examples
from tests.support.limit_stores import MortalStore


class Stored:
    """Counts of this process, and the file that outlives it."""

    def __init__(self, folder: str, now: Now) -> None:
        self.store, self.now = MortalStore(f"{folder}/limits.db"), now
        self.counts = LocalCounts(now.seconds, self.store.open(now.seconds()))

    def restart(self) -> None:
        self.store.kill()
        self.counts = LocalCounts(self.now.seconds, self.store.open(self.now.seconds()))

    def use(self, client: str, rows: Limits) -> None:
        self.counts.use(client, rows)

    def begin(self, _: int, rows: Limits, held: Taken) -> Permit | LimitReached:
        return decision_of(self.counts.begin(rows, held))

    def end(self, _: int, permit: Permit, taken: Taken) -> Warnings:
        found = self.counts.end(permit, taken)
        self.store.write()
        return found

    def add(self, _: int, rows: Limits, taken: Taken) -> None:
        self.counts.add(rows, taken)
        self.store.write()

    def reset(self, holder: str, amount: int) -> None:
        answer_of(self.counts.reset(holder, None, amount))

    def state(self) -> list[RowState]:
        return answer_of(self.counts.state())


@examples(50)
@example(steps=A_NEW_PROCESS)
@example(steps=LATE_END)
@example(steps=LOST_HOLDS)
@example(steps=SHARED_ROW)
@given(steps=RUNS_WITH_RESTARTS)
def test_counts_in_a_file_agree_with_the_model(steps: list[Step]) -> None:
    now = Now()
    with TemporaryDirectory() as folder:
        check(Stored(folder, now), Model(), now, steps)
