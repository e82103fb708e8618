"""Billing data in responses besides token counts: money, images, seconds.

Some hosts name the price of each answer in its ``usage``; what they name is what they charge.  OpenRouter
has ``cost`` in credits, which are US dollars (its "Usage accounting"); with ``is_byok`` that is its own fee
alone, and ``cost_details.upstream_inference_cost`` is what the provider behind it charges to the operator's
key.  Perplexity's ``cost`` is an object with ``total_cost``.  xAI has ``cost_in_usd_ticks``, of which
10,000,000,000 make a dollar (its "Cost tracking").

Amounts are read as decimals, exactly as they are written, and rounded once, half up, to a whole number of
nanodollars.  What is no number, negative or beyond belief is as if it were not there.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder

from mgw.canonical.reply import Billed

NO_VALUE: Final = Raw(b"")
"""What a raw value is that is not there; it is false, and all others are true."""
_NANODOLLARS_PER_DOLLAR: Final = Decimal(10**9)
_NANODOLLARS_PER_TICK: Final = Decimal("0.1")
_MILLISECONDS_PER_SECOND: Final = Decimal(1000)
_MOST: Final = 2**53
"""The largest number, which fits into every sink."""
_UNREADABLE: Final = (MsgspecError, UnicodeDecodeError, RecursionError)
_DECIMAL: Final = Decoder(Decimal)
_ABSENT: Final = frozenset({b"", b"null"})


class CostFields(Struct, frozen=True):
    """The members of a ``usage`` that may name a price."""

    cost: Raw = NO_VALUE
    cost_details: Raw = NO_VALUE
    is_byok: Raw = NO_VALUE
    cost_in_usd_ticks: Raw = NO_VALUE


class _CostDetails(Struct, frozen=True):
    upstream_inference_cost: Raw = NO_VALUE


class _CostBreakdown(Struct, frozen=True):
    total_cost: Raw = NO_VALUE
    currency: Raw = NO_VALUE


_DETAILS: Final = Decoder(_CostDetails)
_BREAKDOWN: Final = Decoder(_CostBreakdown)


def billed_in(usage: CostFields) -> Billed | None:
    """Return what a ``usage`` names as its price; ``None`` where it names none that can be believed."""
    nanodollars = _read_scaled(usage.cost_in_usd_ticks, _NANODOLLARS_PER_TICK)
    if nanodollars is None and usage.cost:
        nanodollars = _nanodollars_in_cost(usage)
    return None if nanodollars is None else Billed(nanodollars)


def read_milliseconds(seconds: Raw) -> int | None:
    """Return a length in seconds as milliseconds."""
    return _read_scaled(seconds, _MILLISECONDS_PER_SECOND)


def fill_billed(stated: Billed | None, found: Billed) -> Billed:
    """Return ``stated`` with what it does not know taken from ``found``."""
    if stated is None:
        return found
    return Billed(
        found.nanodollars if stated.nanodollars is None else stated.nanodollars,
        found.images if stated.images is None else stated.images,
        found.milliseconds if stated.milliseconds is None else stated.milliseconds,
    )


def is_stated(value: Raw) -> bool:
    """Whether a member is there and is not ``null``."""
    return bytes(value) not in _ABSENT


def _nanodollars_in_cost(usage: CostFields) -> int | None:
    amount = usage.cost
    try:
        if bytes(amount).startswith(b"{"):
            breakdown = _BREAKDOWN.decode(amount)
            if is_stated(breakdown.currency) and bytes(breakdown.currency).upper() != b'"USD"':
                return None
            amount = breakdown.total_cost
        if bytes(usage.is_byok) != b"true":
            return _read_scaled(amount, _NANODOLLARS_PER_DOLLAR)
        details = _DETAILS.decode(usage.cost_details)
    except _UNREADABLE:
        return None
    fee = _read_scaled(amount, _NANODOLLARS_PER_DOLLAR)
    charged = _read_scaled(details.upstream_inference_cost, _NANODOLLARS_PER_DOLLAR)
    return None if fee is None or charged is None else fee + charged


def _read_scaled(number: Raw, scale: Decimal) -> int | None:
    """Return a number times ``scale`` as a whole number; ``None`` where it is none, or not believed."""
    if not number:
        return None
    try:
        value = _DECIMAL.decode(number)
    except _UNREADABLE:
        return None
    if not value.is_finite() or not 0 <= value <= _MOST / scale:
        return None
    return int((value * scale).to_integral_value(ROUND_HALF_UP))
