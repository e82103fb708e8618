"""Time zones by their names, and moments that settings state in one.

Names are those of the IANA time zone database, which the system has or not; ``UTC`` needs none.  A date is
valid through its last instant, wherever its midnights are: on some days a clock change leaves out or repeats
an hour.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Annotated, Final
from zoneinfo import ZoneInfo, available_timezones

from msgspec import Struct
from pydantic import WithJsonSchema

from mgw.config.checks import text_like
from mgw.config.quoting import quote, suggestion
from mgw.config.settings_base import check_with, expect, parse_with

DEFAULT_ZONE: Final = "UTC"
_ZONE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]{0,99}")
_DATE_PATTERN: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME_PATTERN: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
_MOMENT_PATTERN: Final = f"{_DATE_PATTERN}[Tt ]{_TIME_PATTERN}"
"""RFC 3339 5.6, whose ``T`` may be a blank."""
_DATE: Final = re.compile(_DATE_PATTERN)
_MOMENT: Final = re.compile(_MOMENT_PATTERN)
_FRACTION: Final = re.compile(r"\.[0-9]+")
_FIRST_YEAR: Final = 2
"""An earlier moment, at an offset, has none in UTC that Python knows."""
_LAST_YEAR: Final = 9998
"""A later date has no next day that Python knows."""
_EXPECTED: Final = (
    "a date such as 2027-03-31, or a time with its zone such as 2027-03-31T18:00:00+02:00 (RFC 3339)"
)


def zone_of(name: str) -> tzinfo:
    """Return a time zone by its name.

    :raises ValueError: the system does not know it.
    """
    if name == DEFAULT_ZONE:
        return UTC
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):  # a directory of the database is an OSError
        raise ValueError(f"the system knows no time zone {quote(name)}") from None


def rfc3339(unix_seconds: float, zone: tzinfo = UTC) -> str:
    """Return a moment to the second, with the offset of a time zone."""
    return datetime.fromtimestamp(unix_seconds, zone).isoformat(timespec="seconds").replace("+00:00", "Z")


def _checked_zone(text: str) -> str:
    if not _ZONE.fullmatch(text):
        raise ValueError("expected the name of a time zone such as Europe/Berlin")
    try:
        zone_of(text)
    except ValueError as error:
        known = available_timezones()
        guess = (
            suggestion(text, sorted(known)) if known else " (it has no time zone database: install tzdata)"
        )
        raise ValueError(f"{error}{guess}") from None
    return text


TimeZone = Annotated[
    str,
    expect("the name of a time zone such as Europe/Berlin"),
    check_with(_checked_zone),
    WithJsonSchema(text_like(_ZONE.pattern)),
]


class Expiry(Struct, frozen=True):
    """When something ends: at a moment, or with a day."""

    text: str
    """As the file states it."""
    moment: datetime | None = None
    day: date | None = None

    def ends(self, zone: tzinfo) -> float:
        """Return the first moment at which it is over, in Unix seconds.

        :param zone: where a day is meant.
        """
        if self.moment is not None:
            return self.moment.timestamp()
        assert self.day is not None, "one of the two is stated"
        # With fold=0, a midnight that a clock change leaves out is the instant of that change (PEP 495).
        return datetime.combine(self.day + timedelta(days=1), time(), zone).timestamp()


def parse_expiry(text: str) -> Expiry:
    """Read a date or a moment.

    :raises ValueError: it is neither.
    """
    try:
        if _DATE.fullmatch(text):
            day = date.fromisoformat(text)
            if _FIRST_YEAR <= day.year <= _LAST_YEAR:
                return Expiry(text, day=day)
        elif _MOMENT.fullmatch(text):
            whole = _FRACTION.sub("", text.upper().replace(" ", "T"))
            moment = datetime.fromisoformat(whole)
            if _FIRST_YEAR <= moment.year <= _LAST_YEAR:
                return Expiry(text, moment)
    except ValueError:
        pass
    raise ValueError(f"expected {_EXPECTED}")


ExpirySetting = Annotated[
    Expiry,
    parse_with(parse_expiry, _EXPECTED, Expiry),
    WithJsonSchema(text_like(f"(?:{_DATE_PATTERN}|{_MOMENT_PATTERN})")),
]
