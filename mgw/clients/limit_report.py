"""What is used of the rows longer than a minute, as commands, the dashboard and metrics show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, tzinfo
from itertools import chain
from typing import Any, Final

from mgw.clients.calendar_window import end_of
from mgw.clients.client_limits import OF_EACH, own_limits, shared_limits
from mgw.clients.limits import Allowance, RowState, Unit
from mgw.clients.period import Period, Window, period_of
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.key_settings import NamedKeySettings
from mgw.config.time_zones import rfc3339

COLUMNS: Final = ("holder", "limit", "period", "used", "reserved", "max", "resets")
_NANODOLLARS: Final = 10**9


def configured_rows(settings: EdgeAuthSettings, further: Iterable[NamedKeySettings] = ()) -> list[Allowance]:
    """Return the rows longer than a minute that somebody has whom the settings name.

    :param further: keys that stand elsewhere.
    """
    return list(chain.from_iterable(rows_by_holder(settings, further)))


def rows_by_holder(
    settings: EdgeAuthSettings, further: Iterable[NamedKeySettings] = ()
) -> Iterator[list[Allowance]]:
    """Yield the same a few rows at a time."""
    yield [row for row in shared_limits(settings) if row.limit.window.is_calendar]
    for key in (*settings.named, *further):
        yield [row for row in own_limits(key, settings.timezone) if row.limit.window.is_calendar]


def current_period(row: Allowance, now: float, known: dict[tuple[Window, str], Period]) -> Period:
    """Return the period of a row at a moment.

    :param known: those that were found before, by window and zone.
    """
    place = row.limit.window, row.zone
    period = known.get(place)
    if period is None:
        known[place] = period = period_of(row.limit.window, now, row.zone)
    return period


def report_rows(rows: Iterable[Allowance], states: Iterable[RowState], now: float) -> list[RowState]:
    """Return the state of each of these rows, used or not, and of rows of each client that were used.

    :param states: what was counted, of whatever row.
    """
    report = LimitReport(states, now)
    for row in rows:
        report.add(row)
    return report.finish()


class LimitReport:
    """The states of rows, one after the other: thousands of them take a while.

    :param states: as for :func:`report_rows`.
    """

    __slots__ = ("_found", "_now", "_periods", "_states")

    def __init__(self, states: Iterable[RowState], now: float) -> None:
        self._states = {(one.holder, one.limit.name, one.refuses, one.period): one for one in states}
        self._now = now
        self._periods: dict[tuple[Window, str], tuple[str, float | None]] = {}
        self._found: list[RowState] = []

    def add(self, row: Allowance) -> None:
        """Add the state of a row."""
        limit, holder, refuses = row.limit, row.holder, row.refuses
        place = limit.window, row.zone
        period = self._periods.get(place)
        if period is None:
            current = period_of(limit.window, self._now, row.zone)
            self._periods[place] = period = current.name, end_of(current)
        name, resets = period
        known = self._states.get((holder, limit.name, refuses, name))
        used, reserved = (0, 0) if known is None else (known.used, known.reserved)
        self._found.append(RowState(holder, limit, name, used, reserved, row.most, resets, refuses))

    def finish(self) -> list[RowState]:
        """Return what was added, and behind it the rows of each client that were used."""
        others = [
            state
            for state in self._states.values()
            if OF_EACH in state.holder and (state.used or state.reserved)
        ]
        others.sort(key=lambda state: (state.holder, state.limit.name))
        return self._found + others


def show_state(state: RowState, zone: tzinfo = UTC) -> Mapping[str, Any]:  # Any: texts and numbers
    """Return the columns of a row that have a value.

    :param zone: where the periods of the calendar begin.
    """
    found: dict[str, Any] = {  # Any: as above
        "holder": state.holder,
        "limit": state.limit.name,
        "period": state.period,
        "used": _number(state, state.used),
        "reserved": _number(state, state.reserved),
    }
    if state.most is not None:
        found["max"] = _number(state, state.most)
    if state.resets is not None:
        found["resets"] = rfc3339(state.resets, zone)
    return found


def _number(state: RowState, amount: int) -> int | float:
    """Return an amount in the unit of its row; whole dollars are whole numbers."""
    if state.limit.unit is not Unit.NANODOLLAR:
        return amount
    return amount / _NANODOLLARS if amount % _NANODOLLARS else amount // _NANODOLLARS
