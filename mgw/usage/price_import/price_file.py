"""A file of prices as YAML, written by hand so that each number stands as it is and a change is a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from mgw.config.prices import PriceSettings
from mgw.usage.price_diff import plain_number
from mgw.usage.price_import.entry import PriceLevels, Prices, printable
from mgw.usage.price_import.selection import ImportedRow

_ORDER: Final = tuple(PriceSettings.model_fields)
_WILDCARD: Final = re.compile(r"[*?\[]")
_BLANK: Final = re.compile(r"\s")


def write_price_file(rows: Sequence[ImportedRow], head: Iterable[str]) -> str:
    """Return the text of a file of prices.

    :param head: lines of the comment at its beginning.
    """
    lines = [f"# {line}" for line in head]
    body = [line for row in rows for line in _row_lines(row)]
    return "\n".join([*lines, "rows:" if any(map(is_row, rows)) else "rows: []", *body, ""])


def is_row(row: ImportedRow) -> bool:
    """Whether there is a row for a model, rather than only a comment."""
    return row.entry.has_price and is_model_id(row.entry.model)


def is_model_id(model: str) -> bool:
    """Whether a row can be for a model of this name."""
    return bool(model) and model.isprintable() and not _BLANK.search(model)


def _row_lines(row: ImportedRow) -> Iterator[str]:
    entry = row.entry
    if not is_row(row):
        yield f"  # no row for {printable(entry.model) or 'a model without a name'}"
    if entry.unplaced:
        yield f"  # without a place here: {', '.join(entry.unplaced)}"
    if not is_row(row):
        return
    names = {"model": _text(_WILDCARD.sub(lambda found: f"[{found[0]}]", entry.model))}
    if row.provider is not None:
        names["provider"] = _text(row.provider)
    if not (entry.usual.above or entry.services or entry.geo):
        yield f"  - {_flow(names | _stated(entry.usual.prices))}"
        return
    yield from _settings({**names, **_stated(entry.usual.prices)}, "  - ", "    ")
    yield from _tiers(entry.usual, "    ")
    if entry.services:
        yield "    service_tiers:"
        for name, levels in sorted(entry.services.items()):
            yield from _service(name, levels)
    if entry.geo:
        factors = {_text(name): plain_number(factor) for name, factor in sorted(entry.geo.items())}
        yield f"    inference_geo: {_flow(factors)}"


def _service(name: str, levels: PriceLevels) -> Iterator[str]:
    if not levels.above:
        yield f"      {name}: {_flow(_stated(levels.prices))}"
        return
    yield f"      {name}:"
    yield from _settings(_stated(levels.prices), "        ", "        ")
    yield from _tiers(levels, "        ")


def _settings(stated: Mapping[str, str], first: str, others: str) -> Iterator[str]:
    for place, (name, value) in enumerate(stated.items()):
        yield f"{others if place else first}{name}: {value}"


def _tiers(levels: PriceLevels, indent: str) -> Iterator[str]:
    if levels.above:
        yield f"{indent}tiers:"
    for above, prices in sorted(levels.above.items()):
        yield f"{indent}  - {_flow({'above': str(above), **_stated(prices)})}"


def _stated(prices: Prices) -> dict[str, str]:
    return {name: plain_number(prices[name]) for name in _ORDER if name in prices}


def _flow(stated: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in stated.items()) + "}"


def _text(text: str) -> str:
    """Write a text in quotes: one that is printable is the same in YAML as in JSON."""
    return json.dumps(text, ensure_ascii=False)
