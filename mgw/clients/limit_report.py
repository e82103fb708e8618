"""What is used of the rows longer than a minute, as commands, the dashboard and metrics show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from mgw.clients.calendar_window import end_of
from mgw.clients.client_limits import OF_EACH, own_limits, shared_limits
from mgw.clients.key_rows import rfc3339
from mgw.clients.limits import Allowance, RowState, Unit
from mgw.clients.period import Period, Window, period_of
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.key_settings import NamedKeySettings

COLUMNS: Final = ("holder", "limit", "period", "used", "reserved", "max", "resets")
_NANODOLLARS: Final = 10**9


def configured_rows(settings: EdgeAuthSettings, further: Iterable[NamedKeySettings] = ()) -> list[Allowance]:
    """Return the rows longer than a minute that somebody has whom the settings name.

    :param further: keys that stand elsewhere.
    """
    rows = list(shared_limits(settings))
    for key in (*settings.named, *further):
        rows += own_limits(key, settings.timezone)
    return [row for row in rows if row.limit.window.is_calendar]


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
    found: dict[tuple[str, str, bool, str], RowState] = {}
    periods: dict[tuple[Window, str], Period] = {}
    for row in rows:
        period = current_period(row, now, periods)
        unused = RowState(row.holder, row.limit, period.name, 0, 0, row.most, end_of(period), row.refuses)
        found[*row.key, period.name] = unused
    others = list[RowState]()
    for state in states:
        place = state.holder, state.limit.name, state.refuses, state.period
        known = found.get(place)
        if known is not None:
            found[place] = replace(state, most=known.most, resets=known.resets)
        elif OF_EACH in state.holder and (state.used or state.reserved):
            others.append(state)
    return [*found.values(), *sorted(others, key=lambda state: (state.holder, state.limit.name))]


def show_state(state: RowState) -> Mapping[str, Any]:  # Any: texts and numbers
    """Return the columns of a row that have a value."""
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
        found["resets"] = rfc3339(state.resets)
    return found


def _number(state: RowState, amount: int) -> int | float:
    """Return an amount in the unit of its row; whole dollars are whole numbers."""
    if state.limit.unit is not Unit.NANODOLLAR:
        return amount
    return amount / _NANODOLLARS if amount % _NANODOLLARS else amount // _NANODOLLARS
