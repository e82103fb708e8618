"""Rows of limits: how much of something may be used, over which time, by whom.

A key, a group and the whole gateway have lists of such rows.  A row has a name that says what it counts and
over which time, as ``tokens_per_day`` and ``usd_total``; the older settings of a key (``requests_per_minute``
and the like) are rows under the same names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, PlainValidator, WithJsonSchema

from mgw.config.field_types import OneOf, OnOff
from mgw.config.problems import Path, Report, dotted_path
from mgw.config.settings_base import (
    Omittable,
    Settings,
    UniqueList,
    expect,
    set_keys,
    setting,
    wrong_type,
)
from mgw.config.yaml_document import WrittenFloat
from mgw.nouns.kinds import enumerated

MAX_USD: Final = 5_000_000
DECIMALS: Final = 9
NANODOLLARS: Final = 10**DECIMALS
"""In a dollar."""
AMOUNTS: Final = ("requests", "tokens", "usd", "in_flight")
"""What a row limits: each row states one of these."""
IN_FLIGHT: Final = "max_in_flight"
"""The name of a row of requests in flight."""
_SMALLEST: Final = Decimal(1).scaleb(-DECIMALS)


class Per(StrEnum):
    """The time over which a row counts."""

    MINUTE = "minute"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    TOTAL = "total"


class WhenCounted(StrEnum):
    """When tokens count: once they are known, or as an estimate before the request is sent, too."""

    AFTER = "after"
    BEFORE = "before"


class LimitAction(StrEnum):
    """What happens where a row is used up."""

    REFUSE = "refuse"
    WARN = "warn"


def _written(value: object) -> Decimal | None:
    """Return a number exactly as a file states it; ``None``: it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    text = value.written if isinstance(value, WrittenFloat) else str(value)
    try:
        found = Decimal(text.replace("_", ""))  # YAML 1.1 allows them in numbers
    except InvalidOperation:  # a number to base 60
        return None
    return found if found.is_finite() else None


def _exact(value: object, most: int) -> Decimal | None:
    """Return a number above 0, at most ``most``, with at most nine decimals."""
    number = _written(value)
    if number is None or not 0 < number <= most or number != number.quantize(_SMALLEST):
        return None
    return number


def _usd(value: object) -> Decimal:
    amount = _exact(value, MAX_USD)
    if amount is None:
        what = f"a number of US dollars above 0 and at most {MAX_USD}"
        raise wrong_type(f"{what}, with at most {DECIMALS} decimals")
    return amount


def _share(value: object) -> Decimal:
    share = _exact(value, 1)
    if share is None:
        raise wrong_type("a share of the limit, a number above 0 and at most 1 such as 0.8")
    return share


LimitAmount = Annotated[int, Field(gt=0, le=2**53), expect("a whole number above 0")]
Usd = Annotated[
    Decimal,
    PlainValidator(_usd),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": MAX_USD}),
]
Share = Annotated[
    Decimal,
    PlainValidator(_share),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
]
PerName = Annotated[Per, OneOf()]
CountedName = Annotated[WhenCounted, OneOf()]
LimitActionName = Annotated[LimitAction, OneOf()]


