"""One law for all counts: whatever begins and ends, and whatever a reload asks for, a plain model agrees.

Moments are multiples of an eighth of a second: milliseconds for Redis, and floats that add up without error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final, Protocol

from hypothesis import strategies as st
from msgspec import Struct

from mgw.clients.limits import (
    LIMITS_BY_NAME,
    NOTHING,
    Allowance,
    Limit,
    LimitReached,
    Limits,
    Permit,
    Taken,
    Unit,
)
from mgw.clients.period import Window
from tests.support.counting import limits

TICK: Final = 125
MINUTE: Final = 60_000
DAY: Final = 86_400_000
BEGINNING: Final = 1_800_000_000_000 // DAY * DAY + DAY - 5 * MINUTE
"""Shortly before a day ends."""
BUDGET: Final = LIMITS_BY_NAME["usd_per_day"]
QUOTA: Final = LIMITS_BY_NAME["requests_per_day"]


class Begin(Struct, frozen=True):
    """Somebody begins a request."""

    by: int


class End(Struct, frozen=True):
    """One of the requests under way ends."""

    which: int
    taken: Taken


class Wait(Struct, frozen=True):
    """Time passes."""

    milliseconds: int


class Reload(Struct, frozen=True):
    """Other limits hold from now on."""

    limits: Limits


class Restart(Struct, frozen=True):
    """Every process begins anew."""


Step = Begin | End | Wait | Reload | Restart

KNOWN: Final = ("max_in_flight", "requests_per_minute", "tokens_per_minute")
NAMES: Final = (*KNOWN, BUDGET.name, QUOTA.name)
TAKEN: Final = st.builds(Taken, st.integers(0, 1), st.integers(0, 2), st.integers(0, 2))
TIMES: Final = [TICK, MINUTE // 4, MINUTE, 3 * MINUTE, DAY]


def rows_of(names: set[str], most: int) -> Limits:
    """Return the limits of these names."""
    return limits(**dict.fromkeys(names, most))


def _runs(pool: tuple[str, ...], *more: Step) -> st.SearchStrategy[list[Step]]:
    """Return the runs with a limit or two, which are soon reached."""
    reload = st.builds(
        Reload, st.builds(rows_of, st.sets(st.sampled_from(pool), min_size=1), st.integers(1, 3))
    )
    step = st.one_of(
        st.builds(Begin, st.integers(0, 1)),
        st.builds(End, st.integers(0, 3), TAKEN),
        st.builds(Wait, st.sampled_from(TIMES)),
        reload,
        *map(st.just, more),
    )
    return st.tuples(reload, st.lists(step, min_size=8, max_size=25)).map(lambda run: [run[0], *run[1]])


POOLS: Final = st.sampled_from(list(combinations(NAMES, 2)))
RUNS: Final = POOLS.flatmap(_runs)
"""Steps of which the first says what limits there are."""
RUNS_WITH_RESTARTS: Final = POOLS.flatmap(lambda pool: _runs(pool, Restart()))


YOUNG_LIMIT: Final[list[Step]] = [
    Reload(rows_of({"max_in_flight"}, 9)),
    Begin(0),
    Begin(1),
    Reload(rows_of({QUOTA.name}, 1)),
    End(0, Taken()),
    Begin(0),
    End(0, NOTHING),
    Begin(0),
]
"""Requests that began before there was a limit take nothing of it, and give nothing back."""
A_NEW_PROCESS: Final[list[Step]] = [
    Reload(rows_of({BUDGET.name, QUOTA.name}, 3)),
    Begin(0),
    End(0, Taken(1, 0, 2)),
    Begin(1),
    Restart(),
    Begin(0),
    End(0, Taken(1, 0, 1)),
    Restart(),
    Begin(0),
    Wait(DAY),
    Begin(0),
]
"""What was counted in a day is there in the next process, also of a request that did not end."""
LATE_END: Final[list[Step]] = [
    Reload(rows_of({BUDGET.name, QUOTA.name}, 2)),
    Begin(0),
    Begin(1),
    Wait(DAY),
    End(0, Taken(1, 0, 2)),
    End(0, NOTHING),
    Begin(0),
]
"""Requests end on another day than that on which they began, to which they belong."""


@dataclass
class Now:
    """The moment, in Unix milliseconds."""

    milliseconds: int = BEGINNING

    def seconds(self) -> float:
        """Return Unix seconds."""
        return self.milliseconds / 1000


class Counter(Protocol):
    """What is tried: the counts of one holder, which two may share."""

    def use(self, rows: Limits) -> None:
        """Obey other limits."""
        ...

    def begin(self, by: int, rows: Limits) -> Permit | LimitReached:
        """Begin a request."""
        ...

    def end(self, by: int, permit: Permit, taken: Taken) -> None:
        """End it."""
        ...

    def restart(self) -> None:
        """Begin anew, in other processes."""
        ...


@dataclass
class _Request:
    began: int
    rows: Limits
    """The limits that there were when it began."""


@dataclass
class Model:
    """What counts should say.

    :param grain: for how many milliseconds longer a unit may count in a minute: the width of its buckets.
    :param keeps_minutes: whether a minute outlives a process.
    """

    grain: Callable[[Unit], int] = lambda _: 0
    keeps_minutes: bool = False
    rows: Limits = ()
    under_way: list[_Request] = field(default_factory=list)
    counted: list[tuple[str, int, int]] = field(default_factory=list)
    """Additions: the limit, the moment and the amount."""

    def reached(self, now: int) -> LimitReached | None:
        """Return what stands longest against another request."""
        found = None
        for row in self.rows:
            milliseconds = self._wait(row, now)
            if milliseconds > (0 if found is None else found.seconds * 1000):
                resets = (now + milliseconds) / 1000 if row.limit.window is Window.DAY else None
                found = LimitReached(row.holder, row.limit, row.most, milliseconds / 1000, resets)
        return found

    def begin(self, now: int) -> None:
        """Count a request that begins."""
        self.under_way.append(_Request(now, self.rows))
        self.counted += [(row.limit.name, now, 1) for row in self.rows if row.limit.unit is Unit.REQUEST]

    def end(self, which: int, now: int, taken: Taken) -> None:
        """Count the end of one."""
        request = self.under_way.pop(which)
        for row in request.rows:
            name = row.limit.name
            if row.limit.unit is Unit.REQUEST and not taken.requests:
                self.counted.remove((name, request.began, 1))
            elif row.limit.unit is Unit.TOKEN:
                self.counted.append((name, now, taken.tokens))
            elif row.limit.unit is Unit.NANODOLLAR:
                self.counted.append((name, request.began, taken.nanodollars))

    def restart(self) -> None:
        """Forget what a process takes with it."""
        self.under_way.clear()
        if not self.keeps_minutes:
            lasting = (BUDGET.name, QUOTA.name)
            self.counted = [entry for entry in self.counted if entry[0] in lasting]

    def _wait(self, row: Allowance, now: int) -> int:
        if row.limit.window is Window.NONE:
            return 1000 if len(self.under_way) >= row.most else 0
        left = [
            (self._ends(row.limit, moment), amount)
            for name, moment, amount in self.counted
            if name == row.limit.name and self._ends(row.limit, moment) > now
        ]
        total = sum(amount for _, amount in left)
        for ends, amount in sorted([(now, 0), *left]):
            total -= amount
            if total < row.most:
                return ends - now
        raise AssertionError("at least one is allowed")

    def _ends(self, limit: Limit, moment: int) -> int:
        """Return until when an addition counts."""
        if limit.window is Window.DAY:
            return moment // DAY * DAY + DAY
        grain = self.grain(limit.unit)
        return (moment // grain * grain + grain if grain else moment) + MINUTE


@dataclass
class Run:
    """Counts and the model, side by side."""

    counter: Counter
    model: Model
    now: Now
    permits: list[tuple[int, Permit]] = field(default_factory=list)

    def take(self, step: Step) -> None:
        """Take a step, and compare what counts and model say of it."""
        now, model = self.now.milliseconds, self.model
        match step:
            case Wait():
                self.now.milliseconds += step.milliseconds
            case Reload():
                model.rows = step.limits
                self.counter.use(step.limits)
            case Restart():
                model.restart()
                self.permits.clear()
                self.counter.restart()
                self.counter.use(model.rows)
            case Begin():
                expected, found = model.reached(now), self.counter.begin(step.by, model.rows)
                assert expected == (found if isinstance(found, LimitReached) else None)
                if isinstance(found, Permit):
                    model.begin(now)
                    self.permits.append((step.by, found))
            case End() if self.permits:
                which = step.which % len(self.permits)
                by, permit = self.permits.pop(which)
                model.end(which, now, step.taken)
                self.counter.end(by, permit, step.taken)

    def probe(self) -> None:
        """See whether a request would be admitted, and refuse it then: it never counted."""
        under_way = len(self.permits)
        self.take(Begin(0))
        if len(self.permits) > under_way:
            self.take(End(under_way, NOTHING))


def check(counter: Counter, model: Model, now: Now, steps: list[Step]) -> None:
    """Take these steps; between any two, counts and model agree on whether a request may begin."""
    run = Run(counter, model, now)
    for step in steps:
        run.take(step)
        run.probe()
