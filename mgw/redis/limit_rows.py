"""The rows of limits as Redis counts them: their keys, and what its scripts get for each."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mgw.clients.calendar_window import Total, end_of
from mgw.clients.limits import LIMITS_BY_NAME, Allowance, RowState, Shares, Taken, Unit
from mgw.clients.local_counts import LocalPermit
from mgw.clients.period import Period
from mgw.clients.tally import CountingPlan, MinuteRow, PeriodRow
from mgw.redis.host_parts import HostTotal, Part, host_total
from mgw.redis.protocol import Argument
from mgw.redis.replies import MAX_NUMBER, MAX_WAIT_MS, Begun, Sums, TotalRow
from mgw.redis.scripts import COARSE_MS, FINE_LIMIT, FINE_MS

NEVER: Final = MAX_NUMBER
"""The end of a period that has none, in Unix milliseconds."""
Keys = tuple[str, str]


class Ticket(Struct, frozen=True, eq=False):
    """What Redis has counted for a request."""

    buckets: tuple[str, ...]
    """Those of the windows in which it is counted, by the places of the rows of a minute."""
    totals: tuple[HostTotal, ...]
    """Those of the periods to which it belongs, by the places of the rows of the calendar."""


class AskedRow(Struct, frozen=True):
    """A row of a question."""

    keys: Keys
    kind: str
    most: int
    """0: it refuses nothing."""
    held: int
    size: int
    """The width of a bucket, or the end of a period."""
    row: Allowance | None = None
    total: HostTotal | None = None
    shares: Shares = ()
    """Those of a minute that are warned of."""

    def arguments(self) -> list[Argument]:
        """Return what the script gets for it."""
        known = Sums(0, 0, 0) if self.total is None else self.total.known
        about = render_shares(self.shares) if self.total is None else describe(self.total)
        return [self.kind, self.most, self.held, self.size, known.resets, known.used, about]


class RowChange(Struct, frozen=True):
    """What is to be added to one row at the end of a request."""

    keys: Keys
    kind: str
    amount: int
    held: int = 0
    """What it no longer holds."""
    bucket: str = ""
    """Where it was counted before; empty: nowhere."""
    total: HostTotal | None = None
    warned: Allowance | None = None
    """The row that may warn."""
    shares: Shares = ()
    size: int = COARSE_MS
    """The width of a bucket."""
    used: tuple[tuple[int, int], ...] = ()
    """Of what was used a while ago, when and how much."""

    def arguments(self) -> list[Argument]:
        """Return what the script gets for it."""
        total = self.total
        shares = render_shares(self.shares)
        if total is None:
            name = "" if self.warned is None else f"{self.warned.limit.name}:{int(self.warned.refuses)}"
            return [self.kind, self.bucket, self.amount, self.held, self.size, 0, 0, shares, name]
        sums = total.known
        ends = [end_in_ms(total.period), sums.resets, sums.used]
        return [self.kind, "", self.amount, self.held, *ends, shares, describe(total)]


def flight_keys(prefix: str, holder: str) -> Keys:
    """Return the keys of what a holder has in flight."""
    key = f"{prefix}{holder}:under-way"
    return key, key


def row_keys(prefix: str, row: Allowance, period: Period | None) -> Keys:
    """Return the two keys of a row; most need but one."""
    limit, kind = row.limit, "" if row.refuses else ":warn"
    if period is None:
        name = f"{prefix}{row.holder}:{limit.unit.value}s{kind}"
        return f"{name}:order", f"{name}:amounts"
    name = f"{prefix}{row.holder}:{limit.name}{kind}:{period.name}"
    return name, name


def held_key(keys: Keys) -> str:
    """Return the key of what requests hold in a row of a minute, by the keys of the row."""
    return f"{keys[1]}:held"


def rows_to_ask(prefix: str, plan: CountingPlan, held: Taken, now: float) -> list[AskedRow]:
    """Return all rows that Redis counts: what each holder has in flight is one, limited or not."""
    rows, counted = list[AskedRow](), set[str]()
    for flight in plan.flights:
        if flight.allowance.refuses:
            holder = flight.allowance.holder
            one = int(holder not in counted)
            keys = flight_keys(prefix, holder)
            rows.append(AskedRow(keys, "none", flight.most, one, 0, flight.allowance))
            counted.add(holder)
    for tally in plan.tallies:
        if tally.holder not in counted:
            rows.append(AskedRow(flight_keys(prefix, tally.holder), "none", 0, 1, 0))
    rows += [_ask_for_minute(prefix, row, held) for row in plan.minutes]
    return rows + [_ask_for_period(prefix, row, held, now) for row in plan.periods]


def _ask_for_minute(prefix: str, row: MinuteRow, held: Taken) -> AskedRow:
    kind = "reserved" if row.is_reserved else "minute"
    amount = row.amount_of(held) if row.is_request or row.is_reserved else 0
    keys, most = row_keys(prefix, row.allowance, None), row.most if row.refuses else 0
    return AskedRow(keys, kind, most, amount, width_of(row), row.allowance, None, row.shares)


def _ask_for_period(prefix: str, row: PeriodRow, held: Taken, now: float) -> AskedRow:
    total = host_total(row.window.current(now))
    amount = row.amount_of(held) if row.holds else 0
    keys = row_keys(prefix, row.allowance, total.period)
    kind = "total" if row.allowance.limit.unit is Unit.REQUEST else "budget"
    return AskedRow(keys, kind, row.most or 0, amount, end_in_ms(total.period), row.allowance, total)


def minutes_at_end(prefix: str, permit: LocalPermit, ticket: Ticket | None, taken: Taken) -> list[RowChange]:
    """Return what the end of a request adds to its rows of a minute."""
    changes = []
    for place, row in enumerate(permit.plan.minutes):
        keys = row_keys(prefix, row.allowance, None)
        amount, held, bucket = row.amount_of(taken), row.amount_of(permit.held), ""
        if row.is_request:  # it counts when it begins, or not at all
            bucket = "" if ticket is None else ticket.buckets[place]
            amount, held = 0 if ticket is None else amount - held, 0
        elif not row.is_reserved:
            held = 0
        if amount or held or row.shares:
            changes.append(RowChange(keys, "minute", amount, held, bucket, None, row.allowance, row.shares))
    return changes


def flights_at_end(prefix: str, plan: CountingPlan) -> list[RowChange]:
    """Return what the end of a request says of what is in flight: first what may be warned of."""
    changes = list[RowChange]()
    for flight in plan.flights:
        if flight.shares:
            keys = flight_keys(prefix, flight.allowance.holder)
            changes.append(RowChange(keys, "warn", 0, 0, "", None, flight.allowance, flight.shares))
    return changes + [RowChange(flight_keys(prefix, tally.holder), "none", -1) for tally in plan.tallies]


def added_rows(prefix: str, permit: LocalPermit, taken: Taken) -> list[RowChange]:
    """Return what a request adds that Redis has never counted."""
    changes = list[RowChange]()
    for row in permit.plan.minutes:
        keys, amount = row_keys(prefix, row.allowance, None), row.amount_of(taken)
        changes.append(RowChange(keys, "added", amount, shares=row.shares, size=width_of(row)))
    for period_row, total in zip(permit.plan.periods, permit.totals, strict=True):
        keys = row_keys(prefix, period_row.allowance, total.period)
        amount = period_row.amount_of(taken)
        changes.append(RowChange(keys, "total", amount, 0, "", host_total(total)))
    return changes


def place_of(total: Total) -> tuple[str, str, bool, str]:
    """Return what identifies a total."""
    row = total.row
    return row.holder, row.limit.name, row.refuses, total.period.name


def state_in_redis(row: TotalRow, known: RowState | None) -> RowState:
    """Return the state of a row as Redis has it."""
    limit, ends = LIMITS_BY_NAME[row.name], None if row.ends >= NEVER else row.ends / 1000
    if known is not None:
        return replace(known, used=row.used, reserved=row.held)
    return RowState(row.holder, limit, row.period, row.used, row.held, row.most or None, ends, row.refuses)


def is_possible(answer: Begun, asked: AskedRow) -> bool:
    """Whether a row can make anybody wait for so long."""
    return asked.total is not None or answer.milliseconds <= MAX_WAIT_MS


def width_of(row: MinuteRow) -> int:
    """Return the width of the buckets of a window, in milliseconds."""
    return FINE_MS if row.is_request and row.most <= FINE_LIMIT else COARSE_MS


def end_in_ms(period: Period) -> int:
    """Return when a period ends, in Unix milliseconds."""
    ends = end_of(period)
    return NEVER if ends is None else round(ends * 1000)


def arguments_of(part: Part) -> list[Argument]:
    """Return what a script gets for a part."""
    arguments = list[Argument]()
    for total, amounts in part[1].items():
        sums = total.known
        arguments += [amounts.used, end_in_ms(total.period), sums.resets, sums.used, describe(total)]
    return arguments


def describe(total: Total) -> str:
    """Return what Redis says a total is."""
    row, period = total.row, total.period
    return "\n".join([row.holder, row.limit.name, str(int(row.refuses)), period.name, str(end_in_ms(period))])


def render_shares(shares: Shares) -> str:
    """Return shares of a row as a script reads them."""
    return ",".join([f"{share}:{least}" for share, least in shares])
