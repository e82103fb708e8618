"""The prices of the catalog's models as the dashboard shows them, in US dollars.

A table of prices is searched row by row, and a page asks every few seconds.  So what was found is kept as
long as the configuration is in use, and one answer searches for a bounded time: what it does not reach, the
next one does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from mgw.usage.event import NANODOLLARS
from mgw.usage.price_row import PriceRow
from mgw.usage.prices import PriceTable

MAX_COMPARISONS: Final = 100_000
"""Of a model with a row, in one answer: about a tenth of a second."""
_NAMES: Final = ("match", "provider")
Price = dict[str, float]


@dataclass(slots=True)
class ModelPrices:
    """Remembers which price each model of one configuration has."""

    _table: PriceTable | None = None
    _found: dict[tuple[str, str], Price | None] = field(default_factory=dict)
    _left: int = 0

    def begin(self, table: PriceTable | None) -> None:
        """Begin an answer.

        :param table: of the configuration in use; ``None``: it has no prices.
        """
        if table is not self._table:
            self._table = table
            self._found = {}
        self._left = MAX_COMPARISONS

    def price(self, provider: str, model: str) -> Price | None:
        """Return what a model costs; ``None``: nobody said it, or this answer has no time left to look.

        :param model: as it is sent to the provider.
        """
        table, key = self._table, (provider, model)
        if table is None or key in self._found:
            return self._found.get(key)
        if self._left <= 0:
            return None
        self._left -= len(table)
        row = table.row(provider, model)
        self._found[key] = None if row is None else _in_dollars(row)
        return self._found[key]


def _in_dollars(row: PriceRow) -> Price:
    prices = {name: getattr(row, name) for name in row.__struct_fields__ if name not in _NAMES}
    return {name: price / NANODOLLARS for name, price in prices.items() if price is not None}
