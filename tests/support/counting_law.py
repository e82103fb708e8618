"""One law for all counts: whatever begins and ends, and whatever a reload asks for, a plain model agrees.

Two clients, who are in one group, ask two processes or hosts.  Moments are multiples of an eighth of a
second: milliseconds for Redis, and floats that add up without error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from hypothesis import strategies as st
from msgspec import Struct

from mgw.clients.limits import (
    LIMITS_BY_NAME,
    NOTHING,
    WHOLE,
    Allowance,
    LimitReached,
    Limits,
    Permit,
    RowState,
    Taken,
    Unit,
    Warnings,
)
from mgw.clients.period import Window
from tests.support.counting_model import CLIENTS, MINUTE, Model

TICK: Final = 125
DAY: Final = 86_400_000
BEGINNING: Final = 1_800_000_000_000 // DAY * DAY + DAY - 5 * MINUTE
"""Shortly before a day ends in UTC."""
BUDGET: Final = LIMITS_BY_NAME["usd_per_day"]
QUOTA: Final = LIMITS_BY_NAME["requests_per_day"]
HOLDERS: Final = ("{client}", "group:research", "group:research/{client}", "gateway")


class Begin(Struct, frozen=True):
    """A client begins a request with one of the processes."""

    by: int
    client: int
    held: Taken = Taken(1, 1, 1)


class End(Struct, frozen=True):
    """One of the requests under way ends."""

    which: int
    taken: Taken


class Add(Struct, frozen=True):
    """A request is counted that has begun and ended elsewhere."""

    by: int
    client: int
    taken: Taken


class Wait(Struct, frozen=True):
    """Time passes."""

    milliseconds: int


class Reload(Struct, frozen=True):
    """Other limits hold from now on; holders may have a place for the client."""

    rows: Limits


class Set(Struct, frozen=True):
    """Somebody sets what is used of all rows of a holder."""

    holder: str
    amount: int


class Restart(Struct, frozen=True):
    """Every process is killed and begins anew."""


Step = Begin | End | Add | Wait | Reload | Set | Restart

NAMES: Final = (
    *("max_in_flight", "requests_per_minute", "tokens_per_minute", BUDGET.name, QUOTA.name),
    *("tokens_per_day", "usd_per_week", "tokens_per_month", "usd_total"),
)
HELD: Final = st.builds(Taken, st.just(1), st.integers(0, 2), st.integers(0, 2))
TAKEN: Final = st.builds(Taken, st.integers(0, 1), st.integers(0, 2), st.integers(0, 2))
TIMES: Final = [TICK, MINUTE // 4, MINUTE, 3 * MINUTE, DAY]


def row_of(name: str, most: int, holder: str = "{client}", *, is_reserved: bool = False) -> Allowance:
    """Return a row of each client, or of the holder."""
    return Allowance(LIMITS_BY_NAME[name], most, holder, is_reserved)


@st.composite
def _rows(draw: st.DrawFn, pool: tuple[str, ...], zone: str, *, reserves_minutes: bool) -> Allowance:
    limit = LIMITS_BY_NAME[draw(st.sampled_from(pool))]
    can_reserve = limit.unit in (Unit.TOKEN, Unit.NANODOLLAR)
    if limit.window is Window.MINUTE and not reserves_minutes:
        can_reserve = False
    return Allowance(
        limit,
        draw(st.integers(1, 4)),
        draw(st.sampled_from(HOLDERS)),
        can_reserve and draw(st.booleans()),
        draw(st.sampled_from([True, True, False])),
        draw(st.sampled_from([(), (WHOLE // 2,), (WHOLE // 4, WHOLE // 2)])),
        zone,
    )


@st.composite
def _runs(draw: st.DrawFn, *more: Step, reserves_minutes: bool) -> list[Step]:
    """Draw a run with a few limits, which are soon reached."""
    pool = tuple(draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)))
    row = _rows(pool, draw(st.sampled_from(["UTC", "Asia/Kolkata"])), reserves_minutes=reserves_minutes)
    rows = st.lists(row, min_size=1, max_size=3, unique_by=lambda row: row.key)
    reload = st.builds(Reload, rows.map(tuple))
    one = st.integers(0, 1)
    step = st.one_of(
        *[st.builds(Begin, one, one, HELD)] * 2,
        st.builds(End, st.integers(0, 3), TAKEN),
        st.builds(Add, one, one, TAKEN),
        st.builds(Wait, st.sampled_from(TIMES)),
        st.builds(Set, st.sampled_from([*CLIENTS, *HOLDERS[1::2]]), st.integers(0, 3)),
        reload,
        *map(st.just, more),
    )
    return [draw(reload), *draw(st.lists(step, min_size=8, max_size=25))]


RUNS: Final = _runs(reserves_minutes=True)
"""Steps of which the first says what limits there are."""
RUNS_WITH_RESTARTS: Final = _runs(Restart(), reserves_minutes=False)


YOUNG_LIMIT: Final[list[Step]] = [
    Reload((row_of("max_in_flight", 9),)),
    Begin(0, 0),
    Begin(1, 0),
    Reload((row_of(QUOTA.name, 1),)),
    End(0, Taken()),
    Begin(0, 0),
    End(0, NOTHING),
    Begin(0, 0),
]
"""Requests that began before there was a limit take nothing of it, and give nothing back."""
RESTORED_LIMIT: Final[list[Step]] = [
    Reload((row_of(BUDGET.name, 3, is_reserved=True),)),
    Begin(0, 0, Taken(1, 0, 3)),
    Reload((row_of(BUDGET.name, 1),)),
    Reload((row_of(BUDGET.name, 3, is_reserved=True),)),
    Begin(0, 0),
]
"""A limit that a reload restores is stated as it is."""
A_NEW_PROCESS: Final[list[Step]] = [
    Reload((row_of(BUDGET.name, 3), row_of(QUOTA.name, 3))),
    Begin(0, 0),
    End(0, Taken(1, 0, 2)),
    Begin(1, 0),
    Restart(),
    Begin(0, 0),
    End(0, Taken(1, 0, 1)),
    Restart(),
    Begin(0, 0),
    Wait(DAY),
    Begin(0, 0),
]
"""What was counted in a day is there in the next process, also of a request that did not end."""
LATE_END: Final[list[Step]] = [
    Reload((row_of(BUDGET.name, 2), row_of(QUOTA.name, 2))),
    Begin(0, 0),
    Begin(1, 0),
    Wait(DAY),
    End(0, Taken(1, 0, 2)),
    End(0, NOTHING),
    Begin(0, 0),
]
"""Requests end on another day than that on which they began, to which they belong."""
LOST_HOLDS: Final[list[Step]] = [
    Reload((row_of(BUDGET.name, 3, "gateway", is_reserved=True),)),
    Begin(0, 0, Taken(1, 0, 2)),
    Begin(1, 1, Taken(1, 0, 1)),
    Restart(),
    Begin(0, 0, Taken(1, 0, 1)),
    Set("gateway", 1),
    Begin(0, 1, Taken(1, 0, 9)),
    End(0, Taken(1, 0, 2)),
    Begin(1, 0),
]
"""What requests held that were killed counts in full, until somebody sets it."""
SHARED_ROW: Final[list[Step]] = [
    Reload((row_of(QUOTA.name, 2, "group:research"), row_of("max_in_flight", 1))),
    Begin(0, 0),
    Begin(1, 0),
    Begin(1, 1),
    Begin(0, 1),
    End(0, Taken()),
    Begin(0, 0),
]
"""A row is shared by two clients; a refusal by another row counts nothing in it."""


@dataclass
class Now:
    """The moment, in Unix milliseconds."""

    milliseconds: int = BEGINNING

    def seconds(self) -> float:
        """Return Unix seconds."""
        return self.milliseconds / 1000


class Counter(Protocol):
    """What is tried: counts that two processes or hosts may share."""

    def use(self, client: str, rows: Limits) -> None:
        """Obey other limits."""
        ...

    def begin(self, by: int, rows: Limits, held: Taken) -> Permit | LimitReached:
        """Begin a request."""
        ...

    def end(self, by: int, permit: Permit, taken: Taken) -> Warnings:
        """End it."""
        ...

    def add(self, by: int, rows: Limits, taken: Taken) -> None:
        """Count one that has begun and ended elsewhere."""
        ...

    def reset(self, holder: str, amount: int) -> None:
        """Set what is used of all rows of a holder."""
        ...

    def state(self) -> list[RowState]:
        """Return the state of the rows."""
        ...

    def restart(self) -> None:
        """Begin anew, in other processes."""
        ...


@dataclass
class Run:
    """Counts and the model, side by side."""

    counter: Counter
    model: Model
    now: Now
    permits: list[tuple[int, Permit]] = field(default_factory=list)

    def take(self, step: Step) -> None:
        """Take a step, and compare what counts and model say of it."""
        now, model, counter = self.now.milliseconds, self.model, self.counter
        match step:
            case Wait():
                self.now.milliseconds += step.milliseconds
            case Reload():
                model.rows = step.rows
                self._use()
            case Restart():
                model.restart()
                self.permits.clear()
                counter.restart()
                self._use()
            case Begin():
                self._begin(step)
            case Add():
                model.add(step.client, now, step.taken)
                counter.add(step.by, model.rows_of(step.client), step.taken)
            case Set() if model.uses_all_rows_of(step.holder):
                model.reset(step.holder, step.amount, now)
                counter.reset(step.holder, step.amount)
            case End() if self.permits:
                which = step.which % len(self.permits)
                by, permit = self.permits.pop(which)
                expected = model.end(which, now, step.taken)
                assert sorted(counter.end(by, permit, step.taken)) == sorted(expected)

    def probe(self) -> None:
        """See whether a request would be admitted, and refuse it then: it never counted."""
        under_way = len(self.permits)
        self.take(Begin(0, 0))
        if len(self.permits) > under_way:
            self.take(End(under_way, NOTHING))

    def compare(self) -> None:
        """See whether the same is used and held."""
        found = {
            ((state.holder, state.limit.name, state.refuses), state.period): (state.used, state.reserved)
            for state in self.counter.state()
        }
        for place, sums in self.model.state(self.now.milliseconds).items():
            assert found.get(place, (0, 0)) == sums, place

    def _use(self) -> None:
        for client, name in enumerate(CLIENTS):
            self.counter.use(name, self.model.rows_of(client))

    def _begin(self, step: Begin) -> None:
        now, model = self.now.milliseconds, self.model
        expected = [model.reached(step.client, now)]
        found = self.counter.begin(step.by, model.rows_of(step.client), step.held)
        if model.has_restarted and expected[0] is not None:  # the longest one may not be known yet
            moments = (Window.NONE, Window.MINUTE)
            reached = model.all_reached(step.client, now)
            expected += [each for each in reached if each.limit.window in moments]
        shown = found if isinstance(found, LimitReached) else None
        assert shown in expected, (shown, expected)
        if isinstance(found, Permit):
            model.begin(step.client, step.held, now)
            self.permits.append((step.by, found))


def without_sets(steps: list[Step]) -> list[Step]:
    """Leave out what needs holders whose rows are in use."""
    return [step for step in steps if not isinstance(step, Set)]


def check(counter: Counter, model: Model, now: Now, steps: list[Step]) -> None:
    """Take these steps; between any two, counts and model agree on what may begin and on what is used."""
    run = Run(counter, model, now)
    for step in steps:
        run.take(step)
        run.probe()
        run.compare()