class LimitRowSettings(Settings):
    """How much of something may be used."""

    requests: Omittable[LimitAmount] = setting(
        "Number of requests",
        "Exactly one of ``requests``, ``tokens``, ``usd`` and ``in_flight`` is required. Requests that the "
        "gateway rejects do not count.",
    )
    tokens: Omittable[LimitAmount] = setting(
        "Number of tokens, input and output", "They count when they are known, at the end of a request."
    )
    usd: Omittable[Usd] = setting("Amount of money in US dollars", "It requires ``prices``.")
    in_flight: Omittable[LimitAmount] = setting(
        "Number of concurrent requests; a realtime session counts as one"
    )
    per: Omittable[PerName] = setting(
        "Time over which the row counts",
        "Required except for ``in_flight``, which has none. ``minute`` is any 60 seconds, and not possible "
        "for ``usd``. Days, weeks (from Monday) and months are those of the calendar in "
        "``edge_auth.timezone``. ``total`` never resets.",
    )
    count: CountedName = setting(
        "Whether a request counts with an estimate of its tokens before it is sent to the provider",
        "Only for ``tokens``. ``before`` keeps many requests at once from exceeding the row; ``usd`` is "
        "always counted that way.",
        default=WhenCounted.AFTER,
    )
    each: OnOff = setting(
        "Whether the row applies to each client separately instead of to all of them together",
        "Only for the rows of groups and of the gateway.",
        default=False,
    )
    action: LimitActionName = setting(
        "What happens when the row is used up",
        "``refuse``: requests get a 429. ``warn``: nothing is refused; the row only counts and warns.",
        default=LimitAction.REFUSE,
    )
    warn: UniqueList[Share] = setting(
        "Shares of the row at which a warning is given, once per period",
        "Reaching the whole row always gives one.",
        default=(),
    )

    @property
    def stated(self) -> list[str]:
        """What it limits; just one, where it is in order."""
        return [name for name in AMOUNTS if getattr(self, name) is not None]

    @property
    def name(self) -> str:
        """What it limits and over which time, such as ``tokens_per_day``; its own alone if it is in order."""
        if self.in_flight is not None:
            return IN_FLIGHT
        what = self.stated[0]
        return f"{what}_total" if self.per is Per.TOTAL else f"{what}_per_{self.per}"

    @property
    def most(self) -> int:
        """How much may be used; of money, in nanodollars."""
        if self.usd is not None:
            return int(self.usd * NANODOLLARS)
        amount: int = getattr(self, self.stated[0])
        return amount

    @property
    def is_reserved(self) -> bool:
        """Whether an estimate is counted before a request is sent to the provider."""
        return self.usd is not None or self.count is WhenCounted.BEFORE

    @property
    def refuses(self) -> bool:
        """Whether requests are refused once it is used up."""
        return self.action is LimitAction.REFUSE

    @property
    def warn_at(self) -> tuple[int, ...]:
        """The shares at which it warns, in billionths and in their order, without the whole."""
        shares = sorted(int(share * NANODOLLARS) for share in self.warn)
        return tuple(share for share in shares if share < NANODOLLARS)


def check_limit_rows(
    rows: Sequence[LimitRowSettings],
    path: Path,
    report: Report,
    *,
    is_of_key: bool = False,
    beside: Collection[str] = (),
) -> None:
    """Note what is wrong with the rows of a list.

    :param is_of_key: whether they are a key's, which is a single client.
    :param beside: the names of older settings that are stated beside the list.
    """
    before: dict[tuple[str, bool, bool], Path] = {}
    for position, row in enumerate(rows):
        here = (*path, position)
        if not _is_in_order(row, here, report):
            continue
        if is_of_key and row.each:
            fault = "only for rows of groups and of the gateway: a key is a single client"
            report.add((*here, "each"), fault)
        if row.name in beside:
            report.add(here, f"the setting {row.name} already limits the same: keep only one")
        first = before.setdefault((row.name, row.each, row.refuses), here)
        if first != here:
            report.add(here, f"{dotted_path(first)} already limits {row.name}: keep only one")


def _is_in_order(row: LimitRowSettings, path: Path, report: Report) -> bool:
    """Note what is wrong with a row by itself; return whether nothing is."""
    stated = row.stated
    if len(stated) != 1:
        found = enumerated(stated) if stated else "none of them"
        report.add(path, f"expected exactly one of {enumerated(AMOUNTS)}, found {found}")
        return False
    what, given = stated[0], set_keys(row)
    if "count" in given and what != "tokens":
        fault = "usd is always counted before a request: remove it" if what == "usd" else "only for tokens"
        report.add((*path, "count"), fault)
    if what == "in_flight":
        if row.per is not None:
            report.add((*path, "per"), "in_flight counts requests at any moment: remove per")
        return row.per is None
    possible = [per.value for per in Per if what != "usd" or per is not Per.MINUTE]
    if row.per not in possible:
        fault = "missing" if row.per is None else f"usd cannot be limited per {row.per}"
        report.add((*path, "per"), f"{fault}, expected one of {', '.join(possible)}")
    return row.per in possible
