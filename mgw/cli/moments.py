"""Times on a command line: ``--since`` and ``--until``."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta
from typing import Final

_AGO: Final = re.compile(r"(\d{1,5})([dh])")


def add_times(parser: argparse.ArgumentParser) -> None:
    """Let a command look at the events of a period only; times are text, as events have them."""
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=parse_moment,
        help="only events since then: a date such as 2026-01-31, a time such as 2026-01-31T12:00:00Z, or "
        "an age such as 7d or 12h; times are in UTC",
    )
    parser.add_argument("--until", metavar="TIME", type=parse_moment, help="only events before this time")


def parse_moment(text: str) -> str:
    """Return a time as events have it."""
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            hours = int(ago[1]) * (24 if ago[2] == "d" else 1)
            moment = datetime.now(UTC) - timedelta(hours=hours)
        else:
            moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"not a time: {text!r}; expected one such as 2026-01-31, 2026-01-31T12:00:00Z, 7d or 12h"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
