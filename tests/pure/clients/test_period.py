"""Periods of the calendar in time zones: where they begin and end, and what they are called."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import inf
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mgw.clients.period import Period, Window, period_of

CALENDAR = [Window.DAY, Window.WEEK, Window.MONTH]
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",  # put forward at midnight, until 2018
    "America/St_Johns",  # set back at 00:01 to the day before, until 2011
    "America/Toronto",  # in 1919 put forward from 23:30 to 00:30
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",  # by half an hour
    "Africa/Cairo",
    "Pacific/Apia",  # without the 30th of December 2011
    "Pacific/Kiritimati",
]
HOUR = 3600.0


def at(text: str) -> float:
    """Return Unix seconds of a moment with its offset."""
    return datetime.fromisoformat(text).timestamp()


def local(seconds: float, zone: str) -> datetime:
    return datetime.fromtimestamp(seconds, ZoneInfo(zone))


@pytest.mark.parametrize(
    ("window", "moment", "zone", "name", "begins", "ends"),
    [
        (Window.DAY, "2026-11-27T23:59:59Z", "UTC", "2026-11-27", "2026-11-27T00:00Z", "2026-11-28T00:00Z"),
        (
            *(Window.DAY, "2026-11-27T23:00:00Z", "Europe/Berlin", "2026-11-28"),
            *("2026-11-28T00:00+01:00", "2026-11-29T00:00+01:00"),
        ),
        (
            *(Window.DAY, "2026-03-29T12:00:00Z", "Europe/Berlin", "2026-03-29"),
            *("2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00"),
        ),
        (
            *(Window.DAY, "2026-10-25T12:00:00Z", "Europe/Berlin", "2026-10-25"),
            *("2026-10-25T00:00+02:00", "2026-10-26T00:00+01:00"),
        ),
        (
            *(Window.DAY, "2018-11-04T12:00:00Z", "America/Sao_Paulo", "2018-11-04"),
            *("2018-11-04T01:00-02:00", "2018-11-05T00:00-02:00"),
        ),
        (
            *(Window.DAY, "1919-03-31T12:00:00Z", "America/Toronto", "1919-03-31"),
            *("1919-03-31T00:30-04:00", "1919-04-01T00:00-04:00"),
        ),
        (
            *(Window.DAY, "2010-11-07T03:00:00Z", "America/St_Johns", "2010-11-07"),
            *("2010-11-07T00:00-02:30", "2010-11-08T00:00-03:30"),
        ),
        (
            *(Window.DAY, "2011-12-30T09:59:59Z", "Pacific/Apia", "2011-12-29"),
            *("2011-12-29T00:00-10:00", "2011-12-31T00:00+14:00"),
        ),
        (
            *(Window.WEEK, "2027-01-03T23:30:00Z", "UTC", "2026-W53"),
            *("2026-12-28T00:00Z", "2027-01-04T00:00Z"),
        ),
        (
            *(Window.WEEK, "2026-10-25T22:59:59Z", "Europe/Berlin", "2026-W43"),
            *("2026-10-19T00:00+02:00", "2026-10-26T00:00+01:00"),
        ),
        (
            *(Window.MONTH, "2026-11-30T23:00:00Z", "Europe/Berlin", "2026-12"),
            *("2026-12-01T00:00+01:00", "2027-01-01T00:00+01:00"),
        ),
        (
            *(Window.MONTH, "2026-11-30T22:59:59Z", "Europe/Berlin", "2026-11"),
            *("2026-11-01T00:00+01:00", "2026-12-01T00:00+01:00"),
        ),
        (
            *(Window.MONTH, "2026-03-31T12:00:00Z", "America/New_York", "2026-03"),
            *("2026-03-01T00:00-05:00", "2026-04-01T00:00-04:00"),
        ),
    ],
)
def test_a_period_begins_with_its_first_local_date(
    window: Window, moment: str, zone: str, name: str, begins: str, ends: str
) -> None:
    assert period_of(window, at(moment), zone) == Period(name, at(begins), at(ends))


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-11-27", 24)], ids=str
)
def test_a_day_has_as_many_hours_as_its_clock_shows(day: str, hours: int) -> None:
    period = period_of(Window.DAY, at(f"{day}T12:00Z"), "Europe/Berlin")
    assert period.ends - period.begins == hours * HOUR


def test_what_never_begins_anew_has_one_period() -> None:
    assert period_of(Window.TOTAL, 0.0, "Europe/Berlin") == Period("total", -inf, inf)


def test_an_unknown_zone_is_an_error() -> None:
    with pytest.raises(ZoneInfoNotFoundError):
        period_of(Window.DAY, 0.0, "Europe/Atlantis")


@given(
    window=st.sampled_from(CALENDAR),
    zone=st.sampled_from(ZONES),
    moment=st.datetimes(datetime(1915, 1, 1), datetime(2036, 12, 31)),  # noqa: DTZ001  set below
)
@example(Window.DAY, "Pacific/Apia", datetime(2011, 12, 30, 10))  # noqa: DTZ001  as above
@example(Window.DAY, "America/St_Johns", datetime(2010, 11, 7, 3))  # noqa: DTZ001  as above
@example(Window.DAY, "America/Sao_Paulo", datetime(2018, 11, 4, 3))  # noqa: DTZ001  as above
def test_periods_follow_one_another_without_a_gap(window: Window, zone: str, moment: datetime) -> None:
    seconds = moment.replace(tzinfo=UTC).timestamp()
    period = period_of(window, seconds, zone)
    assert period.begins <= seconds < period.ends
    for inside in (period.begins, period.ends - 1):
        assert period_of(window, inside, zone) == period
    after = period_of(window, period.ends, zone)
    assert after.begins == period.ends
    assert after.name != period.name
    first, before = local(period.begins, zone), local(period.begins - 1, zone)
    assert before.date() < first.date(), "its first instant is the first of a date"
    assert first.date() - before.date() <= timedelta(days=2)
