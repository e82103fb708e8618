"""Counts of one process agree with a plain model of limits."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from mgw.clients.limits import LimitReached, Limits, Permit, RowState, Taken, Warnings
from mgw.clients.local_counts import LocalCounts
from tests.support.counting import answer_of, decision_of
from tests.support.counting_law import (
    LATE_END,
    RESTORED_LIMIT,
    RUNS,
    SHARED_ROW,
    YOUNG_LIMIT,
    Now,
    Step,
    check,
    without_sets,
)
from tests.support.counting_model import CLIENTS, Model


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


class LocalOfStrangers(Local):
    """The same, where nobody says which rows of some clients are in use: only their tokens name them."""

    def __init__(self, now: Now, known: tuple[str, ...]) -> None:
        super().__init__(now)
        self.known = known

    def use(self, client: str, rows: Limits) -> None:
        if client in self.known:
            super().use(client, rows)


@example(steps=RESTORED_LIMIT, known=())
@example(steps=YOUNG_LIMIT, known=())
@example(steps=LATE_END, known=())
@example(steps=SHARED_ROW, known=())
@example(steps=SHARED_ROW, known=CLIENTS[:1])
@given(steps=RUNS, known=st.sampled_from([(), CLIENTS[:1], CLIENTS[1:]]))
def test_clients_that_nobody_has_made_known_are_counted_like_any_other(
    steps: list[Step], known: tuple[str, ...]
) -> None:
    now = Now()
    check(LocalOfStrangers(now, known), Model(), now, without_sets(steps))
