"""Counts of one process whose totals are in a file agree with a plain model, whenever it begins anew."""

from __future__ import annotations

from tempfile import TemporaryDirectory

from hypothesis import example, given
from twisted.internet.task import Clock

from mgw.clients.limits import ONE_REQUEST, LimitReached, Limits, Permit, Taken
from mgw.clients.local_counts import LocalCounts
from mgw.identity.limit_store import LimitStore
from tests.support.counting import HOLDER
from tests.support.counting_law import A_NEW_PROCESS, LATE_END, RUNS_WITH_RESTARTS, Model, Now, Step, check
from tests.support.laws import examples
from tests.support.usage import AtOnce


class Stored:
    """Counts of this process, and the file that outlives it."""

    def __init__(self, folder: str, now: Now) -> None:
        self.path, self.now = f"{folder}/limits.db", now
        self.restart()

    def restart(self) -> None:
        self.counts = LocalCounts(self.now.seconds, LimitStore(self.path, AtOnce(), Clock()))

    def use(self, rows: Limits) -> None:
        self.counts.use(HOLDER, rows)

    def begin(self, _: int, rows: Limits) -> Permit | LimitReached:
        return self.counts.begin(rows, ONE_REQUEST)

    def end(self, _: int, permit: Permit, taken: Taken) -> None:
        self.counts.end(permit, taken)


@examples(50)
@example(steps=A_NEW_PROCESS)
@example(steps=LATE_END)
@given(steps=RUNS_WITH_RESTARTS)
def test_counts_in_a_file_agree_with_the_model(steps: list[Step]) -> None:
    now = Now()
    with TemporaryDirectory() as folder:
        check(Stored(folder, now), Model(), now, steps)
