"""What differs between two files of prices, in a line for each row.

Two rows are compared if they have the same provider, pattern and first day; if several rows have these, the
first is compared with the first, and so on.  Otherwise the order of the rows does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from mgw.config.prices import PriceRowSettings, PriceSettings, PriceTierSettings

RowKey = tuple[str, str, str, int]
"""A provider or an empty text, a pattern, a first day or an empty text, and how many such rows precede it."""
RowFields = dict[str, str]
"""What a row states, in the order of the settings; ``priority above 200000 input`` is the name of a field."""


def diff_prices(old: Iterable[PriceRowSettings], new: Iterable[PriceRowSettings]) -> list[str]:
    """Return a line for each row that was added, removed or changed, sorted by provider and pattern."""
    before, after = rows_by_key(old), rows_by_key(new)
    lines: list[str] = []
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key), after.get(key)
        if was is None or now is None:
            sign, fields = ("+", now) if was is None else ("-", was)
            stated = ", ".join(f"{name} {value}" for name, value in (fields or {}).items())
            lines.append(f"{sign} {_name(key)}: {stated}")
        elif was != now:
            changes = ", ".join(_changes(was, now))
            lines.append(f"~ {_name(key)}: {changes}")
    return lines


def rows_by_key(rows: Iterable[PriceRowSettings]) -> dict[RowKey, RowFields]:
    """Return what each row states."""
    found: dict[RowKey, RowFields] = {}
    for row in rows:
        since = "" if row.valid_from is None else str(row.valid_from)
        place = 0
        while (key := (row.provider or "", row.model, since, place)) in found:
            place += 1
        found[key] = dict(_fields_of(row))
    return found


def _name(key: RowKey) -> str:
    provider, model, since, place = key
    name = f"{provider}/{model}" if provider else model
    return f"{name}{f' from {since}' if since else ''}{f' (row {place + 1})' if place else ''}"


def _changes(was: RowFields, now: RowFields) -> Iterator[str]:
    for name in dict.fromkeys([*was, *now]):
        if was.get(name) != now.get(name):
            yield f"{name} {was.get(name, 'none')} -> {now.get(name, 'none')}"


def _fields_of(row: PriceRowSettings) -> Iterator[tuple[str, str]]:
    if row.valid_until is not None:
        yield "valid_until", str(row.valid_until)
    yield from _prices_of(row, "")
    yield from _tiers_of(row.tiers, "")
    for name, service in sorted(row.service_tiers.items()):
        if not service.tiers and not any(_prices_of(service, "")):
            yield name, "unchanged"
        yield from _prices_of(service, f"{name} ")
        yield from _tiers_of(service.tiers, f"{name} ")
    yield from _factors_of(row.inference_geo)


def _tiers_of(tiers: Iterable[PriceTierSettings], place: str) -> Iterator[tuple[str, str]]:
    for tier in sorted(tiers, key=lambda tier: tier.above or 0):
        yield from _prices_of(tier, f"{place}above {tier.above} ")


def _prices_of(block: PriceSettings, place: str) -> Iterator[tuple[str, str]]:
    for name in PriceSettings.model_fields:
        price: object = getattr(block, name)
        if isinstance(price, Decimal):
            yield f"{place}{name}", plain_number(price)


def _factors_of(factors: Mapping[str, Decimal]) -> Iterator[tuple[str, str]]:
    for name, factor in sorted(factors.items()):
        yield f"inference_geo {name}", plain_number(factor)


def plain_number(number: Decimal) -> str:
    """Write a number without an exponent and without zeros at its end."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
