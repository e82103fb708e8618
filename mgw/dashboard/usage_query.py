"""The query of ``GET /v1/dashboard/usage``: ``since``, ``until``, ``step``, ``by`` and filters.

Times are half-open, ``since <= time < until``.  A step begins at a multiple of its length, counted from 1970,
so that the same event falls into the same step whenever somebody asks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mgw.nouns.errors import GatewayError, Reason
from mgw.usage.event import Outcome
from mgw.usage.usage_read import FILTERS, TAG

MAX_POINTS: Final = 1500
MAX_POINTS_BY_KEY: Final = 400
"""Where each point has as many rows as there are keys: an answer has 8,400 at most, some 2.5 MB."""
DEFAULT_SECONDS: Final = 3600
USUAL_POINTS: Final = 100
"""The most points of a series whose step nobody asked for."""
_DAY: Final = 86_400
_ROUND_STEPS: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200),
)
_MAX_STEP_DIGITS: Final = 9
_MILLISECONDS: Final = 1000
_FIRST: Final = int(datetime.min.replace(tzinfo=UTC).timestamp()) * _MILLISECONDS
"""The oldest time that has a name."""


TAG_NAME: Final = re.compile(rf"{TAG}[^\s\x00-\x1f\x7f]{{1,128}}")
"""A tag by its name."""


class By(StrEnum):
    """The fields of an event by which usage can be summed up."""

    PROVIDER = "provider"
    MODEL = "model"
    CLIENT = "client"
    STATUS = "status"
    ERROR = "error"
    ROUTE = "route"
    KEY = "key"
    GROUP = "group"
    """A request of a client in several groups counts for each of them."""


class UsageQuery(Struct, frozen=True):
    """A query that makes sense."""

    since: int
    """Unix milliseconds."""
    until: int
    step: int
    """The length of a step in seconds."""
    by: str | None = None
    """A word of :class:`By`, or ``tag:`` and the name of a tag."""
    filters: Mapping[str, str] = MappingProxyType({})
    """Values by the names of :data:`~mgw.usage.usage_read.FILTERS`: only events that have them."""

    @property
    def points(self) -> int:
        """How many steps it touches."""
        return _points(self.since, self.until, self.step)

    def in_whole_steps_of(self, seconds: int) -> UsageQuery:
        """Return the query for who knows times no better than that: its step becomes a multiple of it."""
        return replace(self, step=-(-self.step // seconds) * seconds)


def parse_usage_query(parameters: Mapping[str, str], now: float) -> UsageQuery:
    """Return what the parameters of a request ask for; those with other names are left alone.

    :param now: Unix seconds.
    :raises GatewayError: one of them is wrong.
    """
    until = (
        int(now * _MILLISECONDS) if "until" not in parameters else parse_time("until", parameters["until"])
    )
    since = None if "since" not in parameters else parse_time("since", parameters["since"])
    first = until - DEFAULT_SECONDS * _MILLISECONDS if since is None else since
    if max(first, _FIRST) >= until:
        raise _wrong("since", "since must be before until, which defaults to now")
    step = _step(parameters["step"]) if "step" in parameters else _usual_step(until - first)
    if since is None:
        first = max(first - first % (step * _MILLISECONDS), _FIRST)  # the first step is a whole one
    by = _by(parameters.get("by"))
    _check_points(first, until, step, MAX_POINTS if by is None else MAX_POINTS_BY_KEY)
    return UsageQuery(first, until, step, by, _filters(parameters))


def _check_points(first: int, until: int, step: int, most: int) -> None:
    """Refuse a step that makes more points than ``most``, and say which one does not."""
    points = _points(first, until, step)
    if points > most:
        fitting = -((first - until) // ((most - 1) * _MILLISECONDS))
        message = f"step {step} gives {points} points, and the maximum is {most}"
        raise _wrong("step", f"{message}: use step {fitting} or more")


def _points(first: int, until: int, step: int) -> int:
    return (until - 1) // (step * _MILLISECONDS) - first // (step * _MILLISECONDS) + 1


def rfc3339(milliseconds: int) -> str:
    """Return Unix milliseconds as events have times."""
    seconds, rest = divmod(milliseconds, _MILLISECONDS)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(name: str, text: str) -> int:
    """Return a time of a query in Unix milliseconds.

    :param name: of the parameter.
    :raises GatewayError: it is not a time.
    """
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError
        seconds = moment.astimezone(UTC).replace(microsecond=0).timestamp()
    except (ValueError, OverflowError):
        # What a query holds is not repeated: it may be anything.
        raise _wrong(
            name, f"{name} must be an RFC 3339 time, such as 2026-01-31T12:00:00Z; write a + as %2B"
        ) from None
    return int(seconds) * _MILLISECONDS + moment.microsecond // 1000


def _step(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= _MAX_STEP_DIGITS and int(text) > 0:
        return int(text)
    raise _wrong("step", "step must be a whole number of seconds, at least 1")


def _by(text: str | None) -> str | None:
    if text is None or TAG_NAME.fullmatch(text):
        return text
    if text in tuple(By):
        return By(text)
    raise _wrong("by", f"by must be one of {', '.join(By)}, or tag:NAME")


def _filters(parameters: Mapping[str, str]) -> Mapping[str, str]:
    filters = {name: parameters[name] for name in FILTERS if name in parameters}
    for name, value in filters.items():
        if not value:
            raise _wrong(name, f"{name} must not be empty; leave it out to count any value")
    if "status" in filters and filters["status"] not in tuple(Outcome):
        raise _wrong("status", f"status must be one of {', '.join(Outcome)}")
    return filters


def _usual_step(milliseconds: int) -> int:
    """Return a round number of seconds that cuts the time into enough points for a chart."""
    least = milliseconds / (USUAL_POINTS * _MILLISECONDS)
    fitting = next((step for step in _ROUND_STEPS if step >= least), None)
    return -int(-least // _DAY) * _DAY if fitting is None else fitting


def _wrong(param: str, message: str) -> GatewayError:
    return GatewayError(Reason.MALFORMED, message, param=param)
