"""What of an entry of a price list the gateway takes in a row of prices; the rest is noted at the entry.

A price has bounds and decimals, and that of a part of the tokens requires that of the others.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from types import MappingProxyType
from typing import Final

from mgw.config.prices import DECIMALS, FACTOR_DECIMALS, MAX_FACTOR, MAX_PRICE, PARTS
from mgw.usage.price_import.entry import EXACT, PricedModel, Prices

_SMALLEST: Final = Decimal(1).scaleb(-DECIMALS)
_KINDS: Final = MappingProxyType(
    {"input": ("input_audio", "input_image"), "output": ("output_audio", "output_image")}
)
"""Prices of a kind of tokens: a model that states only one of them has no other tokens."""


def fit_to_row(entry: PricedModel) -> None:
    """Make the prices of an entry those that a row may state."""
    for place, _, block in entry.blocks():
        _check_bounds(entry, block, place)
    _check_factors(entry)
    for whole in _KINDS:
        _name_whole(entry, whole)
    _leave_out_lone_parts(entry)
    if not entry.has_price:
        for place, _, block in entry.blocks():
            for name in filter(block.get, block):
                entry.leave_out(f"{place}{name}", _plain(block[name]))
    entry.drop_empty()


def _check_bounds(entry: PricedModel, block: Prices, place: str) -> None:
    for name, price in list(block.items()):
        if not 0 <= price <= MAX_PRICE:
            entry.leave_out(f"{place}{name}", _plain(block.pop(name)))
            continue
        block[name] = rounded = price.quantize(_SMALLEST, ROUND_HALF_EVEN, EXACT)
        if rounded != price:
            entry.leave_out(f"{place}{name}", f"{_plain(price)} (rounded)")


def _check_factors(entry: PricedModel) -> None:
    for name, factor in list(entry.geo.items()):
        if not 0 < factor <= MAX_FACTOR or factor != round(factor, FACTOR_DECIMALS):
            entry.leave_out(f"inference_geo {name}", _plain(entry.geo.pop(name)))


def _name_whole(entry: PricedModel, whole: str) -> None:
    """Take the price of the only kind of tokens for that of all of them."""
    kinds = [kind for kind in _KINDS[whole] if kind in entry.usual.prices]
    if whole in entry.usual.prices or len(kinds) != 1:
        return
    for _, _, block in entry.blocks():
        if kinds[0] in block and whole not in block:
            block[whole] = block.pop(kinds[0])


def _leave_out_lone_parts(entry: PricedModel) -> None:
    for place, levels, block in entry.blocks():
        for part, whole in PARTS:
            if part in block and whole not in entry.usual.prices | levels.prices | block:
                entry.leave_out(f"{place}{part}", _plain(block.pop(part)))


def _plain(price: Decimal) -> str:
    return f"{price.normalize(EXACT):f}"
