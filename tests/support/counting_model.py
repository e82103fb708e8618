"""A plain model of limits: sums over all that was counted, for two clients in one group."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mgw.clients.limits import (
    WHOLE,
    Allowance,
    LimitReached,
    Limits,
    RowKey,
    Taken,
    Unit,
    Warnings,
)
from mgw.clients.period import Period, Window, period_of

MINUTE: Final = 60_000
CLIENTS: Final = ("alice", "bob")
AMOUNTS: Final = {
    Unit.REQUEST: lambda taken: taken.requests,
    Unit.TOKEN: lambda taken: taken.tokens,
    Unit.NANODOLLAR: lambda taken: taken.nanodollars,
}


@dataclass
class _Request:
    began: int
    rows: Limits
    """The limits that there were when it began."""
    held: Taken


@dataclass
class _Sums:
    used: int = 0
    held: int = 0
    warned: int = 0


@dataclass
class Model:
    """What counts should say.

    :param grain: for how many milliseconds longer a unit may count in a minute: the width of its buckets.
    :param keeps_minutes: whether a minute outlives a process.
    """

    grain: Callable[[Unit], int] = lambda _: 0
    keeps_minutes: bool = False
    rows: Limits = ()
    has_restarted: bool = False
    """Whether there may be totals of an earlier process that this one does not know yet."""
    under_way: list[_Request] = field(default_factory=list)
    in_flight: Tally[str] = field(default_factory=Tally)
    minutes: dict[RowKey, list[tuple[int, int]]] = field(default_factory=dict)
    """Additions: the moment and the amount."""
    minutes_held: Tally[RowKey] = field(default_factory=Tally)
    warned: Tally[RowKey] = field(default_factory=Tally)
    """The largest shares that were warned of, and not fallen below since, of rows without periods."""
    totals: dict[tuple[RowKey, Period], _Sums] = field(default_factory=dict)

    def rows_of(self, client: int) -> Limits:
        """Return the rows that hold for a client."""
        name = CLIENTS[client]
        return tuple(
            Allowance(row.limit, row.most, row.holder.format(client=name), *_rest(row)) for row in self.rows
        )

    def reached(self, client: int, now: int) -> LimitReached | None:
        """Return what stands longest against another request."""
        found: LimitReached | None = None
        for reached in self.all_reached(client, now):
            if found is None or reached.seconds > found.seconds:
                found = reached
        return found

    def all_reached(self, client: int, now: int) -> list[LimitReached]:
        """Return all that stands against another request."""
        found = []
        for row in sorted(self.rows_of(client), key=_order):
            seconds = self._wait(row, now) if row.refuses else 0
            if seconds > 0:
                resets = None
                if self._is_used_up(row, now) and row.limit.window is not Window.TOTAL:
                    resets = self._period(row, now).ends
                found.append(LimitReached(row.holder, row.limit, row.most, seconds, resets))
        return found

    def begin(self, client: int, held: Taken, now: int) -> None:
        """Count a request that begins."""
        rows = self.rows_of(client)
        self.under_way.append(_Request(now, rows, held))
        self.in_flight.update({row.holder for row in rows})
        for row in rows:
            self._hold(row, held, now, 1)

    def end(self, which: int, now: int, taken: Taken) -> Warnings:
        """Count the end of one, and return what is warned of."""
        request = self.under_way.pop(which)
        warnings = Warnings()
        for row in request.rows:
            if row.limit.unit is Unit.IN_FLIGHT:
                if not row.warn_at:
                    continue
                number, warned = self.in_flight[row.holder], self.warned[row.key]
                warnings += _warnings(row, warned, number)
                self.warned[row.key] = _share(row, number - 1)
                continue
            if row.limit.window is Window.MINUTE:
                self._fall(row, now)
            self._settle(row, request, now, taken)
            if row.limit.window.is_calendar:
                sums = self._sums(row, request.began)
                warnings += _warnings(row, sums.warned, sums.used)
                sums.warned = max(sums.warned, _share(row, sums.used))
            elif row.warn_at:
                number = self._in_minute(row, now)
                warnings += _warnings(row, self.warned[row.key], number)
                self.warned[row.key] = _share(row, number)
        self.in_flight.subtract({row.holder for row in request.rows})
        return warnings

    def add(self, client: int, now: int, taken: Taken) -> None:
        """Count a request that has begun and ended elsewhere."""
        self.begin(client, Taken(), now)
        totals = {place: sums.warned for place, sums in self.totals.items()}
        for row in self.rows_of(client):
            if row.limit.window is Window.MINUTE:
                self._fall(row, now)
        warned = self.warned.copy()
        self.end(len(self.under_way) - 1, now, taken)
        for place, share in totals.items():  # nobody has heard of it
            self.totals[place].warned = share
        self.warned = warned

    def uses_all_rows_of(self, holder: str) -> bool:
        """Whether all rows of a holder that were ever used are in use."""
        in_use = {row.key for row in self.rows_in_use()}
        return all(key in in_use for key, _ in self.totals if key[0] == holder)

    def reset(self, holder: str, amount: int, now: int) -> None:
        """Set what is used of all rows of a holder that are in use."""
        for row in self.rows_in_use():
            if row.holder == holder and row.limit.window.is_calendar:
                sums = self._sums(row, now)
                sums.used, sums.warned = amount, 0

    def restart(self) -> None:
        """Forget what a process takes with it."""
        self.has_restarted = True
        self.under_way.clear()
        self.in_flight.clear()
        for sums in self.totals.values():
            sums.used, sums.held = sums.used + sums.held, 0
        if not self.keeps_minutes:
            self.minutes.clear()
            self.warned.clear()

    def rows_in_use(self) -> list[Allowance]:
        """Return the rows of both clients."""
        return list({row.key: row for client in range(len(CLIENTS)) for row in self.rows_of(client)}.values())

    def state(self, now: int) -> dict[tuple[RowKey, str], tuple[int, int]]:
        """Return what is used and held of the rows in use that last longer than a minute."""
        found = {}
        for row in self.rows_in_use():
            if row.limit.window.is_calendar:
                sums = self._sums(row, now)
                found[row.key, self._period(row, now).name] = sums.used, sums.held
        return found

    def _hold(self, row: Allowance, held: Taken, now: int, sign: int) -> None:
        if row.limit.unit is Unit.IN_FLIGHT:
            return
        amount = AMOUNTS[row.limit.unit](held)
        if row.limit.window.is_calendar:
            sums = self._sums(row, now)
            if row.limit.unit is Unit.REQUEST or row.is_reserved:
                sums.held += sign * amount
        elif row.limit.unit is Unit.REQUEST and sign > 0:
            self._fall(row, now)
            self.minutes.setdefault(row.key, []).append((now, amount))
        elif row.is_reserved:
            self.minutes_held[row.key] += sign * amount

    def _settle(self, row: Allowance, request: _Request, now: int, taken: Taken) -> None:
        amount = AMOUNTS[row.limit.unit](taken)
        if row.limit.unit is Unit.REQUEST and row.limit.window is Window.MINUTE:
            if not amount:
                self.minutes[row.key].remove((request.began, 1))
            return
        self._hold(row, request.held, request.began, -1)
        if row.limit.window is Window.MINUTE:
            self.minutes.setdefault(row.key, []).append((now, amount))
        else:
            self._sums(row, request.began).used += amount

    def _in_minute(self, row: Allowance, now: int) -> int:
        return sum(amount for _, amount in self._left(row, now))

    def _fall(self, row: Allowance, now: int) -> None:
        """Warn again of shares that a minute has fallen below."""
        if row.warn_at:
            self.warned[row.key] = min(self.warned[row.key], _share(row, self._in_minute(row, now)))

    def _left(self, row: Allowance, now: int) -> list[tuple[int, int]]:
        """Return what counts in a minute, with the moment until which it does."""
        grain = self.grain(row.limit.unit)
        counted = [
            ((moment // grain * grain + grain if grain else moment) + MINUTE, amount)
            for moment, amount in self.minutes.get(row.key, [])
        ]
        return [(ends, amount) for ends, amount in counted if ends > now]

    def _period(self, row: Allowance, now: int) -> Period:
        return period_of(row.limit.window, now / 1000, row.zone)

    def _sums(self, row: Allowance, now: int) -> _Sums:
        return self.totals.setdefault((row.key, self._period(row, now)), _Sums())

    def _is_used_up(self, row: Allowance, now: int) -> bool:
        """Whether a full row of the calendar is so of more than estimates."""
        if not row.limit.window.is_calendar:
            return False
        return row.limit.unit is Unit.REQUEST or self._sums(row, now).used >= row.most

    def _wait(self, row: Allowance, now: int) -> float:
        """Return how many seconds pass until a row has room."""
        if row.limit.window is Window.NONE:
            return 1.0 if self.in_flight[row.holder] >= row.most else 0
        if row.limit.window.is_calendar:
            sums = self._sums(row, now)
            if sums.used + sums.held >= row.most and self._is_used_up(row, now):
                return self._period(row, now).ends - now / 1000
            return 1.0 if sums.used + sums.held >= row.most else 0
        left = self._left(row, now)
        total = sum(amount for _, amount in left) + self.minutes_held[row.key]
        for ends, amount in sorted([(now, 0), *left]):
            total -= amount
            if total < row.most:
                return (ends - now) / 1000
        return 1.0


def _rest(row: Allowance) -> tuple[bool, bool, tuple[int, ...], str]:
    return row.is_reserved, row.refuses, row.warn_at, row.zone


def _share(row: Allowance, amount: int) -> int:
    """Return the largest share that an amount reaches."""
    if not row.warn_at and not row.limit.window.is_calendar:
        return 0
    return max((share for share in (*row.warn_at, WHOLE) if amount * WHOLE >= share * row.most), default=0)


def _warnings(row: Allowance, warned: int, amount: int) -> Warnings:
    reached = _share(row, amount)
    passed = [share for share in (*row.warn_at, WHOLE) if warned < share <= reached]
    return tuple(f"{row.holder} {row.limit.name} {share / WHOLE:g}" for share in passed)


def _order(row: Allowance) -> int:
    """Of several rows that stand equally long, these are named first."""
    return {Window.NONE: 0, Window.MINUTE: 1}.get(row.limit.window, 2)
