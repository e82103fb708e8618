"""Find the rows of prices that may fit a model without comparing it with all of them.

A table may have 20,000 rows, nearly all of them for one model each, and a client's new model is looked up
while others wait.  Rows without wildcards are found by their names; of the others, only those are compared
that have the beginning and the end of the name before their first wildcard and behind their last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from mgw.usage.price_row import PriceRow

_WILDCARD: Final = re.compile(r"[*?\[\]]")
"""What may mean something else than itself (:mod:`fnmatch`)."""


class PriceIndex:
    """The rows of a table by the models that they may be for."""

    __slots__ = ("_by_name", "_by_start", "_longest", "_rows", "patterns")

    def __init__(self, rows: Sequence[PriceRow]) -> None:
        self._rows = rows
        self._by_name: dict[str, list[int]] = {}
        self._by_start: dict[str, list[tuple[int, str]]] = {}
        self.patterns: int = 0
        """How many rows have wildcards."""
        for place, row in enumerate(rows):
            parts = _WILDCARD.split(row.match)
            if len(parts) == 1:
                self._by_name.setdefault(row.match, []).append(place)
            else:
                self.patterns += 1
                self._by_start.setdefault(parts[0], []).append((place, parts[-1]))
        self._longest = max(map(len, self._by_start), default=0)

    def rows_for(self, provider: str, model: str) -> Iterator[PriceRow]:
        """Yield the rows that fit a model of a provider, on whatever day, in the order of the table.

        :param model: in lower case.
        """
        named = self._by_name.get(model, ())
        places = list(named)
        for length in range(min(len(model), self._longest) + 1):
            for place, end in self._by_start.get(model[:length], ()):
                if model.endswith(end):
                    places.append(place)
        for place in sorted(places):
            row = self._rows[place]
            if (row.provider in (None, provider)) if place in named else row.fits(provider, model):
                yield row
