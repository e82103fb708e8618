"""Times on a command line: ``--since`` and ``--until``."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta
from typing import Final

_DAYS: Final = ("today", "yesterday", "monday")
_AGO: Final = re.compile(r"(\d{1,5})([dh])")


def add_times(parser: argparse.ArgumentParser) -> None:
    """Let a command look at the events of a period only; times are text, as events have them."""
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=parse_moment,
        help="only events since then: today, yesterday or monday (from midnight), a date such as 2026-01-31, "
        "a time such as 2026-01-31T12:00:00Z, or an age such as 7d or 12h; times are in UTC",
    )
    parser.add_argument("--until", metavar="TIME", type=parse_moment, help="only events before this time")


def parse_moment(text: str, now: datetime | None = None) -> str:
    """Return a time as events have it.

    :param now: to which it may be relative.
    """
    ago, now = _AGO.fullmatch(text), now or datetime.now(UTC)
    try:
        if text in _DAYS:
            moment = now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(_days_ago(text, now))
        elif ago is not None:
            hours = int(ago[1]) * (24 if ago[2] == "d" else 1)
            moment = now - timedelta(hours=hours)
        else:
            moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"not a time: {text!r}; expected one such as today, yesterday, monday, 2026-01-31, "
            "2026-01-31T12:00:00Z, 7d or 12h"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _days_ago(day: str, now: datetime) -> int:
    """Return how many days ago the midnight was with which a day began; that of a Monday may be today's."""
    return now.weekday() if day == "monday" else _DAYS.index(day)
